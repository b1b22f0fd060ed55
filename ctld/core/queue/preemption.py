"""Preemption rules: which job may preempt which, at what cost, and by which mode.

    PreemptType=preempt/partition_prio   a job of a partition with a higher PriorityTier preempts those of lower ones
    PreemptType=preempt/qos              a job preempts those whose QOS is in its own QOS's Preempt list

The planner chooses the victims (contract.py, rule 9). It gets a class and a cost of each running job, and of each
pending row the classes that it may preempt. A job that may not be preempted has class -1: its mode is OFF, it has not
run for PreemptExemptTime yet (a timer updates it then), its priority is at least min_exempt_priority, or it is ending.

A victim is treated by the mode of its partition or QOS:
    REQUEUE   it is requeued and keeps its age; one that may not be requeued is cancelled
    CANCEL    it ends as PREEMPTED
    SUSPEND   it is suspended until its preemptor has ended (lifecycle/suspend.py)
This module computes the rules for the planner; passes/victims.py acts.

Borrowed resources (limits/borrow.py) may be reclaimed whatever PreemptType is: a borrowed job has a class of its own,
which includes that of its tier or QOS. It is requeued, or cancelled where its mode is CANCEL.
"""

from collections.abc import Iterable, Sequence

from ctld.core.jobs.sharing import RELEASED
from ctld.core.records.job import Job
from ctld.core.records.node import Partition
from ctld.core.records.qos import Qos
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.states import ALLOCATED_STATES, JobState

US = 1_000_000
NONE = "preempt/none"
BY_PARTITION = "preempt/partition_prio"
BY_QOS = "preempt/qos"
#: The planner has 64 classes. If there are more tiers or QOS, the rest share the last but one.
CLASSES_MAX = 63
#: The class of jobs that are ending already. Every row that may preempt may wait for these at no cost, so that a job
#: whose victims take time to end gets no further ones.
ENDING = 63
#: Marks the class of the jobs of a QOS that do not rank below its first pending one (PreemptMode=WITHIN).
ABOVE = "above"
#: Marks the class of borrowed jobs: (BORROWED, the class otherwise, the accounts below which they may be reclaimed).
BORROWED = "borrowed"
#: Range of the start, in minutes, in a cost: it wraps after eight years.
_YOUTH = 1 << 22
_ACTS = ("CANCEL", "REQUEUE", "SUSPEND")


def lay_out(state: ClusterState) -> None:
    """Numbers the classes: by tier or QOS, as PreemptType says."""
    keys: Sequence[object] = ()
    if state.config.preempt_type == BY_PARTITION:
        keys = sorted({p.config.priority_tier for p in state.partition_list})
    elif state.config.preempt_type == BY_QOS:
        keys = [*sorted(state.qos)]
        keys += [(name, ABOVE) for name in sorted(state.qos) if _is_within(state, state.qos[name])]
    state.preemption.within = {}
    state.preemption.within_heads = ()
    state.preemption.classes = {key: min(number, CLASSES_MAX - 1) for number, key in enumerate(keys)}


def class_of(state: ClusterState, job: Job) -> int:
    """Returns the class of a running job, -1 = it may not be preempted."""
    cohorts = state.limits.lending.borrowed.get(job.job_id)
    if state.config.preempt_type == NONE and cohorts is None:
        return -1
    if job.state not in ALLOCATED_STATES or job.suspended_by in RELEASED:
        return -1
    if job.state is JobState.COMPLETING or job.preempt_end_at_us:
        return ENDING
    key = _open_key(state, job) if state.config.preempt_type != NONE else None
    classes = state.preemption.classes
    if cohorts:
        borrowed = (BORROWED, key, cohorts)
        if borrowed in classes or len(classes) < CLASSES_MAX:
            return classes.setdefault(borrowed, len(classes))
    return classes.get(key, -1) if key is not None else -1


