"""Per-job table of steps: the data beside the steps' records, for each job that has started any.

It is created with the job's first step and deleted with the job's end, so that a job without steps has no overhead. It
counts what live steps hold of the job on each node as steps start and end; `invariants.py` recounts it.
"""

from collections.abc import Iterable

from ctld.core.records.events import CreateStep
from ctld.core.records.step import SpreadStep, Step, StepPart, Unfit, UsedResources
from penstock.values.states import END_STATES

#: Ended steps of a job that are kept for late queries, and read at a start; the database has them all.
ENDED_KEPT = 1_000


class PendingStep:
    """A step that waits for resources of its job. `reply_to` 0: its caller has disconnected, and may repeat the call."""

    __slots__ = ("event", "reply_to", "since_us", "stopped_at_us", "unfit")

    def __init__(self, event: CreateStep, now_us: int) -> None:
        self.event = event
        self.reply_to: int = event.reply_to
        self.since_us = now_us
        self.stopped_at_us = 0
        self.unfit: Unfit  # what was missing when it was last tried


class JobStepTable:
    """The steps of one job. `live` holds the batch step too."""

    __slots__ = ("ended", "used", "keys", "live", "next_id", "pending")

    def __init__(self, steps: Iterable[Step]) -> None:
        self.next_id = 0
        self.live: dict[int, Step] = {}
        self.ended: dict[int, None] = {}  # step ids, oldest first
        self.keys: dict[str, int] = {}
        self.used: dict[str, UsedResources] = {}
        self.pending: dict[str, PendingStep] = {}  # by step key, in the order of arrival
        for step in sorted(steps, key=lambda s: s.step_id):
            self.add(step)

    def recount(self) -> None:
        """Recounts what the live steps use, after their CPUs have changed."""
        self.used.clear()
        for step in self.live.values():
            if isinstance(step, SpreadStep):
                for part in step.all_parts:
                    if part.state not in END_STATES:
                        self.take(step, part)

    def add(self, step: Step) -> None:
        """Adds a step of the job."""
        self.next_id = max(self.next_id, step.step_id + 1)
        if step.state in END_STATES:
            self.ended[step.step_id] = None
        else:
            self.live[step.step_id] = step
        if isinstance(step, SpreadStep):
            if step.step_key:
                self.keys[step.step_key] = step.step_id
            for part in step.all_parts:
                if part.state not in END_STATES:
                    self.take(step, part)

    def take(self, step: SpreadStep, part: StepPart) -> None:
        """Counts resources that a part keeps from other steps."""
        found = used_by(step, part)
        if found is not None:
            self.used[part.node] = _plus(self.used.get(part.node, UsedResources()), found)

    def give_back(self, step: SpreadStep, part: StepPart) -> None:
        """Releases the resources of a part that has ended."""
        found = used_by(step, part)
        if found is not None:
            left = _minus(self.used[part.node], found)
            if left == UsedResources():
                del self.used[part.node]
            else:
                self.used[part.node] = left

    def end(self, step: Step, steps: dict[int, Step]) -> None:
        """Removes a step that has ended, and drops the oldest ended ones."""
        self.live.pop(step.step_id, None)
        self.ended[step.step_id] = None
        while len(self.ended) > ENDED_KEPT:
            oldest = next(iter(self.ended))
            del self.ended[oldest]
            gone = steps.pop(oldest)
            if isinstance(gone, SpreadStep):
                self.keys.pop(gone.step_key, None)


def used_by(step: SpreadStep, part: StepPart) -> UsedResources | None:
    """Returns the resources that a part keeps from other steps; None for a step that shares all."""
    request = step.request
    if request is None or request.shares_everything():
        return None
    return UsedResources(part.cpus, part.cpu_ids, part.mem_mb if request.asks_memory() else 0, tuple(sorted(part.gres)))


def _plus(a: UsedResources, b: UsedResources) -> UsedResources:
    gres = {(name, type_): mask for name, type_, mask in a.gres}
    for name, type_, mask in b.gres:
        gres[name, type_] = gres.get((name, type_), 0) | mask
    return UsedResources(a.cpus + b.cpus, a.cpu_ids | b.cpu_ids, a.mem_mb + b.mem_mb, _sorted(gres))


def _minus(a: UsedResources, b: UsedResources) -> UsedResources:
    gres = {(name, type_): mask for name, type_, mask in a.gres}
    for name, type_, mask in b.gres:
        gres[name, type_] &= ~mask
    return UsedResources(a.cpus - b.cpus, a.cpu_ids & ~b.cpu_ids, a.mem_mb - b.mem_mb, _sorted(gres))


def _sorted(gres: dict[tuple[str, str], int]) -> tuple[tuple[str, str, int], ...]:
    return tuple(sorted((name, type_, mask) for (name, type_), mask in gres.items() if mask))
