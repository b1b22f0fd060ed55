"""Steps of srun: from the wish to the launch on each node. What becomes of them then: step_life.py.

A step gets its place at once, or waits for what other steps of its job hold, or is refused because the job does not have
it at all. Those that wait stand in the order in which they came; when something becomes free each that fits goes, so that
a large one does not keep small ones waiting (as in Slurm, where every srun asks again and again).

`step_key` makes a request safe to repeat: the same key is the same step. A caller who went away while his step waited
keeps its place for WISH_KEPT_US, since clients ask in rounds; a step is never started for nobody.
"""

from typing import Any

from msgspec.structs import replace

from ctld.core import het, job_life, ports, step_life
from ctld.core.allocations import allocation_of
from ctld.core.defaults import let_through
from ctld.core.effects import Refusal, Refused, SignalStep, StepCreated, StepSeen
from ctld.core.events import Actor, AwaitStep, CreateStep
from ctld.core.model import NO_STEPS, Job, job_row
from ctld.core.rights import is_own, not_yours
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, Step, StepRequest, live_nodes, step_row
from ctld.core.step_parts import limit_step
from ctld.core.step_plan import Plan, Unfit, plan_step
from ctld.core.stepdesk import StepDesk, Wish
from ctld.core.timers import Timer
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
#: How long a step that waits keeps its place when its caller is gone.
WISH_KEPT_US = 10 * US
#: A step whose time is over while its job is suspended is looked at again after so long.
SUSPENDED_PAUSE_US = 10 * US
#: Steps of one job that wait at a time, and that live.
WAITING_MAX = 4_096
LIVE_MAX = 10_000
#: Of those that wait, so many may turn out not to fit each time that something becomes free; the others are looked at when
#: their clients ask again. On a job of a thousand nodes each costs milliseconds, and everybody waits for them.
MISFITS_MAX = 64
#: Largest count of anything in a request.
COUNT_MAX = 16_000_000
COUNTS = (
    "nodes_min", "nodes_max", "ntasks", "cpus_per_task", "ntasks_per_node", "ntasks_per_core", "ntasks_per_socket",
    "ntasks_per_gpu", "threads_per_core", "resv_ports", "rank_offset", "het_ntasks", "node_offset", "het_nodes",
)  # fmt: skip
NAME_MAX = 1024
#: States in which a job takes no step yet, and will.
_NOT_YET = (S.CONFIGURING, S.SUSPENDED)


def create_step(state: ClusterState, now_us: int, event: CreateStep) -> None:
    """srun. Raises Refused."""
    job = _job_of(state, event.actor, event.job_id)
    desk = state.desks.get(job.job_id)
    known = desk.keys.get(event.step_key) if desk is not None else None
    if known is not None:
        _reply_created(state, job, job.steps[known], event.reply_to)
        return
    event = _with_site(state, event)
    _check_request(event.request)
    _check_limits(state, job, desk, event)
    plan, lack = None, Unfit(Code.NODES_BUSY)
    try:
        plan = _plan(state, job, desk, event.request)
    except Unfit as unfit:
        lack = unfit
        _check_ever(state, job, event.request)
        if not event.wait or event.request.immediate_s == 0:
            raise Refused(Code.NODES_BUSY, unfit.text) from None
    if plan is None and desk is not None and len(desk.wishes) >= WAITING_MAX and event.step_key not in desk.wishes:
        raise Refused(Code.BUSY, f"{WAITING_MAX} steps of the job wait")
    # -- apply
    if desk is None:
        desk = state.desks[job.job_id] = StepDesk(job.steps.values())
    if plan is not None:
        _start(state, now_us, job, desk, event, plan)
        desk.wishes.pop(event.step_key, None)
        return
    wish = desk.wishes.get(event.step_key)
    if wish is None:
        wish = desk.wishes[event.step_key] = Wish(event, now_us)
    else:
        wish.event, wish.reply_to, wish.stopped_at_us = event, event.reply_to, 0
    _lacks(state, job, wish, lack)
    state.calls.enter(het.whole_id(job), event.reply_to)
    state.wish_calls[event.reply_to] = (job.job_id, event.step_key)


def _with_site(state: ClusterState, event: CreateStep) -> CreateStep:
    """The request with what slurm.conf says for steps that do not: MpiDefault, PropagateResourceLimits."""
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
    if actor.uid != job.user_id:  # nobody runs programs as somebody else, operators neither
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


