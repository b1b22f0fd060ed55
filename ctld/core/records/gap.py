"""Record of the gap between the database and what nodes have seen (lifecycle/restored.py)."""


class Gap:
    """The gap in one term of a controller."""

    __slots__ = (
        "claims", "first_unknown_id", "loss_at_us", "registered", "sealed_epoch", "started_at_us", "started_epoch",
        "unknown_steps", "wait_until_us",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started_epoch = 0  # the epoch of this term when it began, which no node can have seen before
        self.started_at_us = 0  # when the database was loaded
        self.first_unknown_id = 1  # ids from here on had not been assigned when the database was loaded
        self.loss_at_us = (
            0  # when a loss was last accepted, or could not be excluded; 0 = never. Only this is in the database
        )
        self.wait_until_us = 0  # nothing starts earlier, unless all nodes have registered; 0 = no such wait
        self.registered: dict[str, None] = {}  # nodes that have registered with this controller
        self.claims: dict[
            str, bool
        ] = {}  # those that had seen more than the database then; True = its runs are not judged
        self.unknown_steps: dict[str, dict[tuple[int, int, int], None]] = {}  # by node: steps whose ids were lost
        self.sealed_epoch = 0  # the values in the last batch
