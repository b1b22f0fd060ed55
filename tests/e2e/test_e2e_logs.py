"""`penstock logs`: the output of a job, here or by a step on its node."""

import os
import subprocess

import pytest
from livecluster import LAUNCHERS, LiveCluster
from patience import ANSWER_S, END_S

GATED = "echo one; echo two >&2; echo three; while ! test -e go{n}; do sleep 0.05; done; echo four"


def test_output_of_a_job_that_has_ended(cluster: LiveCluster) -> None:
    job_id = cluster.sbatch("-o", "logs.out", "-e", "logs.err", "--wrap", "printf 'one\\ntwo\\nthree'; echo bad >&2")
    cluster.wait_ends(job_id)
    assert cluster.run("penstock", "logs", str(job_id)).ok().out == "one\ntwo\nthree"
    assert cluster.run("penstock", "logs", "-n", "2", str(job_id)).ok().out == "two\nthree"
    assert cluster.run("penstock", "logs", "-n0", str(job_id)).ok().out == ""
    assert cluster.run("penstock", "logs", "--grep", "^t", "-f", str(job_id)).ok().out == "two\nthree\n"
    assert cluster.run("penstock", "logs", "--stderr", str(job_id)).ok().out == "bad\n"
    (cluster.work / "logs.out").unlink()
    done = cluster.run("penstock", "logs", str(job_id))
    assert (done.status, done.out) == (1, "")
    assert f"logs.out of job {job_id} cannot be read here: No such file or directory" in done.err


@pytest.mark.parametrize("is_here", [True, False], ids=["file here", "file on the node only"])
def test_it_follows_a_job_until_its_end(cluster: LiveCluster, is_here: bool) -> None:
    """What is not here is made so by a folder that only the job's own name for it leads to."""
    name = f"follow{int(is_here)}.out"
    folder = cluster.work if is_here else "/proc/self/cwd"  # of whoever opens it
    gate = cluster.work / f"go{int(is_here)}"
    job_id = cluster.sbatch("-o", f"{folder}/{name}", "--wrap", GATED.format(n=int(is_here)))
    cluster.wait_state(job_id, "RUNNING")
    cluster.wait_text(cluster.work / name, "three")
    argv = [str(LAUNCHERS / "penstock"), "logs", "-f", "-n", "2", str(job_id)]
    with subprocess.Popen(
        argv,
        env={**os.environ, **cluster.environment()},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as logs:
        assert logs.stdout is not None
        assert [logs.stdout.readline(), logs.stdout.readline()] == ["two\n", "three\n"]
        gate.touch()
        assert logs.stdout.readline() == "four\n"
        cluster.wait_ends(job_id)
        assert logs.wait(END_S) == 0
    assert cluster.job(job_id).state == "COMPLETED"


def test_bad_use(cluster: LiveCluster) -> None:
    for words, text in ((["999999"], "there is no job 999999"), (["--grep", "(", "1"], "--grep: "), (["x"], "x")):
        done = cluster.run("penstock", "logs", *words, limit_s=ANSWER_S)
        assert done.status == 1 and done.out == "" and text in done.err and "Traceback" not in done.err
