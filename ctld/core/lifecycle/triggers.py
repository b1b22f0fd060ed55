"""strigger: programs that run on the controller's machine when something happens to a node, a job or the controller.

    waits -> due (further events of the kind are collected for COLLECT_US) -> its program runs -> deleted

A permanent trigger waits again when its program has ended. Due and running triggers are in the database, so a crash of
the controller runs a program again rather than not at all.

Nodes and jobs are polled every POLL_US while there are triggers, and soon after a node has changed: the present
condition of each node is compared with that of the last poll. Without triggers nothing is polled.

Administrators may set triggers; with SlurmctldParameters=allow_user_triggers all users may, on their own jobs and any
nodes.
"""

from ctld.core.jobs import arrays
from ctld.core.jobs.expected_end import limit_at_us
from ctld.core.queue.rights import is_own, not_yours, require_role, sees_jobs_of_others
from ctld.core.records.effects import Refused, RunTrigger, TriggersChanged
from ctld.core.records.events import ClearTriggers, Role, SetTrigger, TriggerEnded
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.periodic import OF_JOB, OF_NODES, Trigger, TriggerKind
from ctld.core.state.state import CLOSED_FLAGS, ClusterState
from ctld.core.state.timers import Timer
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress
from penstock.values.refusals import Code
from penstock.values.states import ALLOCATED_STATES, END_STATES, NodeFlag
from penstock.values.text import check_name

US = 1_000_000
K = TriggerKind
#: Events of one kind that come one after the other within this time run the program once.
COLLECT_US = 1 * US
#: Polling interval for jobs and idle nodes. Slurm polls every 15 seconds.
POLL_US = 5 * US
#: Delay of the poll after a change of a node.
POLL_SOON_US = US // 5
#: Maximum number of triggers in all, and of one user who is no administrator: each poll reads all of them.
TRIGGERS_MAX = 1_000
TRIGGERS_OF_USER_MAX = 50
#: As Slurm's.
OFFSET_MAX_S = 32_000
#: PATH_MAX, for the program with its arguments.
PROGRAM_BYTES_MAX = 4096


def set_trigger(state: ClusterState, now_us: int, event: SetTrigger) -> None:
    """Handles strigger --set. Raises Refused."""
    actor, periodic = event.actor, state.periodic
    _check(state, event)
    for other in periodic.triggers.values():
        same = (other.uid, other.kinds, other.what, other.nodes, other.job_id, other.program)
        if same == (actor.uid, event.kinds, event.what, event.nodes, event.job_id, event.program):
            raise Refused(Code.TRIGGER_DUP, f"it is number {other.trigger_id}")
    state.applying()
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
    arm(state, now_us + POLL_SOON_US)
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
        job = state.jobs.get(next(iter(record.members.values()), next(iter(record.unsplit), 0)))
    if job is None:
        raise Refused(Code.INVALID_JOB_ID, str(event.job_id))
    if not is_own(event.actor, job):
        raise not_yours(state, event.actor, job, Code.INVALID_JOB_ID, str(event.job_id))
    if _is_over(state, event.job_id):
        raise Refused(Code.ALREADY_DONE)
    if event.nodes:
        raise Refused(Code.INVALID_VALUE, "a job and nodes exclude each other")


def clear_triggers(state: ClusterState, now_us: int, event: ClearTriggers) -> None:
    """Handles strigger --clear. Raises Refused."""
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
    state.applying()
    for trigger in found:
        state.periodic.drop_trigger(trigger.trigger_id)
    state.reply(event.reply_to, TriggersChanged(tuple(trigger.trigger_id for trigger in found)))


def trigger_ended(state: ClusterState, now_us: int, event: TriggerEnded) -> None:
    """Handles the end of a trigger's program: the trigger is gone, or waits again."""
    trigger = state.periodic.triggers.get(event.trigger_id)
    if trigger is None or trigger.running is None:
        return
    state.applying()
    if trigger.permanent:
        state.periodic.put_trigger(trigger._replace(running=None))
        arm(state, now_us + POLL_SOON_US)
    else:
        state.periodic.drop_trigger(trigger.trigger_id)


# ---- polling -----------------------------------------------------------------------------------------------------


def arm(state: ClusterState, at_us: int) -> None:
    """Schedules the check of the triggers at that time, or earlier."""
    if not state.periodic.poll_at_us or at_us < state.periodic.poll_at_us:
        state.periodic.poll_at_us = at_us
        state.timers.set(at_us, Timer.TRIGGERS)


def nodes_changed(state: ClusterState, now_us: int) -> None:
    """Records changes of nodes at once, as they may be reverted before triggers are checked."""
    periodic = state.periodic
    if not periodic.triggers:
        return
    for name in state.outputs.dirty_nodes:
        if name in state.nodes and name in periodic.seen:
            kinds = truth(state.nodes[name])
            if new := kinds & ~periodic.seen[name]:
                periodic.rose[name] = periodic.rose.get(name, 0) | new
            periodic.seen[name] = kinds
    arm(state, now_us + POLL_SOON_US)


