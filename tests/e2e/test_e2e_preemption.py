"""Preemption, suspension and time slices on real processes, as users and operators see them."""

import pytest
from livecluster import ClusterConf, LiveCluster

PARTITIONS = (
    "PartitionName=low Nodes=ALL Default=YES PriorityTier=1 State=UP",
    "PartitionName=high Nodes=ALL PriorityTier=10 State=UP",
)


def gate_script(cluster: LiveCluster, name: str) -> str:
    """Say which attempt runs, count, and end when the gate is there."""
    work = cluster.work
    return (
        f"echo attempt ${{SLURM_RESTART_COUNT:-0}} >>{work}/{name}.log; "
        f"while [ ! -e {work}/{name}.gate ]; do echo . >>{work}/{name}.ticks; sleep 0.05; done"
    )


def ticks(cluster: LiveCluster, name: str) -> int:
    path = cluster.work / f"{name}.ticks"
    return len(path.read_text()) if path.exists() else 0


#: A second, not ten, in which a victim's nodes are kept for the one it made room for.
SHORT_PAUSE = {"ctld.core.lifecycle.job_life:PREEMPTOR_PAUSE_US": 1_000_000}


@pytest.fixture
def make(new_cluster):
    def build(*more: str, partitions: tuple[str, ...] = PARTITIONS) -> LiveCluster:
        cluster: LiveCluster = new_cluster(
            1, ClusterConf(cpus=2, more=more, partitions=partitions, constants=SHORT_PAUSE)
        )
        cluster.wait_nodes("n1")
        return cluster

    return build


def test_a_high_tier_job_preempts_a_requeueable_one_which_restarts(make) -> None:
    cluster = make("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE")
    low = cluster.sbatch("-n2", "-J", "low", "--wrap", gate_script(cluster, "low"))
    cluster.wait_state(low, "RUNNING")
    cluster.wait_text(cluster.work / "low.log", "attempt 0")
    high = cluster.sbatch("-n2", "-p", "high", "-J", "high", "--wrap", gate_script(cluster, "high"))
    cluster.wait_state(high, "RUNNING")
    assert cluster.job(low).state == "PENDING"
    assert "DUE TO PREEMPTION" in (cluster.work / f"slurm-{low}.out").read_text()
    (cluster.work / "high.gate").touch()
    cluster.wait_state(low, "RUNNING")
    cluster.wait_text(cluster.work / "low.log", "attempt 1")
    (cluster.work / "low.gate").touch()
    cluster.wait_ends(low, high)
    assert cluster.job(low).attempt == 1
    done = cluster.run("sacct", "-nXDP", "-j", str(low), "-o", "State,Restarts").ok()
    assert done.out.splitlines() == ["PREEMPTED|0", "COMPLETED|1"]
    story = cluster.run("scontrol", "show", "story", str(low)).ok().out
    assert f"preempted for job {high} (REQUEUE)" in " ".join(story.split())


def test_suspend_and_resume_by_an_operator(make) -> None:
    cluster = make()
    job = cluster.sbatch("-n2", "-J", "one", "--wrap", gate_script(cluster, "one"))
    cluster.wait_state(job, "RUNNING")
    cluster.wait(lambda: ticks(cluster, "one") > 2, "it counts")
    cluster.run("scontrol", "suspend", str(job)).ok()
    assert cluster.run("squeue", "-h", "-o", "%t %T").ok().out == "S SUSPENDED\n"
    other = cluster.sbatch("-n2", "--wrap", "true")  # its cpus are free for others
    cluster.wait_state(other, "COMPLETED")
    show = cluster.run("scontrol", "show", "job", str(job)).ok().out
    assert "JobState=SUSPENDED" in show and "SuspendTime=20" in show
    refused = cluster.run("scancel", "-s", "USR1", str(job))
    assert "Job is currently suspended" in refused.err
    cluster.run("scontrol", "resume", str(job)).ok()
    cluster.wait_state(job, "RUNNING")
    before = ticks(cluster, "one")
    cluster.wait(lambda: ticks(cluster, "one") > before + 2, "it goes on")
    (cluster.work / "one.gate").touch()
    cluster.wait_state(job, "COMPLETED")
    again = cluster.run("scontrol", "suspend", str(job))
    assert (again.status, again.err) == (1, f"Job/step already completing or completed for job {job}\n")