def _check_limits(state: ClusterState, job: Job, desk: StepDesk | None, event: CreateStep) -> None:
    most = state.config.max_step_count
    asked = event.request.het_step
    if asked is not None and (not job.request.het_job_id or (desk is not None and asked < desk.next_id)):
        raise Refused(Code.INVALID_STEP, f"{job.job_id}.{asked}")
    if desk is not None and desk.next_id >= most:
        raise Refused(Code.STEP_LIMIT, f"MaxStepCount={most}")
    if desk is not None and len(desk.live) >= LIVE_MAX:
        raise Refused(Code.STEP_LIMIT, f"{LIVE_MAX} steps of the job run")
    if event.request.interactive and desk is not None and INTERACTIVE_STEP in job.steps:
        raise Refused(Code.INVALID_STEP, "the job has an interactive step already")


def _plan(state: ClusterState, job: Job, desk: StepDesk | None, request: StepRequest) -> Plan:
    """Raises Unfit, also when the job does not run yet."""
    if job.state in _NOT_YET:
        raise Unfit(Code.NODES_BUSY, f"the job is {job.state.name}")
    plan = _plan_with(state, job, {} if desk is None else desk.held, request)
    _ports_for(state, job, request, plan)
    return plan


def _ports_for(state: ClusterState, job: Job, request: StepRequest, plan: Plan) -> tuple[int, ...]:
    """--resv-ports, of the step or of its job. Raises Unfit."""
    count = request.resv_ports or job.request.resv_ports
    return ports.find(state, tuple(part.node for part in plan.parts), count) if count else ()


def _plan_with(state: ClusterState, job: Job, held: Any, request: StepRequest) -> Plan:
    most = state.config.max_tasks_per_node
    return plan_step(job.alloc, request, held, lambda name: state.nodes[name].inside, most)


def _check_ever(state: ClusterState, job: Job, request: StepRequest) -> None:
    """Raise Refused when the job does not have what the step wants, whatever else runs in it."""
    try:
        _plan_with(state, job, {}, request)
        ports.find(state, (), request.resv_ports or job.request.resv_ports)
    except Unfit as unfit:
        raise Refused(unfit.code, unfit.text) from None


def _start(state: ClusterState, now_us: int, job: Job, desk: StepDesk, event: CreateStep, plan: Plan) -> None:
    step = _new_step(state, now_us, job, desk, event, plan)
    if job.steps is NO_STEPS:
        job.steps = {}
    job.steps[step.step_id] = step
    desk.add(step)
    ports.give_step(state, step, _ports_for(state, job, event.request, plan))
    state.new_specs.append(event.spec)
    state.touch_step(step)
    job_life.emit_launch(state, job, step)
    state.calls.enter(het.whole_id(job), event.reply_to)
    state.calls.leave(event.reply_to, now_us)
    _reply_created(state, job, step, event.reply_to, plan.warnings)


def _new_step(state: ClusterState, now_us: int, job: Job, desk: StepDesk, event: CreateStep, plan: Plan) -> SpreadStep:
    request, parts = event.request, plan.parts
    step = SpreadStep()
    step.job_id, step.attempt = job.job_id, job.attempt
    step.step_id = INTERACTIVE_STEP if request.interactive else next_step_id(state, job, desk, request)
    step.name = request.name or program_of(event)
    step.state, step.node, step.epoch = S.CONFIGURING, parts[0].node, state.epoch
    step.tasks = sum(len(part.ranks) for part in parts)
    step.dead_after_s = step.start_at_us = step.end_at_us = step.exit_code = step.exit_signal = 0
    step.user_cpu_us = step.system_cpu_us = step.max_rss_kb = step.max_vmsize_kb = 0
    step.disk_read_bytes = step.disk_write_bytes = 0
    step.all_parts, step.live = parts, len(parts)
    step.request, step.spec_hash, step.step_key = request, event.spec.spec_hash, event.step_key
    step.node_list, step.nodes = compress(part.node for part in parts), len(parts)
    step.cpus = sum(part.cpus for part in parts)
    step.tres_alloc = _tres(step)
    step.submit_at_us = now_us
    step.time_limit_s = -1 if request.time_limit_s is None else request.time_limit_s
    step.cancelled_by_uid, step.usage, step.note, step.ports = -1, "", "", ()
    return step


def next_step_id(state: ClusterState, job: Job, desk: StepDesk | None, request: StepRequest) -> int:
    """The number of a job's next step; of a heterogeneous job's the one after those of all components."""
    own = desk.next_id if desk is not None else 0
    if not job.request.het_job_id:
        return own
    if request.het_step is not None:
        return request.het_step
    desks = [state.desks.get(member.job_id) for member in het.members(state, job)]
    return max(own, *(other.next_id for other in desks if other is not None), 0)


def program_of(event: CreateStep) -> str:
    """The program's name, as far as it is text: what a step is called without --job-name."""
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


# ---- those who wait ---------------------------------------------------------------------------------------------------


