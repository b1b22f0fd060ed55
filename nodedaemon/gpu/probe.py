"""The children that use NVML: `probe.py poll` polls all GPUs, `xids` waits for their errors, `once` makes one
inventory.

Run as a program of its own by its path, so that only the necessary modules are imported. Standard input and output
follow frames.py; errors are lines on the daemon's error output. A child that finds that NVML does not work reports it
and ends; the daemon decides when to try again. It ends at once with its parent, even within a call.
"""

import math
import os
import sys
import time

if not __package__:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from nodedaemon.core.gpumessages import Found, Lifetime, Lifetimes, Polled, Sample
from nodedaemon.gpu.entry import DeviceEntry
from nodedaemon.gpu.finding import Finder
from nodedaemon.gpu.frames import Answered, AskLifetimes, ChildEnd, PollNow, ProbeCommand, Settle, Setup
from nodedaemon.gpu.nvml import AnnouncementLine, DriverError, GpuError, Nvml, TooSlow
from nodedaemon.gpu.signals import sample

#: Exit status: NVML does not work, as reported in the last Polled.
EXIT_NO_NVML = 3
_KB = 1024
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


class Prober:
    """Polls, and executes commands between polls."""

    def __init__(self, end: ChildEnd, setup: Setup) -> None:
        self._send = end.send
        self._setup = setup
        self._settings = Settle(setup.poll_s, setup.accounting, setup.per_process)
        self.nvml = Nvml(end.send, setup.slow_s)
        self._finder = Finder(self.nvml, setup.known, setup.skip, setup.only, setup.mig_minors, setup.sysfs)
        self._found: Found | None = None
        self._util_since: dict[str, int] = {}

    def inventory(self) -> Found:
        """Returns the inventory. Raises DriverError."""
        found = self._finder.find()
        self._switch_accounting()
        return found

    def poll(self) -> None:
        """Polls all GPUs, once. Raises DriverError."""
        at_us = time.time_ns() // 1000
        found = self._found
        if found is None or self._has_changed():
            found = self.inventory()
        samples: list[Sample] = []
        for entry in self._finder.entries:
            if entry.device is not None and not entry.is_skipped:
                samples += self._sample(entry, at_us)
        is_new = found != self._found and self._setup.only < 0
        self._found = found
        self._send(Polled(at_us, tuple(samples), found if is_new else None))

    def _has_changed(self) -> bool:
        """Whether there may be other GPUs or instances than before; also records which ones answer."""
        entries = self._finder.entries
        if self.nvml.system("nvmlDeviceGetCount") != len(entries):
            return True
        return any([self._inspect(entry) for entry in entries if not entry.is_skipped])

    def _inspect(self, entry: DeviceEntry) -> bool:
        """Whether another GPU or other instances are there now. Updates the entry's error."""
        had = entry.error
        try:
            entry.handle = self.nvml.raw(entry.name, "nvmlDeviceGetHandleByIndex", entry.number)
            entry.error = 0
            uuid = AnnouncementLine(self.nvml, entry.name, entry.handle, entry.never).must("nvmlDeviceGetUUID")
            if had or entry.device is None or uuid != entry.device.uuid:
                return True
            return self._finder.divided(entry) != (entry.device.mig_enabled, [gpu.uuid for _, gpu, _ in entry.migs])
        except GpuError as error:
            entry.error = error.code
        except TooSlow as slow:
            entry.slow = str(slow)
        return False

    def _sample(self, entry: DeviceEntry, at_us: int) -> list[Sample]:
        uuid = entry.gpu.uuid
        if entry.error:
            return [Sample(uuid, at_us, error=entry.error)]
        if entry.slow:
            slow = entry.slow
            entry.slow = ""
            return [Sample(uuid, at_us, slow=slow)]
        since_us = None
        if uuid in self._settings.per_process:
            since_us = self._util_since.get(uuid, 0)
            self._util_since[uuid] = at_us
        return sample(self.nvml, entry, at_us, since_us)

    # -- commands

    def execute(self, command: ProbeCommand) -> None:
        """Executes all commands but PollNow, several of which share one poll."""
        if isinstance(command, Settle):
            self._settings = command
            self._switch_accounting()
        elif isinstance(command, AskLifetimes):
            self._send(Lifetimes(tuple(self._lifetimes(command.pids))))
            self._send(Answered(command.request))

    def _switch_accounting(self) -> None:
        """Switches accounting on where configured; never off, since an administrator may have enabled it."""
        if not self._settings.accounting:
            return
        for entry in self._finder.entries:
            if entry.answers and not entry.gpu.mig_enabled:
                try:
                    line = AnnouncementLine(self.nvml, entry.name, entry.handle, entry.never)
                    if line.must("nvmlDeviceGetAccountingMode") == 0:
                        line.must("nvmlDeviceSetAccountingMode", 1)
                except (GpuError, TooSlow) as error:
                    complain(f"{entry.name}: accounting mode stays off: NVML error {error}")

    def _lifetimes(self, pids: dict[str, tuple[int, ...]]) -> list[Lifetime]:
        found = []
        for entry in self._finder.entries:
            if entry.device is None or not entry.answers:
                continue
            line = AnnouncementLine(self.nvml, entry.name, entry.handle, entry.never)
            for pid in pids.get(entry.gpu.uuid, ()):
                try:
                    said = line.must("nvmlDeviceGetAccountingStats", pid)
                except GpuError:
                    continue
                except TooSlow:
                    break
                memory_kb = None if said.maxMemoryUsage is None else said.maxMemoryUsage // _KB
                found.append(
                    Lifetime(
                        entry.gpu.uuid, pid, said.gpuUtilization, said.memoryUtilization, memory_kb, said.time,
                        said.startTime, bool(said.isRunning),
                    )
                )  # fmt: skip
        return found

    def serve(self, end: ChildEnd, commands: list[ProbeCommand]) -> None:
        """Polls and executes commands until the input ends."""
        polled_at = -math.inf
        while True:
            for command in commands:
                self.execute(command)
            wanted = [command.request for command in commands if isinstance(command, PollNow)]
            left_s = polled_at + self._settings.poll_s - time.monotonic()
            if wanted or left_s <= 0:
                polled_at = time.monotonic()
                self.poll()
                for request in wanted:
                    self._send(Answered(request))
                left_s = polled_at + self._settings.poll_s - time.monotonic()
            commands = end.commands(max(left_s, 0))


def complain(text: str) -> None:
    """Writes a line for the daemon's log."""
    sys.stderr.write(f"gpu probe: {text}\n")
    sys.stderr.flush()


def end_with_parent() -> None:
    """Makes the kernel kill this process with its parent, also inside a call; before pynvml, which loads ctypes anyway."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def main(mode: str) -> int:
    """Runs the child; returns the exit status."""
    end_with_parent()
    end = ChildEnd()
    setup, commands = end.setup()
    try:
        if mode == "xids":
            from nodedaemon.gpu.xidevents import wait_for_ever

            wait_for_ever(end, setup)
        prober = Prober(end, setup)
        prober.nvml.open()
        if mode == "once":
            end.send(Polled(time.time_ns() // 1000, (), prober.inventory()))
        else:
            prober.serve(end, commands)
    except DriverError as error:
        end.send(Polled(time.time_ns() // 1000, (), Found(why=str(error), code=error.code)))
        return EXIT_NO_NVML
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
