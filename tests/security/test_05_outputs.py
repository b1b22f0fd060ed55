"""Issue 14, number 5: root writes into nothing that a user has chosen.

The attack: an error file below /proc, opened by the user and then written by the supervisor, which is root ("*** JOB 1
CANCELLED ***"): such files ask who writes, not who opened them. Its family: every path of a job that is opened for it, and
every descriptor of a user's that a daemon writes to.
"""

import ast
import asyncio
import errno
import os
import pty
import signal
import socket
from pathlib import Path

# Any: stand-ins for parts of the supervisor
from typing import Any

import pytest
from openway import open_way

import nodedaemon
from nodedaemon.base import lease, orders, proctree
from nodedaemon.stepd.supervisor import Supervisor
from tests.node.fakectl import cluster, eventually, lines
from tests.node.stepdkit import supervisor

NOBODY = 65534
NOTE = "slurmstepd: error: *** JOB 1 CANCELLED ***"
#: Functions of Tasks that keep the descriptor: it is set, received, handed out and closed.
KEEPERS = ("__init__", "close", "error_output", "listen")
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


@pytest.mark.parametrize("stream", ["std_out", "std_err", "std_in"])
@pytest.mark.parametrize("path", ["/proc/self/comm", "link", "folder/comm"])
def test_files_of_the_kernel_are_no_streams_of_steps_of_srun(
    tmp_path: Path, folder: Path, stream: str, path: str
) -> None:
    """A step starts its tasks in another way than a batch script (in C), and its files have names for each task."""
    (folder / "link").symlink_to("/proc/self/comm")
    (folder / "folder").symlink_to("/proc/self")

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            who = own(folder)
            spec = {stream: path.encode()}
            controller.launch_step(1, ["sh", "-c", "touch ran"], ranks=(0, 1), spec=spec, **who)
            end = await controller.exited(1)
            assert end.exit.code or end.failure, end
            assert not (folder / "ran").exists()
            told = f"cannot open {stream.replace('_', '')}: {path}: "
            refused = (
                (KERNELS, "Permission denied") if stream != "std_in" else (KERNELS,)
            )  # the kernel's word may come first
            assert end.failure.startswith(tuple(told + one for one in refused)), end

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


def cancelled(step: Supervisor) -> None:
    """Also a time limit, a preemption, the loss of another node: orders to end, with a note."""
    step.handle_signal((), orders.SCOPE_ALL, NOTE)


def notified(step: Supervisor) -> None:
    """By scontrol notify: no signal."""
    step.handle_signal((), orders.SCOPE_BATCH, NOTE)


def lease_lapsed(step: Supervisor) -> None:
    """By the supervisor itself, whose controller is unreachable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease.Lease, "signal_due", lambda lease: signal.SIGTERM)
        patch.setattr(lease.Lease, "wait_s", lambda lease: 3600.0)
        patch.setattr(proctree, "signal_descendants", lambda *arguments: 0)  # they are all of the test's
        step.enforce_lease()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("said", [cancelled, notified, lease_lapsed])
def test_who_writes_a_note_is_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    """As seen by the process that writes, at the moment when it does. Nor does root ask what the descriptor is: what it
    leads to may answer only its user (FUSE), or never (NFS)."""
    error_fd = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT)
    plain_write, plain_fstat = os.write, os.fstat

    def write(fd: int, data: bytes) -> None:
        with open("/proc/self/status") as file:
            words = [line for line in file if line.startswith(("Uid", "Gid", "Groups", "CapEff"))]
        open_fds = sorted(fd for fd in range(3, 256) if _is_open(fd))
        plain_write(fd, f"{open_fds == [error_fd]} {''.join(words)}".encode() + data)

    def fstat(fd: int) -> os.stat_result:
        if fd == error_fd and os.geteuid() == 0:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return plain_fstat(fd)

    step = supervisor(is_root=True, user_id=NOBODY, group_id=NOBODY, lease_s=240)
    step.tasks.error_fd = error_fd
    children: list[int] = []
    fork = os.fork
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        patch.setattr(os, "fstat", fstat)
        patch.setattr(os, "fork", lambda: children.append(pid := fork()) or pid)
        said(step)
    os.waitpid(children[0], 0)
    text = (tmp_path / "err").read_text()
    told = dict(line.split(":", 1) for line in text.removeprefix("True ").splitlines()[:-1])
    assert text.startswith("True ") and text.endswith(" ***\n")
    assert told["Uid"].split() == told["Gid"].split() == [str(NOBODY)] * 4
    assert (told["Groups"].strip(), int(told["CapEff"], 16)) == ("", 0)
    os.close(error_fd)


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_a_note_goes_to_files_only(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A reader of a pipe who does not read would keep the writer, and what is no file has no lines."""
    reader, writer = os.pipe()
    if kind == "socket":
        ours, theirs = socket.socketpair()
        os.dup2(ours.detach(), reader)
        os.dup2(theirs.detach(), writer)
    elif kind == "device":
        ours_fd, theirs_fd = pty.openpty()
        os.dup2(ours_fd, reader)
        os.dup2(theirs_fd, writer)
        os.close(ours_fd)
        os.close(theirs_fd)
    step = supervisor(is_root=os.geteuid() == 0, user_id=NOBODY, group_id=NOBODY)
    step.tasks.error_fd = writer
    children: list[int] = []
    fork = os.fork
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", lambda: children.append(pid := fork()) or pid)
        cancelled(step)
    os.waitpid(children[0], 0)
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def test_one_place_uses_what_a_user_has_opened() -> None:
    """A task's error output comes to its supervisor as a descriptor, which is the user's choice: only a note is
    written to it."""
    users = []
    for path in sorted(Path(nodedaemon.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
                if names & {"error_fd", "error_output"}:
                    users.append(f"{path.name}:{node.name}")
    assert sorted(users) == ["supervisor.py:_write_note", *(f"tasks.py:{name}" for name in KEEPERS)]


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
