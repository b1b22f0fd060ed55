"""Record of time slices (passes/gang.py)."""


class Turns:
    """State of time slices (passes/gang.py)."""

    __slots__ = ("due_us", "last", "slot")

    def __init__(self) -> None:
        self.slot = 1  # number of the present slice
        self.due_us = 0  # its end; 0 = no job waits for a slice
        self.last: dict[int, int] = {}  # job id -> the last slice in which it ran
