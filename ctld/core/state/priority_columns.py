"""Components of the priorities of pending rows, as columns. They are added up by queue/priority.py."""

import numpy as np
import numpy.typing as npt

from ctld.core.demand.factors import Scale, age_points, part, points_of
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.state.fairshare import Assoc

PRIORITY_MAX = 0xFFFFFFFE


US = 1_000_000


#: Start of the age of a job that does not age.
NEVER_S = 1 << 40


def tier(partition: Partition) -> int:
    """The part of a rank above the priority."""
    return int(min(partition.config.priority_tier, 0xFFFF))


class Priorities:
    """Columns of the pending rows (numbered as in PendingColumns), and the time of their values."""

    def __init__(self, scale: Scale, at_us: int, generation: int) -> None:
        self.scale = scale
        self.at_us = at_us
        self.generation = generation
        self.is_soon = False
        self.aging: dict[int, int] = {}  # jobs that began to age later than they could (limits/ages.py), seconds
        self.highest_assoc = 0
        self._allocate(256)

    def _allocate(self, capacity: int) -> None:
        old = self.__dict__.copy()
        self.job_ids: npt.NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.since_s: npt.NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.points: npt.NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.fixed: npt.NDArray[np.int64] = np.full(capacity, -1, np.int64)
        self.tier: npt.NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.current: npt.NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.assoc: npt.NDArray[np.int64] = np.zeros(capacity, np.int64)
        for name in ("job_ids", "since_s", "points", "fixed", "tier", "current", "assoc"):
            if name in old:
                getattr(self, name)[: len(old[name])] = old[name]

    def put(self, row: int, job: Job, assoc: Assoc, partition: Partition) -> int:
        """Stores the components of a row's priority; returns the priority."""
        while row >= len(self.job_ids):
            self._allocate(2 * len(self.job_ids))
        points = points_of(self.scale, job.request, partition.config, job.time_limit_s).total()
        since_s, fixed = self.since(job), job.request.priority
        number = self.add_up(points, since_s, self.of_assoc(assoc)) if fixed is None else fixed
        if self.job_ids[row] == job.job_id and fixed is None and self.scale.has("INCR_ONLY"):
            number = max(number, int(self.current[row]))
        self.job_ids[row] = job.job_id
        self.since_s[row] = since_s
        self.points[row] = points
        self.fixed[row], self.tier[row] = -1 if fixed is None else fixed, tier(partition)
        self.assoc[row] = assoc.assoc_id
        self.current[row] = number
        return number

    def since(self, job: Job) -> int:
        """Returns the start of a job's age, seconds: since it could start, or since its submission (ACCRUE_ALWAYS)."""
        if self.aging and job.job_id in self.aging:
            return self.aging[job.job_id]
        at_us = job.submit_at_us if self.scale.has("ACCRUE_ALWAYS") else job.eligible_at_us
        return at_us // US if at_us else NEVER_S

    def compute(self, job: Job, assoc: Assoc, partition: Partition) -> int:
        """Computes a job's priority in a partition, without storing it."""
        if job.request.priority is not None:
            return job.request.priority
        points = points_of(self.scale, job.request, partition.config, job.time_limit_s).total()
        return self.add_up(points, self.since(job), self.of_assoc(assoc))

    def of_assoc(self, assoc: Assoc) -> int:
        """Returns the association's components of a job's priority."""
        return self.fair_points(assoc) + self.assoc_points(assoc)

    def fair_points(self, assoc: Assoc, scale: Scale | None = None) -> int:
        """Returns the fair-share component."""
        above, below = assoc.factor
        return (scale or self.scale).config.priority_weight_fair_share * above // below

    def assoc_points(self, assoc: Assoc, scale: Scale | None = None) -> int:
        """Returns the association's priority, or that of the nearest account above that has one."""
        weight = (scale or self.scale).config.priority_weight_assoc
        if not weight:
            return 0
        at: Assoc | None = assoc
        while at is not None and not at.priority:
            at = at.parent
        return part(at.priority if at else 0, self.highest_assoc, weight, not self.scale.has("NO_NORMAL_ASSOC"))

    def add_up(self, points: int, since_s: int, of_assoc: int) -> int:
        """Returns the sum: 1 at least, since 0 would mean held."""
        age = age_points(self.scale, self.at_us // US - since_s)
        return min(PRIORITY_MAX, max(1, points + of_assoc + age))

    def calculate(self, points_of_assoc: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Computes the rank of every row as of `at_us`. Free rows contain old values and are ignored."""
        config = self.scale.config
        age = np.clip(self.at_us // US - self.since_s, 0, config.priority_max_age_s)
        value = age * config.priority_weight_age
        value //= config.priority_max_age_s
        value += self.points
        value += points_of_assoc[self.assoc]
        np.clip(value, 1, PRIORITY_MAX, out=value)
        if self.scale.has("INCR_ONLY"):
            np.maximum(value, self.current, out=value)
        self.current = np.where(self.fixed >= 0, self.fixed, value)
        ranks: npt.NDArray[np.int64] = (self.tier << 32) | self.current
        return ranks
