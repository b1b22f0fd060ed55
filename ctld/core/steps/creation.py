"""Creates srun's steps: from the request to the launch on each node. Their further life is in life.py.

A step is placed at once, or waits for resources that other steps of its job hold, or is refused because the job does
not have them at all. Waiting steps are queued in the order of arrival; when something becomes free each that fits
starts, so that a large one does not block small ones (as in Slurm, where every srun polls).

`step_key` makes a request idempotent: the same key is the same step. If the caller of a waiting step disconnects, the
step keeps its position for PENDING_KEPT_US, since clients repeat their calls; a step is never started without a caller.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from ctld.core.demand import specialized
from ctld.core.jobs import het, ports
from ctld.core.lifecycle import resize, step_orders
from ctld.core.lifecycle.allocations import allocation_of
from ctld.core.queue.defaults import let_through
from ctld.core.queue.rights import is_own, not_yours
from ctld.core.records.effects import Refusal, Refused, StepCreated, StepSeen
from ctld.core.records.events import Actor, AwaitStep, CreateStep
from ctld.core.records.job import NO_STEPS, Job, job_row
from ctld.core.records.step import SpreadStep, Step, StepRequest, Unfit, UsedResources, blank_spread_step, step_row
from ctld.core.state.job_step_table import JobStepTable, PendingStep
from ctld.core.state.state import ClusterState
from ctld.core.state.stored import spec_bytes
from ctld.core.state.timers import Timer
from ctld.core.steps import life as step_life
from ctld.core.steps.gres import implied_gres
from ctld.core.steps.parts import limit_step
from ctld.core.steps.plan import Plan, plan_step
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress
from penstock.values.jobid import INTERACTIVE_STEP
from penstock.values.refusals import TEXT, Code
from penstock.values.signals import parse_end_warning
from penstock.values.states import END_STATES, JobState
from penstock.values.text import check_name
from penstock.values.tres import format_tres

S = JobState
US = 1_000_000
#: How long a waiting step keeps its position without a caller.
PENDING_KEPT_US = 10 * US
#: Delay before a step whose time limit passed while its job was suspended is checked again.
SUSPENDED_PAUSE_US = 10 * US
#: Maximum number of waiting and of live steps of one job.
WAITING_MAX = 4_096
LIVE_MAX = 10_000
#: Maximum number of waiting steps that may turn out not to fit each time that something becomes free; the others are
#: tried when their clients repeat the call. On a job of a thousand nodes each takes milliseconds of the loop.
UNPLACED_MAX = 64
#: Largest count of anything in a request.
COUNT_MAX = 16_000_000
COUNTS = (
    "nodes_min", "nodes_max", "ntasks", "cpus_per_task", "ntasks_per_node", "ntasks_per_core", "ntasks_per_socket",
    "ntasks_per_gpu", "threads_per_core", "resv_ports", "rank_offset", "het_ntasks", "node_offset", "het_nodes",
)  # fmt: skip
NAME_MAX = 1024
#: States in which a job cannot run a step yet, but will.
_NOT_YET = (S.CONFIGURING, S.SUSPENDED)


def create_step(state: ClusterState, now_us: int, event: CreateStep) -> None:
    """Handles srun's request for a step. Raises Refused."""
    job = _job_of(state, event.actor, event.job_id)
    table = state.steps.by_job.get(job.job_id)
    known = table.keys.get(event.step_key) if table is not None else None
    if known is not None:
        _reply_created(state, job, job.steps[known], event.reply_to)
        return
    event = _with_site(state, event)
    _check_request(event.request)
    _check_limits(state, job, table, event)
    state.submissions.stored.check(job.user_id, state.config, now_us, (event.spec,))
    plan, lack = None, Unfit(Code.NODES_BUSY)
    try:
        plan = _plan(state, job, table, event.request)
    except Unfit as unfit:
        lack = unfit
        _check_ever(state, job, event.request)
        if not event.wait or event.request.immediate_s == 0:
            raise Refused(Code.NODES_BUSY, unfit.text) from None
    if plan is None and table is not None and len(table.pending) >= WAITING_MAX and event.step_key not in table.pending:
        raise Refused(Code.BUSY, f"{WAITING_MAX} steps of the job wait")
    state.applying()
    if table is None:
        table = state.steps.by_job[job.job_id] = JobStepTable(job.steps.values())
    if plan is not None:
        _start(state, now_us, job, table, event, plan)
        table.pending.pop(event.step_key, None)
        return
    pending = table.pending.get(event.step_key)
    if pending is None:
        pending = table.pending[event.step_key] = PendingStep(event, now_us)
    else:
        pending.event = event
        pending.reply_to = event.reply_to
        pending.stopped_at_us = 0
    _lacks(state, job, pending, lack)
    state.calls.enter(het.whole_id(job), event.reply_to)
    state.steps.creation_calls[event.reply_to] = (job.job_id, event.step_key)


