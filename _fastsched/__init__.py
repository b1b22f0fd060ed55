"""The planner: which pending jobs start now, and when and where the others will.

`plan` is the compiled form (plan.pyx) where it was built, else its oracle (reference.py), which gives the same answers
slowly. `COMPILED` says which one it is, so that the controller can warn. Both are functions of their arguments and
nothing else: no clock, no randomness, no state between calls. The rules are written down once, in contract.py; what
the compiled form does to be fast is in plan.pyx.
"""

from _fastsched.contract import (
    BAD_CONSTRAINTS,
    DEADLINE,
    FOREVER,
    LICENSES,
    NODES_DOWN,
    NOT_TESTED,
    PLACEMENTS_MAX,
    PREEMPTING,
    PRIORITY,
    RESERVED,
    RESOURCES,
    STARTED,
    Jobs,
    Limits,
    Nodes,
    PlanInput,
    PlanResult,
    Reservations,
    Running,
)

COMPILED: bool
try:
    from _fastsched.plan import plan

    COMPILED = True
except ModuleNotFoundError as absent:
    # Only "it was not built" leads to the oracle; a compiled module that is there and broken must be seen.
    if absent.name != "_fastsched.plan":
        raise
    from _fastsched.reference import plan

    COMPILED = False

__all__ = [
    "BAD_CONSTRAINTS",
    "COMPILED",
    "DEADLINE",
    "FOREVER",
    "LICENSES",
    "NODES_DOWN",
    "NOT_TESTED",
    "PLACEMENTS_MAX",
    "PREEMPTING",
    "PRIORITY",
    "RESERVED",
    "RESOURCES",
    "STARTED",
    "Jobs",
    "Limits",
    "Nodes",
    "PlanInput",
    "PlanResult",
    "Reservations",
    "Running",
    "plan",
]
