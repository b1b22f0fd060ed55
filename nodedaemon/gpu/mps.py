"""Shares of GPUs by MPS (gres/mps): which control daemons run on this node, and for which steps.

One for each GPU and user. It runs before the first step with shares of that GPU starts, so a launch waits for it, and
fails with its error when it cannot be started. It ends after the last such step. The process is supervised by a program
of its own (mps_keeper.py), which outlives this daemon; a later daemon finds it by its folder, which also lists the
steps that it was started for:

    SPOOL/mps/UID.UUID/          see mps_keeper.py
    SPOOL/mps/UID.UUID/of-KEY    a step that needs it

Only one user's clients can be on a GPU at a time (others would queue in the driver): the controller ensures that. A
job's extern step runs nothing on the GPU and needs no control daemon.
"""

import asyncio
import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor

from nodedaemon.base import proctree
from nodedaemon.base.kernelfiles import read_text
from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu import mps_keeper
from nodedaemon.gpu.hooks import Listener
from penstock.v1 import node_pb2

log = logging.getLogger("penstock.noded")

PROGRAM = "nvidia-cuda-mps-control"
FOLDER, OF = "mps", "of-"
#: A start or an end takes no longer than the keeper's own deadlines.
START_S = mps_keeper.BEGIN_S + mps_keeper.QUIT_S + 2 * mps_keeper.GONE_S
END_S = mps_keeper.QUIT_S + 3 * mps_keeper.GONE_S
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_KEEPER = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from nodedaemon.gpu.mps_keeper import main; "
    "sys.exit(main(sys.argv[1:]))"
)
#: User and GPU of a control daemon.
Name = tuple[int, str]


def folder_of(base: str, uid: int, uuid: str) -> str:
    """The folder of a control daemon."""
    return f"{base}/{uid}.{uuid}"


class Mps(Listener):
    """All control daemons of this node; only from the loop's thread."""

    def __init__(
        self,
        base: str,
        executor: Executor,
        launch: Callable[[StepKey, LaunchOrder], None],
        fail: Callable[[StepKey, str], None],
    ) -> None:
        """base: SPOOL/mps. A launch that waited is continued by `launch`, or ended by `fail`."""
        self._base = base
        self._executor = executor
        self._launch = launch
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._program = PROGRAM
        self._held: dict[StepKey, Name] = {}
        self._locks: dict[Name, asyncio.Lock] = {}
        self._before: set[StepKey] = set()  # steps that continue from before
        self._children: dict[Name, subprocess.Popen[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # -- listener of the agent

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """Applies the program's path."""
        self._program = settings.mps_program or PROGRAM

    def began(self, key: StepKey, uid: int, uuids: tuple[str, ...]) -> None:
        """Called before `start`, for a step that continues."""
        self._before.add(key)

    def start(self) -> None:
        """Finds control daemons of an earlier daemon: those in use continue, the others are ended."""
        for entry in os.scandir(self._base) if os.path.isdir(self._base) else ():
            uid, dot, uuid = entry.name.partition(".")
            if not (uid.isdigit() and dot):
                continue
            name = (int(uid), uuid)
            keys = [_key(of.removeprefix(OF)) for of in os.listdir(entry.path) if of.startswith(OF)]
            self._held.update((key, name) for key in keys if key in self._before)
            self._start_task(self._end_if_idle(name))
        self._before.clear()

    def stop(self) -> None:
        """Leaves the control daemons running, like their steps."""
        for task in self._tasks:
            task.cancel()

    def ended(self, key: StepKey) -> None:
        """Handles the end of a step; after the last one its control daemon ends."""
        name = self._held.pop(key, None)
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(f"{folder_of(self._base, *name)}/{OF}{key}")
            if name not in self._held.values():
                self._start_task(self._end_if_idle(name))

    # -- launches

    def bring(self, key: StepKey, order: LaunchOrder) -> None:
        """Launches a step with shares of a GPU, as soon as its control daemon runs."""
        self._held[key] = (order.user_id, order.mps_gpu)
        self._start_task(self._bring(key, order))

    async def _bring(self, key: StepKey, order: LaunchOrder) -> None:
        name = (order.user_id, order.mps_gpu)
        async with self._lock(name):
            why = "" if self._is_there(name) else await self._in_thread(self._begin, name, order)
            if not why:
                try:
                    path = f"{folder_of(self._base, *name)}/{OF}{key}"
                    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
                except OSError as error:
                    why = f"{error.filename}: {error.strerror}"
        if why:
            log.error("step %s: MPS: %s", key, why)
            self._fail(key, f"MPS: {why}")
        else:
            self._launch(key, order)

    async def _end_if_idle(self, name: Name) -> None:
        async with self._lock(name):
            if name not in self._held.values():
                await self._in_thread(self._end, name)
                self._locks.pop(name, None)

    def _lock(self, name: Name) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    # -- in a worker thread

    def _begin(self, name: Name, order: LaunchOrder) -> str:
        """Starts a keeper and reads its result; returns why it does not run, "" = it does."""
        self._end(name)  # remains of a dead one
        words = [str(order.user_id), str(order.group_id), order.user_name, name[1], folder_of(self._base, *name)]
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._base, 0o711)
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KEEPER, _ROOT, *words, self._program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            return f"its keeper cannot be started: {error.strerror}"
        assert child.stdout is not None
        said = _read_all(child.stdout.fileno(), START_S)
        child.stdout.close()
        self._children[name] = child
        if not said and self._is_there(name):
            return ""
        child.terminate()
        return said.decode("utf-8", "replace") or "its keeper has ended"

    def _end(self, name: Name) -> None:
        """Ends the keeper, which ends its control daemon; removes its folder."""
        folder = folder_of(self._base, *name)
        pid, start = _keeper(folder)
        if pid:
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                pidfd = -1
            if pidfd >= 0:
                if proctree.start_time(pid) == start:
                    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
                    _await(pidfd, END_S)
                os.close(pidfd)
        child = self._children.pop(name, None)
        if child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_S)
        if not self._is_there(name):
            mps_keeper.remove(folder)

    def _is_there(self, name: Name) -> bool:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            return False
        pid, start = _keeper(folder_of(self._base, *name))
        return bool(pid) and proctree.start_time(pid) == start

    async def _in_thread(self, work: Callable[..., object], *args: object) -> object:
        return await self._loop.run_in_executor(self._executor, work, *args)

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _keeper(folder: str) -> tuple[int, int]:
    """Returns its pid and start time; zeros = there is none. The file is ours: no user can write into its folder."""
    words = read_text(f"{folder}/keeper").split()
    return (int(words[0]), int(words[1])) if len(words) == 2 and all(word.isdigit() for word in words) else (0, 0)


def _await(pidfd: int, limit_s: float) -> None:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll(limit_s * 1000)


def _read_all(fd: int, limit_s: float) -> bytes:
    """Reads to the end of the file, or until the limit."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    end_s, said = time.monotonic() + limit_s, b""
    while poll.poll(max(0.0, end_s - time.monotonic()) * 1000):
        part = os.read(fd, 4096)
        if not part:
            return said
        said += part
    return said or b"it did not start in time"


def _key(text: str) -> StepKey:
    try:
        job_id, attempt, step_id = (int(word) for word in text.split("."))
    except ValueError:
        return StepKey(0, 0, 0)
    return StepKey(job_id, attempt, step_id)
