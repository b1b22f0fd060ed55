"""Node daemons on machines of their own, as far as the network goes: real cables that are pulled, packets that vanish.

Reliability 12, 14, 15 of section 2, and commands of jobs on a machine that has nothing of the controller's.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator

import pytest
from livecluster import QUICK_BEATS, ClusterConf, LiveCluster, read, shown
from netns import Machines
from patience import END_S

from penstock.client import Client
from penstock.v1 import controller_pb2 as c

pytestmark = pytest.mark.root

New = Callable[..., LiveCluster]
#: A short lease, and down as soon as the silence is noticed.
CONF = ("SlurmdTimeout=2", "PenstockLeaseTime=8")
#: Says ten times a second that it runs: a last word could be cut off where the machine is slow.
SCRIPT = """#!/bin/sh
while [ ! -e "$2" ]; do
    echo "runs $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $(date +%s%N)" >>"$1"
    sleep 0.1
done
echo "ends $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0} $(date +%s%N)" >>"$1"
"""


@contextlib.contextmanager
def cluster_on(new_cluster: New, machines: Machines, nodes: int, apart: int) -> Iterator[LiveCluster]:
    """`apart` of the nodes are on machines of their own; the controller listens on all addresses."""
    cluster = new_cluster(nodes, ClusterConf(more=CONF, own_tokens=True, constants=QUICK_BEATS), start=False)
    text = cluster.conf_text().replace("localhost(127.0.0.1)", f"localhost({machines[0].here})")
    cluster.slurm_conf.write_text(text)
    for number in range(apart):
        machine = machines[number]
        cluster.places[f"n{number + 1}"] = (machines[0].here, machine.prefix)
        machine.reach(machines[0].here)
    yield cluster.start()


def times_of(cluster: LiveCluster, job_id: int, attempt: int, word: str = "runs") -> list[int]:
    """When a job has said that word, in nanoseconds."""
    found = [line.split() for line in read(cluster.work / "log").splitlines()]
    return [int(line[-1]) for line in found if line[:3] == [word, str(job_id), str(attempt)]]


def test_a_cable_is_pulled_and_a_job_runs_elsewhere(new_cluster: New) -> None:
    """n1's cable is out, n2 is not heard; both jobs stop themselves, and run again on n3, never twice at a time."""
    with Machines(2) as machines, cluster_on(new_cluster, machines, 3, 2) as cluster:
        gate = cluster.work / "gate"
        script = cluster.script("job.sh", SCRIPT)
        jobs = {}
        for name in ("n1", "n2"):
            others = ",".join(other for other in cluster.node_names if other != name)
            cluster.run("scontrol", "update", f"nodename={others}", "state=drain", "reason=test").ok()
            jobs[name] = cluster.sbatch("-o", "/dev/null", str(script), str(cluster.work / "log"), str(gate))
            cluster.wait(lambda: times_of(cluster, jobs[name], 0), f"the job on {name} has begun")
            cluster.run("scontrol", "update", f"nodename={others}", "state=resume").ok()
        machines[0].cut()
        machines[1].mute()
        for job_id in jobs.values():
            job = cluster.wait(
                lambda: j if (j := cluster.job(job_id)).attempt == 1 and j.state == "RUNNING" else None,
                f"job {job_id} runs again", END_S, show=lambda: shown(cluster.job(job_id)),
            )  # fmt: skip
            assert job.node_list == "n3"
            cluster.wait(lambda: times_of(cluster, job_id, 1), "it has begun again")
        machines[0].reconnect()
        machines[1].unmute()
        cluster.wait_nodes()
        gate.touch()
        for job in cluster.wait_ends(*jobs.values()):
            assert (job.state, job.attempt) == ("COMPLETED", 1), shown(job)
            assert max(times_of(cluster, job.job_id, 0)) < min(times_of(cluster, job.job_id, 1))
            ended = [len(times_of(cluster, job.job_id, attempt, "ends")) for attempt in (0, 1)]
            assert ended == [0, 1]
        for name in ("n1", "n2"):
            cluster.wait(lambda: not cluster.held_steps(name), f"{name} has been told to forget")


def test_scenario_15_one_node_of_a_job_is_cut_off(new_cluster: New) -> None:
    """The job is ended as a whole, with one end; one that was submitted with --no-kill goes on. Commands work there."""
    with Machines(2) as machines, cluster_on(new_cluster, machines, 2, 2) as cluster:
        gate = cluster.work / "gate"
        wait = f"while [ ! -e {gate} ]; do sleep 0.1; done"
        squeue = f"{sys.executable} -P -m cli.squeue -h -o '%i %T'"
        ended = cluster.sbatch("-N2", "--no-requeue", "-o", "out", "--wrap", f"{squeue}; echo listed; {wait}")
        kept = cluster.sbatch("-N2", "--no-kill", "-o", "/dev/null", "--wrap", wait)
        listed = cluster.wait_text(cluster.work / "out", "listed\n")
        assert f"{ended} RUNNING" in listed.splitlines()
        cluster.wait_state(kept, "RUNNING")
        machines[1].cut()
        job = cluster.wait_state(ended, "NODE_FAIL", limit_s=END_S)
        assert job.reason == "NodeDown" and cluster.job(kept).state == "RUNNING"
        story = cluster.call("Story", c.StoryRequest(job_id=ended)).lines
        assert [line.event for line in story].count("end") == 1
        gate.touch()
        assert cluster.wait_state(kept, "COMPLETED").attempt == 0
        machines[1].reconnect()
        cluster.wait_nodes()
        with Client.open(cluster=cluster.file) as client:
            assert client.call("Ping", c.PingRequest()).jobs_running == 0
