"""Issue 14, number 5: root writes into nothing that a user has chosen.

The attack: an error file below /proc, opened by the user and then written by the supervisor, which is root ("*** JOB 1
CANCELLED ***"): such files ask who writes, not who opened them. Its family: every path of a job that is opened for it, and
every descriptor of a user's that a daemon writes to.
"""

import asyncio
import os

import pytest
from openway import open_way

from nodedaemon.base import orders, proctree
from tests.node.fakectl import cluster, eventually, lines
from tests.node.stepdkit import supervisor

NOBODY = 65534
KERNELS = "files of the kernel (/proc, /sys) take no input and output of jobs"


def as_nobody(folder, **fields):
    return {"user_id": NOBODY, "group_id": NOBODY, "user_name": "nobody", "work_dir": str(folder).encode(), **fields}


@pytest.fixture
def folder(tmp_path):
    """A folder that belongs to nobody, and a way there."""
    open_way(tmp_path)
    mine = tmp_path / "nobody"
    mine.mkdir()
    if os.geteuid() == 0:
        os.chown(mine, NOBODY, NOBODY)
    return mine


def own(folder):
    """Fields of a job: nobody's as root, else our own."""
    return as_nobody(folder) if os.geteuid() == 0 else {"work_dir": str(folder).encode()}


@pytest.mark.parametrize("path", [
    "/proc/self/oom_score_adj", "/proc/thread-self/comm", "/proc/self/attr/exec", "/proc/self/clear_refs",
    "/dev/fd/../comm", "link", "folder/comm",
])  # fmt: skip
@pytest.mark.parametrize("stream", ["std_out", "std_err", "std_in"])
@pytest.mark.parametrize("append", [False, True])
def test_files_of_the_kernel_are_no_streams_of_jobs(tmp_path, folder, path, stream, append):
    """By what is opened: a link, or a folder that is one, leads there no more than the plain path."""
    if stream == "std_in" and path in ("/proc/self/clear_refs", "/proc/self/attr/exec"):
        path = "/proc/self/comm"  # those cannot be read
    (folder / "link").symlink_to("/proc/self/comm")
    (folder / "folder").symlink_to("/proc/self")

    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            streams = {"std_out": b"out", stream: path.encode()}
            controller.launch(1, "echo hello >&2; echo hello", open_append=append, **own(folder), **streams)
            end = await controller.exited(1)
            what = stream.replace("_", "")
            assert end.start_at_us == 0
            why = end.failure.removeprefix(f"cannot open {what}: {path}: ")
            assert why in (KERNELS, "Permission denied", "No such file or directory"), (
                end.failure
            )  # some of them are root's once a process is a user's

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/fd/1", "fifo", "file"])
def test_what_jobs_write_to_goes_on_to_work(tmp_path, folder, path):
    os.mkfifo(folder / "fifo")
    if os.geteuid() == 0:
        os.chown(folder / "fifo", NOBODY, NOBODY)

    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            reader = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
            streams = {"std_out": b"out", "std_err": path.encode()}
            controller.launch(1, "echo hello >&2; echo done", **own(folder), **streams)
            end = await controller.exited(1)
            assert (end.failure, end.exit.code) == ("", 0)
            assert "done" in lines(folder / "out")
            if path == "fifo":
                assert os.read(reader, 100) == b"hello\n"
            os.close(reader)

    asyncio.run(scenario())


def test_which_file_systems_act(tmp_path):
    for path, acts in (
        ("/proc/self/comm", True),
        ("/sys/kernel/uevent_seqnum", True),
        ("/dev/null", False),
        (tmp_path, False),
    ):
        fd = os.open(path, os.O_RDONLY)
        assert proctree.acts_on_writing(fd) == acts, path
        os.close(fd)
    read, write = os.pipe()
    assert not proctree.acts_on_writing(read)
    os.close(read)
    os.close(write)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_who_writes_a_note_is_the_user(tmp_path, monkeypatch):
    """Looked at in the process that writes, at the moment when it does."""
    error_fd = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT)
    plain_write = os.write

    def write(fd, data):
        with open("/proc/self/status") as file:
            words = [line for line in file if line.startswith(("Uid", "Gid", "Groups", "CapEff"))]
        open_fds = sorted(fd for fd in range(3, 256) if _is_open(fd))
        plain_write(fd, f"{open_fds == [error_fd]} {''.join(words)}".encode() + data)

    step = supervisor(is_root=True, user_id=NOBODY, group_id=NOBODY)
    step.tasks.error_fd = error_fd
    children: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "fork", lambda: children.append(pid := fork()) or pid)
    step.handle_signal((), orders.SCOPE_ALL, "slurmstepd: error: *** JOB 1 CANCELLED ***")
    os.waitpid(children[0], 0)
    text = (tmp_path / "err").read_text()
    told = dict(line.split(":", 1) for line in text.removeprefix("True ").splitlines()[:-1])
    assert text.startswith("True ") and text.endswith("*** JOB 1 CANCELLED ***\n")
    assert told["Uid"].split() == told["Gid"].split() == [str(NOBODY)] * 4
    assert (told["Groups"].strip(), int(told["CapEff"], 16)) == ("", 0)
    os.close(error_fd)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_cancelled_job_has_its_note(tmp_path, folder):
    """In a file of the user's, by the user."""

    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch(1, "sleep 600", **own(folder), std_out=b"out")
            await controller.started(1)
            controller.terminate(1, grace_ms=1000, note="slurmstepd: error: *** JOB 1 CANCELLED ***")
            await controller.exited(1)
            await eventually(lambda: any("CANCELLED" in line for line in lines(folder / "out")))

    asyncio.run(scenario())
