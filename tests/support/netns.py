"""Machines in a test's own network: a network namespace each, connected to the controller's by a veth pair.

    with Machines(2) as machines:
        machines[0].prefix      # a command line begun with this runs there
        machines[0].cut()       # disconnects it; reconnect() connects it again
        machines[0].mute()      # drops the packets that it sends

Needs root. Namespaces and cables have names of their own (the test's pid) and are removed at the end, whatever happened.
"""

import contextlib
import os
import subprocess
from types import TracebackType
from typing import Self


def ip(*words: str) -> None:
    """Run ip(8)."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Machine:
    """One namespace. `here` is the controller's address as seen from there."""

    def __init__(self, number: int) -> None:
        tag = f"{os.getpid() % 100_000}x{number}"
        self.name = f"pstk-{tag}"
        self._near, self._far = f"pn{tag}", f"pf{tag}"
        block = (os.getpid() * 8 + number) % (254 * 64)
        net = f"10.213.{block // 64 + 1}"
        low = block % 64 * 4
        self.here, self._there = f"{net}.{low + 1}", f"{net}.{low + 2}"
        self._controller = self.here
        self.prefix = ["nsenter", f"--net=/run/netns/{self.name}", "--"]

    def make(self) -> None:
        """The namespace, its loopback, and the cable."""
        ip("netns", "add", self.name)
        ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
        ip("addr", "add", f"{self.here}/30", "dev", self._near)
        ip("link", "set", self._near, "up")
        for words in (("addr", "add", f"{self._there}/30", "dev", self._far), ("link", "set", self._far, "up")):
            ip("-n", self.name, *words)
        ip("-n", self.name, "link", "set", "lo", "up")

    def reach(self, controller: str) -> None:
        """Find the controller at that address, through this machine's own cable."""
        self._controller = controller
        if controller != self.here:
            ip("-n", self.name, "route", "replace", f"{controller}/32", "via", self.here)

    def cut(self) -> None:
        """Disconnects the machine."""
        ip("link", "set", self._near, "down")

    def reconnect(self) -> None:
        """Connects the machine again."""
        ip("link", "set", self._near, "up")

    def mute(self) -> None:
        """Drops its packets to the controller."""
        ip("-n", self.name, "route", "replace", "blackhole", f"{self._controller}/32")

    def unmute(self) -> None:
        """Stops dropping its packets."""
        ip("-n", self.name, "route", "del", "blackhole", f"{self._controller}/32")
        self.reach(self._controller)

    def remove(self) -> None:
        """The cable goes with the namespace."""
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._near], capture_output=True, check=False)


class Machines:
    """Several of them."""

    def __init__(self, count: int) -> None:
        self._all = [Machine(number) for number in range(count)]

    def __getitem__(self, index: int) -> Machine:
        return self._all[index]

    def __enter__(self) -> Self:
        try:
            for machine in self._all:
                machine.make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for machine in self._all:
            with contextlib.suppress(OSError):
                machine.remove()
