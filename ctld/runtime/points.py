"""The controller's crash points outside of the store, registered where a sweep enumerates them.

Importing this module registers them; `crash_point` is the store's and the node's too. The points between the rows and
the disk are `commit:*` of penstock.crash.
"""

from typing import Final

from penstock.crash import CRASH_POINTS, crash_point

POINTS: Final[dict[str, str]] = {
    "submit:before-step": "a submission has arrived and is checked, the core has not seen it",
    "submit:stepped": "the core has a new job, nothing is on its way to the database",
    "submit:before-reply": "the job is durable, its caller has not been told",
    "launch:before-send": "a start is durable, its node has not been told",
    "launch:after-send": "a launch has been handed to the stream, the node may have it or not",
    "started:before-step": "a node has said that a step runs, the core has not heard",
    "exited:before-step": "a node has said that a step has ended, the core has not heard",
    "notice:before-step": "a node has said something of itself, the core has not heard",
    "report:before-ack": "what a report caused is durable, the node does not know and keeps the report",
    "report:after-ack": "a report's acknowledgement has been handed to the stream",
    "cancel:before-step": "a cancel has arrived, the core has not seen it",
    "terminate:before-send": "the end of a step is durable, its node has not been told",
    "forget:before-send": "a step's end is durable, its node keeps the spool",
}

CRASH_POINTS.update(POINTS)

__all__ = ["POINTS", "crash_point"]
