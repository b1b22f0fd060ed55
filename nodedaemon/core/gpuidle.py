"""Jobs that do nothing with their GPUs: seen in the same samples that their use is counted from.

A job is idle while every GPU that it holds is known to be below a limit, or, where there is no utilisation (MIG), has no
process. It is told of once when that has lasted, and once when it is over. Since when is kept with its steps' figures, so
that a restarted daemon neither tells it again nor forgets to take it back. What follows is the controller's.
"""

from collections.abc import Iterable

import msgspec

from nodedaemon.core.gpuusage import Activity, StepUse, itself
from nodedaemon.core.steps import StepKey


class IdleWord(msgspec.Struct, frozen=True, gc=False):
    """A job's GPUs do nothing since then, or no longer so (`over`)."""

    key: StepKey
    uuids: tuple[str, ...]
    since_us: int
    over: bool = False
    unused: bool = False


def look_idle(
    uses: list[StepUse], activities: list[Activity], at_us: int, percent: int, warn_us: int
) -> IdleWord | None:
    """What is to be told of one job, all of whose steps these are. Marks them; is told once until it is over.

    Idle: every GPU is known to be below `percent`, or, where there is no utilisation (MIG), has no process.
    """
    seen = {activity.uuid: activity for activity in activities}
    uuids = tuple(sorted({share.uuid for use in uses for share in use.shares}))
    if not uuids or any(uuid not in seen for uuid in uuids):
        return None  # not all were looked at: no answer
    first, told = uses[0].idle_since_us, uses[0].idle_told
    key = itself(uses).key
    if not warn_us or not all(_is_idle(seen[uuid], percent) for uuid in uuids):
        mark_idle(uses, 0, told=False)
        return IdleWord(key, uuids, first, over=True) if told else None
    since_us = first or at_us
    is_due = not told and at_us - since_us >= warn_us
    mark_idle(uses, since_us, told=told or is_due)
    if not is_due:
        return None
    return IdleWord(key, uuids, since_us, unused=all(seen[uuid].has_process is False for uuid in uuids))


def mark_idle(uses: Iterable[StepUse], since_us: int, *, told: bool) -> None:
    """Since when a job's GPUs do nothing, in the figures of all its steps."""
    for use in uses:
        use.idle_since_us, use.idle_told = since_us, told


def _is_idle(activity: Activity, percent: int) -> bool:
    if activity.util_percent is not None:
        return activity.util_percent < percent
    return activity.has_process is False
