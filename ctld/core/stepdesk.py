"""What a job that has started steps needs to know of them, beside their records: a desk for each such job.

It is made with the job's first step and gone with its end, so that a job whose script starts none costs nothing. It says
what live steps hold of the job on each node, which is counted as steps come and go; `invariants.py` counts it anew.
"""

from collections.abc import Iterable
from typing import Any

from ctld.core.step_model import SpreadStep, Step, StepPart
from ctld.core.step_plan import Held, Unfit
from penstock.values.states import END_STATES

#: Ended steps of a job that are remembered for those who ask late, and read at a start; the database has them all.
ENDED_KEPT = 1_000


class Wish:
    """A step that waits for resources of its job. `reply_to` 0: its caller is gone, and may ask again."""

    __slots__ = ("event", "reply_to", "since_us", "stopped_at_us", "unfit")

    def __init__(self, event: Any, now_us: int) -> None:
        self.event = event  # events.CreateStep
        self.reply_to: int = event.reply_to
        self.since_us = now_us
        self.stopped_at_us = 0
        self.unfit: Unfit  # what it lacked when it was last tried


class StepDesk:
    """One job's. `live` holds the batch step too."""

    __slots__ = ("ended", "held", "keys", "live", "next_id", "wishes")

    def __init__(self, steps: Iterable[Step]) -> None:
        self.next_id = 0
        self.live: dict[int, Step] = {}
        self.ended: dict[int, None] = {}  # step ids, oldest first
        self.keys: dict[str, int] = {}
        self.held: dict[str, Held] = {}
        self.wishes: dict[str, Wish] = {}  # by step key, in the order in which they came
        for step in sorted(steps, key=lambda s: s.step_id):
            self.add(step)

    def add(self, step: Step) -> None:
        """A step of the job that is there."""
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
        """It keeps something from other steps."""
        found = holding(step, part)
        if found is not None:
            self.held[part.node] = _plus(self.held.get(part.node, Held()), found)

    def give_back(self, step: SpreadStep, part: StepPart) -> None:
        """Its part there has ended."""
        found = holding(step, part)
        if found is not None:
            left = _minus(self.held[part.node], found)
            if left == Held():
                del self.held[part.node]
            else:
                self.held[part.node] = left

    def end(self, step: Step, steps: dict[int, Step]) -> None:
        """The step has ended. Of those that ended long ago the job forgets the oldest."""
        self.live.pop(step.step_id, None)
        self.ended[step.step_id] = None
        while len(self.ended) > ENDED_KEPT:
            oldest = next(iter(self.ended))
            del self.ended[oldest]
            gone = steps.pop(oldest)
            if isinstance(gone, SpreadStep):
                self.keys.pop(gone.step_key, None)


def holding(step: SpreadStep, part: StepPart) -> Held | None:
    """What a part keeps from others; None for a step that shares all."""
    request = step.request
    if request is None or request.holds_nothing():
        return None
    return Held(part.cpus, part.cpu_ids, part.mem_mb if request.asks_memory() else 0, tuple(sorted(part.gres)))


def _plus(a: Held, b: Held) -> Held:
    gres = {(name, type_): mask for name, type_, mask in a.gres}
    for name, type_, mask in b.gres:
        gres[name, type_] = gres.get((name, type_), 0) | mask
    return Held(a.cpus + b.cpus, a.cpu_ids | b.cpu_ids, a.mem_mb + b.mem_mb, _sorted(gres))


def _minus(a: Held, b: Held) -> Held:
    gres = {(name, type_): mask for name, type_, mask in a.gres}
    for name, type_, mask in b.gres:
        gres[name, type_] &= ~mask
    return Held(a.cpus - b.cpus, a.cpu_ids & ~b.cpu_ids, a.mem_mb - b.mem_mb, _sorted(gres))


def _sorted(gres: dict[tuple[str, str], int]) -> tuple[tuple[str, str, int], ...]:
    return tuple(sorted((name, type_, mask) for (name, type_), mask in gres.items() if mask))
