"""The planner: which pending jobs start now, and where.

`plan` is the compiled form (plan.pyx) where it was built, else its oracle (reference.py), which gives the same answers
slowly. `COMPILED` says which one it is, so that the controller can warn. Both are functions of their arguments and
nothing else: no clock, no randomness, no state between calls. The rules are written down once, in reference.py; what
the compiled form does to be fast is in plan.pyx. Input columns and reasons: contract.py.
"""

from _fastsched.contract import (
    BAD_CONSTRAINTS,
    NODES_DOWN,
    NOT_TESTED,
    PLACEMENTS_MAX,
    PRIORITY,
    RESOURCES,
    STARTED,
    PlanResult,
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
    "NODES_DOWN",
    "NOT_TESTED",
    "PLACEMENTS_MAX",
    "PRIORITY",
    "RESOURCES",
    "STARTED",
    "PlanResult",
    "plan",
]
