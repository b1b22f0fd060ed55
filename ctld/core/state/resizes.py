"""Resizes of running jobs in progress (lifecycle/resize.py)."""

from ctld.core.records.effects import JobResult


class ResizeCall:
    """A request that is answered when all jobs of it have been resized. `reply_to` 0: its results are not known yet."""

    __slots__ = ("jobs", "reply_to", "results")

    def __init__(self) -> None:
        self.jobs: dict[int, None] = {}
        self.reply_to = 0
        self.results: list[JobResult] = []


class Resize:
    """The nodes that a job keeps, and the nodes whose extern step has been terminated."""

    __slots__ = ("call", "kept", "terminated")

    def __init__(self, kept: tuple[str, ...], call: ResizeCall) -> None:
        self.kept = kept
        self.call = call
        self.terminated: dict[str, None] = {}
