"""Heterogeneous jobs on a real cluster: submission, environment, steps over components, ends."""

import re
import sys

import pytest
from livecluster import LiveCluster

from penstock.v1 import controller_pb2 as c

SRUN = f"{sys.executable} -P -m cli.srun"
#: Two nodes, whose node daemons are told apart by name.
SHOW = (
    "echo rank $SLURM_PROCID of $SLURM_NTASKS node $SLURM_NODEID of $SLURM_NNODES job $SLURM_JOB_ID on $SLURMD_NODENAME"
)


def ids(cluster: LiveCluster) -> list[str]:
    return cluster.run("squeue", "-h", "-o", "%i %t %R").ok().out.split("\n")[:-1]


def ends(cluster: LiveCluster, job_id: int) -> list[c.JobInfo]:
    """Both components, when they have ended."""
    return cluster.wait_ends(f"{job_id}+0", f"{job_id}+1")


def test_a_script_runs_a_step_over_two_components(cluster: LiveCluster) -> None:
    script = cluster.script(
        "het.sh",
        "#!/bin/bash\n#SBATCH -n1 --nodelist=n1 --mem=100 --job-name=pair --time=5\n#SBATCH hetjob\n"
        "#SBATCH -n2 --nodelist=n2 --mem=200\n"
        f"{SRUN} --het-group=0,1 -l sh -c '{SHOW}'\n"
        f"{SRUN} --het-group=1 hostname >/dev/null\n"
        f"{SRUN} true\n"
        "env | grep HET_ | sort\n",
    )
    job_id = cluster.sbatch(str(script))
    first, second = ends(cluster, job_id)
    text = (cluster.work / f"slurm-{job_id}.out").read_text()
    lines = sorted(line for line in text.splitlines() if "rank" in line)
    assert lines == [
        f"0: rank 0 of 3 node 0 of 2 job {job_id} on n1",
        f"1: rank 1 of 3 node 1 of 2 job {job_id} on n2",
        f"2: rank 2 of 3 node 1 of 2 job {job_id} on n2",
    ], text
    assert [first.state, second.state, second.request.name] == ["COMPLETED", "COMPLETED", "pair"]
    for wanted in (
        "SLURM_HET_SIZE=2", f"SLURM_JOB_ID_HET_GROUP_0={job_id}", f"SLURM_JOB_ID_HET_GROUP_1={job_id + 1}",
        "SLURM_JOB_NODELIST_HET_GROUP_0=n1", "SLURM_JOB_NODELIST_HET_GROUP_1=n2", "SLURM_NTASKS_HET_GROUP_1=2",
    ):  # fmt: skip
        assert wanted in text.splitlines()
    shown = cluster.run("sacct", "-nP", "-o", "jobid,state,nodelist", "-j", str(job_id)).ok().out.splitlines()
    assert shown == [
        f"{job_id}+0|COMPLETED|n1", f"{job_id}+0.batch|COMPLETED|n1", f"{job_id}+0.0|COMPLETED|n1",
        f"{job_id}+0.2|COMPLETED|n1", f"{job_id}+1|COMPLETED|n2", f"{job_id}+1.0|COMPLETED|n2",
        f"{job_id}+1.1|COMPLETED|n2",
    ]  # fmt: skip
    only = cluster.run("sacct", "-nXP", "-o", "jobid", "-j", f"{job_id}+1").ok().out.split()
    leader = cluster.run("sacct", "-nXP", "-o", "jobid", "--whole-hetjob=no", "-j", str(job_id)).ok().out.split()
    both = cluster.run("sacct", "-nXP", "-o", "jobid", "--whole-hetjob", "-j", f"{job_id}+1").ok().out.split()
    assert (only, leader, both) == ([f"{job_id}+1"], [f"{job_id}+0"], [f"{job_id}+0", f"{job_id}+1"])


