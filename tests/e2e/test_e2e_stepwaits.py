"""Steps of real clusters: a word before the end, what a step waits for, which GPUs a task sees."""

import subprocess
import sys

from livecluster import LiveCluster, command
from patience import ANSWER_S

SRUN = f"{sys.executable} -P -m cli.srun"
#: A task that says that it is there, and ends at the signal with a code of its own.
UNTIL_USR1 = "trap 'echo usr1 $SLURM_PROCID; exit 7' USR1; echo up; while :; do sleep 0.05; done"


def start(cluster: LiveCluster, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("srun", *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=cluster.work, env=cluster.environment(),
    )  # fmt: skip


def test_a_step_is_warned_before_its_own_limit(cluster: LiveCluster) -> None:
    words = ("-N2", "--ntasks-per-node=1", "--mem=100", "--time=2:00")
    done = cluster.run(
        "salloc", "-Q", *words, "sh", "-c", f'{SRUN} --time=1:00 --signal=USR1@50 sh -c "$0"', UNTIL_USR1
    )
    assert (done.status, sorted(done.out.split("\n"))) == (7, ["", "up", "up", "usr1 0", "usr1 1"])


def test_the_jobs_signal_goes_to_all_tasks_of_its_steps_and_spares_the_script(cluster: LiveCluster) -> None:
    quoted = UNTIL_USR1.replace("'", "'\\''")
    script = f"trap 'echo script' USR1; {SRUN} -N2 sh -c '{quoted}'; echo ended with $?"
    job_id = cluster.sbatch(
        "-N2", "--ntasks-per-node=1", "--mem=100", "--time=1:00", "--signal=USR1@52", "-o", "out", "--wrap", script
    )
    cluster.wait_ends(job_id)
    said = ("ended", "up", "usr1", "script")  # the shell says of its sleep that a signal has ended it
    lines = [line for line in (cluster.work / "out").read_text().splitlines() if line.startswith(said)]
    assert sorted(lines) == ["ended with 7", "up", "up", "usr1 0", "usr1 1"]


def test_what_a_step_waits_for_is_told(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-n2", "--mem=100", "--wrap", "sleep 600")
    cluster.wait_state(job_id, "RUNNING")
    first = start(cluster, f"--jobid={job_id}", "--exact", "-n2", "sh", "-c", "echo up; sleep 600")
    assert first.stdout.readline() == b"up\n"
    second = start(cluster, f"--jobid={job_id}", "--exact", "-n1", "hostname")
    ask = lambda: cluster.run("penstock", "why", str(job_id)).ok().out.partition("Its steps that wait:\n")[2]  # noqa: E731
    why = cluster.wait(ask, "a step that waits")
    assert why.startswith("  hostname waits for CPUs that step 0 of the job has (since ")
    shown = cluster.run("scontrol", "show", "step", str(job_id)).ok().out
    assert f"StepId={job_id}.TBD " in shown
    assert "State=PENDING " in shown
    assert "ReasonDetail=waits for CPUs that step 0 of the job has since " in shown
    cluster.run("scancel", f"{job_id}.0").ok()
    out, _ = second.communicate(timeout=ANSWER_S)
    assert (second.returncode, out) == (0, subprocess.run(["hostname"], capture_output=True, check=True).stdout)
    first.communicate(timeout=ANSWER_S)
    assert "TBD" not in cluster.run("scontrol", "show", "step", str(job_id)).ok().out


def test_each_task_sees_its_own_gpus(cluster: LiveCluster) -> None:
    show = "sh -c 'echo $SLURMD_NODENAME $SLURM_LOCALID: $CUDA_VISIBLE_DEVICES'"
    wide = ("-N2", "--ntasks-per-node=2", "--mem=100", "--gpus-per-task=2")
    own = ["n1 0: 0,1", "n1 1: 2,3", "n2 0: 0,1", "n2 1: 2,3"]
    every = [f"{node} {local}: 0,1,2,3" for node in ("n1", "n2") for local in (0, 1)]

    def lines(*words: str) -> list[str]:
        return sorted(cluster.run(*words).ok().out.splitlines())

    task = ("sh", "-c", "echo $SLURMD_NODENAME $SLURM_LOCALID: $CUDA_VISIBLE_DEVICES")
    assert lines("srun", *wide, *task) == own
    assert lines("srun", *wide, "--gpu-bind=none", *task) == every
    assert lines("salloc", "-Q", *wide, "sh", "-c", f"{SRUN} {show}") == own
    assert lines("salloc", "-Q", *wide, "sh", "-c", f"{SRUN} --gpu-bind=none {show}") == every
    job_id = cluster.sbatch(*wide, "-o", "gpus", "--wrap", f"{SRUN} {show}; echo; {SRUN} --gpu-bind=none {show}")
    cluster.wait_ends(job_id)
    first, _, second = (cluster.work / "gpus").read_text().partition("\n\n")
    assert (sorted(first.split("\n")), sorted(second.split())) == (own, sorted(" ".join(every).split()))
