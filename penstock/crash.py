"""Named crash points at which a test may make the process die, as in a crash of the machine.

A crash point is a call `crash_point("commit:before")` between two things of which one may happen without the other.
$PENSTOCK_CRASH_AT names the point at which the process ends at once: no cleanup, no flush, status 137 as after SIGKILL;
`NAME@3` ends it when the point is passed for the third time.
With $PENSTOCK_CRASH_LIST the names of the points passed are appended to that file, one a line, so that a sweep knows
all points. Both are read when the module is imported; unset, a crash point costs one empty call.

Every point of every daemon is registered here, and nowhere else: the sweeps go through CONTROLLER_POINTS and NODE_POINTS,
and tests compare these with the calls in the code and with the points that a run has passed. The launcher and its stepds
import this module, so it imports nothing that they have not loaded anyway.
"""

import os
from collections.abc import Callable

EXIT_STATUS = 137  # a shell's status for a process killed by SIGKILL

#: The store, between a batch and the disk.
COMMIT_POINTS: dict[str, str] = {
    "commit:before": "the batch is built, nothing of it is in the database",
    "commit:begun": "the transaction holds the fence of the leadership, no rows yet",
    "commit:before-commit": "the transaction holds all rows, COMMIT is not yet asked for",
    "commit:after": "the batch is durable, no reply or effect has been sent",
}

#: The controller, the store's points included.
CONTROLLER_POINTS: dict[str, str] = {
    **COMMIT_POINTS,
    "submit:before-step": "a submission has arrived and is checked, the core has not received it",
    "submit:stepped": "the core has a new job, nothing is on its way to the database",
    "submit:before-reply": "the job is durable, its caller has no reply yet",
    "launch:before-send": "a start is durable, its node has no order yet",
    "launch:after-send": "a launch has been handed to the stream, the node may have it or not",
    "started:before-step": "a node has reported the start of a step, the core has not received it",
    "exited:before-step": "a node has reported the end of a step, the core has not received it",
    "notice:before-step": "a node has sent a notice about itself, the core has not received it",
    "gpus:before-step": "a node has reported its GPUs, the core has not received it",
    "gpu_work_done:before-step": "a node has reported the end of work on a GPU, the core has not received it",
    "gpu_idle:before-step": "a node has reported an idle GPU of a job, the core has not received it",
    "profile:before-step": "a node has reported the profile of a step, the core has not received it",
    "report:before-ack": "what a report caused is durable, the node does not know and keeps the report",
    "report:after-ack": "a report's acknowledgement has been handed to the stream",
    "cancel:before-step": "a cancel has arrived, the core has not received it",
    "terminate:before-send": "the end of a step is durable, its node has no order yet",
    "forget:before-send": "a step's end is durable, its node keeps the spool",
}

#: The node daemon, its launcher and its stepds.
NODE_POINTS: dict[str, str] = {
    "journal.write": "records are made, nothing of them is written",
    "journal.written": "records are written, not synced",
    "journal.synced": "records are synced, no effect is released",
    "launch.ordered": "the launcher has the order, the controller no acknowledgement",
    "command.acked": "the acknowledgement of a command is on its way",
    "report.sent": "a report is on its way, nothing is acknowledged",
    "exit.read": "an exit record was found, no report is journaled",
    "forget.swept": "the step folder is gone",
    "launcher.received": "an order was read, no stepd has it",
    "launcher.handed": "a stepd has the order",
    "stepd.folder": "the step folder exists, no claim",
    "stepd.claimed": "the step is claimed, no task exists",
    "stepd.forked": "the task's process exists",
    "stepd.began": "the program runs and noded has been notified",
    "stepd.ended": "the task has been reaped, there is no exit record",
    "stepd.recorded": "the exit record is in place",
}

CRASH_POINTS: dict[str, str] = {**CONTROLLER_POINTS, **NODE_POINTS}

_crash_at = ""
_passes_left = 1
_list_path = ""


def read_environment() -> None:
    """Reads both variables: at import, and by the tests' warm process in each process that it forks."""
    global _crash_at, _passes_left, _list_path
    _crash_at, _, passes = os.environ.get("PENSTOCK_CRASH_AT", "").partition("@")
    _passes_left = int(passes or 1)
    _list_path = os.environ.get("PENSTOCK_CRASH_LIST", "")
    if _crash_at and _crash_at not in CRASH_POINTS:
        known = ", ".join(CRASH_POINTS)
        raise SystemExit(f"PENSTOCK_CRASH_AT: no crash point is called {_crash_at!r}; there are: {known}")


def _pass_by(name: str) -> None:
    """The crash point when no test uses it: does nothing."""


def _pass_armed(name: str) -> None:
    global _passes_left
    if name not in CRASH_POINTS:
        raise ValueError(
            f"{name!r} is not in penstock.crash.CRASH_POINTS; add it there with what is done before and after it"
        )
    if _list_path:
        with open(_list_path, "a", encoding="ascii") as file:
            file.write(name + "\n")
    if name == _crash_at:
        _passes_left -= 1
    if name == _crash_at and not _passes_left:
        os._exit(EXIT_STATUS)


read_environment()
crash_point: Callable[[str], None] = _pass_armed if _crash_at or _list_path else _pass_by