def _with_site(state: ClusterState, event: CreateStep) -> CreateStep:
    """Completes the request from slurm.conf: MpiDefault, PropagateResourceLimits."""
    request, config = event.request, state.config
    rlimits = request.rlimits if request.propagate_asked else let_through(state, request.rlimits)
    mpi = request.mpi or ("" if config.mpi_default == "none" else config.mpi_default)
    if rlimits == request.rlimits and mpi == request.mpi:
        return event
    return replace(event, request=replace(request, rlimits=rlimits, mpi=mpi))


def _job_of(state: ClusterState, actor: Actor, job_id: int) -> Job:
    job = state.jobs.get(job_id)
    if job is None or job.array_tasks is not None:
        raise Refused(Code.INVALID_JOB_ID, str(job_id))
    if actor.uid != job.user_id:  # only as the job's user, operators included
        raise not_yours(state, actor, job, Code.INVALID_JOB_ID, str(job_id))
    if job.state is S.PENDING:
        raise Refused(Code.JOB_PENDING)
    if job.state in END_STATES or job.state is S.COMPLETING:
        raise Refused(Code.ALREADY_DONE)
    return job


def _check_request(request: StepRequest) -> None:
    for what in COUNTS:
        value = getattr(request, what)
        if not 0 <= value <= COUNT_MAX:
            raise Refused(Code.INVALID_VALUE, f"{what} must be between 1 and {COUNT_MAX}, not {value}")
    if request.het_step is not None and request.het_step > COUNT_MAX:
        raise Refused(Code.INVALID_STEP, f"{request.het_step}")
    if request.nodes_max and request.nodes_max < request.nodes_min:
        raise Refused(Code.INVALID_NODE_COUNT, f"{request.nodes_min}-{request.nodes_max}")
    for kinds in (request.gres_per_node, request.gres_per_step, request.gres_per_task):
        for name, _, count in kinds:
            if not 0 <= count <= COUNT_MAX:
                raise Refused(Code.INVALID_GRES, f"{name}:{count}")
    for what in ("mem_per_node_mb", "mem_per_cpu_mb"):
        if (getattr(request, what) or 0) < 0:
            raise Refused(Code.INVALID_TASK_MEMORY, what)
    if request.signal:
        try:
            parse_end_warning(request.signal)
        except BadValue as error:
            raise Refused(Code.INVALID_VALUE, str(error)) from None
    limit = request.time_limit_s
    if limit is not None and limit != -1 and limit <= 0:
        raise Refused(Code.INVALID_TIME_LIMIT, f"{limit} seconds")
    try:
        check_name(request.name, "step name", NAME_MAX)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None


def _check_limits(state: ClusterState, job: Job, table: JobStepTable | None, event: CreateStep) -> None:
    most = state.config.max_step_count
    asked = event.request.het_step
    if asked is not None and (not job.request.het_job_id or (table is not None and asked < table.next_id)):
        raise Refused(Code.INVALID_STEP, f"{job.job_id}.{asked}")
    if table is not None and table.next_id >= most:
        raise Refused(Code.STEP_LIMIT, f"MaxStepCount={most}")
    if table is not None and len(table.live) >= LIVE_MAX:
        raise Refused(Code.STEP_LIMIT, f"{LIVE_MAX} steps of the job run")
    if event.request.interactive and table is not None and INTERACTIVE_STEP in job.steps:
        raise Refused(Code.INVALID_STEP, "the job has an interactive step already")


def _plan(state: ClusterState, job: Job, table: JobStepTable | None, request: StepRequest) -> Plan:
    """Plans the step. Raises Unfit, also when the job does not run yet."""
    if job.state in _NOT_YET:
        raise Unfit(Code.NODES_BUSY, f"the job is {job.state.name}")
    plan = _plan_with(state, job, {} if table is None else table.used, request)
    _ports_for(state, job, request, plan)
    return plan


def _ports_for(state: ClusterState, job: Job, request: StepRequest, plan: Plan) -> tuple[int, ...]:
    """Returns the ports for --resv-ports, of the step or of its job. Raises Unfit."""
    count = request.resv_ports or job.request.resv_ports
    return ports.find(state, tuple(part.node for part in plan.parts), count) if count else ()


def _plan_with(state: ClusterState, job: Job, used: Mapping[str, UsedResources], request: StepRequest) -> Plan:
    most = state.config.max_tasks_per_node
    leaving = state.resizes.get(job.job_id)
    if leaving is not None:
        gone = tuple(part.node for part in job.alloc if part.node not in leaving.kept)
        request = replace(request, nodes_excluded=(*request.nodes_excluded, *gone))
    alloc = specialized.usable(job.request, job.alloc)
    return plan_step(alloc, request, used, lambda name: state.nodes[name].inside, most, implied_gres(state, job))


