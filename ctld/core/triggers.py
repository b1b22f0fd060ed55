"""strigger: programs that run on the controller's machine when something happens to a node, a job or the controller.

    waits -> due (something has happened; more of the same is gathered for COLLECT_US) -> its program runs -> gone

A permanent trigger waits again when its program has ended. What is due or runs is in the database, so a crash of the
controller runs a program again rather than not at all.

Nodes and jobs are looked at every POLL_US while there are triggers, and soon after a node has changed: what is true of
each node now is compared with what was true at the last look. Without triggers nothing is looked at.

Who may set one: administrators; with SlurmctldParameters=allow_user_triggers everybody, on his own jobs and any nodes.
"""

from ctld.core import arrays
from ctld.core.effects import Refused, RunTrigger, TriggersChanged
from ctld.core.events import ClearTriggers, Role, SetTrigger, TriggerEnded
from ctld.core.expect import limit_at_us
from ctld.core.model import Job, Node
from ctld.core.periodic import OF_JOB, OF_NODES, Trigger, TriggerKind
from ctld.core.rights import is_own, not_yours, require_role, sees_jobs_of_others
from ctld.core.state import CLOSED_FLAGS, ClusterState
from ctld.core.timers import Timer
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, HOLDING_STATES, NodeFlag
from penstock.values.text import check_name

US = 1_000_000
K = TriggerKind
#: Events of one kind that come one after the other within this time run the program once.
COLLECT_US = 1 * US
#: How often jobs and idle nodes are looked at. Slurm looks every 15 seconds.
POLL_US = 5 * US
#: How soon after a change of a node.
LOOK_US = US // 5
#: Triggers in all, and of one user who is no administrator: each look goes over them.
TRIGGERS_MAX = 1_000
TRIGGERS_OF_USER_MAX = 50
#: As Slurm's.
OFFSET_MAX_S = 32_000
#: PATH_MAX, for the program with its arguments.
PROGRAM_BYTES_MAX = 4096


def set_trigger(state: ClusterState, now_us: int, event: SetTrigger) -> None:
    """strigger --set. Raises Refused."""
    actor, periodic = event.actor, state.periodic
    _check(state, event)
    for other in periodic.triggers.values():
        same = (other.uid, other.kinds, other.what, other.nodes, other.job_id, other.program)
        if same == (actor.uid, event.kinds, event.what, event.nodes, event.job_id, event.program):
            raise Refused(Code.TRIGGER_DUP, f"it is number {other.trigger_id}")
    # -- apply
    trigger_id = periodic.next_trigger_id
    periodic.next_trigger_id += 1
    if not periodic.seen:
        _remember(state)
    periodic.put_trigger(
        Trigger(
            trigger_id, actor.uid, actor.gid, actor.user_name, event.kinds, event.what, event.nodes, event.job_id,
            event.offset_s, event.program, event.permanent, now_us,
        )
    )  # fmt: skip
    arm(state, now_us + LOOK_US)
    state.reply(event.reply_to, TriggersChanged((trigger_id,)))


def _check(state: ClusterState, event: SetTrigger) -> None:
    actor, triggers = event.actor, state.periodic.triggers
    if actor.role < Role.ADMINISTRATOR:
        if not state.config.has_word("slurmctld_parameters", "allow_user_triggers"):
            require_role(
                actor, Role.ADMINISTRATOR, "setting a trigger (without SlurmctldParameters=allow_user_triggers)"
            )
        if sum(trigger.uid == actor.uid for trigger in triggers.values()) >= TRIGGERS_OF_USER_MAX:
            raise Refused(Code.BUSY, f"a user may have {TRIGGERS_OF_USER_MAX} triggers")
    if len(triggers) >= TRIGGERS_MAX:
        raise Refused(Code.BUSY, f"there are {TRIGGERS_MAX} triggers, which is the limit")
    if not 0 < event.kinds < 2 * max(K):
        raise Refused(Code.INVALID_VALUE, "a trigger waits for something")
    if abs(event.offset_s) > OFFSET_MAX_S:
        raise Refused(Code.INVALID_TIME_VALUE, f"the offset is not between -{OFFSET_MAX_S} and {OFFSET_MAX_S} seconds")
    try:
        check_name(event.program, "program", PROGRAM_BYTES_MAX)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None
    if not event.program.startswith("/"):
        raise Refused(Code.INVALID_VALUE, "the program's path begins with /")
    for name in event.nodes:
        if name not in state.nodes:
            raise Refused(Code.INVALID_NODE_NAME, name)
    if event.kinds & OF_JOB and not event.job_id:
        raise Refused(Code.INVALID_JOB_ID, "a job must be named")
    if event.job_id:
        _check_job(state, event)