def _open_key(state: ClusterState, job: Job) -> object:
    """Returns the key of the job's class while it may be preempted by its tier or QOS; None = it may not."""
    if _mode(state, job) == "OFF" or exempt_until_us(state, job) > state.now_us:
        return None
    if job.priority >= state.config.preempt_number("min_exempt_priority", 1 << 40):
        return None
    key = _key(state, job)
    above = (key, ABOVE)
    return (
        above
        if job.priority >= state.preemption.within.get(job.request.qos, 0) and above in state.preemption.classes
        else key
    )


def cost_of(state: ClusterState, job: Job) -> int:
    """Returns the cost of preempting the job, the cheapest go first: the lowest priority, or the youngest."""
    if class_of(state, job) == ENDING:
        return 0
    if job.job_id in state.limits.lending.borrowed:  # the lowest priority first, then the youngest
        youth = _YOUTH - 1 - job.start_at_us // US // 60 % _YOUTH
        return (job.priority >> 8) * _YOUTH + youth
    if state.config.preempt_word("youngest_first"):
        return (1 << 40) - job.start_at_us // US
    if state.config.preempt_type == BY_QOS:
        qos = state.qos.get(job.request.qos)
        above = qos.priority if qos else 0
    else:
        above = _tier(state, job.partition)
    return (min(above, 0xFFFF) << 32) + job.priority


def preempts_of(state: ClusterState, job: Job, partition: Partition) -> int:
    """Returns the classes that a pending job may preempt in that partition, as bits."""
    how, keys = state.config.preempt_type, dict[object, None]()
    if how == BY_PARTITION:
        own = partition.config.priority_tier
        bases = (_parts(key)[0] for key in state.preemption.classes)
        keys = {base: None for base in bases if isinstance(base, int) and base < own}
    elif how == BY_QOS and (qos := state.qos.get(job.request.qos)) is not None:
        keys = {key: None for name in qos.preempt for key in (name, (name, ABOVE))}
        if state.preemption.within.get(qos.name) == job.priority:
            keys[qos.name] = None
    wants_back = state.limits.lending.reclaimers.get(job.job_id, ())
    if not keys and not wants_back:
        return 0
    bits = []
    for key, number in state.preemption.classes.items():
        base, cohorts = _parts(key)
        if base in keys or any(one in wants_back for one in cohorts):
            bits.append(number)
    return _bits(bits)


def _parts(key: object) -> tuple[object, tuple[int, ...]]:
    """Returns the parts of a class: tier or QOS, and the accounts below which it may be reclaimed."""
    return (key[1], key[2]) if isinstance(key, tuple) and key[0] == BORROWED else (key, ())


def mode_of(state: ClusterState, job: Job) -> str:
    """Returns the job's preemption mode: OFF, CANCEL, REQUEUE or SUSPEND."""
    mode = _mode(state, job)
    if job.job_id in state.limits.lending.borrowed and mode != "CANCEL":
        return "REQUEUE"  # a suspended one would keep the borrowed resources
    return mode


def _mode(state: ClusterState, job: Job) -> str:
    modes = state.config.preempt_mode
    if state.config.preempt_type == BY_QOS:
        qos = state.qos.get(job.request.qos)
        modes = (qos.preempt_mode if qos else ()) or modes
    elif partition := state.partitions.get(job.partition):
        modes = partition.config.preempt_mode or modes
    return next((mode for mode in modes if mode in _ACTS), "OFF")


def exempt_until_us(state: ClusterState, job: Job) -> int:
    """Returns when PreemptExemptTime ends for the job. It does not protect from suspension, which ends nothing."""
    if _mode(state, job) == "SUSPEND":
        return 0
    exempt_s = state.config.preempt_exempt_time_s
    qos = state.qos.get(job.request.qos)
    if qos is not None and qos.preempt_exempt_time_s >= 0:
        exempt_s = qos.preempt_exempt_time_s
    return job.start_at_us + job.suspended_us + exempt_s * US


