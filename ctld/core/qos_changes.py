"""sacctmgr add, modify, delete qos: qualities of service, records that jobs name with --qos.

A QOS says how its jobs rank (Priority), whom they may preempt (Preempt), how they are preempted themselves (PreemptMode,
GraceTime, PreemptExemptTime), and what they may use (limits, Flags, UsageFactor, UsageThreshold, LimitFactor). `normal`
is always there: jobs that name none have it. Each has a number, which it keeps when it is deleted and added again.

One that somebody has (a job, an association's list or default, a partition) is not deleted: what these may do would
change without a word.
"""

from collections.abc import Callable
from typing import Any

from ctld.core.draft import Draft
from ctld.core.effects import Changed, Refused
from ctld.core.entity_keys import check_tres
from ctld.core.events import ChangeQos, QosAction, Role
from ctld.core.model import Qos
from ctld.core.qos import DEFAULT_QOS, next_qos_id
from ctld.core.rights import require_role
from ctld.core.state import ClusterState
from penstock.values import limits as lim
from penstock.values.errors import BadValue
from penstock.values.numbers import parse_int
from penstock.values.qos import PPM, parse_exempt_s, parse_factor, parse_flags, parse_grace_s, parse_preempt_mode
from penstock.values.refusals import Code
from penstock.values.text import check_name, shown

#: QOS of one cluster. Slurm's limit is 32 bits of a bit map wide in practice; no site has a hundred.
QOS_MAX = 1024
PRIORITY_MAX = 2**32 - 2


def change(draft: Draft, event: ChangeQos) -> Changed:
    """sacctmgr add|modify|delete qos. Raises Refused or BadValue."""
    require_role(draft.actor, Role.OPERATOR, "changing a QOS")
    if not event.names:
        raise Refused(Code.INVALID_QOS, "no name is given")
    _ACTIONS[event.action](draft, event)
    return Changed(tuple(dict.fromkeys(event.names)), ())


def _add(draft: Draft, event: ChangeQos) -> None:
    state = draft.state
    for name in event.names:
        if not name or name != name.lower() or any(c in name for c in ", \t=+-|/\\'\"*?"):
            raise Refused(
                Code.INVALID_QOS, f"{shown(name)} is not a name: lower case, without spaces, commas and signs"
            )
        try:
            check_name(name, "QOS name")
        except BadValue as error:
            raise Refused(Code.INVALID_QOS, str(error)) from None
        if name in state.qos:
            raise Refused(Code.QOS_EXISTS, name)
    if len(state.qos) + len(event.names) > QOS_MAX:
        raise Refused(Code.INVALID_QOS, f"there are {len(state.qos)} QOS, the limit is {QOS_MAX}")
    for name in dict.fromkeys(event.names):
        gone = state.registry.qos_deleted.get(name)
        qos_id = gone.qos_id if gone is not None else next_qos_id(state)
        draft.put_qos(_changed(state, Qos(name, qos_id=qos_id), event.changes))


def _modify(draft: Draft, event: ChangeQos) -> None:
    changes = dict(event.changes)
    reset = changes.pop("rawusage", None)
    if reset is not None:
        parse_int(reset, 0, 0, "rawusage")
    for name in event.names:
        record = _known(draft.state, name)
        draft.put_qos(_changed(draft.state, record, changes))
        if reset is not None:
            draft.forget_qos_usage(draft.state.qos[name])


def _delete(draft: Draft, event: ChangeQos) -> None:
    state = draft.state
    gone = {_known(state, name).name: None for name in event.names}
    if DEFAULT_QOS in gone:
        raise Refused(Code.QOS_IN_USE, f"{DEFAULT_QOS} is the QOS of jobs that name none")
    for name in gone:
        job_id = draft.active.of_qos.get(name, 0)
        if job_id:
            raise Refused(Code.QOS_IN_USE, f"job {job_id} has {name}")
    for partition in state.partition_list:
        if partition.config.qos in gone:
            raise Refused(Code.QOS_IN_USE, f"partition {partition.name} has {partition.config.qos}")
    for assoc in state.shares.by_id.values():
        used = next((name for name in (*assoc.qos, assoc.default_qos) if name in gone), "")
        if used:
            whose = f"{assoc.user_name} in account {assoc.account}" if assoc.user_name else f"account {assoc.account}"
            raise Refused(Code.QOS_IN_USE, f"{whose} has {used} among its QOS: take it out first, with qos-={used}")
    for record in list(state.qos.values()):
        if record.name in gone:
            draft.put_qos(record._replace(deleted=True))
        elif any(name in gone for name in record.preempt):
            draft.put_qos(record._replace(preempt=tuple(name for name in record.preempt if name not in gone)))


_ACTIONS: dict[QosAction, Callable[[Draft, ChangeQos], None]] = {
    QosAction.ADD: _add,
    QosAction.MODIFY: _modify,
    QosAction.DELETE: _delete,
}


def _known(state: ClusterState, name: str) -> Qos:
    qos = state.qos.get(name)
    if qos is None:
        raise Refused(Code.INVALID_QOS, name)
    return qos


def _changed(state: ClusterState, qos: Qos, changes: dict[str, str]) -> Qos:
    for key, text in changes.items():
        name, sign = (key[:-1], key[-1]) if key[-1:] in ("+", "-") else (key, "")
        limit = lim.OF_QOS.get(name) if name not in _KEYS else None
        if limit is not None and not sign:
            limits = lim.change(qos.limits, limit, text)
            check_tres(state, limit, limits)
            qos = qos._replace(limits=limits if limits != lim.NO_LIMITS else lim.NO_LIMITS)
            continue
        if name not in _KEYS:
            known = ", ".join((*_KEYS, *(one.name for one in lim.LIMITS if one.of_qos)))
            raise Refused(Code.NOT_SUPPORTED, f"{key}= is not supported for QOS; known: {known}")
        field, read = _KEYS[name]
        value = read(state, text)
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
    modes = parse_preempt_mode(text)
    if "SUSPEND" in modes and "GANG" not in state.config.preempt_mode:
        raise BadValue("Invalid PreemptMode: SUSPEND needs GANG in the cluster's PreemptMode")
    return modes


def _factor(what: str, nothing: int) -> Callable[[ClusterState, str], int]:
    """In millionths; not set = `nothing`."""

    def read(state: ClusterState, text: str) -> int:
        found = parse_factor(text, what)
        return nothing if found < 0 else found

    return read


_KEYS: dict[str, tuple[str, Callable[[ClusterState, str], Any]]] = {
    "description": ("description", _text),
    "priority": ("priority", _priority),
    "preempt": ("preempt", _preempt),
    "preemptmode": ("preempt_mode", _mode),
    "gracetime": ("grace_time_s", lambda state, text: parse_grace_s(text)),
    "preemptexempttime": ("preempt_exempt_time_s", lambda state, text: parse_exempt_s(text)),
    "flags": ("flags", lambda state, text: parse_flags(text)),
    "usagefactor": ("usage_factor_ppm", _factor("UsageFactor", PPM)),
    "usagethreshold": ("usage_threshold_ppm", _factor("UsageThreshold", -1)),
    "limitfactor": ("limit_factor_ppm", _factor("LimitFactor", -1)),
}
