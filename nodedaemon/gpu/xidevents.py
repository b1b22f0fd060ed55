"""Waits for NVML's events, in a child of its own: XIDs as they happen, and hints that a poll will show something.

    - An event names its GPU by a handle. The handle's address, kept from the start, says whose it is: a lost GPU does
      not tell its UUID any more.
    - Only what a GPU supports is waited for; NVML refuses a mask with more.
    - Waiting is not announced as other calls are: a word now and then says that this child lives.

Events are lost while nobody waits, and a dead driver has none: kmsg.py reads the kernel's log beside it.
"""

import ctypes
import time
from typing import Any, NoReturn

from nodedaemon.core.gpuwords import Asking, Xid
from nodedaemon.gpu.frames import ChildEnd, Setup, Stirred
from nodedaemon.gpu.nvml import NOT_SUPPORTED, TIMEOUT, GpuError, Nvml, TooSlow

XID = 0x8
#: DRAM retirement and its failure, fatal poison, GPU unavailable, recovery action: a poll shows what they are about.
_STIRRED = 0x400 | 0x800 | 0x2000 | 0x4000 | 0x8000
WAIT_MS = 1000
#: Before waiting again when waiting itself fails, as it may while a GPU is being lost.
PAUSE_S = 1.0


class _Waiter:
    def __init__(self, end: ChildEnd, setup: Setup) -> None:
        self._say = end.say
        self._setup = setup
        self.nvml = Nvml(end.say, setup.slow_s)
        self._owners: dict[int, str] = {}
        self._known = {device.place: device.uuid for device in setup.known if not device.parent}

    def open(self) -> Any:
        """An event set with all GPUs in it. Raises DriverError."""
        events = self.nvml.system("nvmlEventSetCreate")
        for number in range(self.nvml.system("nvmlDeviceGetCount")):
            if number not in self._setup.skip:
                try:
                    self._register(number, events)
                except (GpuError, TooSlow):
                    continue  # the polls say what is wrong with it
        return events

    def _register(self, number: int, events: Any) -> None:
        name = self._known.get(number, f"#{number}")
        handle = self.nvml.raw(name, "nvmlDeviceGetHandleByIndex", number)
        self._owners[ctypes.addressof(handle.contents)] = uuid = self.nvml.raw(name, "nvmlDeviceGetUUID", handle)
        mask = self.nvml.raw(uuid, "nvmlDeviceGetSupportedEventTypes", handle) & (XID | _STIRRED)
        if not mask:
            raise GpuError(NOT_SUPPORTED)
        self.nvml.raw(uuid, "nvmlDeviceRegisterEvents", handle, mask, events)

    def tell(self, event: Any) -> None:
        """Say what has come."""
        uuid = self._owners.get(ctypes.addressof(event.device.contents), "") if event.device else ""
        if event.eventType == XID:
            self._say(Xid(time.time_ns() // 1000, int(event.eventData), uuid))
        else:
            self._say(Stirred(uuid, int(event.eventType)))


def wait_for_ever(end: ChildEnd, setup: Setup) -> NoReturn:
    """Until the parent is gone. Raises DriverError."""
    waiter = _Waiter(end, setup)
    waiter.nvml.open()
    events = waiter.open()
    end.say(Asking(""))
    beat_at = time.monotonic() + setup.beat_s
    while True:
        end.commands(0)
        if time.monotonic() >= beat_at:
            end.say(Asking(""))
            beat_at = time.monotonic() + setup.beat_s
        try:
            waiter.tell(waiter.nvml.quietly("nvmlEventSetWait", events, WAIT_MS))
        except GpuError as error:
            if error.code != TIMEOUT:
                end.commands(PAUSE_S)