def due(state: ClusterState, now_us: int) -> None:
    """Checks all triggers, and runs those that are due."""
    periodic = state.periodic
    if not 0 < periodic.poll_at_us <= now_us:
        return  # an earlier poll was scheduled
    periodic.poll_at_us = 0
    if not periodic.triggers:
        periodic.seen.clear()
        periodic.rose.clear()
        return
    rose = _remember(state)
    next_us = now_us + POLL_US
    for trigger in list(periodic.triggers.values()):
        if trigger.job_id:
            found = _poll_job(state, now_us, trigger, rose)
        else:
            found = _poll_nodes(state, now_us, trigger, rose)
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
    """Returns the trigger kinds that apply to a node now."""
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
    """Stores the conditions of the nodes; returns those that have become true of each since the last poll."""
    periodic = state.periodic
    seen, rose = periodic.seen, periodic.rose
    now = {node.name: truth(node) for node in state.node_list}
    periodic.seen = now
    periodic.rose = {}
    found = {name: rose.get(name, 0) | kinds & ~seen.get(name, kinds) for name, kinds in now.items()}
    return {name: new for name, new in found.items() if new}


def _hit(trigger: Trigger, now_us: int, nodes: tuple[str, ...] = (), delay_s: int = 0) -> Trigger:
    """Marks the trigger as due, together with those of its kind that are due."""
    due_at_us = trigger.due_at_us or now_us + COLLECT_US + delay_s * US
    return trigger._replace(due_at_us=due_at_us, hit=tuple(dict.fromkeys((*trigger.hit, *nodes))))


def _poll_nodes(state: ClusterState, now_us: int, trigger: Trigger, rose: dict[str, int]) -> Trigger:
    names = [name for name in rose if not trigger.nodes or name in trigger.nodes]
    hit = [name for name in names if rose[name] & trigger.kinds & OF_NODES & ~K.IDLE]
    if trigger.kinds & K.IDLE and not trigger.due_at_us and trigger.running is None:
        since_us = now_us - max(0, trigger.offset_s) * US
        idle = [node for node in state.node_list if not trigger.nodes or node.name in trigger.nodes]
        hit += [n.name for n in idle if truth(n) & K.IDLE and _idle_since_us(trigger, n) <= since_us]
    delay_s = 0 if trigger.kinds & K.IDLE else max(0, trigger.offset_s)
    return _hit(trigger, now_us, tuple(hit), delay_s) if hit else trigger


def _idle_since_us(trigger: Trigger, node: Node) -> int:
    """Returns since when it is idle. A permanent trigger runs only once for one idle time."""
    return max(node.last_busy_at_us, trigger.created_at_us if trigger.permanent else 0)


def _poll_job(state: ClusterState, now_us: int, trigger: Trigger, rose: dict[str, int]) -> Trigger | None:
    """Checks a trigger on a job; None = it can never fire any more."""
    job, over = state.jobs.get(trigger.job_id), _is_over(state, trigger.job_id)
    if trigger.due_at_us or trigger.running is not None:
        return trigger
    if over:
        if not trigger.kinds & K.FINI:
            return None
        end_us = job.end_at_us if job is not None else now_us
        return _hit(trigger, now_us) if now_us >= end_us + trigger.offset_s * US else trigger
    if job is None or job.state not in ALLOCATED_STATES:
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
    """The trigger's event, in Slurm's words."""
    kinds = K(trigger.kinds)
    words = [trigger.what] if trigger.what else []
    words += [kind.name.lower() for kind in K if kinds & kind and kind is not K.NEVER and kind.name]
    return ",".join(words).replace("controller_up", "primary_slurmctld_resumed_operation")


def reconfigured(state: ClusterState, now_us: int) -> None:
    """Handles a new configuration, which may have other nodes."""
    _happened(state, now_us, K.RECONFIG)
    nodes_changed(state, now_us)


def recover(state: ClusterState, now_us: int) -> None:
    """Repeats after a start what was in progress, and fires the triggers of the controller's start."""
    periodic = state.periodic
    periodic.next_trigger_id = 1 + max(periodic.triggers, default=0)
    if not periodic.triggers:
        return
    _remember(state)
    for trigger in periodic.triggers.values():
        if trigger.running is not None:
            _emit(state, trigger)
    _happened(state, now_us, K.CONTROLLER_UP)
    arm(state, now_us + POLL_SOON_US)


def _happened(state: ClusterState, now_us: int, kind: TriggerKind) -> None:
    for trigger in list(state.periodic.triggers.values()):
        if trigger.kinds & kind:
            state.periodic.put_trigger(_hit(trigger, now_us, (), max(0, trigger.offset_s)))
            arm(state, now_us + POLL_SOON_US)
