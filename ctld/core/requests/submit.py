"""sbatch: turns a submission into a pending job, or refuses it with a reason.

The order of the checks is the order in which Slurm reports: partition, rights, counts, memory, gres, features, node
lists, "could it ever run", dependency, array. Everything above `state.applying()` only reads.

A submission has a key that contains its time (UUID version 7). The same key of the same user means the same job, so
that a client may send it again after a lost answer; keys are kept for SUBMIT_KEY_AGE_US, and an older one is refused,
since it may have been used. Users may choose their keys (--request-key): another user's mean nothing.
"""

from typing import NamedTuple

import msgspec

from ctld.core.demand.factors import billing, tres_amounts
from ctld.core.jobs import arrays
from ctld.core.lifecycle import allocations, depends, lease
from ctld.core.lifecycle.allocations import AT_ONCE_US
from ctld.core.lifecycle.ready import refresh
from ctld.core.limits import budgets, submission
from ctld.core.queue import admit, associations, mcs, priority, resolve_association
from ctld.core.queue.defaults import check_limit, complete
from ctld.core.queue.feasibility import can_ever_run, check_size, fits_up_nodes, on_offer, where_now
from ctld.core.queue.terms import latest_start_s
from ctld.core.queue.wckeys import note
from ctld.core.records.compact_request import with_changes
from ctld.core.records.decay import RATE_ONE
from ctld.core.records.effects import Refused, Submitted
from ctld.core.records.events import Actor, JobSubmission, Role, SubmitJob
from ctld.core.records.job import Job, blank_job
from ctld.core.records.node import Partition
from ctld.core.records.request import JobRequest
from ctld.core.requests.reservations import check_asked
from ctld.core.state.state import ClusterState
from ctld.core.state.stored import spec_bytes, text_bytes
from ctld.core.state.timers import Timer
from penstock.values.dependency import Dependency
from penstock.values.errors import BadValue
from penstock.values.refusals import REBOOT_DENIED, TEXT, Code
from penstock.values.states import Hold, Reason
from penstock.values.taskset import TaskSet, parse_array
from penstock.values.text import check_name
from penstock.values.tres import format_tres

#: How long a submit key is kept, and its maximum age. Clients retry for seconds, not for minutes.
SUBMIT_KEY_AGE_US = 600 * 1_000_000
#: How far a client's clock may run ahead of ours.
CLOCK_SKEW_US = 60 * 1_000_000
#: Longest path that a job may name (PATH_MAX of Linux).
PATH_BYTES_MAX = 4096
NAME_MAX = 1024
#: Cached submissions; each is a request that some job holds anyway, and a key.
ACCEPTED_MAX = 1_000
#: Submissions with longer texts are not cached, since that memory is not accounted for.
ACCEPTED_TEXT_MAX = 8 * 1024
NICE_MAX = 2_147_483_645
#: Jobs of a partition that are examined for one that waits for nodes.
IN_LINE_MAX = 100


class Accepted(NamedTuple):
    """The result of the read-only half."""

    request: JobRequest
    partitions: tuple[Partition, ...]
    dependency: Dependency | None
    tasks: TaskSet | None
    throttle: int
    warnings: tuple[str, ...]
    tres_req: str
    text_bytes: int


def submit_job(state: ClusterState, now_us: int, event: SubmitJob) -> None:
    """Handles a submission. Raises Refused."""
    if is_known(state, now_us, event):
        return
    found = _check_once(state, now_us, event.actor, event.job)
    number = len(found.tasks) if found.tasks is not None else 1
    check_room(state, number)
    state.submissions.stored.check(event.actor.uid, state.config, now_us, (event.spec,), (found.request,))
    submission.at_submission(state, event.actor.user_name, ((found.request, number),))
    if event.test_only:
        state.reply(event.reply_to, would_start(state, now_us, found))
        return
    if event.job.immediate_s == 0 and not would_start(state, now_us, found).nodes:
        raise Refused(why_not_now(state, found))
    state.applying()
    job = new_job(state, now_us, event, found)
    remember_key(state, job.user_id, event.submit_key, job.job_id, now_us)
    state.add_job(job, number)
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
    warnings = found.warnings + (budgets.warnings(state, job, now_us) if state.limits.budgets.books else ())
    state.reply(event.reply_to, Submitted(job.job_id, warnings))


def note_submission(state: ClusterState, now_us: int, actor: Actor, job_id: int) -> None:
    """Records that a job was submitted by one user as another."""
    state.audit.note(now_us, actor, "submit job", (f"job {job_id} of {actor.user_name}",))


