"""sbatch: from what came over the wire to a pending job, or a refusal that says why.

The order of the checks is the order in which Slurm reports: partition, rights, counts, memory, gres, features, node
lists, "could it ever run", dependency, array. Everything above `# -- apply` only reads.

A submission carries a key with its time in it (UUID version 7). The same key is the same job, so that a client may
send it again after a lost answer; keys are remembered for SUBMIT_KEY_AGE_US, and an older one is refused rather than
believed to be new.
"""

from typing import NamedTuple

import msgspec

from ctld.core import admit, allocations, arrays, assocs, budgets, depends, lease, limit_submit, priority, standing
from ctld.core.allocations import AT_ONCE_US
from ctld.core.decay import RATE_ONE
from ctld.core.defaults import complete
from ctld.core.effects import Refused, Submitted
from ctld.core.events import Actor, Role, SubmitJob, WantedJob
from ctld.core.factors import billing, tres_amounts
from ctld.core.feasible import can_ever_run, on_offer, where_now
from ctld.core.model import NO_STEPS, Job, JobRequest, Partition
from ctld.core.plain import with_changes
from ctld.core.ready import latest_start_s, refresh
from ctld.core.reserve import check_asked
from ctld.core.state import ClusterState
from ctld.core.timers import Timer
from ctld.core.wckey_names import note
from penstock.values.dependency import Dependency
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code
from penstock.values.states import Hold, JobState, Reason, Suspend
from penstock.values.taskset import TaskSet, parse_array
from penstock.values.text import check_name
from penstock.values.tres import format_tres

#: How long a submit key is remembered, and how old one may be. Clients retry for seconds, not for minutes.
SUBMIT_KEY_AGE_US = 600 * 1_000_000
#: How far a client's clock may run ahead of ours.
CLOCK_SKEW_US = 60 * 1_000_000
#: Longest path that a job may name (PATH_MAX of Linux).
PATH_BYTES_MAX = 4096
NAME_MAX = 1024
#: Submissions that are remembered for others like them; each is a request that some job holds anyway, and a key.
ACCEPTED_MAX = 1_000
NICE_MAX = 2_147_483_645


class Accepted(NamedTuple):
    """What the read-only half found."""

    request: JobRequest
    partitions: tuple[Partition, ...]
    dependency: Dependency | None
    tasks: TaskSet | None
    throttle: int
    warnings: tuple[str, ...]
    tres_req: str


def submit_job(state: ClusterState, now_us: int, event: SubmitJob) -> None:
    """Handle a submission. Raises Refused."""
    if is_known(state, now_us, event):
        return
    found = _check_once(state, now_us, event.actor, event.job)
    number = len(found.tasks) if found.tasks is not None else 1
    check_room(state, number)
    limit_submit.at_submission(state, event.actor.user_name, ((found.request, number),))
    if event.test_only:
        state.reply(event.reply_to, would_start(state, now_us, found))
        return
    if event.job.immediate_s == 0 and not would_start(state, now_us, found).nodes:
        raise Refused(Code.NODES_BUSY)
    # -- apply
    job = new_job(state, now_us, event, found)
    remember_key(state, event.submit_key, job.job_id, now_us)
    state.active_count += number
    state.add_job(job)
    if found.tasks is not None:
        arrays.create(state, job, found.tasks)
    depends.attach(state, job, found.dependency, now_us)
    set_deadline(state, job)
    set_immediate(state, job, now_us)
    if job.request.kind:
        allocations.watch(state, job, now_us)
    refresh(state, job, now_us)
    state.record(now_us, job, "submit", f"uid {job.user_id}")
    if event.actor.by is not None:
        note_submission(state, now_us, event.actor, job.job_id)
    warnings = found.warnings + (budgets.warnings(state, job, now_us) if state.budgets.books else ())
    state.reply(event.reply_to, Submitted(job.job_id, warnings))


def note_submission(state: ClusterState, now_us: int, actor: Actor, job_id: int) -> None:
    """A job was submitted by one user as another."""
    state.audit.note(now_us, actor, "submit job", (f"job {job_id} of {actor.user_name}",))


