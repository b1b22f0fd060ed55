"""Nodes that cannot be reached, and are not dead: leases, fencing, and what becomes of jobs (reliability 5, 11 to 14, 19).

Heartbeats come every 2 s (QUICK_BEATS), a stream is given up after 6 s of silence.
"""

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator

from livecluster import CTLD, LOGGING_SCRIPT, QUICK_BEATS, ClusterConf, LiveCluster, read, read_log, shown
from patience import END_S
from tcpproxy import TcpProxy

New = Callable[..., LiveCluster]
#: Four heartbeats; with grace and margin a job is dead 8 + 5 + 2 s after its node was lost.
LEASE_S = 8
#: A shell that is told to end says so first, which can take more than a second on a busy machine.
GRACE_S = 5
LEASED = ("SlurmdTimeout=2", f"PenstockLeaseTime={LEASE_S}")
#: Says when it was told to end, and by then has ended.
SCRIPT = b"""#!/bin/sh
trap 'echo "stopped $SLURM_JOB_ID $SLURM_RESTART_COUNT $(date +%s%N)" >>"$1"; exit 0' TERM
echo "begin $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $(date +%s%N)" >>"$1"
while [ ! -e "$2" ]; do sleep 0.1; done
echo "end $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $(date +%s%N)" >>"$1"
"""


@contextlib.contextmanager
def only(cluster: LiveCluster, node: str) -> Iterator[None]:
    """What starts now starts there; next time it may be elsewhere."""
    others = ",".join(name for name in cluster.node_names if name != node)
    cluster.run("scontrol", "update", f"nodename={others}", "state=drain", "reason=test").ok()
    yield
    cluster.run("scontrol", "update", f"nodename={others}", "state=resume").ok()


def lines(cluster: LiveCluster, job_id: int) -> list[list[str]]:
    found = [line.split() for line in read(cluster.work / "log").splitlines()]
    return [line for line in found if line[1] == str(job_id)]


def test_scenarios_12_13_14_19_nodes_out_of_reach(new_cluster: New) -> None:
    """n1 hears and is not heard, n2's daemon stands still; both have a job that gives way and one that keeps on."""
    cluster = new_cluster(3, ClusterConf(more=LEASED, kill_wait_s=GRACE_S, constants=QUICK_BEATS), start=False)
    gate, gate_kept = cluster.work / "gate", cluster.work / "gate-kept"
    script = cluster.script("job.sh", SCRIPT)

    def submit(node: str, policy: str) -> int:
        end = gate if policy == "stop" else gate_kept
        words = [f"--node-fail-policy={policy}", "-o", "/dev/null", str(script), str(cluster.work / "log"), str(end)]
        with only(cluster, node):
            job_id = cluster.sbatch(*words)
            cluster.wait(lambda: lines(cluster, job_id), f"job {job_id} has begun")
        return job_id

    with TcpProxy(cluster.node_port) as proxy:
        cluster.ways["n1"] = proxy.port
        cluster.start()
        stopping = {name: submit(name, "stop") for name in ("n1", "n2")}
        keeping = {name: submit(name, "keep") for name in ("n1", "n2")}
        proxy.up.clear()
        cluster.daemons["n2"].process.send_signal(signal.SIGSTOP)
        for job_id in stopping.values():
            job = cluster.wait(
                lambda: j if (j := cluster.job(job_id)).attempt == 1 and j.state == "RUNNING" else None,
                f"job {job_id} runs again", END_S, show=lambda: shown(cluster.job(job_id)),
            )  # fmt: skip
            assert job.node_list == "n3"
            cluster.wait(lambda: len(lines(cluster, job_id)) == 3, "it has begun again")
            first, stopped, second = lines(cluster, job_id)
            assert (first[0], stopped[0], second[0]) == ("begin", "stopped", "begin")
            assert int(stopped[-1]) < int(second[-1])  # never two of them at a time
        for job_id in keeping.values():
            job = cluster.job(job_id)
            assert (job.state, job.attempt, job.reason) == (
                "RUNNING",
                0,
                "NodeDown",
            ) and "unreachable" in job.reason_detail
        # All heals. What kept on is seen again as what it is; what gave way is not taken for the second run.
        gate_kept.touch()
        cluster.wait(
            lambda: len([x for x in map(lambda i: lines(cluster, i), keeping.values()) if len(x) == 2]) == 2, "both end"
        )
        proxy.heal()
        cluster.daemons["n2"].process.send_signal(signal.SIGCONT)
        for job in cluster.wait_ends(*keeping.values()):
            assert (job.state, job.attempt, job.exit.code) == ("COMPLETED", 0, 0), shown(job)
        cluster.wait_nodes()
        gate.touch()
        for job in cluster.wait_ends(*stopping.values()):
            assert (job.state, job.attempt) == ("COMPLETED", 1), shown(job)
        for job_id in stopping.values():
            assert [r.state for r in cluster.records(job_id)] == ["REQUEUED", "COMPLETED"]
        for name in ("n1", "n2"):
            cluster.wait(lambda: not cluster.held_steps(name), f"{name}'s spool is empty")


