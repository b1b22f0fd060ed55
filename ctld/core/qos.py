"""Qualities of service: records that jobs name with --qos. sacctmgr adds, changes and deletes them.

A QOS says how its jobs rank (Priority), whom they may preempt (Preempt), and how they are preempted themselves
(PreemptMode, GraceTime, PreemptExemptTime). `normal` is always there: jobs that name none have it. What a QOS limits is
the accounting's business.

A request names several records; all of it is done or nothing.
"""

from collections.abc import Callable
from typing import Any

from ctld.core import preempt
from ctld.core.effects import Done, Refused
from ctld.core.events import ChangeQos, QosAction, Role
from ctld.core.model import Qos
from ctld.core.rights import require_role
from ctld.core.state import ClusterState
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.refusals import Code
from penstock.values.states import ACTIVE_STATES
from penstock.values.text import check_name

#: The QOS of jobs that name none. Slurm's first QOS has this name and description.
DEFAULT_QOS = "normal"
NORMAL = Qos(DEFAULT_QOS, "Normal QOS default")
#: QOS of one cluster. Slurm's limit is 32 bits of a bit map wide in practice; no site has a hundred.
QOS_MAX = 1024
PRIORITY_MAX = 2**32 - 2
FLAGS = (
    "DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
    "PartitionMinNodes", "PartitionTimeLimit", "Relative", "RequiresReservation", "UsageFactorSafe",
)  # fmt: skip
_MODES = ("OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN")
_PPM = 1_000_000


def change_qos(state: ClusterState, now_us: int, event: ChangeQos) -> None:
    """sacctmgr add|modify|delete qos. Raises Refused."""
    require_role(event.actor, Role.OPERATOR, "changing a QOS")
    if not event.names:
        raise Refused(Code.INVALID_QOS, "no name is given")
    records = _ACTIONS[event.action](state, event)
    # -- apply
    for name, record in records:
        if record is None:
            del state.qos[name]
        else:
            state.qos[name] = record
        state.dirty_qos[name] = None
    state.rules_changed()
    preempt.tell_all(state)
    state.changed()
    state.reply(event.reply_to, Done())


_Records = list[tuple[str, Qos | None]]


def _added(state: ClusterState, event: ChangeQos) -> _Records:
    for name in event.names:
        if not name or name != name.lower() or any(c in name for c in ", \t=+-"):
            raise Refused(Code.INVALID_QOS, f"{name!r} is not a name: lower case, without spaces, commas and signs")
        try:
            check_name(name, "QOS name")
        except BadValue as error:
            raise Refused(Code.INVALID_QOS, str(error)) from None
        if name in state.qos:
            raise Refused(Code.QOS_EXISTS, name)
    if len(state.qos) + len(event.names) > QOS_MAX:
        raise Refused(Code.INVALID_QOS, f"there are {len(state.qos)} QOS, the limit is {QOS_MAX}")
    return [(name, _changed(state, Qos(name), event.changes)) for name in event.names]


def _modified(state: ClusterState, event: ChangeQos) -> _Records:
    return [(name, _changed(state, _known(state, name), event.changes)) for name in event.names]


def _deleted(state: ClusterState, event: ChangeQos) -> _Records:
    gone = {_known(state, name).name for name in event.names}
    if DEFAULT_QOS in gone:
        raise Refused(Code.QOS_IN_USE, f"{DEFAULT_QOS} is the QOS of jobs that name none")
    users = [job.job_id for job in state.jobs.values() if job.state in ACTIVE_STATES and job.request.qos in gone]
    if users:
        raise Refused(Code.QOS_IN_USE, f"{len(users)} job(s) have it, among them {min(users)}")
    records: _Records = [(name, None) for name in event.names]
    for qos in state.qos.values():
        if qos.name not in gone and gone & set(qos.preempt):
            records.append((qos.name, qos._replace(preempt=tuple(p for p in qos.preempt if p not in gone))))
    return records


_ACTIONS: dict[QosAction, Callable[[ClusterState, ChangeQos], _Records]] = {
    QosAction.ADD: _added,
    QosAction.MODIFY: _modified,
    QosAction.DELETE: _deleted,
}


def _known(state: ClusterState, name: str) -> Qos:
    qos = state.qos.get(name)
    if qos is None:
        raise Refused(Code.INVALID_QOS, name)
    return qos