def is_known(state: ClusterState, now_us: int, event: SubmitJob) -> bool:
    """Answer a submission that has been seen before. Raises Refused for one that is too old to know."""
    known = state.submit_keys.get(event.submit_key)
    if known is not None:
        state.reply(event.reply_to, Submitted(known))
        return True
    if not now_us - SUBMIT_KEY_AGE_US <= event.key_at_us <= now_us + CLOCK_SKEW_US:
        raise Refused(Code.STALE_REQUEST, "the clocks of this host and the controller may differ")
    return False


def check_room(state: ClusterState, number: int) -> None:
    """Raise Refused when there are too many jobs for so many more."""
    if state.active_count + number > state.config.max_job_count:
        raise Refused(Code.MAX_JOB_COUNT, f"MaxJobCount={state.config.max_job_count} would be exceeded")


def set_immediate(state: ClusterState, job: Job, now_us: int) -> None:
    """--immediate: look whether it has started in time."""
    immediate_s = job.request.immediate_s
    if immediate_s is not None:
        state.timers.set(now_us + max(AT_ONCE_US, immediate_s * 1_000_000), Timer.IMMEDIATE, job.job_id)


def set_deadline(state: ClusterState, job: Job) -> None:
    """Look again when the job can no longer end in time."""
    if job.request.deadline_at_us:
        state.timers.set(latest_start_s(job) * 1_000_000, Timer.DEADLINE, job.job_id)


def remember_key(state: ClusterState, key: str, job_id: int, at_us: int) -> None:
    """Keep a submit key, and let go of those that are too old to come again."""
    state.submit_keys[key] = job_id
    state.submit_key_times.append((at_us, key))
    while state.submit_key_times and state.submit_key_times[0][0] < at_us - SUBMIT_KEY_AGE_US - CLOCK_SKEW_US:
        state.submit_keys.pop(state.submit_key_times.popleft()[1], None)


def _check_once(state: ClusterState, now_us: int, actor: Actor, wanted: WantedJob) -> Accepted:
    """`check`, remembered: who submits in a loop asks for the same many times.

    What was found holds until something is changed that checks look at: the configuration, a partition, accounts, QOS
    (state.rules_changed). What depends on time or on other jobs is checked each time.
    """
    if wanted.dependency or wanted.begin_at_us or wanted.deadline_at_us or wanted.array or wanted.reservation:
        return check(state, now_us, actor, wanted)
    key = (wanted, actor.uid, actor.gid, actor.role, actor.groups)
    found: Accepted | None = state.accepted.get(key)
    if found is None:
        found = check(state, now_us, actor, wanted)
        if len(state.accepted) >= ACCEPTED_MAX:
            state.accepted.clear()
        state.accepted[key] = found
    return found


def check(state: ClusterState, now_us: int, actor: Actor, wanted: WantedJob) -> Accepted:
    """The read-only half: everything that may be wrong with a submission."""
    _check_text(wanted)
    _check_unsupported(wanted)
    partitions = pick_partitions(state, actor, wanted.partitions or _partition_of(state, wanted.reservation))
    wanted, partitions = standing.at_submission(state, actor, wanted, partitions)
    of = (actor.uid, actor.group_name, wanted.account, wanted.qos)
    asked = check_asked(state, now_us, wanted.reservation, *of)
    if (wanted.nice < 0 or wanted.priority is not None) and actor.role < Role.OPERATOR:
        raise Refused(Code.ACCESS_DENIED, "only an operator may set a priority or a negative nice")
    if abs(wanted.nice) > NICE_MAX:
        raise Refused(Code.INVALID_VALUE, f"nice must be between -{NICE_MAX} and {NICE_MAX}")
    try:
        request, warnings = complete(state, partitions, msgspec.structs.replace(wanted, reservation=asked))
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    if wanted.time_limit_s is None and request.time_limit_s is not None:
        limit_s = standing.default_limit_s(state, actor.user_name, request, partitions[0], request.time_limit_s)
        if limit_s != request.time_limit_s:
            request = with_changes(request, time_limit_s=limit_s)
    admit.enforce(state, partitions, request, wanted.time_limit_s is not None)
    tasks, throttle = _tasks(wanted.array, state.config.max_array_size) if wanted.array else (None, 0)
    if not any(can_ever_run(state, partition, request) for partition in partitions):
        raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, on_offer(state, partitions[0], request))
    dependency = depends.parse(state, actor, wanted.dependency)
    tres_req = state.share(tres_requested(state, request))
    return Accepted(request, partitions, dependency, tasks, throttle, warnings, tres_req)