def is_known(state: ClusterState, now_us: int, event: SubmitJob) -> bool:
    """Answers a submission whose key is known. Raises Refused for one whose key is too old."""
    known = state.submissions.keys.get((event.actor.uid, event.submit_key))
    if known is not None:
        state.reply(event.reply_to, Submitted(known))
        return True
    if not now_us - SUBMIT_KEY_AGE_US <= event.key_at_us <= now_us + CLOCK_SKEW_US:
        raise Refused(Code.STALE_REQUEST, "its key is older than 10 minutes, or this host's clock differs")
    return False


def check_room(state: ClusterState, number: int) -> None:
    """Raises Refused when there are too many jobs for so many more; fewer are never too many."""
    if number > 0 and state.active_count + number > state.config.max_job_count:
        raise Refused(Code.MAX_JOB_COUNT, f"MaxJobCount={state.config.max_job_count} would be exceeded")


def set_immediate(state: ClusterState, job: Job, now_us: int) -> None:
    """--immediate: sets the timer that checks whether it has started in time."""
    immediate_s = job.request.immediate_s
    if immediate_s is not None:
        state.timers.set(now_us + max(AT_ONCE_US, immediate_s * 1_000_000), Timer.IMMEDIATE, job.job_id)


def set_deadline(state: ClusterState, job: Job) -> None:
    """Sets the timer for the time when the job can no longer end before its deadline."""
    if job.request.deadline_at_us:
        state.timers.set(latest_start_s(job) * 1_000_000, Timer.DEADLINE, job.job_id)


def remember_key(state: ClusterState, uid: int, key: str, job_id: int, at_us: int) -> None:
    """Stores a user's submit key, and drops those that are too old to be sent again."""
    state.submissions.keys[uid, key] = job_id
    times = state.submissions.key_times
    times.append((at_us, uid, key))
    while times and times[0][0] < at_us - SUBMIT_KEY_AGE_US - CLOCK_SKEW_US:
        _, old_uid, old_key = times.popleft()
        state.submissions.keys.pop((old_uid, old_key), None)


def _check_once(state: ClusterState, now_us: int, actor: Actor, wanted: JobSubmission) -> Accepted:
    """Caches `check`, for users who submit the same request in a loop.

    The result is valid until an input of the checks changes: the configuration, a partition, accounts, QOS
    (state.rules_changed). Checks that depend on time or on other jobs run each time.
    """
    if wanted.dependency or wanted.begin_at_us or wanted.deadline_at_us or wanted.array or wanted.reservation:
        return check(state, now_us, actor, wanted)
    key, known = (wanted, actor.uid, actor.gid, actor.role, actor.groups), state.submissions.accepted
    found: Accepted | None = known.get(key)
    if found is None:
        if max(len(wanted.submit_line), len(wanted.export_env), len(wanted.nodes_required)) > ACCEPTED_TEXT_MAX:
            return check(state, now_us, actor, wanted)
        _clear_if_full(known)
        found = known[key] = _check_any_limit(state, now_us, actor, wanted, key[1:])
    return found


def _check_any_limit(
    state: ClusterState, now_us: int, actor: Actor, wanted: JobSubmission, of: tuple[object, ...]
) -> Accepted:
    """Caches `check` by user (`of`) for requests that differ in their time limits alone."""
    if wanted.time_limit_s is None:  # the default limit is the association's
        return check(state, now_us, actor, wanted, is_shared=True)
    key, known = (_without_limit(wanted), of), state.submissions.completed
    found: Accepted | None = known.get(key)
    if found is not None:
        return _with_limit(state, found, wanted)
    _clear_if_full(known)
    found = known[key] = check(state, now_us, actor, wanted, is_shared=True)
    return found


def _without_limit(wanted: JobSubmission) -> JobSubmission:
    return msgspec.structs.replace(wanted, time_limit_s=None)


def _with_limit(state: ClusterState, found: Accepted, wanted: JobSubmission) -> Accepted:
    """Returns the result of an equal request with another time limit for this one, after the checks of its limit."""
    if found.request.time_limit_s == wanted.time_limit_s:
        return found
    check_limit(state, wanted)
    request = with_changes(found.request, time_limit_s=wanted.time_limit_s)
    admit.enforce(state, found.partitions, request, True)
    return found._replace(request=request)


def _clear_if_full(known: dict[object, Accepted]) -> None:
    if len(known) >= ACCEPTED_MAX:
        known.clear()


