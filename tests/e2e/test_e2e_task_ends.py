"""How the tasks of real steps ended, as `penstock doctor` has it from the records."""

import json
from typing import Any

from livecluster import LiveCluster

FAILS = "case $SLURM_PROCID in 2) exit 3;; 3) kill -9 $$;; esac"


def failed(cluster: LiveCluster, job_id: int) -> list[dict[str, Any]]:
    cluster.wait_ends(job_id)
    document = json.loads(cluster.run("penstock", "doctor", str(job_id), "--json").ok().out)
    assert document["steps"] == []
    return list(document["failed"])


def ends(step: dict[str, Any]) -> list[tuple[object, ...]]:
    assert step["task_ends_left_out"] == 0
    return [
        tuple(one[name] for name in ("node", "ranks", "kind", "exit_code", "exit_signal")) for one in step["task_ends"]
    ]


def submit(cluster: LiveCluster, line: str) -> int:
    return cluster.sbatch("-N2", "-n4", "--ntasks-per-node=2", "-o", "/dev/null", "--wrap", line)


def test_the_tasks_that_failed_are_named_with_their_nodes(cluster: LiveCluster) -> None:
    job = submit(cluster, f"srun sh -c '{FAILS}'; srun true; srun -n1 -N1 false")
    (step,) = failed(cluster, job)
    assert (step["job"], step["step"], step["state"], step["tasks"]) == (str(job), "0", "FAILED", 4)
    assert ends(step) == [("n2", "2", "EXITED", 3, 0), ("n2", "3", "EXITED", 0, 9)]
    done = cluster.run("penstock", "doctor", f"{job}.0").ok()
    assert done.out == (
        f"Step {job}.0 (FAILED): task 2 on n2 ended with exit code 3; task 3 on n2 ended with signal 9 (of 4 tasks)\n"
    )
    done = cluster.run("penstock", "doctor", f"{job}.1")
    assert (done.status, done.err) == (
        1,
        f"penstock: error: job {job}.1: no step of it runs, and no task of one has failed\n",
    )
    done = cluster.run("sacct", "-nP", "-j", f"{job}.0", "-o", "JobID,State,ExitCode").ok()
    assert done.out == f"{job}.0|CANCELLED|0:9\n"


def test_the_task_that_failed_comes_before_those_that_ended_with_it(cluster: LiveCluster) -> None:
    job = submit(cluster, "srun -K sh -c 'test $SLURM_PROCID -eq 3 && exit 7; exec sleep 600'")
    (step,) = failed(cluster, job)
    assert ends(step)[0] == ("n2", "3", "EXITED", 7, 0)
    assert sorted(ends(step)[1:]) == [("n1", "0-1", "EXITED", 0, 15), ("n2", "2", "EXITED", 0, 15)]


def test_each_program_of_a_step_with_several(cluster: LiveCluster) -> None:
    programs = cluster.work / "programs.conf"
    programs.write_text("0,2 true\n1 sh -c 'exit 4'\n3 sh -c 'exit 5'\n")
    (step,) = failed(cluster, submit(cluster, f"srun --multi-prog {programs}"))
    assert ends(step) == [("n1", "1", "EXITED", 4, 0), ("n2", "3", "EXITED", 5, 0)]


def test_a_step_that_was_cancelled(cluster: LiveCluster) -> None:
    job = submit(cluster, "srun sleep 600")
    cluster.wait(lambda: f"{job}.0" in cluster.run("squeue", "-hs", "-o", "%i").ok().out, "the step runs")
    cluster.run("scancel", f"{job}.0").ok()
    (step,) = failed(cluster, job)
    assert step["state"] == "CANCELLED" and sorted(ends(step)) == [
        ("n1", "0-1", "EXITED", 0, 15),
        ("n2", "2-3", "EXITED", 0, 15),
    ]


def test_a_step_over_the_components_of_a_heterogeneous_job(cluster: LiveCluster) -> None:
    script = cluster.script(
        "het.sh",
        "#!/bin/sh\n#SBATCH -o het.out -N1 -n1 -w n1\n#SBATCH hetjob\n#SBATCH -N1 -n2 -w n2\n"
        "srun --het-group=0,1 sh -c 'test $SLURM_PROCID -ne 2 || exit 6'\n",
    )
    job = cluster.sbatch(str(script))
    (step,) = failed(cluster, job)
    assert "n2: task 2: Exited with exit code 6" in (cluster.work / "het.out").read_text()  # counted through both
    assert (step["job"], step["tasks"]) == (f"{job}+1", 2)
    assert ends(step) == [("n2", "1", "EXITED", 6, 0)]
