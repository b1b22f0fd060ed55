"""Crash points: places where a test may kill the process, as `kill -9` would, to prove that nothing depends on
reaching the next line.

`PENSTOCK_CRASH_AT=<name>` ends the process that first comes by that name with status 137. Without the variable a point
costs one comparison. Every point is listed here, so that a test can go through all of them.
"""

import os

CRASH_POINTS = (
    # noded: the journal and what is released after it
    "journal.write",  # records made, nothing written
    "journal.written",  # written, not synced
    "journal.synced",  # synced, no effect released
    "launch.ordered",  # the launcher has the order, the controller no acknowledgement
    "command.acked",  # the acknowledgement is on its way
    "report.sent",  # a report is on its way, nothing acknowledged
    "exit.read",  # an exit record was found, no report is journaled
    "forget.swept",  # the step folder is gone
    # launcher
    "launcher.received",  # an order was read, no stepd has it
    "launcher.handed",  # a stepd has it
    # stepd
    "stepd.folder",  # the step folder exists, no claim
    "stepd.claimed",  # claimed, no task
    "stepd.forked",  # the task's process exists
    "stepd.began",  # the program runs and noded has been told
    "stepd.ended",  # the task has been reaped, no exit record
    "stepd.recorded",  # the exit record is in place
)

_CRASH_AT = os.environ.get("PENSTOCK_CRASH_AT", "")
if _CRASH_AT and _CRASH_AT not in CRASH_POINTS:
    raise SystemExit(f"PENSTOCK_CRASH_AT: no crash point is called {_CRASH_AT!r}; there are: {', '.join(CRASH_POINTS)}")


def crash_point(name: str) -> None:
    """End the process here if it was asked for."""
    if name == _CRASH_AT:
        os._exit(137)
