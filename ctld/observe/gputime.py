"""GPU time by use: the seconds for which GPUs were allocated, idle and closed, counted with every committed batch that
changes how many are allocated.

Each interval counts with the numbers at its beginning. A scrape counts up to its own moment, so the sum over the states
grows as fast as there are GPUs.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ctld.core.state.state import ClusterState
from ctld.runtime.tally import JobTally

STATES: Final = ("allocated", "idle", "closed")
_US: Final = 1_000_000


class _Numbers(NamedTuple):
    allocated: int
    idle: int
    closed: int


class GpuTime:
    """The sums since the start, in GPU microseconds."""

    def __init__(self, state: ClusterState, tally: JobTally, clock_us: Callable[[], int]) -> None:
        self._state = state
        self._tally = tally
        self._clock_us = clock_us
        self._since_us = clock_us()
        self._total = 0
        self._closed = 0
        self._sums = [0, 0, 0]
        self._numbers = _Numbers(0, 0, 0)
        self.look()

    def counted(self, batch: object) -> None:
        """Counts the time up to a batch, which is committed and visible now, if it allocates or releases GPUs: most do not."""
        if self._tally.gpus_allocated != self._numbers.allocated:
            self._advance()
            self._take()

    def look(self) -> None:
        """Counts the time up to now, and the GPUs of all nodes: their number and health change seldom."""
        self._advance()
        nodes = self._state.node_list
        self._total = sum(node.config.gpu_count() for node in nodes)
        self._closed = sum((node.gpu_closed & ~_places_in_use(node.gres_used)).bit_count() for node in nodes)
        self._take()

    def seconds(self) -> dict[str, float]:
        """Returns the sums by state."""
        return {state: total / _US for state, total in zip(STATES, self._sums, strict=True)}

    def _advance(self) -> None:
        now_us = self._clock_us()
        passed_us, self._since_us = now_us - self._since_us, now_us
        for place, count in enumerate(self._numbers):
            self._sums[place] += count * passed_us

    def _take(self) -> None:
        allocated = self._tally.gpus_allocated
        idle = max(0, self._total - allocated - self._closed)
        self._numbers = _Numbers(allocated, idle, self._closed)


def _places_in_use(gres_used: "dict[tuple[str, str], int]") -> int:
    """Returns the places of a node's GPUs that jobs hold."""
    places = 0
    for (name, _), mask in gres_used.items():
        if name == "gpu":
            places |= mask
    return places
