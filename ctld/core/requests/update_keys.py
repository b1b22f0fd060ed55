"""The keys of scontrol update jobid=, one line each: its parser, the field that it changes, and the rights it needs.

`Key=` without a value resets it, where that has a meaning. A number or time may have a sign where the line has
`relative`: it is added to the present value. `lower`: the job's owner may decrease it, only an operator increase it;
`operator`: operators only. `running`: also for a job that has its nodes. Where Slurm's manual does not specify it, the
owner may change it while the job is pending.

Deliberately absent: UserID (which selects jobs), burst buffers and clusters of a federation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from ctld.core.jobs import arrays, holds, outcome
from ctld.core.lifecycle import depends, job_life
from ctld.core.lifecycle.ready import refresh
from ctld.core.queue import priority
from ctld.core.queue.defaults import (
    COUNT_MAX,
    MEM_MB_MAX,
    TIME_LIMIT_S_MAX,
    check_features,
    check_gres,
    check_licenses,
    find_qos,
)
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor
from ctld.core.records.job import Job
from ctld.core.requests.submit import NICE_MAX, PATH_BYTES_MAX, pick_partitions, set_deadline
from ctld.core.state.priority_columns import PRIORITY_MAX
from ctld.core.state.state import ClusterState
from penstock.values.dependency import Dependency
from penstock.values.duration import parse_duration_s, whole_minutes
from penstock.values.errors import BadValue
from penstock.values.gres import parse_gres
from penstock.values.hostlist import expand
from penstock.values.mail import parse_mail_types, parse_mail_user
from penstock.values.memory import parse_mb
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.states import ALLOCATED_STATES, END_STATES, Hold, JobState
from penstock.values.text import check_name

V = TypeVar("V")
Read = Callable[[ClusterState, Actor, str], V]


@dataclass(frozen=True)
class UpdateKey(Generic[V]):
    """One key: its parser, the request field that it changes (or a function), and when it may be changed."""

    read: Read[V]
    field: str = ""
    apply: Callable[[ClusterState, Job, V, int], None] | None = None
    resolve: Callable[[Job, V], V] | None = None  # the value of that job, where it depends on the job
    running: bool = False  # may be changed while the job runs
    operator: bool = False  # operators only, in any direction
    lower: bool = False  # others may only decrease it
    is_date: bool = False  # arrives resolved in the event
    ended: bool = False  # sacctmgr may change it in the record of an ended job
    only_ended: bool = False  # and for no other


class UpdateValues(TypedDict, total=False):
    """Parsed values by key, of the keys that code asks for by name."""

    account: str
    deadline: int
    dependency: Dependency | None
    endtime: int
    nice: int
    numcpus: tuple[int, int]
    numnodes: tuple[int, int]
    partition: tuple[str, ...]
    priority: int
    qos: str
    reqnodelist: tuple[str, ...]
    reservationname: str
    starttime: int
    steptimelimit: int
    switches: tuple[int, int]
    timelimit: int
    timemin: int
    wckey: str


class KeyChange(int):
    """A number that is added to the present value."""


# ---- parsing ---------------------------------------------------------------------------------------------------------


def _text(what: str) -> Read[str]:
    return lambda state, actor, text: check_name(text, what)


def _count(what: str, low: int = 0) -> Read[int]:
    return lambda state, actor, text: parse_int(text, low, COUNT_MAX, what) if text or low else 0


def _number(what: str, low: int, high: int) -> Read[int]:
    return lambda state, actor, text: parse_int(text, low, high, what)


def _range(what: str) -> Read[tuple[int, int]]:
    def read(state: ClusterState, actor: Actor, text: str) -> tuple[int, int]:
        low, dash, high = text.partition("-")
        least = parse_int(low, 1, COUNT_MAX, what)
        most = parse_int(high, 1, COUNT_MAX, what) if dash else least
        if most < least:
            raise BadValue(f"{what}: {most} is less than {least}")
        return least, most

    return read


def _path(state: ClusterState, actor: Actor, text: str) -> bytes:
    check_name(text, "path", PATH_BYTES_MAX)
    return text.encode()


def _nodes(state: ClusterState, actor: Actor, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(expand(text, state.handling.allowance))) if text else ()
    for name in names:
        if name not in state.nodes:
            raise Refused(Code.INVALID_NODE_NAME, name)
    return names


def _partitions(state: ClusterState, actor: Actor, text: str) -> tuple[str, ...]:
    if not text:
        raise Refused(Code.INVALID_PARTITION)
    return tuple(p.name for p in pick_partitions(state, actor, tuple(filter(None, text.split(",")))))


_YES = {"1": True, "yes": True, "y": True, "true": True, "0": False, "no": False, "n": False, "false": False}


def _yes_no(what: str) -> Read[bool]:
    def read(state: ClusterState, actor: Actor, text: str) -> bool:
        found = _YES.get(text.lower())
        if found is None:
            raise BadValue(f"{what} must be yes or no (1 or 0), not {text}")
        return found

    return read


def _nice(state: ClusterState, actor: Actor, text: str) -> int:
    return parse_int(text, -NICE_MAX, NICE_MAX, "nice") if text else 100


def _time_limit(state: ClusterState, actor: Actor, text: str) -> int:
    if text[:1] in ("+", "-"):
        found = whole_minutes(parse_duration_s(text[1:]))
        if found < 0:
            raise Refused(Code.INVALID_TIME_LIMIT, text)
        return KeyChange(found if text[0] == "+" else -found)
    seconds = whole_minutes(parse_duration_s(text))
    if not seconds or seconds > TIME_LIMIT_S_MAX:
        raise Refused(Code.INVALID_TIME_LIMIT)
    return seconds


def _changed_limit(job: Job, value: int) -> int:
    return changed_limit_s(job.time_limit_s, value, "job")


def changed_limit_s(limit_s: int, value: int, what: str) -> int:
    """Returns the new time limit of a job or step that has this one; -1 = none. Raises Refused."""
    if not isinstance(value, KeyChange):
        return value
    if limit_s < 0:
        raise Refused(Code.INVALID_TIME_LIMIT, f"the {what} has no limit that could be changed by so much")
    found = limit_s + int(value)
    if not 0 < found <= TIME_LIMIT_S_MAX:
        raise Refused(Code.INVALID_TIME_LIMIT, f"{found} seconds")
    return found


def _limit_of_end(job: Job, end_at_us: int) -> int:
    """Returns for EndTime= the time limit with that end, to the second."""
    if job.state not in ALLOCATED_STATES:
        raise Refused(Code.DISABLED_STATE, "the job does not run")
    found = -(-(end_at_us - job.start_at_us - job.suspended_us) // job_life.US)
    if found <= 0:
        raise Refused(Code.INVALID_TIME_VALUE)
    return found


def _time_min(state: ClusterState, actor: Actor, text: str) -> int:
    return max(0, whole_minutes(parse_duration_s(text))) if text else 0


def _minutes(state: ClusterState, actor: Actor, text: str) -> int:
    return max(0, parse_duration_s(text))


def _memory(what: str) -> Read[int]:
    def read(state: ClusterState, actor: Actor, text: str) -> int:
        found = parse_mb(text, what)
        if found > MEM_MB_MAX:
            raise BadValue(f"{what} is more than {MEM_MB_MAX}")
        return found

    return read


def _switches(state: ClusterState, actor: Actor, text: str) -> tuple[int, int]:
    count, at, wait = text.partition("@")
    return parse_int(count or "0", 0, COUNT_MAX, "switches"), max(0, parse_duration_s(wait)) if at else 0


def _gres(state: ClusterState, actor: Actor, text: str) -> tuple[tuple[str, str, int], ...]:
    return check_gres(state, tuple((g.name, g.type, g.count) for g in parse_gres(text)))


def _specialized(what: str) -> Read[int | None]:
    """`*` or -1 is a job without its own number."""

    def read(state: ClusterState, actor: Actor, text: str) -> int | None:
        if not state.config.allow_spec_resources_usage:
            raise Refused(Code.ACCESS_DENIED, f"{what}: AllowSpecResourcesUsage=no")
        return None if text in ("*", "-1") else parse_int(text or "0", 0, COUNT_MAX, what)

    return read


def _features(state: ClusterState, actor: Actor, text: str) -> str:
    check_features(state, check_name(text, "features", PATH_BYTES_MAX))
    return text


# ---- applying --------------------------------------------------------------------------------------------------------


def _set_time_limit(state: ClusterState, job: Job, limit_s: int, now_us: int) -> None:
    job.time_limit_s = limit_s
    if job.state in ALLOCATED_STATES:
        job_life.set_end_timers(state, job)


def _set_priority(state: ClusterState, job: Job, number: int, now_us: int) -> None:
    priority.renew(state, job)
    if number == 0:
        holds.hold_as(job, Hold.ADMIN)


def _renew(state: ClusterState, job: Job, number: int, now_us: int) -> None:
    if job.state is JobState.PENDING or state.priorities is None:
        priority.renew(state, job)  # a running job keeps what its factors gave it


def _set_throttle(state: ClusterState, job: Job, limit: int, now_us: int) -> None:
    job.array_throttle = limit
    for record in arrays.records_of(state, job.array_job_id) if job.array_job_id else ():
        if record.state not in END_STATES and record is not job:  # the limit is the array's, whichever task was given
            record.array_throttle = limit
            state.touch(record)
            refresh(state, record, now_us)


def _set_admin_comment(state: ClusterState, job: Job, text: str, now_us: int) -> None:
    job.admin_comment = text


def _set_dependency(state: ClusterState, job: Job, dependency: Dependency | None, now_us: int) -> None:
    depends.attach(state, job, dependency, now_us)


def _set_partition(state: ClusterState, job: Job, names: tuple[str, ...], now_us: int) -> None:
    job.partition = names[0]


def _set_deadline(state: ClusterState, job: Job, at_us: int, now_us: int) -> None:
    set_deadline(state, job)


def _reset_age(state: ClusterState, job: Job, value: int, now_us: int) -> None:
    if job.eligible_at_us:
        job.eligible_at_us = now_us
        priority.renew(state, job)


def _nothing(state: ClusterState, actor: Actor, text: str) -> int:
    return 0


def _exit_code(state: ClusterState, actor: Actor, text: str) -> tuple[int, int]:
    """Parses sacct's notation: code, or code:signal."""
    code, colon, signal = text.partition(":")
    return parse_int(code, 0, 255, "exit code"), parse_int(signal, 0, 255, "signal") if colon else 0


