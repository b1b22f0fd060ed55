"""Indexes of dependencies between jobs: lifecycle/depends.py and jobs/waiters.py."""

from collections import OrderedDict

from penstock.values.dependency import Term


class Dependencies:
    """Both directions of the dependency graph, and its changes since the last settling."""

    __slots__ = ("changed", "dependents", "due", "is_timed", "singletons", "terms_of", "waiting_for")

    def __init__(self) -> None:
        self.waiting_for: dict[int, tuple[bool, tuple[Term, ...]]] = {}  # job id -> (any, remaining terms)
        self.dependents: dict[int, dict[int, None]] = {}  # job or array id -> jobs that wait for it
        self.singletons: dict[
            tuple[int, str], dict[int, None]
        ] = {}  # (uid, name) -> jobs that wait for the name to be free
        self.due: dict[int, None] = {}  # jobs that have started or ended since the last run of lifecycle/depends.py
        #: (such a job, a job that waits for it), to be evaluated
        self.changed: OrderedDict[tuple[int, int], None] = OrderedDict()
        self.is_timed = False  # a timer is set for them
        self.terms_of: dict[int, int] = {}  # uid -> terms of the user's waiting records
