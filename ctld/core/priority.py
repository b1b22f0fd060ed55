"""Priority and rank of pending jobs.

priority/basic: jobs are served in the order of submission: the first job has the highest number, lowered by nice.
priority/multifactor: a sum of weighted factors (factors.py) and the fair-share of the job's association (fairshare.py).
In both an administrator may set a number by hand, which then stays; 0 means held. The rank that the scheduler sorts by
is the partition's PriorityTier above the job's priority in that partition; ties go to the lower job id.

A priority is a function of the job and of one moment, the last calculation: what a job is given when it comes in and
what the next calculation gives to all are the same formula. A calculation comes every PriorityCalcPeriod by a timer, in
two steps so that no step is long: the tree of shares is ranked, then the columns below are added up by numpy and the
ready rows put in their new order at once. No event looks at more than its own job.

What is kept where: a priority is derived, so a calculation writes no row of any job, and the encoded answers of the
snapshot stay as they are. `Job.priority` is the number as of the last time that the job itself was touched (it is in
the database for sacct: what the job started with); `current()` is the number of now, which squeue, scontrol and sprio
show. A number set by hand is part of the request.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ctld.core import assocs, het
from ctld.core.factors import Points, Scale, age_points, part, points_of, scale_of
from ctld.core.fairshare import Assoc, Decay
from ctld.core.model import Job, Partition
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.config import Config
from penstock.values.states import HOLDING_STATES, Hold, JobState

#: Slurm's TOP_PRIORITY for priority/basic.
PRIORITY_TOP = 0xFFFF0000 - 1
PRIORITY_MAX = 0xFFFFFFFE
US = 1_000_000
#: A calculation's second step comes this much later, so that other events have a turn.
NEXT_STEP_US = 1_000
#: A new association is ranked this soon, together with others that come meanwhile.
SOON_US = US
#: What a timer of the calculation is for, beside a generation of the periodic one (above 0).
SOON, SECOND_STEP = -1, -2

#: Start of the age of a job that does not age.
NEVER_S = 1 << 40


def initial(job_id: int, nice: int) -> int:
    """The priority of a new job in priority/basic. 1 at least: 0 would mean held."""
    return min(PRIORITY_MAX, max(1, PRIORITY_TOP - job_id - nice))


def renew(state: ClusterState, job: Job) -> None:
    """The job's number after a change of its request: one set by hand, or a computed one.

    With factors, `ranks` follows and says it anew.
    """
    fixed = job.request.priority
    if fixed is None:
        multifactor = state.priorities is not None
        fixed = 1 if multifactor else initial(job.array_job_id or job.job_id, job.request.nice)
    job.priority = fixed


def tier(partition: Partition) -> int:
    """The part of a rank above the priority."""
    return int(min(partition.config.priority_tier, 0xFFFF))


def ranks(state: ClusterState, job: Job, partitions: list[Partition | None]) -> list[int | None]:
    """The rank of each of the job's rows, 48 bits, higher first. None = not in that partition.

    Notes what the job's priority is made of, also while it waits for something.
    """
    table = state.priorities
    if table is None:
        return [None if p is None else (tier(p) << 32) | job.priority for p in partitions]
    assoc = assocs.of(state, job, state.now_us)
    first: int | None = None
    found: list[int | None] = []
    for row, partition in zip(state.pending.rows_of(job.job_id), partitions, strict=True):
        if partition is None:
            found.append(None)
            continue
        number = table.put(row, job, assoc, partition)
        first = number if first is None else first
        found.append((tier(partition) << 32) | number)
    job.priority = job.priority if first is None else first
    return found


def current(state: ClusterState, job: Job) -> int:
    """The job's number as of the last calculation."""
    table = state.priorities
    if table is None or job.hold is not Hold.NO:
        return job.priority
    if job.state is JobState.PENDING:
        for row in state.pending.rows_of(job.job_id):
            if table.job_ids[row] == job.job_id:
                return int(table.current[row])
    elif job.state in HOLDING_STATES and table.scale.has("CALCULATE_RUNNING"):
        partition, assoc = state.partitions.get(job.partition), assocs.find(state, job)
        if partition is not None and assoc is not None:
            return table.compute(job, assoc, partition)
    return job.priority


