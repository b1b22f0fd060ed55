"""Merges XIDs: each is reported once, although both NVML and the kernel's log report it.

The log contains the process, so its report is preferred: where the log is read, one from NVML is delayed for a moment,
in case the log has it, too. A repeated XID of the same GPU (in the log, of the same process) within a second is the
same one.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

import msgspec

from nodedaemon.core.gpumessages import Found, Xid, normal_bus_id
from nodedaemon.gpu.child import ChildLimits

#: Entries of the last second that are kept; more XIDs a second than that are not distinguished.
REMEMBERED_MAX = 1000


class XidMerge:
    """Merges both sources, reporting each XID once."""

    def __init__(self, loop: AbstractEventLoop, limits: ChildLimits, report: Callable[[Xid], None]) -> None:
        self._loop = loop
        self._limits = limits
        self._report = report
        self._by_bus: dict[str, str] = {}
        self._buses: dict[str, str] = {}
        self._reported_at: dict[tuple[str, int, int], float] = {}  # GPU, XID, process (-1: any) -> when
        self._held: dict[tuple[str, int], TimerHandle] = {}

    def know(self, found: Found) -> None:
        """Sets the GPUs of the bus ids."""
        for device in found.devices:
            if not device.parent:
                self._by_bus[normal_bus_id(device.bus_id)] = device.uuid
                self._buses[device.uuid] = normal_bus_id(device.bus_id)

    def from_log(self, xid: Xid) -> None:
        """Handles an XID of the kernel's log."""
        bus_id = normal_bus_id(xid.bus_id)
        xid = msgspec.structs.replace(xid, bus_id=bus_id, uuid=self._by_bus.get(bus_id, ""))
        held = self._held.pop((self._key(xid), xid.xid), None)
        if held is not None:
            held.cancel()
        if self._is_new(xid, xid.pid):
            self._reported_at[(self._key(xid), xid.xid, -1)] = self._loop.time()
            self._report(xid)

    def from_nvml(self, xid: Xid, log_is_read: bool) -> None:
        """Handles an XID of NVML."""
        xid = msgspec.structs.replace(xid, bus_id=self._buses.get(xid.uuid, ""))
        key = (self._key(xid), xid.xid)
        if key in self._held or not self._is_new(xid, -1):
            return
        if log_is_read:
            self._held[key] = self._loop.call_later(self._limits.merge_s, self._release, key, xid)
        else:
            self._report(xid)

    def _release(self, key: tuple[str, int], xid: Xid) -> None:
        self._held.pop(key, None)
        self._report(xid)

    @staticmethod
    def _key(xid: Xid) -> str:
        return xid.uuid or xid.bus_id

    def _is_new(self, xid: Xid, pid: int) -> bool:
        now = self._loop.time()
        if len(self._reported_at) > REMEMBERED_MAX:
            self._reported_at = {key: at for key, at in self._reported_at.items() if now - at < self._limits.twice_s}
        key = (self._key(xid), xid.xid, pid)
        is_new = now - self._reported_at.get(key, -self._limits.twice_s) >= self._limits.twice_s
        if is_new:
            self._reported_at[key] = now
        return is_new