def _set_derived(state: ClusterState, job: Job, status: tuple[int, int], now_us: int) -> None:
    outcome.set_derived_exit(job, *status)


# Any: each key has its own parser and a value of that parser's type
KEYS: dict[str, UpdateKey[Any]] = {
    "jobname": UpdateKey(_text("job name"), "name", running=True),
    "name": UpdateKey(_text("job name"), "name", running=True),
    "comment": UpdateKey(_text("comment"), "comment", running=True, ended=True),
    "admincomment": UpdateKey(
        _text("admin comment"), apply=_set_admin_comment, running=True, operator=True, ended=True
    ),
    "systemcomment": UpdateKey(_text("system comment"), "system_comment", running=True, operator=True, ended=True),
    "extra": UpdateKey(_text("extra"), "extra", running=True, ended=True),
    "derivedexitcode": UpdateKey(_exit_code, apply=_set_derived, running=True, ended=True, only_ended=True),
    "newwckey": UpdateKey(_text("wckey"), "wckey", running=True, operator=True, ended=True, only_ended=True),
    "account": UpdateKey(_text("account"), "account"),
    "qos": UpdateKey(lambda s, a, t: find_qos(s, t) if t else "", "qos"),
    "wckey": UpdateKey(_text("wckey"), "wckey"),
    "timelimit": UpdateKey(_time_limit, "time_limit_s", _set_time_limit, _changed_limit, running=True),
    "endtime": UpdateKey(_nothing, "time_limit_s", _set_time_limit, _limit_of_end, running=True, is_date=True),
    "steptimelimit": UpdateKey(_time_limit, running=True),  # of steps: update_steps.py
    "timemin": UpdateKey(_time_min, "time_min_s", running=True),
    "priority": UpdateKey(_number("priority", 0, PRIORITY_MAX), "priority", _set_priority, running=True),
    "nice": UpdateKey(_nice, "nice", _renew, running=True),
    "sitefactor": UpdateKey(_number("sitefactor", -NICE_MAX, NICE_MAX), "site_factor", _renew, operator=True),
    "resetaccruetime": UpdateKey(_nothing, apply=_reset_age),
    "dependency": UpdateKey(lambda s, a, t: depends.parse(s, a, t), apply=_set_dependency),
    "arraytaskthrottle": UpdateKey(_number("arraytaskthrottle", 0, COUNT_MAX), apply=_set_throttle, running=True),
    "requeue": UpdateKey(_yes_no("requeue"), "requeue", running=True),
    "partition": UpdateKey(_partitions, "partitions", _set_partition),
    "numnodes": UpdateKey(_range("numnodes"), running=True),  # of a running job: resize.py
    "numtasks": UpdateKey(_count("numtasks", 1), "ntasks"),
    "numcpus": UpdateKey(_range("numcpus")),
    "taskspernode": UpdateKey(_count("taskspernode"), "ntasks_per_node"),
    "minmemorynode": UpdateKey(_memory("minmemorynode"), "mem_per_node_mb"),
    "minmemorycpu": UpdateKey(_memory("minmemorycpu"), "mem_per_cpu_mb"),
    "corespec": UpdateKey(_specialized("corespec"), "core_spec"),
    "threadspec": UpdateKey(_specialized("threadspec"), "thread_spec"),
    "mincpusnode": UpdateKey(_count("mincpusnode"), "mincpus", lower=True),
    "mintmpdisknode": UpdateKey(_memory("mintmpdisknode"), "tmp_disk_mb", lower=True),
    "cpuspertask": UpdateKey(_count("cpuspertask", 1), "cpus_per_task"),
    "reqsockets": UpdateKey(_count("reqsockets"), "sockets_per_node"),
    "reqcores": UpdateKey(_count("reqcores"), "cores_per_socket"),
    "reqthreads": UpdateKey(_count("reqthreads"), "threads_per_core"),
    "reqnodelist": UpdateKey(_nodes, "nodes_required", running=True),
    "excnodelist": UpdateKey(_nodes, "nodes_excluded"),
    "features": UpdateKey(_features, "features"),
    "prefer": UpdateKey(_features, "prefer"),
    "batchfeatures": UpdateKey(_features, "batch_features"),
    "gres": UpdateKey(_gres, "gres_per_node"),
    "licenses": UpdateKey(lambda s, a, t: check_licenses(s, t), "licenses"),
    "switches": UpdateKey(_switches, running=True),
    "wait-for-switch": UpdateKey(_minutes, "switches_wait_s"),
    "contiguous": UpdateKey(_yes_no("contiguous"), "contiguous", lower=True),
    "oversubscribe": UpdateKey(_yes_no("oversubscribe"), "oversubscribe", operator=True),
    "reboot": UpdateKey(_yes_no("reboot"), "reboot", operator=True),
    "delayboot": UpdateKey(_minutes, "delay_boot_s"),
    "mailtype": UpdateKey(lambda s, a, t: parse_mail_types(t), "mail_types", running=True),
    "mailuser": UpdateKey(lambda s, a, t: parse_mail_user(t), "mail_user", running=True),
    "network": UpdateKey(_text("network"), "network"),
    "stdout": UpdateKey(_path, "std_out"),
    "stderr": UpdateKey(_path, "std_err"),
    "stdin": UpdateKey(_path, "std_in"),
    "workdir": UpdateKey(_path, "work_dir"),
    "reservationname": UpdateKey(_text("reservation name"), "reservation"),
    "starttime": UpdateKey(_nothing, "begin_at_us", is_date=True),
    "eligibletime": UpdateKey(_nothing, "begin_at_us", is_date=True),
    "deadline": UpdateKey(_nothing, "deadline_at_us", _set_deadline, running=True, operator=True, is_date=True),
}
"""By the key in lower case. Other spellings are the command's business (cli/control/update.py)."""

#: Keys whose value is a date.
DATES = tuple(name for name, key in KEYS.items() if key.is_date)