class Priorities:
    """Columns of the pending rows (numbered as in PendingColumns), and the moment they are of."""

    def __init__(self, scale: Scale, at_us: int, generation: int) -> None:
        self.scale = scale
        self.at_us = at_us
        self.generation = generation
        self.is_soon = False
        self.aging: dict[int, int] = {}  # jobs that age since later than they could (limit_ages.py), seconds
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
        """Note what a row's priority is made of; the priority."""
        while row >= len(self.job_ids):
            self._allocate(2 * len(self.job_ids))
        points = points_of(self.scale, job.request, partition.config, job.time_limit_s).total()
        since_s, fixed = self.since(job), job.request.priority
        number = self.add_up(points, since_s, self.of_assoc(assoc)) if fixed is None else fixed
        if self.job_ids[row] == job.job_id and fixed is None and self.scale.has("INCR_ONLY"):
            number = max(number, int(self.current[row]))
        self.job_ids[row], self.since_s[row], self.points[row] = job.job_id, since_s, points
        self.fixed[row], self.tier[row] = -1 if fixed is None else fixed, tier(partition)
        self.assoc[row], self.current[row] = assoc.assoc_id, number
        return number

    def since(self, job: Job) -> int:
        """From when a job ages, seconds: since it could start, or since it came (ACCRUE_ALWAYS)."""
        if self.aging and job.job_id in self.aging:
            return self.aging[job.job_id]
        at_us = job.submit_at_us if self.scale.has("ACCRUE_ALWAYS") else job.eligible_at_us
        return at_us // US if at_us else NEVER_S

    def compute(self, job: Job, assoc: Assoc, partition: Partition) -> int:
        """A job's number in a partition, without noting it."""
        if job.request.priority is not None:
            return job.request.priority
        points = points_of(self.scale, job.request, partition.config, job.time_limit_s).total()
        return self.add_up(points, self.since(job), self.of_assoc(assoc))

    def of_assoc(self, assoc: Assoc) -> int:
        """What a job has from its association."""
        return self.fair_points(assoc) + self.assoc_points(assoc)

    def fair_points(self, assoc: Assoc, scale: Scale | None = None) -> int:
        """Fair-share."""
        above, below = assoc.factor
        return (scale or self.scale).config.priority_weight_fair_share * above // below

    def assoc_points(self, assoc: Assoc, scale: Scale | None = None) -> int:
        """The association's priority, or that of the nearest account above that has one."""
        weight = (scale or self.scale).config.priority_weight_assoc
        if not weight:
            return 0
        at: Assoc | None = assoc
        while at is not None and not at.priority:
            at = at.parent
        return part(at.priority if at else 0, self.highest_assoc, weight, not self.scale.has("NO_NORMAL_ASSOC"))

    def add_up(self, points: int, since_s: int, of_assoc: int) -> int:
        """The sum: 1 at least, since 0 would mean held."""
        age = age_points(self.scale, self.at_us // US - since_s)
        return min(PRIORITY_MAX, max(1, points + of_assoc + age))

    def calculate(self, points_of_assoc: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rank of every row as of `at_us`. Rows that nobody has hold something and are not looked at."""
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


def decay_of(config: Config) -> Decay:
    """How usage is forgotten by a configuration."""
    return Decay(config.priority_decay_half_life_s * US, config.priority_usage_reset_period)


def configure(state: ClusterState, config: Config, now_us: int) -> None:
    """A configuration takes force: the pending rows are about to be made anew."""
    generation = state.priority_generation = state.priority_generation + 1
    was, state.priorities = state.priorities, None
    if not config.is_multifactor():
        if was is not None:
            for job in state.jobs.values():
                if job.state is JobState.PENDING:
                    renew(state, job)
                    state.touch(job)
        return
    tree = state.shares
    assocs.take_decay(state, decay_of(config), now_us)
    assocs.charge_all(state, now_us)
    tree.rank(now_us, "NO_FAIR_TREE" not in config.priority_flags, config.fair_share_dampening_factor)
    table = state.priorities = Priorities(scale_of(config, state.node_list, state.qos), now_us, generation)
    table.highest_assoc = max((assoc.priority for assoc in tree.by_id.values()), default=0)
    state.timers.set(now_us + config.priority_calc_period_s * US, Timer.PRIORITY, 0, generation)


def calculate(state: ClusterState, now_us: int, key: Any, what: int) -> None:
    """A timer of the calculation is due: its first step, or the second."""
    table, config = state.priorities, state.config
    if table is None:
        return
    if what == SECOND_STEP:
        rerank(state)
        return
    if what == SOON:
        table.is_soon = False
    elif what == table.generation:
        state.timers.set(now_us + config.priority_calc_period_s * US, Timer.PRIORITY, 0, what)
    else:
        return  # of an earlier configuration
    tree = state.shares
    tree.rank(now_us, not table.scale.has("NO_FAIR_TREE"), config.fair_share_dampening_factor)
    table.highest_assoc = max((assoc.priority for assoc in tree.by_id.values()), default=0)
    table.at_us = now_us
    state.timers.set(now_us + NEXT_STEP_US, Timer.PRIORITY, 0, SECOND_STEP)


def qos_changed(state: ClusterState, now_us: int) -> None:
    """A QOS has another priority, or there is one more or less: the factor of all that wait."""
    table = state.priorities
    if table is None or not table.scale.config.priority_weight_qos:
        return
    table.scale = scale_of(table.scale.config, state.node_list, state.qos)
    for job in state.jobs.values():
        if job.state is JobState.PENDING:
            for row in state.pending.rows_of(job.job_id):
                partition = state.partition_list[state.pending.partition[row]]
                points = points_of(table.scale, job.request, partition.config, job.time_limit_s)
                table.points[row] = points.total()
    calculate_soon(state, now_us)


def calculate_soon(state: ClusterState, now_us: int) -> None:
    """The tree has changed: rank it before the period is over."""
    table = state.priorities
    if table is not None and not table.is_soon:
        table.is_soon = True
        state.timers.set(now_us + SOON_US, Timer.PRIORITY, 0, SOON)


def rerank(state: ClusterState) -> None:
    """New numbers for all pending rows, and the ready ones in their new order."""
    table, tree = state.priorities, state.shares
    assert table is not None
    points = np.zeros(tree.next_id, np.int64)
    for assoc in tree.by_id.values():
        if assoc.user_name:
            points[assoc.assoc_id] = table.of_assoc(assoc)
    ranks = table.calculate(points)
    state.pending.rerank(het.level(state.pending, ranks) if state.hets else ranks)
    if state.ledger is not None:
        from ctld.core.limit_changes import ranked_anew  # which asks for ranks of us

        ranked_anew(state, state.now_us)
    state.changed()


def rank(state: ClusterState, job: Job, partition: Partition) -> int:
    """Where the job stands in that partition as of the last calculation, 48 bits, higher first. Notes nothing."""
    return (tier(partition) << 32) | in_partition(state, job, partition)


def in_partition(state: ClusterState, job: Job, partition: Partition) -> int:
    """A pending job's number in one of its partitions."""
    table = state.priorities
    if table is not None and job.hold is Hold.NO:
        for row in state.pending.rows_of(job.job_id):
            if state.partition_list[state.pending.partition[row]] is partition and table.job_ids[row] == job.job_id:
                return int(table.current[row])
    return job.priority


def explain(
    state: ClusterState, job: Job, partition: Partition, scale: Scale | None = None
) -> tuple[int, int, int, Points] | None:
    """Age, association, fair-share and the rest of a job's number in a partition, with the weights of `scale` instead
    of those in force if it is given. None without factors."""
    table, assoc = state.priorities, assocs.find(state, job)
    if table is None or assoc is None:
        return None
    scale = scale or table.scale
    age = age_points(scale, table.at_us // US - table.since(job))
    rest = points_of(scale, job.request, partition.config, job.time_limit_s)
    return age, table.assoc_points(assoc, scale), table.fair_points(assoc, scale), rest
