"""The keys of scontrol update jobid=, one line each: how its text is read, what it changes, and who may when.

`Key=` without a value takes back what was asked for, where that has a meaning. A value of a number or time may carry a
sign where the line says `relative`: it is added to what the job has. `lower`: the job's owner may make it less, only an
operator more; `operator`: operators only. `running`: also of a job that has its nodes. Where Slurm's manual says
nothing, the owner may change it while the job is pending.

Deliberately absent: UserID (which jobs, not what of them), burst buffers and clusters of a federation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctld.core import arrays, depends, job_life, priority
from ctld.core.defaults import (
    COUNT_MAX,
    MEM_MB_MAX,
    TIME_LIMIT_S_MAX,
    check_features,
    check_gres,
    check_licenses,
    find_qos,
)
from ctld.core.effects import Refused
from ctld.core.events import Actor
from ctld.core.model import Job
from ctld.core.ready import refresh
from ctld.core.state import ClusterState
from ctld.core.submit import NICE_MAX, PATH_BYTES_MAX, pick_partitions, set_deadline
from penstock.values.duration import parse_duration_s, whole_minutes
from penstock.values.errors import BadValue
from penstock.values.gres import parse_gres
from penstock.values.hostlist import expand
from penstock.values.mail import parse_mail_types, parse_mail_user
from penstock.values.memory import parse_mb
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, HOLDING_STATES, Hold
from penstock.values.text import check_name

Read = Callable[[ClusterState, Actor, str], Any]


@dataclass(frozen=True)
class Key:
    """One key: how its text is read, which request field it changes (or a function), and when it may be changed."""

    read: Read
    field: str = ""
    apply: Callable[[ClusterState, Job, Any, int], None] | None = None
    resolve: Callable[[Job, Any], Any] | None = None  # the value of that job, where it depends on the job
    running: bool = False  # may be changed while the job runs
    operator: bool = False  # operators only, in any direction
    lower: bool = False  # others may only make it less
    is_date: bool = False  # comes resolved in the event
    ended: bool = False  # may be changed of a job that has ended, too
    only_ended: bool = False  # and of no other


class Change(int):
    """A number that is added to what there is."""


# ---- reading ---------------------------------------------------------------------------------------------------------


def _text(what: str) -> Read:
    return lambda state, actor, text: check_name(text, what)


def _count(what: str, low: int = 0) -> Read:
    return lambda state, actor, text: parse_int(text, low, COUNT_MAX, what) if text else 0


def _number(what: str, low: int, high: int) -> Read:
    return lambda state, actor, text: parse_int(text, low, high, what)


def _range(what: str) -> Read:
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
    names = tuple(dict.fromkeys(expand(text))) if text else ()
    for name in names:
        if name not in state.nodes:
            raise Refused(Code.INVALID_NODE_NAME, name)
    return names


def _partitions(state: ClusterState, actor: Actor, text: str) -> tuple[str, ...]:
    if not text:
        raise Refused(Code.INVALID_PARTITION)
    return tuple(p.name for p in pick_partitions(state, actor, tuple(filter(None, text.split(",")))))


_YES = {"1": True, "yes": True, "y": True, "true": True, "0": False, "no": False, "n": False, "false": False}


def _yes_no(what: str) -> Read:
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
        return Change(found if text[0] == "+" else -found)
    seconds = whole_minutes(parse_duration_s(text))
    if not seconds or seconds > TIME_LIMIT_S_MAX:
        raise Refused(Code.INVALID_TIME_LIMIT)
    return seconds


def _changed_limit(job: Job, value: int) -> int:
    if not isinstance(value, Change):
        return value
    if job.time_limit_s < 0:
        raise Refused(Code.INVALID_TIME_LIMIT, "the job has no limit that could be changed by so much")
    found = job.time_limit_s + int(value)
    if not 0 < found <= TIME_LIMIT_S_MAX:
        raise Refused(Code.INVALID_TIME_LIMIT, f"{found} seconds")
    return found


def _limit_of_end(job: Job, end_at_us: int) -> int:
    """EndTime=: the time limit that ends the job then, to the second."""
    if job.state not in HOLDING_STATES:
        raise Refused(Code.DISABLED_STATE, "the job does not run")
    found = -(-(end_at_us - job.start_at_us - job.suspended_us) // job_life.US)
    if found <= 0:
        raise Refused(Code.INVALID_TIME_VALUE)
    return found


def _time_min(state: ClusterState, actor: Actor, text: str) -> int:
    return max(0, whole_minutes(parse_duration_s(text))) if text else 0


def _minutes(state: ClusterState, actor: Actor, text: str) -> int:
    return max(0, parse_duration_s(text))


def _memory(what: str) -> Read:
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


def _features(state: ClusterState, actor: Actor, text: str) -> str:
    check_features(state, check_name(text, "features", PATH_BYTES_MAX))
    return text


# ---- applying --------------------------------------------------------------------------------------------------------


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


def _set_deadline(state: ClusterState, job: Job, at_us: int, now_us: int) -> None:
    set_deadline(state, job)


def _reset_age(state: ClusterState, job: Job, value: int, now_us: int) -> None:
    if job.eligible_at_us:
        job.eligible_at_us = now_us
        priority.renew(state, job)


def _nothing(state: ClusterState, actor: Actor, text: str) -> int:
    return 0


def _exit_code(state: ClusterState, actor: Actor, text: str) -> tuple[int, int]:
    """As sacct shows it: code, or code:signal."""
    code, colon, signal = text.partition(":")
    return parse_int(code, 0, 255, "exit code"), parse_int(signal, 0, 255, "signal") if colon else 0


def _set_derived(state: ClusterState, job: Job, status: tuple[int, int], now_us: int) -> None:
    job.derived_code, job.derived_signal = status


KEYS: dict[str, Key] = {
    "jobname": Key(_text("job name"), "name", running=True),
    "name": Key(_text("job name"), "name", running=True),
    "comment": Key(_text("comment"), "comment", running=True, ended=True),
    "admincomment": Key(_text("admin comment"), apply=_set_admin_comment, running=True, operator=True, ended=True),
    "systemcomment": Key(_text("system comment"), "system_comment", running=True, operator=True, ended=True),
    "extra": Key(_text("extra"), "extra", running=True, ended=True),
    "derivedexitcode": Key(_exit_code, apply=_set_derived, running=True, ended=True, only_ended=True),
    "newwckey": Key(_text("wckey"), "wckey", running=True, operator=True, ended=True, only_ended=True),
    "account": Key(_text("account"), "account"),
    "qos": Key(lambda s, a, t: find_qos(s, t) if t else "", "qos"),
    "wckey": Key(_text("wckey"), "wckey"),
    "timelimit": Key(_time_limit, "time_limit_s", _set_time_limit, _changed_limit, running=True),
    "endtime": Key(_nothing, "time_limit_s", _set_time_limit, _limit_of_end, running=True, is_date=True),
    "timemin": Key(_time_min, "time_min_s"),
    "priority": Key(_number("priority", 0, priority.PRIORITY_MAX), "priority", _set_priority),
    "nice": Key(_nice, "nice", _renew),
    "sitefactor": Key(_number("sitefactor", -NICE_MAX, NICE_MAX), "site_factor", _renew, operator=True),
    "resetaccruetime": Key(_nothing, apply=_reset_age),
    "dependency": Key(lambda s, a, t: depends.parse(s, a, t), apply=_set_dependency),
    "arraytaskthrottle": Key(_number("arraytaskthrottle", 0, COUNT_MAX), apply=_set_throttle, running=True),
    "requeue": Key(_yes_no("requeue"), "requeue", running=True),
    "partition": Key(_partitions, "partitions", _set_partition),
    "numnodes": Key(_range("numnodes")),
    "numtasks": Key(_count("numtasks", 1), "ntasks"),
    "numcpus": Key(_range("numcpus")),
    "taskspernode": Key(_count("taskspernode"), "ntasks_per_node"),
    "minmemorynode": Key(_memory("minmemorynode"), "mem_per_node_mb"),
    "minmemorycpu": Key(_memory("minmemorycpu"), "mem_per_cpu_mb"),
    "mincpusnode": Key(_count("mincpusnode"), "mincpus", lower=True),
    "mintmpdisknode": Key(_memory("mintmpdisknode"), "tmp_disk_mb", lower=True),
    "cpuspertask": Key(_count("cpuspertask", 1), "cpus_per_task"),
    "reqsockets": Key(_count("reqsockets"), "sockets_per_node"),
    "reqcores": Key(_count("reqcores"), "cores_per_socket"),
    "reqthreads": Key(_count("reqthreads"), "threads_per_core"),
    "reqnodelist": Key(_nodes, "nodes_required"),
    "excnodelist": Key(_nodes, "nodes_excluded"),
    "features": Key(_features, "features"),
    "prefer": Key(_features, "prefer"),
    "batchfeatures": Key(_features, "batch_features"),
    "gres": Key(_gres, "gres_per_node"),
    "licenses": Key(lambda s, a, t: check_licenses(s, t), "licenses"),
    "switches": Key(_switches),
    "wait-for-switch": Key(_minutes, "switches_wait_s"),
    "contiguous": Key(_yes_no("contiguous"), "contiguous", lower=True),
    "oversubscribe": Key(_yes_no("oversubscribe"), "oversubscribe", operator=True),
    "reboot": Key(_yes_no("reboot"), "reboot", operator=True),
    "delayboot": Key(_minutes, "delay_boot_s"),
    "mailtype": Key(lambda s, a, t: parse_mail_types(t), "mail_types", running=True),
    "mailuser": Key(lambda s, a, t: parse_mail_user(t), "mail_user", running=True),
    "network": Key(_text("network"), "network"),
    "stdout": Key(_path, "std_out"),
    "stderr": Key(_path, "std_err"),
    "stdin": Key(_path, "std_in"),
    "workdir": Key(_path, "work_dir"),
    "reservationname": Key(_text("reservation name"), "reservation"),
    "starttime": Key(_nothing, "begin_at_us", is_date=True),
    "eligibletime": Key(_nothing, "begin_at_us", is_date=True),
    "deadline": Key(_nothing, "deadline_at_us", _set_deadline, operator=True, is_date=True),
}
"""By the key in lower case. Other spellings are the command's business (cli/update.py)."""

#: Keys whose value is a date.
DATES = tuple(name for name, key in KEYS.items() if key.is_date)