def test_a_step_over_two_nodes_gives_way_as_a_whole(new_cluster: New) -> None:
    """One of them is out of reach: its tasks stop themselves, the other's are ended, then both run again elsewhere."""
    cluster = new_cluster(4, ClusterConf(more=LEASED, kill_wait_s=GRACE_S, constants=QUICK_BEATS))
    gate = cluster.work / "gate"
    task = cluster.script("task.sh", f"""#!/bin/sh
trap 'echo "stopped $SLURM_JOB_ID $SLURMD_NODENAME $(date +%s%N)" >>{cluster.work}/log; exit 0' TERM
echo "begin $SLURM_JOB_ID $SLURMD_NODENAME $(date +%s%N)" >>{cluster.work}/log
while [ ! -e {gate} ]; do sleep 0.1; done
""")  # fmt: skip
    cluster.run("scontrol", "update", "nodename=n3,n4", "state=drain", "reason=test").ok()
    srun = f"{sys.executable} -P -m cli.srun"
    job_id = cluster.sbatch("-N2", "--node-fail-policy=stop", "-o", "out", "--wrap", f"{srun} {task}")
    cluster.wait(
        lambda: len(lines(cluster, job_id)) == 2, "both tasks have begun", show=lambda: read(cluster.work / "out")
    )
    cluster.run("scontrol", "update", "nodename=n3,n4", "state=resume").ok()
    cluster.daemons["n2"].process.send_signal(signal.SIGSTOP)
    cluster.wait(
        lambda: len([line for line in lines(cluster, job_id) if line[0] == "begin"]) == 4, "both run again", END_S,
        show=lambda: (shown(cluster.job(job_id)), lines(cluster, job_id)),
    )  # fmt: skip
    told = lines(cluster, job_id)
    stopped_ns = max(int(line[-1]) for line in told if line[0] == "stopped")
    begins = sorted(int(line[-1]) for line in told if line[0] == "begin")
    assert sorted(line[2] for line in told if line[0] == "stopped") == ["n1", "n2"]
    assert stopped_ns < begins[2]  # neither has begun again before both had ended
    cluster.daemons["n2"].process.send_signal(signal.SIGCONT)
    gate.touch()
    job = cluster.wait_state(job_id, "COMPLETED")
    assert job.attempt == 1, shown(job)


def test_scenario_11_a_short_partition(new_cluster: New) -> None:
    """Noticed, and without consequences."""
    cluster = new_cluster(1, ClusterConf(more=("PenstockLeaseTime=60",), constants=QUICK_BEATS), start=False)
    gate = cluster.work / "gate"
    with TcpProxy(cluster.node_port) as proxy:
        cluster.ways["n1"] = proxy.port
        cluster.start()
        job_id = cluster.sbatch("-o", "out", "--wrap", f"while [ ! -e {gate} ]; do sleep 0.05; done; echo done")
        cluster.wait_state(job_id, "RUNNING")
        proxy.cut()
        cluster.wait(lambda: "NO_RESPOND" in cluster.node("n1").flags, "the node is missed")
        assert cluster.job(job_id).state == "RUNNING"
        proxy.heal()
        cluster.wait_nodes()
        gate.touch()
        assert cluster.wait_state(job_id, "COMPLETED").attempt == 0
        assert (cluster.work / "out").read_text() == "done\n"


