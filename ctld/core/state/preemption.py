"""State of preemption and time slices: queue/preemption.py, passes/victims.py, passes/gang.py."""

from ctld.core.records.turns import Turns


class Preemption:
    """Jobs that were preempted or suspended for others."""

    __slots__ = ("classes", "preempting", "suspended", "turns", "within", "within_heads")

    def __init__(self) -> None:
        self.classes: dict[object, int] = {}  # PriorityTier or name of a QOS -> the planner's class
        self.preempting: dict[int, tuple[int, ...]] = {}  # pending job id -> the jobs preempted for it
        self.within: dict[str, int] = {}  # QOS with PreemptMode=WITHIN -> priority of its first pending job
        self.within_heads: tuple[int, ...] = ()  # those jobs
        self.suspended: dict[int, None] = {}  # jobs that are suspended for others, or outside of their time slice
        self.turns = Turns()