def end_state_of(state: ClusterState, job: Job) -> JobState:
    """Returns the end state of a victim that is ended."""
    again = mode_of(state, job) == "REQUEUE" and job.request.requeue
    return JobState.REQUEUED if again else JobState.PREEMPTED


def _key(state: ClusterState, job: Job) -> object:
    return job.request.qos if state.config.preempt_type == BY_QOS else _tier(state, job.partition)


def _tier(state: ClusterState, partition: str) -> int:
    found = state.partitions.get(partition)
    return int(found.config.priority_tier) if found else 0


def _is_within(state: ClusterState, qos: Qos) -> bool:
    return "WITHIN" in (qos.preempt_mode or state.config.preempt_mode)


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits | 1 << ENDING if bits else 0


def _is_on(state: ClusterState) -> bool:
    """Whether any job may preempt another, or could a while ago."""
    return state.config.preempt_type != NONE or state.limits.lending.was_on


# ---- updates of the planner's columns -------------------------------------------------------------------------------


def update_running_class(state: ClusterState, job: Job) -> None:
    """Updates the class and cost of a running job's row, and again when its exemption ends."""
    if not _is_on(state) or job.job_id not in state.running.row_of:
        return
    if mode_of(state, job) == "SUSPEND":  # a preemptor gains nothing from what it would keep
        state.running.keep_rest(job.job_id)
    number = class_of(state, job)
    state.running.set_class(job.job_id, number, cost_of(state, job))
    until_us = exempt_until_us(state, job)
    if number < 0 and until_us > state.now_us:
        state.timers.set(until_us, Timer.PREEMPT_EXEMPT, job.job_id, job.attempt)


def update_pending_classes(state: ClusterState, job: Job) -> None:
    """Updates the classes that a pending job may preempt in its rows."""
    if not _is_on(state):
        return
    for row in state.pending.rows_of(job.job_id):
        partition = state.partition_list[state.pending.partition[row]]
        state.pending.table.preempts[row] = preempts_of(state, job, partition)


def update_all_classes(state: ClusterState) -> None:
    """Updates all rows after a change that concerns all jobs: a reload, a QOS."""
    lay_out(state)
    for job_id in [job_id for job_id in state.running.row_of if job_id > 0]:
        update_running_class(state, state.jobs[job_id])
    for job in state.jobs.records():
        if job.state is JobState.PENDING:
            update_pending_classes(state, job)


def before_pass(state: ClusterState) -> None:
    """PreemptMode=WITHIN: puts jobs of a QOS with a lower priority than its first waiting job into a class of their
    own.

    The planner knows classes, not priorities. So of each such QOS only the first pending job may preempt at a time, and
    its priority divides the running ones. Reads the head of the queue and the running jobs.
    """
    if state.config.preempt_type != BY_QOS or not any(
        isinstance(key, tuple) and key[1] == ABOVE for key in state.preemption.classes
    ):
        return
    first: dict[str, int] = {}
    heads: list[Job] = []
    for job_id in state.pending.table.job[state.pending.first(state.scheduling.policy.quick_depth)].tolist():
        job = state.jobs[job_id]
        name = job.request.qos
        if (name, ABOVE) in state.preemption.classes and first.setdefault(name, job.priority) == job.priority:
            heads.append(job)
    if first == state.preemption.within:
        return
    had = [state.jobs[job_id] for job_id in state.preemption.within_heads if job_id in state.jobs]
    state.preemption.within = first
    state.preemption.within_heads = tuple(job.job_id for job in heads)
    for job in (*had, *heads):
        update_pending_classes(state, job)
    for job_id in [job_id for job_id in state.running.row_of if job_id > 0]:
        update_running_class(state, state.jobs[job_id])


def exempt_ends(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """Handles the end of PreemptExemptTime."""
    job = state.jobs.get(job_id)
    if job is not None and job.attempt == attempt and job.job_id in state.running.row_of:
        update_running_class(state, job)
        state.changed()
