"""sacctmgr add, modify, delete qos: qualities of service, records that jobs name with --qos.

A QOS says how its jobs rank (Priority), whom they may preempt (Preempt), how they are preempted themselves
(PreemptMode, GraceTime, PreemptExemptTime), and what they may use (limits, Flags, UsageFactor, UsageThreshold,
LimitFactor). `normal` always exists: jobs that name none have it. Each has a number, which it keeps when it is deleted
and added again.

A QOS that a job or a partition has, or that is an association's own default, is not deleted. A deleted one is removed from
the lists of associations and from the Preempt lists of other QOS, as in Slurm. No QOS preempts itself, directly or by
others: PreemptMode=WITHIN is meant for that.
"""

from collections.abc import Callable, Iterator

from ctld.core.accounts.associations import described
from ctld.core.accounts.draft import Draft
from ctld.core.accounts.keys import check_tres, name_of
from ctld.core.queue.qos import DEFAULT_QOS, next_qos_id
from ctld.core.queue.rights import require_role
from ctld.core.records.effects import Changed, Refused
from ctld.core.records.events import ChangeQos, QosAction, Role
from ctld.core.records.qos import Qos
from ctld.core.state.state import ClusterState
from penstock.values import limits as lim
from penstock.values.errors import BadValue
from penstock.values.fields import made_of
from penstock.values.numbers import parse_int
from penstock.values.qos import PPM, parse_exempt_s, parse_factor, parse_flags, parse_grace_s, parse_preempt_mode
from penstock.values.refusals import Code
from penstock.values.text import check_name, shown

#: Maximum number of QOS. Slurm's limit is in practice the width of a bit map; no site has a hundred.
QOS_MAX = 1024
PRIORITY_MAX = 2**32 - 2


def change(draft: Draft, event: ChangeQos) -> Changed:
    """Handles sacctmgr add|modify|delete qos. Raises Refused or BadValue."""
    require_role(draft.actor, Role.OPERATOR, "changing a QOS")
    if not event.names:
        raise Refused(Code.INVALID_QOS, "no name is given")
    _ACTIONS[event.action](draft, event)
    return Changed(tuple(dict.fromkeys(event.names)), ())


def _add(draft: Draft, event: ChangeQos) -> None:
    state = draft.state
    for name in event.names:
        try:
            name_of(name, "QOS name")
        except BadValue as error:
            raise Refused(Code.INVALID_QOS, str(error)) from None
        if name != name.lower():
            raise Refused(Code.INVALID_QOS, f"Invalid QOS name: {shown(name)}: names are in lower case")
        if name in state.qos:
            raise Refused(Code.QOS_EXISTS, name)
    if len(state.qos) + len(event.names) > QOS_MAX:
        raise Refused(Code.INVALID_QOS, f"there are {len(state.qos)} QOS, the limit is {QOS_MAX}")
    for name in dict.fromkeys(event.names):
        gone = state.registry.qos_deleted.get(name)
        qos_id = gone.qos_id if gone is not None else next_qos_id(state)
        draft.put_qos(_changed(state, Qos(name, description=name, qos_id=qos_id), event.changes))


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
        if assoc.default_qos in gone:
            raise Refused(Code.NO_REMOVE_DEFAULT_QOS, f"{described(assoc)} has {assoc.default_qos}")
    for assoc in list(state.shares.by_id.values()):
        if not gone.keys().isdisjoint(assoc.qos):  # a list without names is inherited, as in Slurm
            draft.set_assoc(assoc, qos=tuple(name for name in assoc.qos if name not in gone))
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
        qos = made_of(qos._replace, {field: value})
    return qos


def refuse_loops(draft: Draft) -> None:
    """Refuses a request after which a QOS whose Preempt list it has changed could be preempted by those that it
    preempts, itself included. Asked when all changes are made, since one of many may open what another closes."""
    known = draft.state.qos
    for changed in dict.fromkeys(_preempting(draft)):
        came_by: dict[str, str] = {}
        order = [changed]
        for name in order:
            for below in known[name].preempt if name in known else ():
                if below not in came_by:
                    came_by[below] = name
                    order.append(below)
        if changed in came_by:
            raise Refused(Code.QOS_PREEMPTION_LOOP, _loop(changed, came_by))


def _preempting(draft: Draft) -> Iterator[str]:
    """Returns the QOS whose Preempt lists have changed."""
    for before, after in draft.recorded:
        had = before.preempt if isinstance(before, Qos) else ()
        if isinstance(after, Qos) and after.preempt != had:
            yield after.name


def _loop(name: str, came_by: dict[str, str]) -> str:
    """Says `a preempts b preempts a`."""
    names = [name, came_by[name]]
    while names[-1] != name:
        names.append(came_by[names[-1]])
    return " preempts ".join(reversed(names))


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
    """Returns the factor in millionths; not set = `nothing`."""

    def read(state: ClusterState, text: str) -> int:
        found = parse_factor(text, what)
        return nothing if found < 0 else found

    return read


_KEYS: dict[str, tuple[str, Callable[[ClusterState, str], object]]] = {
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
