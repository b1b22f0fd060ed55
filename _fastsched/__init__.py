"""The planner: which pending jobs start now, and when and where the others will.

`plan` is the compiled form (plan.pyx) where it was built, else its oracle (reference.py), which gives the same answers
slowly. `COMPILED` says which one it is, so that the controller can warn. Both are functions of their arguments and
nothing else: no clock, no randomness, no state between calls. The rules are in contract.py alone; planner/ has what makes
the compiled form fast, and plan.pyx its one entry point.

`replay` runs a whole workload through a policy on identical processors (replay_contract.py); it is chosen the same way,
and `REPLAY_COMPILED` says which one it is. `run_on_nodes` does the same on nodes with CPUs, memory and GPUs
(noderun_contract.py, `NODERUN_COMPILED`). The simulator uses both, the controller neither.

`Ordering` orders the rows of long lists (ordering_reference.py, `ORDERING_COMPILED`). `Sharing` makes equal values of many
records one object (sharing_reference.py, `SHARING_COMPILED`). `IdTable` has a number for each of many ids
(idtable_reference.py, `IDTABLE_COMPILED`).
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
    Nodes,
    PlanInput,
    PlanLimits,
    PlanResult,
    Reservations,
    Running,
)
from _fastsched.noderun_contract import NODE_ORDERS, NODE_POLICIES, NodeRun, RunJobs, RunNodes, fitting
from _fastsched.replay_contract import BACKFILLS, MODES, ORDERS, POLICIES, PREDICTORS, ReplayPolicy

COMPILED: bool
REPLAY_COMPILED: bool
NODERUN_COMPILED: bool
ORDERING_COMPILED: bool
SHARING_COMPILED: bool
IDTABLE_COMPILED: bool
try:
    from _fastsched.plan import plan

    COMPILED = True
except ModuleNotFoundError as absent:
    # A compiled module that exists and cannot be imported is an error: only a missing one leads to the oracle.
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
try:
    from _fastsched.noderun import run_on_nodes

    NODERUN_COMPILED = True
except ModuleNotFoundError as absent:
    if absent.name != "_fastsched.noderun":
        raise
    from _fastsched.noderun_reference import run_on_nodes

    NODERUN_COMPILED = False
try:
    from _fastsched.ordering import Ordering

    ORDERING_COMPILED = True
except ModuleNotFoundError as absent:
    if absent.name != "_fastsched.ordering":
        raise
    from _fastsched.ordering_reference import PlainOrdering as Ordering  # type: ignore[assignment]  # it answers the same

    ORDERING_COMPILED = False
try:
    from _fastsched.sharing import Sharing

    SHARING_COMPILED = True
except ModuleNotFoundError as absent:
    if absent.name != "_fastsched.sharing":
        raise
    from _fastsched.sharing_reference import PlainSharing as Sharing  # type: ignore[assignment]  # it does the same

    SHARING_COMPILED = False
try:
    from _fastsched.idtable import IdTable

    IDTABLE_COMPILED = True
except ModuleNotFoundError as absent:
    if absent.name != "_fastsched.idtable":
        raise
    from _fastsched.idtable_reference import PlainIdTable as IdTable  # type: ignore[assignment]  # it does the same

    IDTABLE_COMPILED = False

__all__ = [
    "BACKFILLS",
    "BAD_CONSTRAINTS",
    "COMPILED",
    "DEADLINE",
    "FOREVER",
    "IDTABLE_COMPILED",
    "LICENSES",
    "MODES",
    "NODERUN_COMPILED",
    "NODES_DOWN",
    "NODE_ORDERS",
    "NODE_POLICIES",
    "NOT_TESTED",
    "ORDERING_COMPILED",
    "ORDERS",
    "PLACEMENTS_MAX",
    "POLICIES",
    "PREDICTORS",
    "PREEMPTING",
    "PRIORITY",
    "REPLAY_COMPILED",
    "RESERVED",
    "RESOURCES",
    "SHARING_COMPILED",
    "STARTED",
    "IdTable",
    "Jobs",
    "NodeRun",
    "Nodes",
    "Ordering",
    "PlanInput",
    "PlanLimits",
    "PlanResult",
    "ReplayPolicy",
    "Reservations",
    "RunJobs",
    "RunNodes",
    "Running",
    "Sharing",
    "fitting",
    "plan",
    "replay",
    "run_on_nodes",
]