def _tasks(array: str, max_array_size: int) -> tuple[TaskSet, int]:
    try:
        return parse_array(array, max_array_size)
    except BadValue as error:
        raise Refused(Code.INVALID_ARRAY, str(error).removeprefix(f"{TEXT[Code.INVALID_ARRAY]}: ")) from None


def _check_text(wanted: WantedJob) -> None:
    try:
        for what, text in (
            ("job name", wanted.name), ("account", wanted.account), ("qos", wanted.qos), ("comment", wanted.comment),
            ("wckey", wanted.wckey), ("command", wanted.command),
        ):  # fmt: skip
            check_name(text, what, NAME_MAX if what != "command" else PATH_BYTES_MAX)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    if wanted.node_fail_policy not in ("", *lease.POLICIES):
        raise Refused(Code.INVALID_VALUE, f"node-fail-policy {wanted.node_fail_policy[:64]!r} is neither stop nor keep")
    for what, path in (
        ("chdir", wanted.work_dir),
        ("output", wanted.std_out),
        ("error", wanted.std_err),
        ("input", wanted.std_in),
    ):
        if len(path) > PATH_BYTES_MAX:
            raise Refused(Code.PATHNAME_TOO_LONG, f"{what} has {len(path)} bytes, the limit is {PATH_BYTES_MAX}")
        if b"\0" in path:
            raise Refused(Code.INVALID_VALUE, f"{what} has a NUL byte at position {path.index(0)}")


def _partition_of(state: ClusterState, asked: str) -> tuple[str, ...]:
    """A reservation's partition stands in for the default one (man scontrol, PartitionName)."""
    first = next((name for name in asked.split(",") if name), "")
    partition = state.reservations[first].ask.partition if first in state.reservations else ""
    return (partition,) if partition in state.partitions else ()


def _check_unsupported(wanted: WantedJob) -> None:
    if wanted.exclusive_topo:
        raise Refused(Code.NOT_SUPPORTED, "--exclusive=topo is not supported yet")


def pick_partitions(state: ClusterState, actor: Actor, names: tuple[str, ...]) -> tuple[Partition, ...]:
    """The partitions a job may run in, in the order asked for. Raises Refused."""
    if not names:
        found = [p for p in state.partition_list if p.config.is_default]
        if not found:
            raise Refused(Code.DEFAULT_PARTITION_NOT_SET)
    else:
        unknown = [name for name in names if name not in state.partitions]
        if unknown:
            raise Refused(Code.INVALID_PARTITION, unknown[0])
        found = [state.partitions[name] for name in dict.fromkeys(names)]
    found = [_in_its_place(state, partition) for partition in found]
    for partition in found:
        if partition.state in ("INACTIVE", "DRAIN"):
            raise Refused(Code.DISABLED_STATE, f"partition {partition.name} is in state {partition.state}")
        if not is_open_to(partition, actor):
            code = Code.ACCESS_DENIED if in_its_groups(partition, actor) else Code.PARTITION_GROUP
            raise Refused(code, f"partition {partition.name}")
    return tuple(found)


def _in_its_place(state: ClusterState, partition: Partition) -> Partition:
    """The partition, or what its Alternate says while it takes no jobs."""
    passed = {partition.name}
    while partition.state in ("INACTIVE", "DRAIN") and partition.config.alternate not in passed:
        other = state.partitions.get(partition.config.alternate)
        if other is None:
            break
        partition = other
        passed.add(partition.name)
    return partition