def _check_ever(state: ClusterState, job: Job, request: StepRequest) -> None:
    """Raises Refused when the job does not have what the step requests, whatever else runs in it."""
    try:
        _plan_with(state, job, {}, request)
        ports.find(state, (), request.resv_ports or job.request.resv_ports)
    except Unfit as unfit:
        raise Refused(unfit.code, unfit.text) from None


def _start(state: ClusterState, now_us: int, job: Job, table: JobStepTable, event: CreateStep, plan: Plan) -> None:
    step = _new_step(state, now_us, job, table, event, plan)
    if job.steps is NO_STEPS:
        job.steps = {}
    job.steps[step.step_id] = step
    table.add(step)
    ports.give_step(state, step, _ports_for(state, job, event.request, plan))
    state.outputs.new_specs.append(event.spec)
    state.submissions.stored.enter_step(
        job, event.spec.spec_hash, spec_bytes(event.spec), state.config.user_spec_bytes_per_day, now_us
    )
    state.touch_step(step)
    step_orders.emit_launch(state, job, step)
    state.calls.enter(het.whole_id(job), event.reply_to)
    state.calls.leave(event.reply_to, now_us)
    _reply_created(state, job, step, event.reply_to, plan.warnings)


def _new_step(
    state: ClusterState, now_us: int, job: Job, table: JobStepTable, event: CreateStep, plan: Plan
) -> SpreadStep:
    request, parts = event.request, plan.parts
    step = blank_spread_step(
        job.job_id,
        job.attempt,
        INTERACTIVE_STEP if request.interactive else next_step_id(state, job, table, request),
        request.name or program_of(event),
        parts[0].node,
        state.epoch,
        sum(len(part.ranks) for part in parts),
    )
    step.all_parts = parts
    step.live = len(parts)
    step.request = request
    step.spec_hash = event.spec.spec_hash
    step.step_key = event.step_key
    step.node_list = compress(part.node for part in parts)
    step.nodes = len(parts)
    step.cpus = sum(part.cpus for part in parts)
    step.tres_alloc = _tres(step)
    step.submit_at_us = now_us
    step.time_limit_s = -1 if request.time_limit_s is None else request.time_limit_s
    return step


def next_step_id(state: ClusterState, job: Job, table: JobStepTable | None, request: StepRequest) -> int:
    """Returns the id of a job's next step; for a heterogeneous job the one after those of all components."""
    own = table.next_id if table is not None else 0
    if not job.request.het_job_id:
        return own
    if request.het_step is not None:
        return request.het_step
    tables = [state.steps.by_job.get(member.job_id) for member in het.members(state, job)]
    return max(own, *(other.next_id for other in tables if other is not None), 0)


def program_of(event: CreateStep) -> str:
    """Returns the program's name, as far as it is text: the name of a step without --job-name."""
    argv = event.spec.argv or (event.request.multi_prog[0].argv if event.request.multi_prog else ())
    name = argv[0].rpartition(b"/")[2].decode("utf-8", "replace") if argv else ""
    return "".join(c if c.isprintable() else "?" for c in name)[:NAME_MAX] or "step"


def _tres(step: SpreadStep) -> str:
    tres = {"cpu": step.cpus, "mem": sum(part.mem_mb for part in step.all_parts), "node": step.nodes}
    for part in step.all_parts:
        for name, type_, mask in part.gres:
            for key in dict.fromkeys((f"gres/{name}", f"gres/{name}:{type_}" if type_ else f"gres/{name}")):
                tres[key] = tres.get(key, 0) + mask.bit_count()
    return format_tres(tres)


def _reply_created(state: ClusterState, job: Job, step: Step, reply_to: int, warnings: tuple[str, ...] = ()) -> None:
    state.reply(reply_to, StepCreated(job_row(job), step_row(step), warnings))


# ---- waiting steps and callers
# ----------------------------------------------------------------------------------------


def serve_due(state: ClusterState, now_us: int) -> None:
    """Answers callers that wait for jobs that have begun or ended, or of which a step has ended."""
    while state.steps.due:
        job_id, _ = state.steps.due.popitem(last=False)
        job = state.jobs.get(job_id)
        if job is None:
            continue
        if het.is_up(state, job):
            callers = state.calls.take((job_id,), now_us)
            if callers:
                body = allocation_of(state, job)
                for reply_to in callers:
                    state.reply(reply_to, body)
        resize.advance(state, job, now_us)
        table = state.steps.by_job.get(job_id)
        if table is not None and table.pending:
            _serve(state, now_us, job, table)
        if job.state in END_STATES or job.state is S.PENDING:
            state.steps.by_job.pop(job_id, None)
        if job.state in END_STATES:
            state.calls.forget(job_id)


