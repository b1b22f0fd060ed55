"""Record of the gap between the database and what nodes have seen (lifecycle/restored.py)."""

from typing import NamedTuple


class OpenGap(NamedTuple):
    """What the database keeps while nodes are waited for, by its names there. Zeros: they are not."""

    gap_epoch: int = 0
    gap_first_unknown_id: int = 0


CLOSED = OpenGap()


class Gap:
    """The gap in one term of a controller."""

    __slots__ = (
        "awaited_ends", "claims", "first_unknown_id", "is_inherited", "loaded_id", "loss_at_us", "registered",
        "sealed_epoch", "sealed_wait", "started_at_us", "started_epoch", "unjudged", "unknown_steps", "wait_until_us",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started_epoch = 0  # the epoch of this term when it began, which no node can have seen before
        self.started_at_us = 0  # when the database was loaded
        self.loaded_id = 1  # ids from here on had not been assigned when the database was loaded
        self.first_unknown_id = 1  # the same; of an earlier process, if it ended before all nodes had reported
        self.is_inherited = False  # an earlier process ended while it waited for nodes
        self.loss_at_us = 0  # when a loss was last accepted, or could not be excluded; 0 = never. In the database
        self.wait_until_us = 0  # nothing starts earlier, unless all nodes have registered; 0 = no such wait
        self.registered: dict[str, None] = {}  # nodes that have registered with this controller
        self.claims: dict[str, None] = {}  # those that had seen more than the database then
        self.unjudged: dict[str, None] = {}  # those whose runs of pending jobs are to be judged
        self.awaited_ends: dict[tuple[int, int], str] = {}  # (job id, attempt) -> the node whose report follows
        self.unknown_steps: dict[str, dict[tuple[int, int, int], None]] = {}  # by node: steps whose ids were lost
        self.sealed_epoch = 0  # the values in the last batch
        self.sealed_wait = False

    def kept(self) -> "OpenGap":
        """Returns what the next process must know if this one ends now."""
        return OpenGap(self.started_epoch, self.first_unknown_id) if self.wait_until_us else CLOSED
