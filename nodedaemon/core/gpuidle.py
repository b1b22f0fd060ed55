"""Detects jobs that do not use their GPUs, from the samples of their usage.

A job is idle while every GPU that it holds is known to be below a limit, or, where there is no utilisation (MIG), has no
process. It is reported once when that has lasted for a time, and once when it is over. The start is stored with its
steps' figures, so that a restarted daemon neither repeats the report nor forgets to revoke it. The controller decides
what follows.
"""

from collections.abc import Iterable

import msgspec

from nodedaemon.core.gpuusage import Activity, StepUse, itself
from nodedaemon.core.steps import StepKey


class IdleChange(msgspec.Struct, frozen=True, gc=False):
    """A job's GPUs have been idle since then, or are no longer (`over`)."""

    key: StepKey
    uuids: tuple[str, ...]
    since_us: int
    over: bool = False
    unused: bool = False


def detect_idle(
    uses: list[StepUse], activities: list[Activity], at_us: int, percent: int, warn_us: int
) -> IdleChange | None:
    """Returns the change of one job, all of whose steps these are, and marks them: each change is returned once.

    Idle: every GPU is known to be below `percent`, or, where there is no utilisation (MIG), has no process.
    """
    seen = {activity.uuid: activity for activity in activities}
    uuids = tuple(sorted({share.uuid for use in uses for share in use.shares}))
    if not uuids or any(uuid not in seen for uuid in uuids):
        return None  # not all were sampled: undecided
    first, reported = uses[0].idle_since_us, uses[0].idle_reported
    key = itself(uses).key
    if not warn_us or not all(_is_idle(seen[uuid], percent) for uuid in uuids):
        mark_idle(uses, 0, reported=False)
        return IdleChange(key, uuids, first, over=True) if reported else None
    since_us = first or at_us
    is_due = not reported and at_us - since_us >= warn_us
    mark_idle(uses, since_us, reported=reported or is_due)
    if not is_due:
        return None
    return IdleChange(key, uuids, since_us, unused=all(seen[uuid].has_process is False for uuid in uuids))


def mark_idle(uses: Iterable[StepUse], since_us: int, *, reported: bool) -> None:
    """Stores since when a job's GPUs have been idle, in the figures of all its steps."""
    for use in uses:
        use.idle_since_us = since_us
        use.idle_reported = reported


def _is_idle(activity: Activity, percent: int) -> bool:
    if activity.util_percent is not None:
        return activity.util_percent < percent
    return activity.has_process is False
