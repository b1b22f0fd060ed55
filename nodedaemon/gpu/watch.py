"""The children that ask NVML, as the rest of the daemon sees them.

watch = Watch(heard)          # heard(Polled | Xid | Hung | Answering), called from the daemon's loop
watch.start(poll_s=10)
polled = await watch.poll()   # now; None when no answer comes in time
await watch.stop()
"""

from collections.abc import Callable, Mapping

from nodedaemon.core import gpuwords


class Watch:
    """Made before the loop runs; starts nothing by itself."""

    def __init__(self, heard: Callable[[gpuwords.Told], None]) -> None:
        self.found = gpuwords.Found()  # the newest inventory
        self.last: gpuwords.Polled | None = None  # the newest poll

    def start(self, poll_s: float, found: gpuwords.Found | None = None) -> None:
        """From now on. `found`: what was found at the daemon's start, if it was asked."""

    def settle(self, *, poll_s: float, accounting: bool = False, per_process: tuple[str, ...] = ()) -> None:
        """New settings. accounting: NVML's own is switched on; per_process: GPUs of which each process's utilisation
        is asked."""

    async def poll(self, limit_s: float = 5.0) -> gpuwords.Polled | None:
        """Poll now; `heard` gets the same. None when NVML is not there or does not answer within the limit."""
        return self.last

    async def lifetimes(
        self, pids: Mapping[str, tuple[int, ...]], limit_s: float = 5.0
    ) -> tuple[gpuwords.Lifetime, ...]:
        """What NVML's accounting has kept of these processes, by GPU; those that it knows."""
        return ()

    async def stop(self) -> None:
        """End the children."""