def test_the_victim_stands_still_while_the_other_runs(make) -> None:
    cluster = make(
        "PreemptType=preempt/partition_prio", "PreemptMode=SUSPEND,GANG", "PreemptParameters=suspend_grace_time=0"
    )
    low = cluster.sbatch("-n2", "--mem=100", "-J", "low", "--wrap", gate_script(cluster, "low"))
    cluster.wait_state(low, "RUNNING")
    cluster.wait(lambda: ticks(cluster, "low") > 2, "it counts")
    high = cluster.sbatch("-n2", "--mem=100", "-p", "high", "-J", "high", "--wrap", gate_script(cluster, "high"))
    cluster.wait_state(high, "RUNNING")
    assert cluster.job(low).state == "SUSPENDED"
    (cluster.work / "high.gate").touch()
    cluster.wait_state(low, "RUNNING")
    (cluster.work / "low.gate").touch()
    cluster.wait_state(low, "COMPLETED")
    assert (cluster.work / "low.log").read_text() == "attempt 0\n"


def test_qos_records(make) -> None:
    """The RPC behind sacctmgr: what is added is there after a restart of the controller, and sbatch checks it."""
    from penstock.v1 import controller_pb2 as pb

    cluster = make("PreemptType=preempt/qos", "PreemptMode=REQUEUE")
    refused = cluster.run("sbatch", "--qos=urgent", "--wrap", "true")
    assert refused.status == 1 and "Invalid qos specification" in refused.err
    changes = {"preempt": "normal", "priority": "1000", "gracetime": "5"}
    cluster.call("ChangeQos", pb.ChangeQosRequest(action="ADD", names=["urgent"], changes=changes))
    cluster.kill("ctld")
    cluster.forget_client()
    cluster.start_controller()
    cluster.wait_nodes("n1")
    (urgent,) = cluster.call("ListQos", pb.ListQosRequest(names=["urgent"])).qos
    assert (list(urgent.preempt), urgent.priority, urgent.grace_time_s) == (["normal"], 1000, 5)
    low = cluster.sbatch("-n2", "-J", "low", "--wrap", gate_script(cluster, "low"))
    cluster.wait_state(low, "RUNNING")
    high = cluster.sbatch("-n2", "--qos=urgent", "--wrap", "true")
    cluster.wait_state(high, "COMPLETED")
    (cluster.work / "low.gate").touch()
    cluster.wait_state(low, "COMPLETED")
    assert cluster.job(low).attempt == 1 and cluster.job(high).request.qos == "urgent"


def test_25_a_step_has_its_grace_though_the_script_handles_no_signal(make) -> None:
    """The warning goes to the step; the shell, which SIGTERM would end, lives until the step has saved its work."""
    low, high = PARTITIONS
    partitions = (f"{low} GraceTime=600", high)
    cluster = make("PreemptType=preempt/partition_prio", "PreemptMode=CANCEL", partitions=partitions)
    work = cluster.work
    step = (
        f"trap 'echo warned >{work}/warned; while [ ! -e {work}/gate ]; do sleep 0.05; done; echo saved >{work}/saved; "
        f"exit 0' TERM; echo begun >{work}/begun; while :; do sleep 0.05; done"
    )
    (work / "step.sh").write_text(step)
    script = f"sh -c 'while [ ! -e {work}/gate ]; do sleep 0.05; done' & srun -n1 sh {work}/step.sh; wait; echo after >{work}/after"
    job = cluster.sbatch("-n2", "--wrap", script)
    cluster.wait_text(work / "begun", "begun")
    other = cluster.sbatch("-n2", "-p", "high", "--wrap", "true")
    cluster.wait_text(work / "warned", "warned")
    assert cluster.job(job).state == "RUNNING"
    (work / "gate").touch()
    cluster.wait_ends(job, other)
    assert (work / "saved").read_text() == "saved\n"
    assert (work / "after").read_text() == "after\n"
    assert cluster.job(job).state == "COMPLETED"


def test_a_signal_spares_the_script_unless_it_is_meant(make) -> None:
    cluster = make()
    work = cluster.work
    script = f"trap 'echo shell >>{work}/got' USR1; echo begun >{work}/begun; while [ ! -e {work}/gate ]; do sleep 0.05; done"
    job = cluster.sbatch("-n1", "--wrap", script)
    cluster.wait_text(work / "begun", "begun")
    cluster.run("scancel", "-s", "USR1", str(job)).ok()
    cluster.run("scancel", "-s", "USR1", "--batch", str(job)).ok()
    cluster.wait_text(work / "got", "shell")
    (work / "gate").touch()
    cluster.wait_ends(job)
    assert (work / "got").read_text() == "shell\n"
