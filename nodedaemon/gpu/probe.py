"""The children that ask NVML: `probe.py poll` polls all GPUs, `xids` waits for their errors, `once` makes one inventory.

Run as a program of its own by its path, so that nothing but what is needed is imported. Standard input and output are
frames.py's; what goes wrong is a line on the daemon's error output. A child that finds that NVML does not work says so
and ends; the daemon decides when to try again. With its parent it ends at once, also out of a call.
"""

import math
import os
import sys
import time

if not __package__:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from nodedaemon.core.gpuwords import Found, Lifetime, Lifetimes, Polled, Sample
from nodedaemon.gpu.finding import Finder, Place
from nodedaemon.gpu.frames import Answered, AskLifetimes, ChildEnd, Command, PollNow, Settle, Setup
from nodedaemon.gpu.nvml import DriverError, GpuError, Line, Nvml, TooSlow
from nodedaemon.gpu.signals import sample

#: NVML does not work: told in the last Polled.
EXIT_NO_NVML = 3
_KB = 1024
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


class Prober:
    """Polls, and answers questions between polls."""

    def __init__(self, end: ChildEnd, setup: Setup) -> None:
        self._say = end.say
        self._setup = setup
        self._settings = Settle(setup.poll_s, setup.accounting, setup.per_process)
        self.nvml = Nvml(end.say, setup.slow_s)
        self._finder = Finder(self.nvml, setup.known, setup.skip, setup.only, setup.mig_minors, setup.sysfs)
        self._found: Found | None = None
        self._util_since: dict[str, int] = {}

    def inventory(self) -> Found:
        """What there is. Raises DriverError."""
        found = self._finder.find()
        self._switch_accounting()
        return found

    def poll(self) -> None:
        """All GPUs, once. Raises DriverError."""
        at_us = time.time_ns() // 1000
        found = self._found
        if found is None or self._has_changed():
            found = self.inventory()
        samples: list[Sample] = []
        for place in self._finder.places:
            if place.device is not None and not place.is_skipped:
                samples += self._sample(place, at_us)
        is_new = found != self._found and self._setup.only < 0
        self._found = found
        self._say(Polled(at_us, tuple(samples), found if is_new else None))

    def _has_changed(self) -> bool:
        """Whether there may be other GPUs or instances than there were; also notes who answers."""
        places = self._finder.places
        if self.nvml.system("nvmlDeviceGetCount") != len(places):
            return True
        return any([self._look(place) for place in places if not place.is_skipped])

    def _look(self, place: Place) -> bool:
        """Whether somebody else is there now, or other instances. The error of the place is of now afterwards."""
        had = place.error
        try:
            place.handle = self.nvml.raw(place.name, "nvmlDeviceGetHandleByIndex", place.number)
            place.error = 0
            uuid = Line(self.nvml, place.name, place.handle, place.never).must("nvmlDeviceGetUUID")
            if had or place.device is None or uuid != place.device.uuid:
                return True
            return self._finder.divided(place) != (place.device.mig_enabled, [gpu.uuid for _, gpu, _ in place.migs])
        except GpuError as error:
            place.error = error.code
        except TooSlow as slow:
            place.slow = str(slow)
        return False

    def _sample(self, place: Place, at_us: int) -> list[Sample]:
        uuid = place.gpu.uuid
        if place.error:
            return [Sample(uuid, at_us, error=place.error)]
        if place.slow:
            slow, place.slow = place.slow, ""
            return [Sample(uuid, at_us, slow=slow)]
        since_us = None
        if uuid in self._settings.per_process:
            since_us = self._util_since.get(uuid, 0)
            self._util_since[uuid] = at_us
        return sample(self.nvml, place, at_us, since_us)

    # -- commands

    def obey(self, command: Command) -> None:
        """All but PollNow, whose poll is one for all."""
        if isinstance(command, Settle):
            self._settings = command
            self._switch_accounting()
        elif isinstance(command, AskLifetimes):
            self._say(Lifetimes(tuple(self._lifetimes(command.pids))))
            self._say(Answered(command.request))

    def _switch_accounting(self) -> None:
        """On where it is wanted and off; never off, since it may be the administrator's own."""
        if not self._settings.accounting:
            return
        for place in self._finder.places:
            if place.answers and not place.gpu.mig_enabled:
                try:
                    line = Line(self.nvml, place.name, place.handle, place.never)
                    if line.must("nvmlDeviceGetAccountingMode") == 0:
                        line.must("nvmlDeviceSetAccountingMode", 1)
                except (GpuError, TooSlow) as error:
                    complain(f"{place.name}: accounting mode stays off: NVML error {error}")

    def _lifetimes(self, pids: dict[str, tuple[int, ...]]) -> list[Lifetime]:
        found = []
        for place in self._finder.places:
            if place.device is None or not place.answers:
                continue
            line = Line(self.nvml, place.name, place.handle, place.never)
            for pid in pids.get(place.gpu.uuid, ()):
                try:
                    said = line.must("nvmlDeviceGetAccountingStats", pid)
                except GpuError:
                    continue
                except TooSlow:
                    break
                memory_kb = None if said.maxMemoryUsage is None else said.maxMemoryUsage // _KB
                found.append(
                    Lifetime(
                        place.gpu.uuid, pid, said.gpuUtilization, said.memoryUtilization, memory_kb, said.time,
                        said.startTime, bool(said.isRunning),
                    )
                )  # fmt: skip
        return found

    def serve(self, end: ChildEnd, commands: list[Command]) -> None:
        """For ever."""
        polled_at = -math.inf
        while True:
            for command in commands:
                self.obey(command)
            wanted = [command.request for command in commands if isinstance(command, PollNow)]
            left_s = polled_at + self._settings.poll_s - time.monotonic()
            if wanted or left_s <= 0:
                polled_at = time.monotonic()
                self.poll()
                for request in wanted:
                    self._say(Answered(request))
                left_s = polled_at + self._settings.poll_s - time.monotonic()
            commands = end.commands(max(left_s, 0))


def complain(text: str) -> None:
    """A line for the daemon's log."""
    sys.stderr.write(f"gpu probe: {text}\n")
    sys.stderr.flush()


def end_with_parent() -> None:
    """Be killed with the parent, also inside a call; before pynvml, which loads ctypes anyway."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def main(mode: str) -> int:
    """The child's whole life; the exit status."""
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
            end.say(Polled(time.time_ns() // 1000, (), prober.inventory()))
        else:
            prober.serve(end, commands)
    except DriverError as error:
        end.say(Polled(time.time_ns() // 1000, (), Found(why=str(error), code=error.code)))
        return EXIT_NO_NVML
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
