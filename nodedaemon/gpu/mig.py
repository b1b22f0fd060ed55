"""Divides GPUs by MIG on the controller's order, and restores the layouts that a reboot has taken away.

    order -> Divider.divide -> migchild.py (a child with a deadline) -> (ok, why not)

Rules
    - NVML is called in the child only. One that hangs is killed; its last call is named.
    - The layout of a GPU is on disk (SPOOL/gpu-mig.json) before its jobs can start. Instances do not survive a reboot:
      `restore` makes them again when the daemon starts, before it registers.
    - A division that an earlier daemon did not finish is undone by `restore`: the last good layout comes back.
    - A GPU that was divided from outside is left alone, and its stored layout is dropped.
    - With PenstockGpuSettings=read-only nothing is done, and nothing is stored for the next start.

A child that fails restores the previous layout (migchild.py); one that was killed could not, and the controller then
learns the layout from the next inventory.
"""

import asyncio
import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

import msgspec

from nodedaemon.core.gpumessages import Device
from nodedaemon.gpu import kept
from nodedaemon.gpu.migprotocol import CallAnnounced, DivisionMessage, DivisionOrder, DivisionOutcome
from nodedaemon.gpu.works import MARK
from penstock.v1 import node_pb2
from penstock.values.errors import BadValue
from penstock.values.mig import GpuLayout, format_layout, in_order, is_profile

log = logging.getLogger("penstock.noded")

NAME = "gpu-mig.json"
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "migchild.py")
#: Limit where the order has no deadline; a division takes some seconds.
TIMEOUT_S = 60.0
#: Time for SIGKILL to end a child that is not stuck in the driver.
KILL_S = 2.0
READ_ONLY = "PenstockGpuSettings=read-only: nothing on a card is changed"


class KeptLayout(msgspec.Struct, array_like=True):
    """The last good layout of a GPU; `is_doing`: another division was begun."""

    layout: GpuLayout
    is_doing: bool = False


class Divider:
    """The divisions of a node: one for the daemon. `divide` is the agent's hook (hooks.Divide)."""

    def __init__(self, dir_fd: int, executor: Executor | None, devices: Callable[[], Iterable[Device]]) -> None:
        self._dir_fd = dir_fd
        self._executor = executor
        self._devices = devices
        self.kept = kept.load(dir_fd, NAME, dict[str, KeptLayout]) or {}
        self._read_only = False

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """Applies the controller's configuration."""
        self._read_only = settings.read_only
        if self._read_only and self.kept:
            self.kept.clear()
            self._save()

    async def divide(self, work: node_pb2.GpuWork) -> tuple[bool, str]:
        """Executes the order; returns True, or False and the reason."""
        listed = tuple(self._devices())
        gpu = next((device for device in listed if device.uuid == work.uuid and not device.parent), None)
        if self._read_only:
            return False, READ_ONLY
        if gpu is None:
            return False, f"{work.uuid} is no whole GPU of this node"
        try:
            layout = in_order(work.layout.profiles)
        except BadValue as problem:
            return False, str(problem)
        record = self.kept.get(work.uuid)
        before = record.layout if record else layout_of(gpu, listed) or ()
        self._note(work.uuid, KeptLayout(before, is_doing=True))
        order = DivisionOrder(work.uuid, layout, before)
        limit_s = float(work.timeout_s or TIMEOUT_S)
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._executor, run, order, self._dir_fd, limit_s, work.work_id)
        self.ended(work.uuid, outcome)
        if outcome.ok:
            log.info("GPU %s is %s now", work.uuid, format_layout(layout))
        return outcome.ok, outcome.text

    def forget(self, uuid: str) -> None:
        """Drops the layout of a GPU that was divided from outside."""
        del self.kept[uuid]
        self._save()

    def ended(self, uuid: str, outcome: DivisionOutcome) -> None:
        """Stores the result of a division."""
        if outcome.layout is not None:  # else it is unknown: at its next start the daemon restores the old one
            self._note(uuid, KeptLayout(outcome.layout))

    def _note(self, uuid: str, record: KeptLayout) -> None:
        self.kept[uuid] = record
        self._save()

    def _save(self) -> None:
        kept.keep(self._dir_fd, NAME, msgspec.json.encode(self.kept), "after a reboot GPUs are not divided again")


def restore(dir_fd: int, listed: tuple[Device, ...]) -> bool:
    """Restores missing layouts. Blocks; runs before the node registers. True when something may have changed."""
    divider, changed = Divider(dir_fd, None, tuple), False
    for uuid, record in sorted(divider.kept.items()):
        gpu = next((device for device in listed if device.uuid == uuid), None)
        if gpu is None:
            continue  # it may come back later
        now = layout_of(gpu, listed)
        if now == record.layout and not record.is_doing:
            continue
        if now and not record.is_doing:
            log.warning("GPU %s is %s, which the controller did not ask for; it is left so", uuid, format_layout(now))
            divider.forget(uuid)
            continue
        log.info("GPU %s: making it %s again", uuid, format_layout(record.layout))
        outcome = run(DivisionOrder(uuid, record.layout, ()), dir_fd, TIMEOUT_S, "restore")
        changed = True
        if not outcome.ok:
            log.error("GPU %s: %s", uuid, outcome.text)
        divider.ended(uuid, outcome)
    return changed


def layout_of(gpu: Device, devices: Iterable[Device]) -> GpuLayout | None:
    """The layout of a GPU in an inventory; None = MIG mode without instances that can be allocated."""
    if not gpu.mig_enabled:
        return ()
    names = [device.profile for device in devices if device.parent == gpu.uuid]
    return in_order(names) if names and all(map(is_profile, names)) else None


def run(order: DivisionOrder, dir_fd: int, limit_s: float, work_id: str) -> DivisionOutcome:
    """Runs the child to its end. Blocks, for `limit_s` and some seconds at most."""
    lock = os.open(
        f"gpu-mig-{order.uuid}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=dir_fd
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return DivisionOutcome(False, "an earlier division of it has not ended yet", None)
    try:
        child = subprocess.Popen(
            [sys.executable, "-s", "-P", PROGRAM],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, start_new_session=True, pass_fds=(lock,),
            env={**os.environ, MARK: work_id},
        )  # fmt: skip
    finally:
        os.close(lock)  # the child's copy keeps the lock while it lives
    try:
        said, _ = child.communicate(msgspec.json.encode(order) + b"\n", limit_s)
    except subprocess.TimeoutExpired as late:
        child.kill()
        try:
            child.wait(KILL_S)
        except subprocess.TimeoutExpired:
            log.error("pid %d, which divides GPU %s, does not end: it is stuck in the driver", child.pid, order.uuid)
        doing = _words(late.stdout or b"")[0]
        return DivisionOutcome(False, f"{doing or 'NVML'} did not return within {limit_s:g} s", None)
    doing, outcome = _words(said)
    return outcome or DivisionOutcome(
        False, f"the child ended with status {child.returncode} in {doing or 'its start'}", None
    )


def _words(said: bytes) -> tuple[str, DivisionOutcome | None]:
    """The last call that the child announced, and its outcome."""
    doing, outcome = "", None
    for line in said.split(b"\n"):
        try:
            word = msgspec.json.decode(line, type=DivisionMessage)
        except msgspec.DecodeError:
            continue  # truncated, or written by a library
        if isinstance(word, CallAnnounced):
            doing = word.function
        else:
            outcome = word
    return doing, outcome