def _serve(state: ClusterState, now_us: int, job: Job, table: JobStepTable) -> None:
    """Starts each waiting step that fits, in their order."""
    over = job.state not in (S.RUNNING, S.CONFIGURING, S.SUSPENDED)
    unplaced = 0
    for key, pending in list(table.pending.items()):
        if not pending.reply_to and (over or now_us - pending.stopped_at_us > PENDING_KEPT_US):
            del table.pending[key]
            continue
        if over:
            _drop(state, now_us, table, key, pending, Code.ALREADY_DONE)
        elif pending.reply_to and unplaced < UNPLACED_MAX:
            try:
                plan = _plan(state, job, table, pending.event.request)
            except Unfit as unfit:
                unplaced += 1
                _lacks(state, job, pending, unfit)
                continue
            if table.next_id >= state.config.max_step_count:
                _drop(state, now_us, table, key, pending, Code.STEP_LIMIT)
                continue
            del table.pending[key]
            state.steps.creation_calls.pop(pending.reply_to, None)
            _start(state, now_us, job, table, pending.event, plan)


def _lacks(state: ClusterState, job: Job, pending: PendingStep, unfit: Unfit) -> None:
    """Stores what a waiting step lacks; another job's end may free ports."""
    pending.unfit = unfit
    if unfit.code is Code.PORTS_BUSY:
        state.steps.port_waiters[job.job_id] = None


def _drop(state: ClusterState, now_us: int, table: JobStepTable, key: str, pending: PendingStep, code: Code) -> None:
    del table.pending[key]
    state.steps.creation_calls.pop(pending.reply_to, None)
    state.calls.leave(pending.reply_to, now_us)
    state.reply(pending.reply_to, Refusal(int(code), TEXT[code]))


def abandon_creation(state: ClusterState, now_us: int, reply_to: int) -> None:
    """Handles the loss of a caller whose CreateStep waits: their step keeps its position for a while."""
    job_id, key = state.steps.creation_calls.pop(reply_to, (0, ""))
    table = state.steps.by_job.get(job_id)
    pending = table.pending.get(key) if table is not None else None
    if pending is not None and pending.reply_to == reply_to:
        pending.reply_to = 0
        pending.stopped_at_us = now_us


def await_step(state: ClusterState, now_us: int, event: AwaitStep) -> None:
    """Answers now if the step has ended, otherwise when it does. Raises Refused."""
    job = state.jobs.get(event.job_id)
    step = job.steps.get(event.step_id) if job is not None and job.attempt == event.attempt else None
    if job is None or step is None:
        raise Refused(Code.INVALID_STEP, f"{event.job_id}.{event.step_id}")
    if not is_own(event.actor, job):
        raise not_yours(state, event.actor, job, Code.INVALID_STEP, f"{event.job_id}.{event.step_id}")
    state.applying()
    if event.actor.uid == job.user_id:
        state.calls.enter(het.whole_id(job), event.reply_to)
    if step.state in END_STATES or not event.wait:
        state.calls.leave(event.reply_to, now_us)
        state.reply(event.reply_to, StepSeen(step_row(step), job.state.name))
    else:
        state.calls.wait((job.job_id, job.attempt, step.step_id), event.reply_to)


# ---- time limits ------------------------------------------------------------------------------------------------------


def _limited(state: ClusterState, job_id: int, check: int) -> tuple[Job, SpreadStep] | None:
    """Returns the step of a timer, unless it has ended or is about to."""
    found = step_life.find(state, job_id, *limit_step(check))
    if found is None:
        return None
    job, step = found
    return (job, step) if isinstance(step, SpreadStep) and step.live and not step.note else None


def limit_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """Ends a step whose --time has passed. No step is ended while its job is suspended."""
    found = _limited(state, job_id, check)
    if found is None:
        return
    job, step = found
    if job.state is S.SUSPENDED:
        state.timers.set(now_us + SUSPENDED_PAUSE_US, Timer.STEP_LIMIT, job_id, check)
    elif step.time_limit_s >= 0 and step.start_at_us + step.time_limit_s * US <= now_us:  # else it was changed
        step_life.end_step(state, job, step, "TIME LIMIT")


def warning_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """Sends the --signal of a step before its --time ends. All its tasks get the signal; a step has no script, so B:
    does not apply."""
    found = _limited(state, job_id, check)
    if found is None:
        return
    job, step = found
    assert step.request is not None
    if job.state is S.SUSPENDED:
        state.timers.set(now_us + SUSPENDED_PAUSE_US, Timer.STEP_WARNING, job_id, check)
        return
    number = parse_end_warning(step.request.signal).signal_no
    state.record(now_us, job, "signal", f"{number} to step {step.step_id}")
    step_orders.emit_signal(state, job, step, number)
