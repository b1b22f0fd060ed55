"""Named points at which a test may make the process die, as if the machine had lost it.

A crash point is a call `crash_point("commit:before")` between two things of which one may happen without the other.
$PENSTOCK_CRASH_AT names the point at which the process ends at once: no cleanup, no flush, status 137 as after SIGKILL;
`NAME@3` ends it when the point is passed for the third time.
With $PENSTOCK_CRASH_LIST the names of the points passed are appended to that file, one a line, so that a sweep knows
what there is to crash at. Both are read when the module is imported; unset, a crash point costs one empty call.

Every point is registered in CRASH_POINTS: a sweep goes through all of them, and a test compares the registry with the
points that a run has passed.
"""

import os
from collections.abc import Callable

EXIT_STATUS = 137  # what a shell reports for a process killed by SIGKILL

CRASH_POINTS: dict[str, str] = {
    "commit:before": "the batch is built, nothing of it is in the database",
    "commit:begun": "the transaction holds the fence of the leadership, no rows yet",
    "commit:before-commit": "the transaction holds all rows, COMMIT is not yet asked for",
    "commit:after": "the batch is durable, nobody has been told",
}

_crash_at, _, _passes = os.environ.get("PENSTOCK_CRASH_AT", "").partition("@")
_passes_left = int(_passes or 1)
_list_path = os.environ.get("PENSTOCK_CRASH_LIST", "")


def _pass_by(name: str) -> None:
    """What a crash point is when no test asks for one."""


def _pass_armed(name: str) -> None:
    global _passes_left
    if name not in CRASH_POINTS:
        raise ValueError(f"{name!r} is not in penstock.crash.CRASH_POINTS; add it there with what it stands between")
    if _list_path:
        with open(_list_path, "a", encoding="ascii") as file:
            file.write(name + "\n")
    if name == _crash_at:
        _passes_left -= 1
    if name == _crash_at and not _passes_left:
        os._exit(EXIT_STATUS)


crash_point: Callable[[str], None] = _pass_armed if _crash_at or _list_path else _pass_by
