"""One XID is told once, although NVML and the kernel's log both tell of it.

The log knows the process, so its telling is preferred: where the log is read, one of NVML waits for a moment whether
the log has it too. The same XID of the same GPU (and, of the log, of the same process) again within a second is the same.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

import msgspec

from nodedaemon.core.gpuwords import Found, Xid, normal_bus_id
from nodedaemon.gpu.child import Limits

#: What is remembered of the last second; more XIDs a second than that are not told apart.
REMEMBERED_MAX = 1000


class XidMerge:
    """Hears both, tells each once."""

    def __init__(self, loop: AbstractEventLoop, limits: Limits, tell: Callable[[Xid], None]) -> None:
        self._loop = loop
        self._limits = limits
        self._tell = tell
        self._by_bus: dict[str, str] = {}
        self._buses: dict[str, str] = {}
        self._told: dict[tuple[str, int, int], float] = {}  # GPU, XID, process (-1: any) -> when
        self._held: dict[tuple[str, int], TimerHandle] = {}

    def know(self, found: Found) -> None:
        """Whose bus ids are whose."""
        for device in found.devices:
            if not device.parent:
                self._by_bus[normal_bus_id(device.bus_id)] = device.uuid
                self._buses[device.uuid] = normal_bus_id(device.bus_id)

    def from_log(self, xid: Xid) -> None:
        """The kernel has written of it."""
        bus_id = normal_bus_id(xid.bus_id)
        xid = msgspec.structs.replace(xid, bus_id=bus_id, uuid=self._by_bus.get(bus_id, ""))
        held = self._held.pop((self._key(xid), xid.xid), None)
        if held is not None:
            held.cancel()
        if self._is_new(xid, xid.pid):
            self._told[(self._key(xid), xid.xid, -1)] = self._loop.time()
            self._tell(xid)

    def from_nvml(self, xid: Xid, log_is_read: bool) -> None:
        """NVML has told of it."""
        xid = msgspec.structs.replace(xid, bus_id=self._buses.get(xid.uuid, ""))
        key = (self._key(xid), xid.xid)
        if key in self._held or not self._is_new(xid, -1):
            return
        if log_is_read:
            self._held[key] = self._loop.call_later(self._limits.merge_s, self._release, key, xid)
        else:
            self._tell(xid)

    def _release(self, key: tuple[str, int], xid: Xid) -> None:
        self._held.pop(key, None)
        self._tell(xid)

    @staticmethod
    def _key(xid: Xid) -> str:
        return xid.uuid or xid.bus_id

    def _is_new(self, xid: Xid, pid: int) -> bool:
        now = self._loop.time()
        if len(self._told) > REMEMBERED_MAX:
            self._told = {key: at for key, at in self._told.items() if now - at < self._limits.twice_s}
        key = (self._key(xid), xid.xid, pid)
        is_new = now - self._told.get(key, -self._limits.twice_s) >= self._limits.twice_s
        if is_new:
            self._told[key] = now
        return is_new