def test_scenario_05_a_lease_needs_a_controller(new_cluster: New) -> None:
    """The controller is killed, and away for longer than the lease; then stopped in good order: nothing gives way.

    Nobody is there who could start the job elsewhere: the machine refuses connections, or announced its stop before.
    """
    cluster = new_cluster(1, ClusterConf(more=(f"PenstockLeaseTime={LEASE_S}",), constants=QUICK_BEATS))
    log, gate = cluster.work / "runs.log", cluster.work / "gate"
    script = cluster.script("log.sh", LOGGING_SCRIPT)
    job_id = cluster.sbatch("-o", "/dev/null", str(script), str(log), str(gate))
    cluster.wait(lambda: read_log(log)[0], "it has begun")
    contact = cluster.home / "noded" / "n1" / "contact"
    for number in (signal.SIGKILL, signal.SIGTERM):
        cluster.kill(CTLD, number=number)
        if number == signal.SIGTERM:
            cluster.wait(lambda: contact.read_bytes() == (1 << 62).to_bytes(8, "little"), "leases rest")
            cluster.daemons["n1"].process.send_signal(signal.SIGSTOP)  # nor does anybody renew them
        until_s = time.monotonic() + LEASE_S + 3
        cluster.wait(lambda: time.monotonic() > until_s, "longer than the lease")
        cluster.daemons["n1"].process.send_signal(signal.SIGCONT)
        cluster.start_controller()
        cluster.wait_nodes()
        assert cluster.job(job_id).state == "RUNNING"
    gate.touch()
    assert cluster.wait_state(job_id, "COMPLETED").attempt == 0
    assert Counter(x.job_id for x in read_log(log)[0]) == {job_id: 1}


def test_a_fencing_program_proves_it(new_cluster: New) -> None:
    """Its first answer is no; with its yes the job runs again at once, long before any lease."""
    cluster = new_cluster(2, ClusterConf(more=("SlurmdTimeout=1", "PenstockLeaseTime=0")), start=False)
    program, sign = cluster.home / "fence", cluster.home / "power-is-off"
    program.write_text(
        f"#!/bin/sh\necho $1 $PENSTOCK_NODE $SLURM_CLUSTER_NAME >>{cluster.home}/fenced\n"
        f'[ -e {sign} ] || {{ echo "the switch does not answer"; exit 3; }}\n'
    )
    program.chmod(0o755)
    cluster.slurm_conf.write_text(cluster.conf_text(f"PenstockFenceProgram={program}"))
    cluster.start()
    with only(cluster, "n1"):
        job_id = cluster.sbatch("-o", "/dev/null", "--wrap", "sleep 300")
        cluster.wait_state(job_id, "RUNNING")
    supervisor_and_job = [p for p in os.listdir("/proc") if p.isdigit() and _is_of(int(p), cluster)]
    cluster.kill("n1")
    text = f"fencing failed: {program}: exit status 3: the switch does not answer"
    cluster.wait(
        lambda: text in cluster.node("n1").reason, "the failure is shown", show=lambda: cluster.node("n1").reason
    )
    job = cluster.job(job_id)
    assert (job.state, job.reason) == ("COMPLETING", "NodeDown") and "is fenced" in job.reason_detail
    sign.touch()
    # The next try comes after minutes; a new controller does not wait for them.
    cluster.kill(CTLD)
    cluster.start_controller()
    again = cluster.wait(
        lambda: j if (j := cluster.job(job_id)).attempt == 1 and j.state == "RUNNING" else None,
        "it runs again",
        END_S,
    )
    assert again.node_list == "n2" and "fenced" in cluster.node("n1").reason
    assert set((cluster.home / "fenced").read_text().splitlines()) == {"n1 n1 e2e"}
    assert supervisor_and_job  # the test's power switch does nothing: the node daemon's end has left them


def _is_of(pid: int, cluster: LiveCluster) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return str(cluster.home / "noded" / "n1").encode() in file.read()
    except OSError:
        return False
