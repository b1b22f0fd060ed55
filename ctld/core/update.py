"""scontrol update jobid=: one table of keys, each with who may, in which states, how it is read and how it is applied.

All keys of a request are read and checked before one of them is applied. The request record is frozen and shared by
an array's tasks, so a change makes a new one under a new request id.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ctld.core import arrays, depends, job_life, priority
from ctld.core.control import each_target, part
from ctld.core.defaults import COUNT_MAX, find_qos
from ctld.core.effects import Refused, Results
from ctld.core.events import Actor, Role, UpdateJobs
from ctld.core.feasible import can_ever_run
from ctld.core.model import Job
from ctld.core.ready import refresh
from ctld.core.reserve import check_asked
from ctld.core.select import Target
from ctld.core.state import ClusterState
from ctld.core.submit import NICE_MAX, PATH_BYTES_MAX, pick_partitions, tres_requested
from ctld.core.timers import Timer
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.memory import parse_mb
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, HOLDING_STATES, Hold, JobState
from penstock.values.text import check_name


@dataclass(frozen=True)
class Key:
    """One key: how its text is read, which request field it changes (or a function), and when it may be changed."""

    read: Callable[[ClusterState, Actor, str], Any]
    field: str = ""
    apply: Callable[[ClusterState, Job, Any, int], None] | None = None
    running: bool = False  # may be changed while the job runs
    operator: bool = False  # operators only, in any direction


def _text(what: str) -> Callable[[ClusterState, Actor, str], str]:
    return lambda state, actor, text: check_name(text, what)


def _count(what: str) -> Callable[[ClusterState, Actor, str], int]:
    return lambda state, actor, text: parse_int(text, 1, COUNT_MAX, what)


def _path(state: ClusterState, actor: Actor, text: str) -> bytes:
    check_name(text, "path", PATH_BYTES_MAX)
    return text.encode()


def _nodes(state: ClusterState, actor: Actor, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(expand(text))) if text else ()
    for name in names:
        if name not in state.nodes:
            raise Refused(Code.INVALID_NODE_NAME, name)
    return names


def _partitions(state: ClusterState, actor: Actor, text: str) -> tuple[str, ...]:
    return tuple(p.name for p in pick_partitions(state, actor, tuple(text.split(","))))


def _yes_no(state: ClusterState, actor: Actor, text: str) -> bool:
    if text not in ("0", "1"):
        raise BadValue(f"requeue must be 0 or 1, not {text}")
    return text == "1"


def _set_time_limit(state: ClusterState, job: Job, limit_s: int, now_us: int) -> None:
    job.time_limit_s = limit_s
    if job.state in HOLDING_STATES:
        job_life.set_end_timers(state, job)


def _set_priority(state: ClusterState, job: Job, number: int, now_us: int) -> None:
    priority.renew(state, job)
    if number == 0:
        job.hold = Hold.ADMIN


def _renew(state: ClusterState, job: Job, number: int, now_us: int) -> None:
    priority.renew(state, job)


def _set_throttle(state: ClusterState, job: Job, limit: int, now_us: int) -> None:
    job.array_throttle = limit
    for record in arrays.records_of(state, job.array_job_id) if job.array_job_id else ():
        if record.state not in END_STATES and record is not job:  # the limit is the array's, whichever task was named
            record.array_throttle = limit
            state.touch(record)
            refresh(state, record, now_us)


def _set_admin_comment(state: ClusterState, job: Job, text: str, now_us: int) -> None:
    job.admin_comment = text


def _set_dependency(state: ClusterState, job: Job, dependency: Any, now_us: int) -> None:
    depends.attach(state, job, dependency, now_us)


def _set_partition(state: ClusterState, job: Job, names: tuple[str, ...], now_us: int) -> None:
    job.partition = names[0]


KEYS: dict[str, Key] = {
    "jobname": Key(_text("job name"), "name", running=True),
    "name": Key(_text("job name"), "name", running=True),
    "comment": Key(_text("comment"), "comment", running=True),
    "admincomment": Key(_text("admin comment"), apply=_set_admin_comment, running=True, operator=True),
    "account": Key(_text("account"), "account"),
    "qos": Key(lambda s, a, t: find_qos(s, t), "qos"),
    "wckey": Key(_text("wckey"), "wckey"),
    "timelimit": Key(lambda s, a, t: parse_duration_s(t), "time_limit_s", _set_time_limit, running=True),
    "priority": Key(lambda s, a, t: parse_int(t, 0, priority.PRIORITY_MAX, "priority"), "priority", _set_priority),
    "nice": Key(lambda s, a, t: parse_int(t, -NICE_MAX, NICE_MAX, "nice"), "nice", _renew),
    "sitefactor": Key(
        lambda s, a, t: parse_int(t, -NICE_MAX, NICE_MAX, "sitefactor"), "site_factor", _renew, operator=True
    ),
    "dependency": Key(lambda s, a, t: depends.parse(s, a, t), apply=_set_dependency),
    "arraytaskthrottle": Key(
        lambda s, a, t: parse_int(t, 0, COUNT_MAX, "arraytaskthrottle"), apply=_set_throttle, running=True
    ),
    "requeue": Key(_yes_no, "requeue", running=True),
    "partition": Key(_partitions, "partitions", _set_partition),
    "numtasks": Key(_count("numtasks"), "ntasks"),
    "minmemorynode": Key(lambda s, a, t: parse_mb(t, "minmemorynode"), "mem_per_node_mb"),
    "minmemorycpu": Key(lambda s, a, t: parse_mb(t, "minmemorycpu"), "mem_per_cpu_mb"),
    "cpuspertask": Key(_count("cpuspertask"), "cpus_per_task"),
    "reqnodelist": Key(_nodes, "nodes_required"),
    "excnodelist": Key(_nodes, "nodes_excluded"),
    "stdout": Key(_path, "std_out"),
    "stderr": Key(_path, "std_err"),
    "stdin": Key(_path, "std_in"),
    "workdir": Key(_path, "work_dir"),
    "reservationname": Key(_text("reservation name"), "reservation"),
    "starttime": Key(lambda s, a, t: 0),  # the date comes resolved in the event
    "eligibletime": Key(lambda s, a, t: 0),
}


def update_jobs(state: ClusterState, now_us: int, event: UpdateJobs) -> None:
    """Change jobs. Raises Refused for keys and values; each job has its own result."""
    values: dict[str, Any] = {}
    for name, text in event.changes.items():
        key = KEYS.get(name)
        if key is None:
            raise Refused(Code.NOT_SUPPORTED, f"{name}= is not supported for jobs yet; known: {', '.join(KEYS)}")
        try:
            values[name] = key.read(state, event.actor, text)
        except BadValue as error:
            raise Refused(Code.INVALID_VALUE, f"{name}: {error}") from None

    def act(target: Target) -> None:
        _check(state, event, target.job, values)
        request = _changed(event, target.job, values)
        if target.job.state is JobState.PENDING and not any(
            can_ever_run(state, state.partitions[p], request) for p in request.partitions
        ):
            raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE)
        # -- apply
        _apply(state, now_us, part(state, target), request, values)

    state.reply(event.reply_to, Results(tuple(each_target(state, event.actor, event.ids, act))))


def _check(state: ClusterState, event: UpdateJobs, job: Job, values: dict[str, Any]) -> None:
    if job.state in END_STATES:
        raise Refused(Code.ALREADY_DONE)
    operator = event.actor.role >= Role.OPERATOR
    for name, value in values.items():
        key = KEYS[name]
        if key.operator and not operator:
            raise Refused(Code.ACCESS_DENIED, name)
        if not key.running and job.state is not JobState.PENDING:
            raise Refused(Code.DISABLED_STATE, f"{name} can be changed only while the job is pending")
        if name == "priority" and not operator and value > priority.current(state, job):
            raise Refused(Code.ACCESS_DENIED, "only an operator may raise a priority")
        if name == "nice" and not operator and value < job.request.nice:
            raise Refused(Code.ACCESS_DENIED, "only an operator may lower nice")
        if (
            name == "timelimit"
            and not operator
            and job.state is not JobState.PENDING
            and _longer(value, job.time_limit_s)
        ):
            raise Refused(Code.ACCESS_DENIED, "only an operator may raise the time limit of a running job")
        if name == "reservationname":
            check_asked(state, state.now_us, value, job.user_id, job.group_name, job.request.account)
        if name == "timelimit" and value == 0:
            raise Refused(Code.INVALID_TIME_LIMIT)


def _longer(new_s: int, old_s: int) -> bool:
    return old_s >= 0 and (new_s < 0 or new_s > old_s)


def _changed(event: UpdateJobs, job: Job, values: dict[str, Any]) -> Any:
    fields = {KEYS[name].field: value for name, value in values.items() if KEYS[name].field}
    if "starttime" in values or "eligibletime" in values:
        fields["begin_at_us"] = event.begin_at_us
    if "mem_per_node_mb" in fields:
        fields["mem_per_cpu_mb"] = None
    elif "mem_per_cpu_mb" in fields:
        fields["mem_per_node_mb"] = None
    if "dependency" in values:
        fields["dependency"] = event.changes["dependency"]
    return msgspec.structs.replace(job.request, **fields)


def _apply(state: ClusterState, now_us: int, job: Job, request: Any, values: dict[str, Any]) -> None:
    if request != job.request:
        waiting = state.waiting_for.get(job.job_id)
        depends.forget(state, job)
        state.leave_name_index(job)
        job.request, job.request_id = request, state.new_request(request)
        state.enter_name_index(job)
        if waiting is not None:
            depends.wait_for(state, job, *waiting)
        job.tres_req = tres_requested(state, request)
    if "starttime" in values or "eligibletime" in values:
        job.eligible_at_us = 0
        state.timers.set(request.begin_at_us, Timer.BEGIN_TIME, job.job_id)
    for name, value in values.items():
        apply = KEYS[name].apply
        if apply is not None:
            apply(state, job, value, now_us)
    state.touch(job)
    state.record(now_us, job, "update", ",".join(values))
    if job.state is JobState.PENDING:
        state.pending.remove(job.job_id)
        refresh(state, job, now_us)
