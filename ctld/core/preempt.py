"""Who may be made to go for whom, what it costs, and how it is done.

    PreemptType=preempt/partition_prio   a job of a partition with a higher PriorityTier preempts those of lower ones
    PreemptType=preempt/qos              a job preempts those whose QOS is in its own QOS's Preempt list

The planner chooses the victims (contract.py, rule 9). It gets a class and a cost of each running job, and of each pending
row the classes that it may preempt. A job that may not be preempted has class -1: its mode is OFF, it has not run for
PreemptExemptTime yet (a timer looks again), its priority is at least min_exempt_priority, or it is on its way out.

What becomes of a victim is the mode of its partition or QOS:
    REQUEUE   it goes back to the queue with its age; one that may not be queued again is cancelled
    CANCEL    it ends as PREEMPTED
    SUSPEND   it stands still until its preemptor has ended (suspend.py)
This module answers questions and tells the planner; victims.py acts.

What is borrowed from another account (borrow.py) may be reclaimed whatever PreemptType says: a borrowed job has a class
of its own, which also says what its tier or QOS would. It is requeued, or cancelled where its mode is CANCEL.
"""

from collections.abc import Iterable
from typing import Any

from ctld.core.model import Job, Partition, Qos
from ctld.core.sharing import RELEASED
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from penstock.values.states import HOLDING_STATES, JobState

US = 1_000_000
NONE, BY_PARTITION, BY_QOS = "preempt/none", "preempt/partition_prio", "preempt/qos"
#: The planner has 64 classes. More tiers or QOS than that share the last but one.
CLASSES_MAX = 63
#: Jobs that are on their way out already, whoever they are. Every row that may preempt anybody may wait for these at no
#: cost, so that a job whose victims take their time is not given others.
ENDING = 63
#: Marks the class of those of a QOS that are not below the first of it that waits (PreemptMode=WITHIN).
ABOVE = "above"
#: Marks the class of what is borrowed: (BORROWED, what it would be else, below which accounts it may be reclaimed).
BORROWED = "borrowed"
#: Room for a start, in minutes, in a cost: it comes round after eight years.
_YOUTH = 1 << 22
_ACTS = ("CANCEL", "REQUEUE", "SUSPEND")


def lay_out(state: ClusterState) -> None:
    """Number the classes: by tier or QOS, as PreemptType says."""
    keys: list[object] = []
    if state.config.preempt_type == BY_PARTITION:
        keys = sorted({p.config.priority_tier for p in state.partition_list})
    elif state.config.preempt_type == BY_QOS:
        keys = [*sorted(state.qos)]
        keys += [(name, ABOVE) for name in sorted(state.qos) if _is_within(state, state.qos[name])]
    state.within, state.within_heads = {}, ()
    state.preempt_classes = {key: min(number, CLASSES_MAX - 1) for number, key in enumerate(keys)}


def class_of(state: ClusterState, job: Job) -> int:
    """The class of a running job, -1 = it may not be preempted."""
    cohorts = state.lending.borrowed.get(job.job_id)
    if state.config.preempt_type == NONE and cohorts is None:
        return -1
    if job.state not in HOLDING_STATES or job.suspended_by in RELEASED:
        return -1
    if job.state is JobState.COMPLETING or job.preempt_end_at_us:
        return ENDING
    key = _open_key(state, job) if state.config.preempt_type != NONE else None
    classes = state.preempt_classes
    if cohorts:
        borrowed = (BORROWED, key, cohorts)
        if borrowed in classes or len(classes) < CLASSES_MAX:
            return classes.setdefault(borrowed, len(classes))
    return classes.get(key, -1) if key is not None else -1


def _open_key(state: ClusterState, job: Job) -> object:
    """What stands for the job's class while it may be preempted by its tier or QOS; None = it may not."""
    if _mode(state, job) == "OFF" or exempt_until_us(state, job) > state.now_us:
        return None
    if job.priority >= state.config.preempt_number("min_exempt_priority", 1 << 40):
        return None
    key = _key(state, job)
    above = (key, ABOVE)
    return above if job.priority >= state.within.get(job.request.qos, 0) and above in state.preempt_classes else key


def cost_of(state: ClusterState, job: Job) -> int:
    """What it costs to preempt the job, the cheapest go first: the lowest priority, or the youngest."""
    if class_of(state, job) == ENDING:
        return 0
    if job.job_id in state.lending.borrowed:  # the lowest priority first, then the youngest
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
    """The classes that a pending job may preempt in that partition, as bits."""
    how, keys = state.config.preempt_type, dict[object, None]()
    if how == BY_PARTITION:
        own = partition.config.priority_tier
        bases = (_parts(key)[0] for key in state.preempt_classes)
        keys = {base: None for base in bases if isinstance(base, int) and base < own}
    elif how == BY_QOS and (qos := state.qos.get(job.request.qos)) is not None:
        keys = {key: None for name in qos.preempt for key in (name, (name, ABOVE))}
        if state.within.get(qos.name) == job.priority:
            keys[qos.name] = None
    wants_back = state.lending.reclaimers.get(job.job_id, ())
    if not keys and not wants_back:
        return 0
    bits = []
    for key, number in state.preempt_classes.items():
        base, cohorts = _parts(key)
        if base in keys or any(one in wants_back for one in cohorts):
            bits.append(number)
    return _bits(bits)


