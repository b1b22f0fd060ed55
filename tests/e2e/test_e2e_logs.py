"""`penstock logs`: the output of a job, here or by a step on its node."""

import os
import subprocess
import sys

import pytest
from livecluster import LAUNCHERS, ROOT, LiveCluster
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


HIDDEN = """\
mount -t tmpfs tmpfs "$1" || exit 99
shift
exec "$@"
"""


@pytest.mark.root  # in a namespace of a plain user's own it would be another user
def test_an_ended_job_whose_file_is_on_its_node_only(cluster: LiveCluster) -> None:
    """What is not here is made so by a file system over its folder, in a mount namespace."""
    folder = cluster.work / "on the node"
    folder.mkdir()
    line = "printf 'one\\ntwo\\nthr\\303\\251e'; echo bad >&2"
    job_id = cluster.sbatch("-o", f"{folder}/out", "-e", f"{folder}/err", "-D", str(folder), "--wrap", line)
    long_id = cluster.sbatch("-o", f"{folder}/long", "--wrap", "seq 40000")
    cluster.wait_ends(job_id, long_id)

    def logs(*words: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; from cli.penstock import main; main()"
        argv = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            HIDDEN,
            "sh",
            str(folder),
            sys.executable,
            "-P",
            "-c",
            code,
            "logs",
            *words,
        ]
        env = {**os.environ, **cluster.environment(), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, timeout=END_S, check=False)
        if done.returncode == 99:
            pytest.skip("machine lacks mount namespaces")
        return done

    done = logs(str(job_id))
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\ntwo\nthrée", "")
    assert logs("-n2", "-f", str(job_id)).stdout == "two\nthrée" and logs("-n0", str(job_id)).stdout == ""
    assert logs("--stderr", str(job_id)).stdout == "bad\n"
    assert logs("--grep", "^t", str(job_id)).stdout == "two\nthrée\n"
    lines = [f"{number}\n" for number in range(1, 40_001)]  # 230 kB: several parts
    assert logs(str(long_id)).stdout == "".join(lines)
    assert logs("-n3", str(long_id)).stdout == "".join(lines[-3:])
    assert logs("-n30000", str(long_id)).stdout == "".join(lines[-30_000:])
    (folder / "out").unlink()
    gone = logs(str(job_id))
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "cannot be read here: No such file or directory; node n" in gone.stderr and gone.stderr.count("\n") <= 2


def test_bad_use(cluster: LiveCluster) -> None:
    for words, text in ((["999999"], "there is no job 999999"), (["--grep", "(", "1"], "--grep: "), (["x"], "x")):
        done = cluster.run("penstock", "logs", *words, limit_s=ANSWER_S)
        assert done.status == 1 and done.out == "" and text in done.err and "Traceback" not in done.err