def check(state: ClusterState, now_us: int, actor: Actor, wanted: JobSubmission, is_shared: bool = False) -> Accepted:
    """Validates a submission in full, and changes nothing.

    `is_shared`: it may return the result of another user's equal submission, for the part that does not depend on the
    user. Never for a submission with a dependency: users may depend only on jobs that they see.
    """
    _check_text(wanted)
    partitions = pick_partitions(state, actor, wanted.partitions or _partition_of(state, wanted.reservation))
    wanted, partitions = resolve_association.at_submission(state, actor, wanted, partitions)
    wanted = mcs.labelled(state, actor, wanted)
    of = (actor.uid, actor.group_name, wanted.account, wanted.qos, tuple(p.name for p in partitions))
    asked = check_asked(state, now_us, wanted.reservation, *of)
    if (wanted.nice < 0 or wanted.priority is not None) and actor.role < Role.OPERATOR:
        raise Refused(Code.ACCESS_DENIED, "only an operator may set a priority or a negative nice")
    if wanted.reboot and actor.role < Role.ADMINISTRATOR:
        raise Refused(Code.ACCESS_DENIED, REBOOT_DENIED)
    if abs(wanted.nice) > NICE_MAX:
        raise Refused(Code.INVALID_VALUE, f"nice must be between -{NICE_MAX} and {NICE_MAX}")
    if not is_shared or asked or wanted.time_limit_s is None:  # the default limit is the association's
        return _completed(state, actor, wanted, partitions, asked)
    key, known = (_without_limit(wanted), partitions), state.submissions.completed
    found: Accepted | None = known.get(key)
    if found is not None:
        return _with_limit(state, found, wanted)
    _clear_if_full(known)
    found = known[key] = _completed(state, actor, wanted, partitions, asked)
    return found


def _completed(
    state: ClusterState, actor: Actor, wanted: JobSubmission, partitions: tuple[Partition, ...], asked: str
) -> Accepted:
    """Completes a submission with a valid association and partitions, and checks the request that results."""
    try:
        request, warnings = complete(state, partitions, msgspec.structs.replace(wanted, reservation=asked))
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    if wanted.time_limit_s is None and request.time_limit_s is not None:
        limit_s = resolve_association.default_limit_s(
            state, actor.user_name, request, partitions[0], request.time_limit_s
        )
        if limit_s != request.time_limit_s:
            request = with_changes(request, time_limit_s=limit_s)
    admit.enforce(state, partitions, request, wanted.time_limit_s is not None)
    tasks, throttle = _tasks(wanted.array, state.config.max_array_size) if wanted.array else (None, 0)
    check_size(state, partitions, wanted)
    if not any(can_ever_run(state, partition, request) for partition in partitions):
        raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, on_offer(state, partitions[0], request))
    dependency = depends.parse(state, actor, wanted.dependency)
    tres_req = state.submissions.share(tres_requested(state, request))
    return Accepted(request, partitions, dependency, tasks, throttle, warnings, tres_req, text_bytes(request))


def _tasks(array: str, max_array_size: int) -> tuple[TaskSet, int]:
    try:
        return parse_array(array, max_array_size)
    except BadValue as error:
        raise Refused(Code.INVALID_ARRAY, str(error).removeprefix(f"{TEXT[Code.INVALID_ARRAY]}: ")) from None


def _check_text(wanted: JobSubmission) -> None:
    try:
        for what, text in (
            ("job name", wanted.name), ("account", wanted.account), ("qos", wanted.qos), ("comment", wanted.comment),
            ("wckey", wanted.wckey), ("command", wanted.command),
        ):  # fmt: skip
            if text:
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
    """Returns the partition of its reservation, which replaces the default one (man scontrol, PartitionName)."""
    first = next((name for name in asked.split(",") if name), "")
    partition = state.reservations[first].ask.partition if first in state.reservations else ""
    return (partition,) if partition in state.partitions else ()


def pick_partitions(state: ClusterState, actor: Actor, names: tuple[str, ...]) -> tuple[Partition, ...]:
    """Returns the partitions a job may run in, in the requested order. Raises Refused."""
    if not names:
        found = [p for p in state.partition_list if p.config.is_default]
        if not found:
            raise Refused(Code.DEFAULT_PARTITION_NOT_SET)
    else:
        unknown = [name for name in names if name not in state.partitions]
        if unknown:
            raise Refused(Code.INVALID_PARTITION, unknown[0])
        found = [state.partitions[name] for name in dict.fromkeys(names)]
    found = [_or_alternate(state, partition) for partition in found]
    for partition in found:
        if partition.state in ("INACTIVE", "DRAIN"):
            raise Refused(Code.PARTITION_NOT_AVAILABLE, f"partition {partition.name} is in state {partition.state}")
        if not is_open_to(partition, actor):
            code = Code.ACCESS_DENIED if in_its_groups(partition, actor) else Code.PARTITION_GROUP
            raise Refused(code, f"partition {partition.name}")
    return tuple(found)