def _check_job(state: ClusterState, event: SetTrigger) -> None:
    record = state.arrays.get(event.job_id)
    job = state.jobs.get(event.job_id)
    if job is None and record is not None:
        job = state.jobs.get(next(iter(record.members.values()), next(iter(record.holders), 0)))
    if job is None:
        raise Refused(Code.INVALID_JOB_ID, str(event.job_id))
    if not is_own(event.actor, job):
        raise not_yours(state, event.actor, job, Code.INVALID_JOB_ID, str(event.job_id))
    if _is_over(state, event.job_id):
        raise Refused(Code.ALREADY_DONE)
    if event.nodes:
        raise Refused(Code.INVALID_VALUE, "a job and nodes exclude each other")


def clear_triggers(state: ClusterState, now_us: int, event: ClearTriggers) -> None:
    """strigger --clear. Raises Refused."""
    asked = (event.trigger_id, event.job_id, event.uid)
    if asked == (0, 0, -1):
        raise Refused(Code.INVALID_VALUE, "name a trigger, a job or a user")
    found = [
        trigger
        for trigger in state.periodic.triggers.values()
        if event.trigger_id in (0, trigger.trigger_id)
        and event.job_id in (0, trigger.job_id)
        and event.uid in (-1, trigger.uid)
    ]
    if not found:
        raise Refused(Code.NO_TRIGGER)
    if event.actor.role < Role.ADMINISTRATOR:
        found = [trigger for trigger in found if trigger.uid == event.actor.uid]
    if not found:
        unseen = not sees_jobs_of_others(state.config, event.actor)
        raise Refused(Code.NO_TRIGGER if unseen else Code.ACCESS_DENIED)
    # -- apply
    for trigger in found:
        state.periodic.drop_trigger(trigger.trigger_id)
    state.reply(event.reply_to, TriggersChanged(tuple(trigger.trigger_id for trigger in found)))


def trigger_ended(state: ClusterState, now_us: int, event: TriggerEnded) -> None:
    """Its program has ended: it is gone, or waits again."""
    trigger = state.periodic.triggers.get(event.trigger_id)
    if trigger is None or trigger.running is None:
        return
    # -- apply
    if trigger.permanent:
        state.periodic.put_trigger(trigger._replace(running=None))
        arm(state, now_us + LOOK_US)
    else:
        state.periodic.drop_trigger(trigger.trigger_id)


# ---- looking -----------------------------------------------------------------------------------------------------


def arm(state: ClusterState, at_us: int) -> None:
    """Look at that time, or earlier."""
    if not state.periodic.look_at_us or at_us < state.periodic.look_at_us:
        state.periodic.look_at_us = at_us
        state.timers.set(at_us, Timer.TRIGGERS)


def nodes_changed(state: ClusterState, now_us: int) -> None:
    """Something about nodes is new: note it at once, as it may be over again when triggers are looked at."""
    periodic = state.periodic
    if not periodic.triggers:
        return
    for name in state.dirty_nodes:
        if name in state.nodes and name in periodic.seen:
            kinds = truth(state.nodes[name])
            if new := kinds & ~periodic.seen[name]:
                periodic.rose[name] = periodic.rose.get(name, 0) | new
            periodic.seen[name] = kinds
    arm(state, now_us + LOOK_US)


def due(state: ClusterState, now_us: int) -> None:
    """Look at everything, and run what is due."""
    periodic = state.periodic
    if not 0 < periodic.look_at_us <= now_us:
        return  # it was looked earlier
    periodic.look_at_us = 0
    if not periodic.triggers:
        periodic.seen.clear()
        periodic.rose.clear()
        return
    rose = _remember(state)
    next_us = now_us + POLL_US
    for trigger in list(periodic.triggers.values()):
        if trigger.job_id:
            found = _look_at_job(state, now_us, trigger, rose)
        else:
            found = _look_at_nodes(state, now_us, trigger, rose)
        if found is None:
            periodic.drop_trigger(trigger.trigger_id)
            continue
        if found is not trigger:
            periodic.put_trigger(found)
        if found.due_at_us and found.running is None:
            if found.due_at_us <= now_us:
                _run(state, found)
            else:
                next_us = min(next_us, found.due_at_us)
    arm(state, next_us)


def truth(node: Node) -> int:
    """What is true of a node now, as kinds."""
    flags = node.flags
    kinds = K.DOWN if flags & NodeFlag.DOWN else K.UP
    if flags & NodeFlag.DRAIN:
        kinds |= K.DRAINING if node.jobs else K.DRAINED
    if flags & NodeFlag.FAIL:
        kinds |= K.FAIL
    if not node.jobs and not flags & CLOSED_FLAGS:
        kinds |= K.IDLE
    return int(kinds)


def _remember(state: ClusterState) -> dict[str, int]:
    """Keep what is true of the nodes; what has become true of each since the last look."""
    periodic = state.periodic
    seen, rose = periodic.seen, periodic.rose
    now = {node.name: truth(node) for node in state.node_list}
    periodic.seen, periodic.rose = now, {}
    found = {name: rose.get(name, 0) | kinds & ~seen.get(name, kinds) for name, kinds in now.items()}
    return {name: new for name, new in found.items() if new}