def is_open_to(partition: Partition, actor: Actor) -> bool:
    """Whether jobs of this user may go there, as far as who he is goes."""
    config = partition.config
    if (config.root_only and actor.uid != 0) or (config.disable_root_jobs and actor.uid == 0):
        return False
    return in_its_groups(partition, actor)


def in_its_groups(partition: Partition, actor: Actor) -> bool:
    """AllowGroups: whether it has none, or one of this user's."""
    groups = partition.config.allow_groups
    return not groups or actor.role >= Role.OPERATOR or bool(set(groups) & {actor.group_name, *actor.groups})


def new_job(state: ClusterState, now_us: int, event: SubmitJob, found: Accepted) -> Job:
    """The job with its ids and what goes with it, not among the others yet."""
    job = draft(state, now_us, event, found, state.new_job_id())
    job.request_id = state.new_request(job.request)
    assocs.note(state, job, now_us)
    if state.config.track_wckey:
        note(state, job.user_name, job.request.wckey)
    state.new_specs.append(event.spec)
    return job


def draft(state: ClusterState, now_us: int, event: SubmitJob, found: Accepted, job_id: int) -> Job:
    """The job as it would be; nothing of the state knows of it."""
    request, actor = found.request, event.actor
    job = Job()
    job.job_id, job.attempt = job_id, 0
    job.array_job_id = job.job_id if found.tasks is not None else 0
    job.array_task_id, job.array_tasks, job.array_throttle = None, found.tasks, found.throttle
    job.request, job.request_id = request, 0
    job.spec_hash = state.share(event.spec.spec_hash)
    job.submit_key = event.submit_key
    job.user_id, job.group_id = state.share(actor.uid), state.share(actor.gid)
    job.user_name, job.group_name = state.share(actor.user_name), state.share(actor.group_name)
    job.partition = request.partitions[0]
    job.state, job.end_state = JobState.PENDING, None
    job.reason, job.reason_detail = Reason.NONE, ""
    job.hold = Hold.USER if event.job.hold else Hold.NO
    priority.renew(state, job)
    if job.priority == 0:
        job.hold = Hold.ADMIN
    job.dependency = ""
    job.submit_at_us, job.eligible_at_us, job.start_at_us, job.end_at_us = now_us, 0, 0, 0
    job.time_limit_s = request.time_limit_s if request.time_limit_s is not None else -1
    job.alloc, job.batch_node, job.steps = (), "", NO_STEPS
    job.exit_code = job.exit_signal = job.derived_code = job.derived_signal = 0
    job.cancelled_by_uid, job.failed_node, job.admin_comment = -1, "", ""
    job.tres_req, job.tres_alloc = found.tres_req, ""
    job.suspended_by = Suspend.NO
    job.suspended_us = job.suspended_at_us = job.preempt_at_us = job.preempt_end_at_us = job.preemptor_id = 0
    assoc = assocs.find(state, job)
    job.assoc_id = assoc.assoc_id if assoc is not None else 0
    job.borrowed = 0
    return job


def tres_requested(state: ClusterState, request: JobRequest) -> str:
    """What is asked for in all, in Slurm's TRES text; the billing is that of the first partition."""
    tres = tres_amounts(request)
    weights = state.partitions[request.partitions[0]].config.tres_billing_weights
    tres["billing"] = billing(weights, tres, state.config.priority_flags) // RATE_ONE
    return format_tres({key: value for key, value in tres.items() if value or key == "cpu"})


def would_start(state: ClusterState, now_us: int, found: Accepted) -> Submitted:
    """--test-only: where it would start if it were the only one that waits."""
    for partition in found.partitions:
        nodes = where_now(state, partition, found.request)
        if nodes:
            cpus = found.request.ntasks * found.request.cpus_per_task
            return Submitted(state.next_job_id, found.warnings, now_us, nodes, cpus, partition.name)
    return Submitted(
        state.next_job_id,
        found.warnings,
        0,
        (),
        found.request.ntasks * found.request.cpus_per_task,
        found.partitions[0].name,
    )