def _or_alternate(state: ClusterState, partition: Partition) -> Partition:
    """Returns the partition, or its Alternate while it takes no jobs."""
    passed = {partition.name}
    while partition.state in ("INACTIVE", "DRAIN") and partition.config.alternate not in passed:
        other = state.partitions.get(partition.config.alternate)
        if other is None:
            break
        partition = other
        passed.add(partition.name)
    return partition


def is_open_to(partition: Partition, actor: Actor) -> bool:
    """Whether the user's identity gives access to the partition."""
    config = partition.config
    if (config.root_only and actor.uid != 0) or (config.disable_root_jobs and actor.uid == 0):
        return False
    return in_its_groups(partition, actor)


def in_its_groups(partition: Partition, actor: Actor) -> bool:
    """Whether the partition has no AllowGroups, or one of this user's."""
    groups = partition.config.allow_groups
    return not groups or actor.role >= Role.OPERATOR or bool(set(groups) & {actor.group_name, *actor.groups})


def new_job(state: ClusterState, now_us: int, event: SubmitJob, found: Accepted) -> Job:
    """Returns the job with its ids and derived values, not in the tables yet."""
    job = draft(state, now_us, event, found, state.new_job_id())
    job.request_id = state.new_request(job.request)
    if not job.request.trace_parent:  # otherwise its caller has decided
        job.trace_one_in = _traced(state, now_us, job)
    if not job.assoc_id:  # `draft` has found none
        associations.note(state, job, now_us)
    if state.config.track_wckey:
        note(state, job.user_name, job.request.wckey)
    state.outputs.new_specs.append(event.spec)
    state.submissions.stored.enter(job, spec_bytes(event.spec), found.text_bytes, state.config.user_spec_bytes_per_day)
    return job


def _traced(state: ClusterState, now_us: int, job: Job) -> int:
    """Returns that one in so many of its tasks has a trace; 0 = none has."""
    config = state.config
    if not config.trace_url:
        return 0
    number = arrays.weight(job)
    return state.submissions.traces.take(now_us, job.user_id, number, config.trace_one_in, config.traces_per_s)


def draft(state: ClusterState, now_us: int, event: SubmitJob, found: Accepted, job_id: int) -> Job:
    """Returns the prospective job; the state does not contain it."""
    request, actor = found.request, event.actor
    job = blank_job()
    job.job_id = job_id
    job.array_job_id = job.job_id if found.tasks is not None else 0
    job.array_tasks = found.tasks
    job.array_throttle = found.throttle
    job.request = request
    job.request_id = 0
    share = state.submissions.share
    job.spec_hash = share(event.spec.spec_hash)
    job.submit_key = event.submit_key
    job.user_id, job.group_id, job.user_name, job.group_name = share(
        (actor.uid, actor.gid, actor.user_name, actor.group_name)
    )
    job.partition = request.partitions[0]
    job.hold = Hold.USER if event.job.hold else Hold.NO
    priority.renew(state, job)
    if job.priority == 0:
        job.hold = Hold.ADMIN
    job.submit_at_us = now_us
    job.time_limit_s = request.time_limit_s if request.time_limit_s is not None else -1
    job.tres_req = found.tres_req
    assoc = associations.find(state, job) if state.shares.has_users() else None
    job.assoc_id = assoc.assoc_id if assoc is not None else 0
    return job


def tres_requested(state: ClusterState, request: JobRequest) -> str:
    """Returns the requested total, in Slurm's TRES text; the billing is that of the first partition."""
    tres = tres_amounts(request)
    weights = state.partitions[request.partitions[0]].config.tres_billing_weights
    tres["billing"] = billing(weights, tres, state.config.priority_flags) // RATE_ONE
    return format_tres({key: value for key, value in tres.items() if value or key == "cpu"})


def why_not_now(state: ClusterState, found: Accepted) -> Code:
    """Returns the refusal of a job that wants its nodes at once and cannot have them."""
    wanted = [index for index, partition in enumerate(state.partition_list) if partition in found.partitions]
    in_line = (state.jobs.look(job_id) for job_id in state.pending.first_in(wanted, IN_LINE_MAX))
    is_behind = any(job is not None and job.reason in (Reason.RESOURCES, Reason.PRIORITY) for job in in_line)
    if is_behind or all(partition.state != "UP" for partition in found.partitions):
        return Code.NOT_TOP_PRIORITY  # as in Slurm, before the nodes are examined
    could = any(fits_up_nodes(state, partition, found.request) for partition in found.partitions)
    return Code.NODES_BUSY if could else Code.NODES_NOT_AVAILABLE


def would_start(state: ClusterState, now_us: int, found: Accepted) -> Submitted:
    """Returns for --test-only where it would start if it were the only pending job."""
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