def _hit(trigger: Trigger, now_us: int, nodes: tuple[str, ...] = (), delay_s: int = 0) -> Trigger:
    """It is due; what was hit before is hit with it."""
    due_at_us = trigger.due_at_us or now_us + COLLECT_US + delay_s * US
    return trigger._replace(due_at_us=due_at_us, hit=tuple(dict.fromkeys((*trigger.hit, *nodes))))


def _look_at_nodes(state: ClusterState, now_us: int, trigger: Trigger, rose: dict[str, int]) -> Trigger:
    names = [name for name in rose if not trigger.nodes or name in trigger.nodes]
    hit = [name for name in names if rose[name] & trigger.kinds & OF_NODES & ~K.IDLE]
    if trigger.kinds & K.IDLE and not trigger.due_at_us and trigger.running is None:
        since_us = now_us - max(0, trigger.offset_s) * US
        idle = [node for node in state.node_list if not trigger.nodes or node.name in trigger.nodes]
        hit += [n.name for n in idle if truth(n) & K.IDLE and _idle_since_us(trigger, n) <= since_us]
    delay_s = 0 if trigger.kinds & K.IDLE else max(0, trigger.offset_s)
    return _hit(trigger, now_us, tuple(hit), delay_s) if hit else trigger


def _idle_since_us(trigger: Trigger, node: Node) -> int:
    """A permanent one does not run again and again for one idle time, unless it is longer than from its creation."""
    return max(node.last_busy_at_us, trigger.created_at_us if trigger.permanent else 0)


def _look_at_job(state: ClusterState, now_us: int, trigger: Trigger, rose: dict[str, int]) -> Trigger | None:
    """None = nothing can come of it any more."""
    job, over = state.jobs.get(trigger.job_id), _is_over(state, trigger.job_id)
    if trigger.due_at_us or trigger.running is not None:
        return trigger
    if over:
        if not trigger.kinds & K.FINI:
            return None
        end_us = job.end_at_us if job is not None else now_us
        return _hit(trigger, now_us) if now_us >= end_us + trigger.offset_s * US else trigger
    if job is None or job.state not in HOLDING_STATES:
        return trigger
    if trigger.kinds & K.TIME and job.time_limit_s >= 0 and now_us >= _limit_us(state, job) + trigger.offset_s * US:
        return _hit(trigger, now_us)
    hit = tuple(part.node for part in job.alloc if rose.get(part.node, 0) & trigger.kinds & OF_NODES)
    return _hit(trigger, now_us, hit, max(0, trigger.offset_s)) if hit else trigger


def _limit_us(state: ClusterState, job: Job) -> int:
    return limit_at_us(state, job)


def _is_over(state: ClusterState, job_id: int) -> bool:
    record, job = state.arrays.get(job_id), state.jobs.get(job_id)
    return arrays.is_over(record) if record is not None else job is None or job.state in END_STATES


def _run(state: ClusterState, trigger: Trigger) -> None:
    argument = str(trigger.job_id) if trigger.job_id else compress(trigger.hit) if trigger.hit else name_of(trigger)
    trigger = trigger._replace(due_at_us=0, hit=(), running=argument)
    state.periodic.put_trigger(trigger)
    _emit(state, trigger)


def _emit(state: ClusterState, trigger: Trigger) -> None:
    user = (trigger.uid, trigger.gid, trigger.user_name)
    state.emit(RunTrigger(trigger.trigger_id, *user, trigger.program, trigger.running or ""))


def name_of(trigger: Trigger) -> str:
    """What it waits for, in Slurm's words."""
    kinds = K(trigger.kinds)
    words = [trigger.what] if trigger.what else []
    words += [kind.name.lower() for kind in K if kinds & kind and kind is not K.NEVER and kind.name]
    return ",".join(words).replace("controller_up", "primary_slurmctld_resumed_operation")


def reconfigured(state: ClusterState, now_us: int) -> None:
    """A new configuration is in force; its nodes may be others."""
    _happened(state, now_us, K.RECONFIG)
    nodes_changed(state, now_us)


def recover(state: ClusterState, now_us: int) -> None:
    """After a start: what was under way is run again, and the controller is there."""
    periodic = state.periodic
    periodic.next_trigger_id = 1 + max(periodic.triggers, default=0)
    if not periodic.triggers:
        return
    _remember(state)
    for trigger in periodic.triggers.values():
        if trigger.running is not None:
            _emit(state, trigger)
    _happened(state, now_us, K.CONTROLLER_UP)
    arm(state, now_us + LOOK_US)


def _happened(state: ClusterState, now_us: int, kind: TriggerKind) -> None:
    for trigger in list(state.periodic.triggers.values()):
        if trigger.kinds & kind:
            state.periodic.put_trigger(_hit(trigger, now_us, (), max(0, trigger.offset_s)))
            arm(state, now_us + LOOK_US)
