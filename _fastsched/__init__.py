"""The planner: which pending jobs start now, and when and where the others will.

`plan` is the compiled form (plan.pyx) where it was built, else its oracle (reference.py), which gives the same answers
slowly. `COMPILED` says which one it is, so that the controller can warn. Both are functions of their arguments and
nothing else: no clock, no randomness, no state between calls. The rules are written down once, in contract.py; what
the compiled form does to be fast is in plan.pyx.

`replay` runs a whole workload through a policy on identical processors (replay_contract.py); it is picked the same way,
and `REPLAY_COMPILED` says which one it is. The simulator uses it, the controller does not.
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
from _fastsched.replay_contract import BACKFILLS, MODES, ORDERS, POLICIES, PREDICTORS, ReplayPolicy

COMPILED: bool
REPLAY_COMPILED: bool
try:
    from _fastsched.plan import plan

    COMPILED = True
except ModuleNotFoundError as absent:
    # Only "it was not built" leads to the oracle; a compiled module that is there and broken must be seen.
    if absent.name != "_fastsched.plan":
        raise
    from _fastsched.reference import plan

    COMPILED = False
try:
    from _fastsched.replay import replay

    REPLAY_COMPILED = True
except ModuleNotFoundError as absent:
    if absent.name != "_fastsched.replay":
        raise
    from _fastsched.replay_reference import replay

    REPLAY_COMPILED = False

__all__ = [
    "BACKFILLS",
    "BAD_CONSTRAINTS",
    "COMPILED",
    "DEADLINE",
    "FOREVER",
    "LICENSES",
    "MODES",
    "NODES_DOWN",
    "NOT_TESTED",
    "ORDERS",
    "PLACEMENTS_MAX",
    "POLICIES",
    "PREDICTORS",
    "PREEMPTING",
    "PRIORITY",
    "REPLAY_COMPILED",
    "RESERVED",
    "RESOURCES",
    "STARTED",
    "Jobs",
    "Limits",
    "Nodes",
    "PlanInput",
    "PlanResult",
    "ReplayPolicy",
    "Reservations",
    "Running",
    "plan",
    "replay",
]
