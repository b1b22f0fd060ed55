"""What a node reports after an outage of the database has the time at which it happened, also by a stream that the controller
kept waiting.

Seen once: a Start in sacct 20 s after the first line that the job had written.
"""

import signal
import time
from pathlib import Path

from livecluster import CTLD, ClusterConf, LiveCluster
from postgres import Server

from penstock.values.jobid import BATCH_STEP

#: Says its process, and ends when a file is there.
SCRIPT = "echo $$ >{0}.new; mv {0}.new {0}; while [ ! -e {0}.end ]; do sleep 0.05; done"
#: How long the controller stands still: more than there is between two of the moments that are compared.
STILL_S = 5.0


def now_us() -> int:
    return time.time_ns() // 1000


def test_16_what_happened_before_the_database_was_back_keeps_its_time() -> None:
    """The script ends in the outage. Its node is started again while the controller stands still, as it did for 20 s."""
    with Server() as server:
        conf = ClusterConf(more=(f"PenstockDatabaseUrl={server.new_database()}",))
        with LiveCluster(1, conf) as cluster:
            line = cluster.work / "line"
            job_id = cluster.sbatch("-n1", "-o", "/dev/null", "--wrap", SCRIPT.format(line))
            cluster.wait(line.exists, "the job has begun")
            begun_us = now_us()
            server.stop("immediate")
            cluster.daemons[CTLD].process.send_signal(signal.SIGSTOP)
            Path(f"{line}.end").touch()
            process = Path("/proc") / line.read_text().strip()
            cluster.wait(lambda: not process.exists(), "its process has ended")
            ended_us = now_us()
            cluster.kill("n1")
            cluster.start_node("n1")
            since = time.monotonic()
            cluster.wait(lambda: time.monotonic() - since > STILL_S, "the controller has stood still")
            cluster.daemons[CTLD].process.send_signal(signal.SIGCONT)
            server.start()
            cluster.wait_ends(job_id)
            [record] = cluster.records(job_id)
            [step] = [one for one in record.steps if one.step_id == BATCH_STEP]
            assert record.state == "COMPLETED"
            some_us = int(STILL_S * 500_000)  # the delay of a message
            assert record.start_at_us <= step.start_at_us <= begun_us + some_us
            assert begun_us <= step.end_at_us <= ended_us + some_us
            assert record.end_at_us == step.end_at_us
