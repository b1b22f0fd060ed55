"""Priority and rank of pending jobs.

priority/basic: jobs are served in the order of submission: the first job has the highest number, lowered by nice.
priority/multifactor: a sum of weighted factors (demand/factors.py) and the fair-share of the job's association
(state/fairshare.py). In both an administrator may set a fixed number; 0 means held. The rank that the scheduler sorts
by is the partition's PriorityTier above the job's priority in that partition; ties go to the lower job id.

A priority is a function of the job and of the time of the last calculation: a new job and the next calculation use the
same formula. A timer runs the calculation every PriorityCalcPeriod, in two steps so that no step is long: the tree of
shares is ranked, then numpy adds up the factor columns and all ready rows are sorted again. An event computes only the
priority of its own job.

A priority is derived, so a calculation writes no row of any job, and the encoded answers of the snapshot remain valid.
`Job.priority` is the number at the job's last change (it is in the database for sacct: the priority at the start);
`current()` is the present number, which squeue, scontrol and sprio show. A number set by an administrator is part of
the request.
"""

import numpy as np

from ctld.core.demand.factors import Points, Scale, age_points, points_of, scale_of
from ctld.core.jobs import het
from ctld.core.queue import associations
from ctld.core.queue.priority_timer import SECOND_STEP, SOON, calculate_soon
from ctld.core.records.decay import Decay
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.state.priority_columns import PRIORITY_MAX, Priorities, tier
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.config import Config
from penstock.values.states import ALLOCATED_STATES, Hold, JobState

#: Slurm's TOP_PRIORITY for priority/basic.
PRIORITY_TOP = 0xFFFF0000 - 1
US = 1_000_000
#: Delay of the second step of a calculation, so that other events are handled in between.
NEXT_STEP_US = 1_000


def initial(job_id: int, nice: int) -> int:
    """Returns the priority of a new job in priority/basic. 1 at least: 0 would mean held."""
    return min(PRIORITY_MAX, max(1, PRIORITY_TOP - job_id - nice))


def renew(state: ClusterState, job: Job) -> None:
    """Renews the job's priority after a change of its request: a fixed or a computed one.

    With factors, `ranks` follows and computes it again.
    """
    fixed = job.request.priority
    if fixed is None:
        multifactor = state.priorities is not None
        fixed = 1 if multifactor else initial(job.array_job_id or job.job_id, job.request.nice)
    job.priority = fixed


def ranks(state: ClusterState, job: Job, partitions: list[Partition | None]) -> list[int | None]:
    """Returns the rank of each of the job's rows, 48 bits, higher first. None = not in that partition.

    Stores the factors of the job's priority, also while it is not ready.
    """
    table = state.priorities
    if table is None:
        return [None if p is None else (tier(p) << 32) | job.priority for p in partitions]
    assoc = associations.of(state, job, state.now_us)
    first: int | None = None
    found: list[int | None] = []
    for row, partition in zip(state.pending.rows_of(job.job_id), partitions, strict=True):
        if partition is None:
            found.append(None)
            continue
        number = table.put(row, job, assoc, partition)
        first = number if first is None else first
        found.append((tier(partition) << 32) | number)
    if first is not None and first != job.priority:
        state.jobs.own(job).priority = first
    return found


def current(state: ClusterState, job: Job) -> int:
    """Returns the job's priority as of the last calculation."""
    table = state.priorities
    if table is None or job.hold is not Hold.NO:
        return job.priority
    if job.state is JobState.PENDING:
        for row in state.pending.rows_of(job.job_id):
            if table.job_ids[row] == job.job_id:
                return int(table.current[row])
    elif job.state in ALLOCATED_STATES and table.scale.has("CALCULATE_RUNNING"):
        partition, assoc = state.partitions.get(job.partition), associations.find(state, job)
        if partition is not None and assoc is not None:
            return table.compute(job, assoc, partition)
    return job.priority


def decay_of(config: Config) -> Decay:
    """Returns the decay of usage under a configuration."""
    return Decay(config.priority_decay_half_life_s * US, config.priority_usage_reset_period)


