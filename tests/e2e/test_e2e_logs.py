"""`penstock logs`: the output of a job, here or by a step on its node."""

import os
import re
import subprocess
import sys
from pathlib import Path

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


def opened(cluster: LiveCluster) -> int:
    """How often the controller has opened outputs on nodes."""
    text = cluster.run("sdiag").ok().out
    return int(found[1]) if (found := re.search(r"^\s*OpenOutput\s.*?count:(\d+)", text, re.M)) else 0


#: In a namespace in which a folder is hidden: from the beginning, or when the gate is there.
HIDDEN = """\
mount -t tmpfs tmpfs "$1" || exit 99
shift 2
exec "$@"
"""
HIDDEN_LATER = """\
mount --bind "$1" "$1" || exit 99
(while ! test -e "$2"; do sleep 0.05; done; mount -t tmpfs tmpfs "$1"; touch "$2.hidden") &
shift 2
exec "$@"
"""
#: The file is something else here, so that it is no use to wait for it.
HIDDEN_BY_A_FIFO = HIDDEN_LATER.replace("mount -t tmpfs tmpfs", 'mkfifo "$2.fifo"; mount --bind "$2.fifo"').replace(
    '"$1"; touch', '"$1/out"; touch'
)


def begin_logs(cluster: LiveCluster, script: str, folder: Path, gate: str, *words: str) -> "subprocess.Popen[str]":
    """`penstock logs` in such a namespace."""
    code = "import sys; from cli.penstock import main; main()"
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), gate]
    env = {**os.environ, **cluster.environment(), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [*argv, sys.executable, "-P", "-c", code, "logs", *words],
        env=env, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.root  # in a namespace of a plain user's own it would be another user
@pytest.mark.parametrize(
    ("size", "how"),
    [(10, HIDDEN_LATER), (40_000, HIDDEN_LATER), (20, HIDDEN_BY_A_FIFO)],
    ids=["short", "of several parts", "by a step"],
)
def test_a_file_that_vanishes_here_is_read_on_from_its_node(cluster: LiveCluster, size: int, how: str) -> None:
    """It was shown here until then, to the middle of a character; the rest follows, and nothing is shown twice."""
    folder = cluster.work / f"vanishes{size}"
    folder.mkdir()
    gate = cluster.work / f"vanish{size}"
    rest = f"while ! test -e {gate}.hidden; do sleep 0.05; done; printf '\\251e\\n'; seq {size}"
    job_id = cluster.sbatch("-o", f"{folder}/out", "--wrap", f"echo one; printf 'two\\nthr\\303'; {rest}")
    cluster.wait_text(folder / "out", "two")
    with begin_logs(cluster, how, folder, str(gate), "-f", "-n", "2", str(job_id)) as logs:
        assert logs.stdout is not None and logs.stderr is not None
        first = logs.stdout.readline()
        if not first and logs.wait(END_S) == 99:
            pytest.skip("machine lacks mount namespaces")
        assert first == "two\n"
        gate.touch()
        cluster.wait_ends(job_id)
        assert logs.stdout.read() == "thrée\n" + "".join(f"{number}\n" for number in range(1, size + 1))
        assert (logs.wait(END_S), logs.stderr.read()) == (0, "")


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
        with begin_logs(cluster, HIDDEN, folder, "", *words) as begun:
            out, err = begun.communicate(timeout=END_S)
        if begun.returncode == 99:
            pytest.skip("machine lacks mount namespaces")
        return subprocess.CompletedProcess(words, begun.returncode, out, err)

    done = logs(str(job_id))
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\ntwo\nthrée", "")
    assert logs("-n2", "-f", str(job_id)).stdout == "two\nthrée" and logs("-n0", str(job_id)).stdout == ""
    assert logs("--stderr", str(job_id)).stdout == "bad\n"
    assert logs("--grep", "^t", str(job_id)).stdout == "two\nthrée\n"
    lines = [f"{number}\n" for number in range(1, 40_001)]  # 230 kB: several parts
    before = opened(cluster)
    assert logs(str(long_id)).stdout == "".join(lines)
    assert opened(cluster) == before + 2, "one connection for its first part, and one for the others"
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
