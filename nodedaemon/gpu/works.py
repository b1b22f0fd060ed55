"""Maintenance of an idle GPU on the controller's order: the site's check, its reset program, division (MIG).

Rules
    - An order is executed once, by its work id, even across restarts: it is stored before it begins, and programs that
      an earlier daemon left running are killed and reported as failed. A repeated order gets the same answer.
    - The program runs as the daemon, with a deadline, in a worker thread, and gets the GPU from its environment:
      CUDA_VISIBLE_DEVICES (the UUID), PENSTOCK_GPU_UUID, PENSTOCK_GPU_INDEX, PENSTOCK_GPU_MINOR, PENSTOCK_GPU_BUS_ID.
    - Exit status 0 = the GPU is healthy; else the last line of its output is the reason.
    - No maintenance of a GPU that a step has, even on the controller's order.

This module changes no settings of a card: the programs are the site's, and there is none by default.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor

import msgspec

from nodedaemon.base import proctree, scripts
from nodedaemon.base.kernelfiles import read_bytes
from nodedaemon.core.gpuhealth_messages import GpuWorkKind
from nodedaemon.core.gpumessages import Device
from nodedaemon.gpu import kept
from nodedaemon.gpu.hooks import Divide
from penstock.v1 import node_pb2

log = logging.getLogger("penstock.noded")

NAME = "gpu-works.json"
#: Works that are remembered, so that a repeated order is not executed again.
WORKS_MAX = 256
#: Limit where the order has no deadline.
TIMEOUT_S = 600
TEXT_MAX = 200
MARK = "PENSTOCK_GPU_WORK"
RESTARTED = "the node daemon was restarted meanwhile"


class WorkDone(msgspec.Struct, array_like=True):
    """A work that was begun; `text` None = it has not ended."""

    kind: int
    uuid: str
    ok: bool = False
    text: str | None = None
    untried: bool = False  # nothing was done, or it was interrupted: the result is unknown


class Works:
    """Runs works, one at a time for each GPU. `report` gets (work id, kind, uuid, result)."""

    def __init__(
        self,
        dir_fd: int,
        executor: Executor,
        find: Callable[[str], Device | None],
        is_held: Callable[[str], bool],
        report: Callable[[str, GpuWorkKind, str, WorkDone], None],
    ) -> None:
        self._dir_fd = dir_fd
        self._executor = executor
        self._find = find
        self._is_held = is_held
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._known: dict[str, WorkDone] = kept.load(dir_fd, NAME, dict[str, WorkDone]) or {}
        self.programs: dict[GpuWorkKind, str] = {}
        self.divide: Divide | None = None

    def resume(self) -> None:
        """Answers the works that an earlier daemon has not ended."""
        left = {work_id: work for work_id, work in self._known.items() if work.text is None}
        if left:
            self._spawn(self._clear(left))

    def take(self, work: node_pb2.GpuWork) -> None:
        """Begins a work, or repeats the answer."""
        known = self._known.get(work.work_id)
        if known is not None:
            if known.text is not None:
                self._report(work.work_id, _kind(known.kind), known.uuid, known)
            return
        refused = self._why_not(work)
        self._note(work.work_id, WorkDone(work.kind, work.uuid))
        if refused:
            self._end(work.work_id, False, refused, True)
        else:
            self._spawn(self._do(work))

    def is_busy(self, uuid: str) -> bool:
        """True while a work runs on that GPU."""
        return any(work.uuid == uuid and work.text is None for work in self._known.values())

    async def stop(self) -> None:
        """Leaves running programs to the next daemon, which ends them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _why_not(self, work: node_pb2.GpuWork) -> str:
        kind = _kind(work.kind)
        if self._find(work.uuid) is None:
            return f"{work.uuid} is not here"
        if self._is_held(work.uuid):
            return f"{work.uuid} is in use"
        if self.is_busy(work.uuid):
            return f"something is done to {work.uuid} already"
        if kind is GpuWorkKind.DIVIDE:
            return "" if self.divide is not None else "this node divides no GPUs"
        return "" if self.programs.get(kind) else f"no program is configured for {kind.name}"

    async def _do(self, work: node_pb2.GpuWork) -> None:
        kind, limit_s = _kind(work.kind), work.timeout_s or TIMEOUT_S
        if kind is GpuWorkKind.DIVIDE and self.divide is not None:
            ok, text = await self.divide(work)
        else:
            ok, text = await self._run(kind, work, limit_s)
        self._end(work.work_id, ok, text)

    async def _run(self, kind: GpuWorkKind, work: node_pb2.GpuWork, limit_s: float) -> tuple[bool, str]:
        device = self._find(work.uuid)
        assert device is not None
        program = self.programs[kind]
        log.info("GPU %s: %s by %s", work.uuid, kind.name.lower(), program)
        environment = {**environment_of(device), MARK: work.work_id}
        outcome = await self._loop.run_in_executor(self._executor, scripts.run, [program], environment, limit_s)
        return not outcome.failure, why(outcome)

    def _end(self, work_id: str, ok: bool, text: str, untried: bool = False) -> None:
        work = self._known[work_id]
        work.ok = ok
        work.text = text[:TEXT_MAX]
        work.untried = untried
        self._save()
        self._report(work_id, _kind(work.kind), work.uuid, work)

    def _note(self, work_id: str, work: WorkDone) -> None:
        self._known[work_id] = work
        for old in [name for name, known in self._known.items() if known.text is not None][: -WORKS_MAX or None]:
            del self._known[old]
        self._save()

    def _save(self) -> None:
        """Stores the works: small and rare, and must be on disk before any begins."""
        data = msgspec.json.encode(self._known)
        kept.keep(self._dir_fd, NAME, data, "a work may be done again after a restart")

    async def _clear(self, left: dict[str, WorkDone]) -> None:
        await self._loop.run_in_executor(self._executor, _kill_marked, tuple(left))
        for work_id in left:
            self._end(work_id, False, RESTARTED, True)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def environment_of(device: Device) -> dict[str, str]:
    """The environment of a site's program for the GPU."""
    return {
        "CUDA_VISIBLE_DEVICES": device.uuid,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PENSTOCK_GPU_UUID": device.uuid,
        "PENSTOCK_GPU_INDEX": str(device.index),
        "PENSTOCK_GPU_MINOR": str(device.minor),
        "PENSTOCK_GPU_BUS_ID": device.bus_id,
    }


def why(outcome: scripts.ScriptOutcome) -> str:
    """Why the program failed: its last line, and how it ended."""
    lines = outcome.output.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{outcome.failure}: {last}" if outcome.failure and last else outcome.failure or last


def _kind(number: int) -> GpuWorkKind:
    return GpuWorkKind(number) if number in GpuWorkKind._value2member_map_ else GpuWorkKind.NONE


def _kill_marked(work_ids: tuple[str, ...]) -> None:
    """Ends programs of an earlier daemon, by the mark in their environment. Blocks."""
    marks = {f"{MARK}={work_id}".encode() for work_id in work_ids}

    def is_left(pid: int) -> bool:
        try:
            is_ours = os.stat(f"/proc/{pid}").st_uid == os.geteuid()
        except OSError:
            return False
        return is_ours and not marks.isdisjoint(read_bytes(f"/proc/{pid}/environ").split(b"\0"))

    def find() -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and is_left(int(name))]

    if not proctree.kill_all(find, is_left):
        log.error("programs of works on GPUs are left, and signal %d does not end them", signal.SIGKILL)
