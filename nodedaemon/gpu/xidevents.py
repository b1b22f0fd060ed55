"""Waits for NVML's events, in a child of its own: XIDs as they happen, and hints that a poll will show something.

    - An event identifies its GPU by a handle. The handle's address, stored at the start, is mapped to the UUID, which a
      lost GPU no longer reports.
    - The event mask contains only what a GPU supports; NVML refuses others.
    - Waiting is not announced as other calls are: a message is sent from time to time as a sign of life.

Events are lost while no child waits, and a dead driver sends none: so kmsg.py reads the kernel's log as well.
"""

import ctypes
import time

# Any: an event of the library: pynvml has no types
from typing import Any, NoReturn

from nodedaemon.core.gpumessages import Asking, Xid
from nodedaemon.gpu.frames import ChildEnd, DriverEvent, Setup
from nodedaemon.gpu.nvml import NOT_SUPPORTED, TIMEOUT, GpuError, Nvml, TooSlow

XID = 0x8
#: DRAM retirement and its failure, fatal poison, GPU unavailable, recovery action: a poll shows the details.
_STIRRED = 0x400 | 0x800 | 0x2000 | 0x4000 | 0x8000
WAIT_MS = 1000
#: Pause before waiting again when waiting itself fails, as it may while a GPU is being lost.
PAUSE_S = 1.0


class _Waiter:
    def __init__(self, end: ChildEnd, setup: Setup) -> None:
        self._send = end.send
        self._setup = setup
        self.nvml = Nvml(end.send, setup.slow_s)
        self._owners: dict[int, str] = {}
        self._known = {device.nvml_index: device.uuid for device in setup.known if not device.parent}

    def open(self) -> object:
        """An event set with all GPUs in it. Raises DriverError."""
        events = self.nvml.system("nvmlEventSetCreate")
        for number in range(self.nvml.system("nvmlDeviceGetCount")):
            if number not in self._setup.skip:
                try:
                    self._register(number, events)
                except (GpuError, TooSlow):
                    continue  # the polls report the error
        return events

    def _register(self, number: int, events: object) -> None:
        name = self._known.get(number, f"#{number}")
        handle = self.nvml.raw(name, "nvmlDeviceGetHandleByIndex", number)
        self._owners[ctypes.addressof(handle.contents)] = uuid = self.nvml.raw(name, "nvmlDeviceGetUUID", handle)
        mask = self.nvml.raw(uuid, "nvmlDeviceGetSupportedEventTypes", handle) & (XID | _STIRRED)
        if not mask:
            raise GpuError(NOT_SUPPORTED)
        self.nvml.raw(uuid, "nvmlDeviceRegisterEvents", handle, mask, events)

    def report(self, event: Any) -> None:
        """Reports an event."""
        uuid = self._owners.get(ctypes.addressof(event.device.contents), "") if event.device else ""
        if event.eventType == XID:
            self._send(Xid(time.time_ns() // 1000, int(event.eventData), uuid))
        else:
            self._send(DriverEvent(uuid, int(event.eventType)))


def wait_for_ever(end: ChildEnd, setup: Setup) -> NoReturn:
    """Waits until the parent is gone. Raises DriverError."""
    waiter = _Waiter(end, setup)
    waiter.nvml.open()
    events = waiter.open()
    end.send(Asking(""))
    beat_at = time.monotonic() + setup.beat_s
    while True:
        end.commands(0)
        if time.monotonic() >= beat_at:
            end.send(Asking(""))
            beat_at = time.monotonic() + setup.beat_s
        try:
            waiter.report(waiter.nvml.quietly("nvmlEventSetWait", events, WAIT_MS))
        except GpuError as error:
            if error.code != TIMEOUT:
                end.commands(PAUSE_S)