def _parts(key: Any) -> tuple[Any, tuple[int, ...]]:
    """What a class stands for: tier or QOS, and below which accounts it may be reclaimed."""
    return (key[1], key[2]) if isinstance(key, tuple) and key[0] == BORROWED else (key, ())


def mode_of(state: ClusterState, job: Job) -> str:
    """OFF, CANCEL, REQUEUE or SUSPEND: what would become of the job."""
    mode = _mode(state, job)
    if job.job_id in state.lending.borrowed and mode != "CANCEL":
        return "REQUEUE"  # one that stands still would keep what was lent
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
    """Until when PreemptExemptTime protects the job. Suspension is no end, so it does not protect from that."""
    if _mode(state, job) == "SUSPEND":
        return 0
    exempt_s = state.config.preempt_exempt_time_s
    qos = state.qos.get(job.request.qos)
    if qos is not None and qos.preempt_exempt_time_s >= 0:
        exempt_s = qos.preempt_exempt_time_s
    return job.start_at_us + job.suspended_us + exempt_s * US


def end_state_of(state: ClusterState, job: Job) -> JobState:
    """What a victim becomes that is made to end."""
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
    """Somebody may preempt somebody, or could a while ago."""
    return state.config.preempt_type != NONE or state.lending.was_on


# ---- what the planner is told ---------------------------------------------------------------------------------------


def tell_running(state: ClusterState, job: Job) -> None:
    """Give a running job's row its class and cost; look again when it is no longer exempt."""
    if not _is_on(state) or job.job_id not in state.running.row_of:
        return
    if mode_of(state, job) == "SUSPEND":  # what it would keep is no gain for a preemptor
        state.running.keep_rest(job.job_id)
    number = class_of(state, job)
    state.running.set_class(job.job_id, number, cost_of(state, job))
    until_us = exempt_until_us(state, job)
    if number < 0 and until_us > state.now_us:
        state.timers.set(until_us, Timer.PREEMPT_EXEMPT, job.job_id, job.attempt)


def tell_pending(state: ClusterState, job: Job) -> None:
    """Give a pending job's rows the classes that it may preempt."""
    if not _is_on(state):
        return
    for row in state.pending.rows_of(job.job_id):
        partition = state.partition_list[state.pending.partition[row]]
        state.pending.table.preempts[row] = preempts_of(state, job, partition)


def tell_all(state: ClusterState) -> None:
    """After a change that concerns everybody: a reload, a QOS."""
    lay_out(state)
    for job_id in [job_id for job_id in state.running.row_of if job_id > 0]:
        tell_running(state, state.jobs[job_id])
    for job in state.jobs.values():
        if job.state is JobState.PENDING:
            tell_pending(state, job)


def before_pass(state: ClusterState) -> None:
    """PreemptMode=WITHIN: jobs of a QOS with a lower priority than the first that waits of it are in a class of their own.

    The planner knows classes, not priorities. So of each such QOS the first of those that wait may preempt at a time, and
    its priority parts the running ones. Costs a look at the head of the queue and at the running jobs.
    """
    if state.config.preempt_type != BY_QOS or not any(
        isinstance(key, tuple) and key[1] == ABOVE for key in state.preempt_classes
    ):
        return
    first: dict[str, int] = {}
    heads: list[Job] = []
    for job_id in state.pending.table.job[state.pending.first(state.policy.quick_depth)].tolist():
        job = state.jobs[job_id]
        name = job.request.qos
        if (name, ABOVE) in state.preempt_classes and first.setdefault(name, job.priority) == job.priority:
            heads.append(job)
    if first == state.within:
        return
    had = [state.jobs[job_id] for job_id in state.within_heads if job_id in state.jobs]
    state.within, state.within_heads = first, tuple(job.job_id for job in heads)
    for job in (*had, *heads):
        tell_pending(state, job)
    for job_id in [job_id for job_id in state.running.row_of if job_id > 0]:
        tell_running(state, state.jobs[job_id])


def exempt_ends(state: ClusterState, now_us: int, job_id: int, attempt: int) -> None:
    """PreemptExemptTime is over."""
    job = state.jobs.get(job_id)
    if job is not None and job.attempt == attempt and job.job_id in state.running.row_of:
        tell_running(state, job)
        state.changed()