def _changed(state: ClusterState, qos: Qos, changes: dict[str, str]) -> Qos:
    for key, text in changes.items():
        name, sign = (key[:-1], key[-1]) if key[-1:] in ("+", "-") else (key, "")
        if name not in _KEYS:
            raise Refused(Code.NOT_SUPPORTED, f"{name}= is not supported for QOS; known: {', '.join(_KEYS)}")
        field, read = _KEYS[name]
        try:
            value = read(state, text)
        except BadValue as error:
            raise Refused(Code.INVALID_VALUE, str(error)) from None
        if sign:
            if not isinstance(value, tuple) or field == "preempt_mode":
                raise Refused(Code.INVALID_VALUE, f"{name}{sign}= is for lists; use {name}=")
            old = getattr(qos, field)
            more = tuple(dict.fromkeys((*old, *value)))
            value = more if sign == "+" else tuple(word for word in old if word not in value)
        qos = qos._replace(**{field: value})
    if qos.name in qos.preempt:
        raise Refused(Code.INVALID_VALUE, f"{qos.name} preempts itself; PreemptMode=WITHIN is meant for that")
    return qos


def _text(state: ClusterState, text: str) -> str:
    return check_name(text, "description")


def _priority(state: ClusterState, text: str) -> int:
    return 0 if text == "-1" else parse_int(text, 0, PRIORITY_MAX, "Priority")


def _preempt(state: ClusterState, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word for word in text.split(",") if word))
    for name in names:
        if name not in state.qos:
            raise BadValue(f"Invalid Preempt: there is no QOS {name}")
    return names


def _mode(state: ClusterState, text: str) -> tuple[str, ...]:
    modes = tuple(dict.fromkeys(word.upper() for word in text.split(",") if word))
    if modes in ((), ("CLUSTER",)):
        return ()
    for mode in modes:
        if mode not in _MODES:
            raise BadValue(f"Invalid PreemptMode: expected cluster, {', '.join(_MODES)}, not {mode}")
    if sum(mode in ("OFF", "CANCEL", "REQUEUE", "SUSPEND") for mode in modes) > 1:
        raise BadValue("Invalid PreemptMode: give one of OFF, CANCEL, REQUEUE, SUSPEND")
    if "SUSPEND" in modes and "GANG" not in state.config.preempt_mode:
        raise BadValue("Invalid PreemptMode: SUSPEND needs GANG in the cluster's PreemptMode")
    return tuple(sorted(modes, key=lambda mode: mode in ("GANG", "WITHIN")))


def _grace_s(state: ClusterState, text: str) -> int:
    if text == "-1":
        return 0
    return parse_duration_s(text) if ":" in text or "-" in text else parse_int(text, 0, 366 * 86400, "GraceTime")


def _exempt(state: ClusterState, text: str) -> int:
    return -1 if text == "-1" else parse_duration_s(text)


def _flags(state: ClusterState, text: str) -> tuple[str, ...]:
    known = {flag.lower(): flag for flag in FLAGS}
    words = [word for word in text.split(",") if word and word != "-1"]
    for word in words:
        if word.lower() not in known:
            raise BadValue(f"Invalid Flags: expected {', '.join(FLAGS)}, not {word}")
    return tuple(dict.fromkeys(known[word.lower()] for word in words))


def _factor(state: ClusterState, text: str) -> int:
    whole, _, part = text.partition(".")
    if text == "-1":
        return _PPM
    if not whole.isdigit() or (part and not part.isdigit()) or len(whole) > 6:
        raise BadValue(f"Invalid UsageFactor: expected a number such as 0.5, not {text}")
    return int(whole) * _PPM + int(part[:6].ljust(6, "0") or 0)


_KEYS: dict[str, tuple[str, Callable[[ClusterState, str], Any]]] = {
    "description": ("description", _text),
    "priority": ("priority", _priority),
    "preempt": ("preempt", _preempt),
    "preemptmode": ("preempt_mode", _mode),
    "gracetime": ("grace_time_s", _grace_s),
    "preemptexempttime": ("preempt_exempt_time_s", _exempt),
    "flags": ("flags", _flags),
    "usagefactor": ("usage_factor_ppm", _factor),
}
