"""The compiled planner: signature and answers of reference.plan. Arrays must be C-contiguous; read-only will do."""

from _fastsched.contract import PlanInput, PlanResult

def plan(given: PlanInput) -> PlanResult: ...