def configure(state: ClusterState, config: Config, now_us: int) -> None:
    """Applies a configuration: the pending rows are about to be rebuilt."""
    generation = state.priority_generation = state.priority_generation + 1
    was = state.priorities
    state.priorities = None
    if not config.is_multifactor():
        if was is not None:
            for job in state.jobs.values():
                if job.state is JobState.PENDING:
                    renew(state, job)
                    state.touch(job)
        return
    tree = state.shares
    associations.take_decay(state, decay_of(config), now_us)
    associations.charge_all(state, now_us)
    tree.rank(now_us, "NO_FAIR_TREE" not in config.priority_flags, config.fair_share_dampening_factor)
    table = state.priorities = Priorities(scale_of(config, state.node_list, state.qos), now_us, generation)
    table.highest_assoc = max((assoc.priority for assoc in tree.by_id.values()), default=0)
    state.timers.set(now_us + config.priority_calc_period_s * US, Timer.PRIORITY, 0, generation)


def calculate(state: ClusterState, now_us: int, what: int) -> bool:
    """Handles a timer of the calculation: its first step, or the second. Returns whether the ranks are new."""
    table, config = state.priorities, state.config
    if table is None:
        return False
    if what == SECOND_STEP:
        rerank(state)
        return True
    if what == SOON:
        table.is_soon = False
    elif what == table.generation:
        state.timers.set(now_us + config.priority_calc_period_s * US, Timer.PRIORITY, 0, what)
    else:
        return False  # of an earlier configuration
    tree = state.shares
    tree.rank(now_us, not table.scale.has("NO_FAIR_TREE"), config.fair_share_dampening_factor)
    table.highest_assoc = max((assoc.priority for assoc in tree.by_id.values()), default=0)
    table.at_us = now_us
    state.timers.set(now_us + NEXT_STEP_US, Timer.PRIORITY, 0, SECOND_STEP)
    return False


def qos_changed(state: ClusterState, now_us: int) -> None:
    """Handles a change of QOS priorities, or of their number: the factor of all pending jobs."""
    table = state.priorities
    if table is None or not table.scale.config.priority_weight_qos:
        return
    table.scale = scale_of(table.scale.config, state.node_list, state.qos)
    for job in state.jobs.records():
        if job.state is JobState.PENDING:
            for row in state.pending.rows_of(job.job_id):
                partition = state.partition_list[state.pending.partition[row]]
                points = points_of(table.scale, job.request, partition.config, job.time_limit_s)
                table.points[row] = points.total()
    calculate_soon(state, now_us)


def rerank(state: ClusterState) -> None:
    """Renews the priorities of all pending rows, and the order of the ready ones."""
    table, tree = state.priorities, state.shares
    assert table is not None
    points = np.zeros(tree.next_id, np.int64)
    for assoc in tree.by_id.values():
        if assoc.user_name:
            points[assoc.assoc_id] = table.of_assoc(assoc)
    ranks = table.calculate(points)
    state.pending.rerank(het.level(state.pending, ranks) if state.hets else ranks)
    state.changed()


def rank(state: ClusterState, job: Job, partition: Partition) -> int:
    """Returns the job's rank in that partition as of the last calculation, 48 bits, higher first. Stores nothing."""
    return (tier(partition) << 32) | in_partition(state, job, partition)


def in_partition(state: ClusterState, job: Job, partition: Partition) -> int:
    """Returns a pending job's priority in one of its partitions."""
    table = state.priorities
    if table is not None and job.hold is Hold.NO:
        for row in state.pending.rows_of(job.job_id):
            if state.partition_list[state.pending.partition[row]] is partition and table.job_ids[row] == job.job_id:
                return int(table.current[row])
    return job.priority


def explain(
    state: ClusterState, job: Job, partition: Partition, scale: Scale | None = None
) -> tuple[int, int, int, Points] | None:
    """Returns the components of a job's priority in a partition (age, association, fair-share and the rest), with the
    weights of `scale` instead of those in force if it is given. None without factors."""
    table, assoc = state.priorities, associations.find(state, job)
    if table is None or assoc is None:
        return None
    scale = scale or table.scale
    age = age_points(scale, table.at_us // US - table.since(job))
    rest = points_of(scale, job.request, partition.config, job.time_limit_s)
    return age, table.assoc_points(assoc, scale), table.fair_points(assoc, scale), rest