def serve_due(state: ClusterState, now_us: int) -> None:
    """Answer who waits for jobs that have begun or ended, or of which a step has ended."""
    while state.steps_due:
        job_id = next(iter(state.steps_due))
        del state.steps_due[job_id]
        job = state.jobs.get(job_id)
        if job is None:
            continue
        if het.is_up(state, job):
            callers = state.calls.take((job_id,), now_us)
            body = allocation_of(state, job) if callers else None
            for reply_to in callers:
                state.reply(reply_to, body)
        desk = state.desks.get(job_id)
        if desk is not None and desk.wishes:
            _serve(state, now_us, job, desk)
        if job.state in END_STATES or job.state is S.PENDING:
            state.desks.pop(job_id, None)
        if job.state in END_STATES:
            state.calls.forget(job_id)


def _serve(state: ClusterState, now_us: int, job: Job, desk: StepDesk) -> None:
    """Start each waiting step that fits, in their order."""
    over = job.state not in (S.RUNNING, S.CONFIGURING, S.SUSPENDED)
    misfits = 0
    for key, wish in list(desk.wishes.items()):
        if not wish.reply_to and (over or now_us - wish.stopped_at_us > WISH_KEPT_US):
            del desk.wishes[key]
            continue
        if over:
            _drop(state, now_us, desk, key, wish, Code.ALREADY_DONE)
        elif wish.reply_to and misfits < MISFITS_MAX:
            try:
                plan = _plan(state, job, desk, wish.event.request)
            except Unfit as unfit:
                misfits += 1
                _lacks(state, job, wish, unfit)
                continue
            if desk.next_id >= state.config.max_step_count:
                _drop(state, now_us, desk, key, wish, Code.STEP_LIMIT)
                continue
            del desk.wishes[key]
            state.wish_calls.pop(wish.reply_to, None)
            _start(state, now_us, job, desk, wish.event, plan)


def _lacks(state: ClusterState, job: Job, wish: Wish, unfit: Unfit) -> None:
    """What a step that waits was short of; ports may come free with another job."""
    wish.unfit = unfit
    if unfit.code is Code.PORTS_BUSY:
        state.port_waiters[job.job_id] = None


def _drop(state: ClusterState, now_us: int, desk: StepDesk, key: str, wish: Wish, code: Code) -> None:
    del desk.wishes[key]
    state.wish_calls.pop(wish.reply_to, None)
    state.calls.leave(wish.reply_to, now_us)
    state.reply(wish.reply_to, Refusal(int(code), TEXT[code]))


def stop_wishing(state: ClusterState, now_us: int, reply_to: int) -> None:
    """The caller of a CreateStep that waits has gone: his step keeps its place for a while."""
    job_id, key = state.wish_calls.pop(reply_to, (0, ""))
    desk = state.desks.get(job_id)
    wish = desk.wishes.get(key) if desk is not None else None
    if wish is not None and wish.reply_to == reply_to:
        wish.reply_to, wish.stopped_at_us = 0, now_us


def await_step(state: ClusterState, now_us: int, event: AwaitStep) -> None:
    """Answer now if the step has ended, else when it does. Raises Refused."""
    job = state.jobs.get(event.job_id)
    step = job.steps.get(event.step_id) if job is not None and job.attempt == event.attempt else None
    if job is None or step is None:
        raise Refused(Code.INVALID_STEP, f"{event.job_id}.{event.step_id}")
    if not is_own(event.actor, job):
        raise not_yours(state, event.actor, job, Code.INVALID_STEP, f"{event.job_id}.{event.step_id}")
    if event.actor.uid == job.user_id:
        state.calls.enter(het.whole_id(job), event.reply_to)
    if step.state in END_STATES or not event.wait:
        state.calls.leave(event.reply_to, now_us)
        state.reply(event.reply_to, StepSeen(step_row(step), job.state.name))
    else:
        state.calls.wait((job.job_id, job.attempt, step.step_id), event.reply_to)


# ---- time limits ------------------------------------------------------------------------------------------------------


def _limited(state: ClusterState, job_id: int, check: int) -> tuple[Job, SpreadStep] | None:
    """The step of a timer, unless it has ended or is about to."""
    found = step_life.find(state, job_id, *limit_step(check))
    if found is None:
        return None
    job, step = found
    return (job, step) if isinstance(step, SpreadStep) and step.live and not step.note else None


def limit_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """--time of a step is over. No step is ended while its job stands still."""
    found = _limited(state, job_id, check)
    if found is None:
        return
    job, step = found
    if job.state is S.SUSPENDED:
        state.timers.set(now_us + SUSPENDED_PAUSE_US, Timer.STEP_LIMIT, job_id, check)
    else:
        step_life.end_step(state, job, step, "TIME LIMIT")


def warning_due(state: ClusterState, now_us: int, job_id: int, check: int) -> None:
    """--signal of a step: its --time is over soon. All its tasks get the signal; a step has no script that B: could mean."""
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
    for node in live_nodes(step):
        state.emit(SignalStep(node, job_id, step.attempt, step.step_id, number, False, False))