def test_each_component_has_its_own_streams_also_from_outside(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-n1", "--mem=100", "-w", "n1", ":", "-n2", "--mem=100", "-w", "n2", "--wrap", "sleep 600")
    cluster.wait_state(f"{job_id}+1", "RUNNING")
    (cluster.work / "in0").write_text("first\n")
    (cluster.work / "in1").write_text("second\n")
    show = "echo $SLURM_PROCID $SLURM_NTASKS; echo bad >&2; cat"
    first = ("-l", "-n1", "-o", "het-a.out", "-e", "het-a.err", "-i", "in0", "sh", "-c", show)
    second = ("-n2", "-o", "het-b.out", "-e", "het-b.err", "-i", "in1", "sh", "-c", show)
    done = cluster.run("srun", f"--jobid={job_id}", *first, ":", *second).ok()
    assert (done.out, done.err) == ("", "")
    texts = {name: sorted((cluster.work / f"het-{name}").read_text().splitlines()) for name in ("a.out", "b.out")}
    assert texts == {"a.out": ["0: 0 3", "0: first"], "b.out": ["1: 1 3", "1: second", "2: 2 3", "2: second"]}
    assert (cluster.work / "het-a.err").read_text() == "0: bad\n"
    assert sorted((cluster.work / "het-b.err").read_text().splitlines()) == ["1: bad", "2: bad"]
    only = cluster.run("srun", f"--jobid={job_id}", "--het-group=1", "sh", "-c", "echo $SLURMD_NODENAME").ok()
    assert only.out == "n2\n"
    cluster.run("scancel", str(job_id)).ok()
    ends(cluster, job_id)


def test_parts_of_a_step_in_a_job_that_is_not_heterogeneous(cluster: LiveCluster) -> None:
    show = "echo $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME"
    parts = ("srun", "-n2", "sh", "-c", show, ":", "-n1", "sh", "-c", show)
    done = cluster.run("salloc", "-N2", "--ntasks-per-node=2", "--mem=200", "-w", "n1,n2", *command_words(*parts))
    assert sorted(done.out.splitlines()) == ["0 of 3 on n1", "1 of 3 on n1", "2 of 3 on n2"]
    done = cluster.run("salloc", "-N1", "-n3", "--mem=200", "-w", "n1", *command_words(*parts))
    assert sorted(done.out.splitlines()) == ["0 of 3 on n1", "1 of 3 on n1", "2 of 3 on n1"]


def command_words(*words: str) -> list[str]:
    return [*SRUN.split(), *words[1:]]


def test_the_highest_exit_code_of_all_components_counts(cluster: LiveCluster) -> None:
    done = cluster.run("srun", "-n1", "--mem=100", "sh", "-c", "exit 3", ":", "-n2", "--mem=100", "sh", "-c", "exit 5")
    assert done.status == 5
    assert sorted(re.findall(r"tasks? [\d-]+", done.err)) == ["task 0", "tasks 1-2"]
    first = max(job.het_job_id for job in cluster.jobs(states=["FAILED"]))
    assert [job.exit.code for job in ends(cluster, first)] == [5, 5]


def test_parts_over_several_nodes_each(cluster: LiveCluster) -> None:
    part = ("-N2", "--mem=100", "sh", "-c", SHOW)
    done = cluster.run("srun", *part, ":", *part).ok()
    seen = sorted(re.sub(r" job \d+ on .*", "", line) for line in done.out.splitlines())
    assert seen == [f"rank {rank} of 4 node {rank} of 4" for rank in range(4)]


def test_parts_of_a_plain_job_over_several_nodes(cluster: LiveCluster) -> None:
    words = ("-Q", "-N2", "--exclusive", "--mem=100", *SRUN.split())
    cpus = int(cluster.run("sinfo", "-h", "-n", "n1", "-o", "%c").ok().out.split()[0])
    done = cluster.run("salloc", *words, "-n1", "sh", "-c", SHOW, ":", f"-n{cpus + 1}", "sh", "-c", SHOW).ok()
    assert len(done.out.splitlines()) == cpus + 2
    assert {line.split()[5] for line in done.out.splitlines()} == {"0", "1", "2"}


def test_salloc_has_both_components(cluster: LiveCluster) -> None:
    words = ("-n1", "--nodelist=n2", "--mem=100", ":", "-n2", "--nodelist=n1", "--mem=100")
    inner = f"{SRUN} --het-group=0-1 sh -c '{SHOW}'; echo size $SLURM_HET_SIZE"
    done = cluster.run("salloc", *words, "sh", "-c", inner)
    assert done.status == 0, f"{done}"
    job_id = int(done.err.partition("Granted job allocation ")[2].split()[0])
    assert "size 2" in done.out.splitlines()
    assert {line.split()[-1] for line in done.out.splitlines() if "rank 0" in line} == {"n2"}
    assert len([line for line in done.out.splitlines() if "of 3 node" in line]) == 3
    assert [job.state for job in ends(cluster, job_id)] == ["COMPLETED", "COMPLETED"]


def test_components_are_shown_held_and_cancelled(cluster: LiveCluster) -> None:
    one = ("-n1", "--mem=100", "--nodelist=n1")
    other = ("-n1", "--mem=100", "--nodelist=n2", "--wrap", "sleep 600")
    held = cluster.sbatch("--hold", *one, ":", *other)
    job_id = cluster.sbatch(*one, ":", *other)
    cluster.wait_state(f"{job_id}+0", "RUNNING")
    assert sorted(ids(cluster)) == sorted([
        f"{held}+0 PD (JobHeldUser)", f"{held}+1 PD (JobHeldUser)", f"{job_id}+0 R n1", f"{job_id}+1 R n2",
    ])  # fmt: skip
    shown = cluster.run("scontrol", "show", "job", f"{job_id}+1").ok().out
    assert f"JobId={job_id + 1} HetJobId={job_id} HetJobOffset=1 JobName=wrap" in shown
    assert f"HetJobIdSet={job_id}-{job_id + 1}" in shown
    cluster.run("scancel", f"{held}+1").ok()
    assert [job.state for job in ends(cluster, held)] == ["CANCELLED", "CANCELLED"]
    cluster.run("scancel", f"{job_id}+1").ok()
    cluster.wait_state(f"{job_id}+1", "CANCELLED")
    assert cluster.job(f"{job_id}+0").state == "RUNNING"
    cluster.run("scancel", str(job_id)).ok()
    ends(cluster, job_id)


def test_they_outlive_the_controller(cluster: LiveCluster) -> None:
    words = ("-n1", "--mem=100", "--nodelist=n1", ":", "-n1", "--mem=100", "--nodelist=n2")
    job_id = cluster.sbatch("--hold", *words, "--wrap", f"{SRUN} --het-group=0,1 true && echo done > ran && sleep 600")
    cluster.kill("ctld")
    cluster.start_controller()
    cluster.run("scontrol", "release", str(job_id)).ok()
    cluster.wait_text(cluster.work / "ran", "done")
    cluster.kill("ctld")
    cluster.start_controller()
    assert [job.state for job in cluster.jobs(job_id)] == ["RUNNING", "RUNNING"]
    cluster.run("scancel", str(job_id)).ok()
    assert [job.state for job in ends(cluster, job_id)] == ["CANCELLED", "CANCELLED"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-n1", ":", "-n1", "--array=1-2"), "Job arrays not supported for heterogeneous jobs"),
        (("-n1", ":", "-n9999"), "Requested node configuration is not available"),
    ],
)
def test_refusals(cluster: LiveCluster, words: tuple[str, ...], message: str) -> None:
    done = cluster.run("sbatch", *words, "--wrap", "true")
    assert done.status == 1
    assert message in done.err


def test_a_group_that_is_not_there_and_mpi_are_refused(cluster: LiveCluster) -> None:
    done = cluster.run("srun", "--het-group=1", "true", env={"SLURM_JOB_ID": "1", "SLURM_HET_SIZE": "1"})
    assert "het group value of 1, but the job allocation has maximum value of 0" in done.err
    done = cluster.run("srun", "-n1", "--mpi=pmi2", "true", ":", "-n1", "true")
    assert "MPI over several components is not supported yet" in done.err
