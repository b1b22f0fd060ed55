"""Decodes requests of `scontrol create|update reservation` to an event, and encodes reservations.

Keys arrive in lower case, values as written, `+=` and `-=` as a sign before the value. The syntax is checked here;
validity for the cluster (unknown nodes, impossible times) is checked by the core. Names of users and groups are looked
up by the caller (`names_of`), since that may take time.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ctld.core.records.events import ReservationSettings
from ctld.core.records.reservation import Reservation
from ctld.core.reservations.access import is_active
from ctld.core.reservations.nodes import WHOLE
from ctld.core.state.state import ClusterState
from ctld.runtime.errors import BadRequest
from penstock.v1 import controller_pb2
from penstock.values.dates import parse_date_us
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.fields import Fields, made_of
from penstock.values.gres import parse_gres
from penstock.values.hostlist import compress, expand
from penstock.values.licenses import parse_licenses
from penstock.values.numbers import parse_int
from penstock.values.refusals import TEXT, Code
from penstock.values.reservations import check_settable, format_flags, parse_flags, parse_signed, split_list
from penstock.values.tres import format_tres, gres_keys

COUNT_MAX: Final = 16_000_000
_FLOATING: Final = re.compile(r"\s*now\b", re.IGNORECASE)
#: Slurm's keys that are not implemented: refused by name, never ignored.
NOT_YET: Final = ("burstbuffer", "maxstartdelay", "skip", "corespec")


class Names(NamedTuple):
    """Resolved names of this host: uid by user, uids of the members by group."""

    uids: Mapping[str, int]
    members: Mapping[str, tuple[int, ...]]


def users_and_groups(changes: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Returns the names that must be looked up before `wanted_reservation`. Raises BadRequest."""
    try:
        return (
            [entry.name for entry in parse_signed(changes.get("users", ""), "users")],
            [entry.name for entry in parse_signed(changes.get("groups", ""), "groups")],
        )
    except BadValue as error:
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}") from None


def wanted_reservation(changes: Mapping[str, str], names: Names, now_us: int) -> ReservationSettings:
    """Decodes the settings for the core. Raises BadRequest."""
    fields: Fields = {}
    for key, text in changes.items():
        if key in NOT_YET:
            raise BadRequest(Code.NOT_SUPPORTED, f"{TEXT[Code.NOT_SUPPORTED]}: {key}= of reservations")
        reader = _READERS.get(key)
        if reader is None:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {key}= is no key of a reservation")
        read, code = reader
        try:
            found = read(text, names, now_us)
        except BadValue as error:
            raise BadRequest(code, f"{TEXT[code]}: {error}") from None
        for name, value in found.items():
            if name in fields:
                raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {key}= is given twice")
            fields[name] = value
    return made_of(ReservationSettings, fields)


def _start(text: str, names: Names, now_us: int) -> Fields:
    at_us = parse_date_us(text, now_us)
    floats = {"float_us": at_us - now_us} if _FLOATING.match(text) else {}
    return {"start_at_us": at_us, **floats}


def _end(text: str, names: Names, now_us: int) -> Fields:
    return {"end_at_us": parse_date_us(text, now_us)}


def _duration(text: str, names: Names, now_us: int) -> Fields:
    sign = text[0] if text[:1] in ("+", "-") and text != "-1" else ""
    return {"duration_s": parse_duration_s(text[len(sign) :]), "duration_sign": sign}


def _nodes(text: str, names: Names, now_us: int) -> Fields:
    if text.upper() == "ALL":
        return {"all_nodes": True}
    sign = text[0] if text[:1] in ("+", "-") else ""
    plain = text[len(sign) :].replace(f",{sign}", ",") if sign else text
    return {"nodes": tuple((sign, name) for name in dict.fromkeys(expand(plain)))}


def _node_count(text: str, names: Names, now_us: int) -> Fields:
    sign = text[0] if text[:1] in ("+", "-") else ""
    return {"node_count": parse_int(text[len(sign) :], 1, COUNT_MAX, "NodeCnt"), "node_count_sign": sign}


def _cores(text: str, names: Names, now_us: int) -> Fields:
    return {"cores": tuple(parse_int(item, 1, COUNT_MAX, "CoreCnt") for item in split_list(text, "CoreCnt"))}


def _tres(text: str, names: Names, now_us: int) -> Fields:
    """Parses `cpu=4,node=2,gres/gpu=4,license/matlab=2`."""
    found: Fields = {}
    gres: list[tuple[str, str, int]] = []
    licenses: list[tuple[str, int]] = []
    for item in split_list(text, "TRES"):
        name, equals, count = item.partition("=")
        kind, _, rest = name.partition("/")
        if not equals:
            raise BadValue(f"TRES {item[:64]!r}: write name=count")
        if name.lower() == "cpu":
            found["cpus"] = parse_int(count, 1, COUNT_MAX, "TRES cpu")
        elif name.lower() == "node":
            found["node_count"] = parse_int(count, 1, COUNT_MAX, "TRES node")
        elif kind.lower() == "gres" and rest:
            gres += [(g.name, g.type, g.count) for g in parse_gres(item)]
        elif kind.lower() == "license" and rest:
            licenses.append((rest, parse_int(count, 1, COUNT_MAX, f"number of {rest} licenses")))
        else:
            raise BadValue(f"TRES {name[:64]!r}: a reservation keeps cpu, node, gres/NAME and license/NAME")
    return found | ({"gres": tuple(gres)} if gres else {}) | ({"licenses": tuple(licenses)} if licenses else {})


def _tres_per_node(text: str, names: Names, now_us: int) -> Fields:
    found = _tres(text, names, now_us)
    if set(found) != {"gres"}:
        raise BadValue("TRESPerNode takes gres/NAME=COUNT only")
    return {"gres_per_node": found["gres"]}


def _users(text: str, names: Names, now_us: int) -> Fields:
    return {"users": tuple((e.sign, e.name, names.uids[e.name]) for e in parse_signed(text, "users"))}


def _groups(text: str, names: Names, now_us: int) -> Fields:
    return {"groups": tuple((e.sign, e.name, names.members[e.name]) for e in parse_signed(text, "groups"))}


def _accounts(text: str, names: Names, now_us: int) -> Fields:
    return {"accounts": tuple((e.sign, e.name) for e in parse_signed(text, "accounts"))}


def _qos(text: str, names: Names, now_us: int) -> Fields:
    return {"qos": tuple((e.sign, e.name) for e in parse_signed(text, "qos"))}


def _allowed_partitions(text: str, names: Names, now_us: int) -> Fields:
    return {"allowed_partitions": tuple((e.sign, e.name) for e in parse_signed(text, "partitions"))}


def _flags(text: str, names: Names, now_us: int) -> Fields:
    change = parse_flags(text)
    check_settable(change)
    return {"flags_on": int(change.on), "flags_off": int(change.off), "purge_comp_s": change.purge_comp_s}


def _word(field: str) -> Callable[[str, Names, int], Fields]:
    return lambda text, names, now_us: {field: text}


#: key -> its parser, and the message for a syntax error.
_READERS: Final[dict[str, tuple[Callable[[str, Names, int], Fields], Code]]] = {
    "starttime": (_start, Code.INVALID_TIME_VALUE),
    "endtime": (_end, Code.INVALID_TIME_VALUE),
    "duration": (_duration, Code.INVALID_TIME_VALUE),
    "nodes": (_nodes, Code.INVALID_NODE_NAME),
    "nodecnt": (_node_count, Code.INVALID_NODE_COUNT),
    "corecnt": (_cores, Code.INVALID_VALUE),
    "tres": (_tres, Code.INVALID_VALUE),
    "trespernode": (_tres_per_node, Code.INVALID_GRES),
    "partitionname": (_word("partition"), Code.INVALID_PARTITION),
    "features": (_word("features"), Code.INVALID_FEATURE),
    "users": (_users, Code.INVALID_USER),
    "groups": (_groups, Code.INVALID_VALUE),
    "accounts": (_accounts, Code.INVALID_ACCOUNT),
    "qos": (_qos, Code.INVALID_QOS),
    "allowedpartitions": (_allowed_partitions, Code.INVALID_PARTITION),
    "licenses": (lambda text, names, now_us: {"licenses": parse_licenses(text)}, Code.INVALID_LICENSES),
    "flags": (_flags, Code.INVALID_VALUE),
    "comment": (_word("comment"), Code.INVALID_VALUE),
}


def reservation_info(state: ClusterState, reservation: Reservation, now_us: int) -> controller_pb2.ReservationInfo:
    """Encodes one reservation."""
    start_us, end_us = reservation.start_at_us, reservation.end_at_us
    if reservation.float_us >= 0:
        start_us, end_us = now_us + reservation.float_us, now_us + reservation.float_us + end_us - start_us
    tres = _tres_of(state, reservation)
    return controller_pb2.ReservationInfo(
        name=reservation.name,
        start_at_us=start_us,
        end_at_us=end_us,
        is_active=is_active(reservation, now_us),
        node_list=compress(part.node for part in reservation.parts) if reservation.parts else "",
        node_count=len(reservation.parts),
        core_count=_cores_of(state, reservation),
        features=reservation.ask.features,
        partition=reservation.ask.partition,
        flags=format_flags(reservation.flags, reservation.purge_comp_s),
        tres=format_tres(tres),
        users=_listed(reservation.users, reservation.users_denied),
        groups=reservation.groups,
        accounts=_listed(reservation.accounts, reservation.accounts_denied),
        licenses=[f"{name}:{count}" for name, count in reservation.licenses],
        comment=reservation.comment,
        qos=_listed(reservation.qos, reservation.qos_denied),
        allowed_partitions=reservation.ask.allowed_partitions,
    )


def _listed(names: Iterable[str], denied: bool) -> list[str]:
    return [f"-{name}" if denied else name for name in names]


def _cores_of(state: ClusterState, reservation: Reservation) -> int:
    cores = 0
    for part in reservation.parts:
        node = state.nodes.get(part.node)
        if node is not None:
            cores += (part.cpus if part.cpus != WHOLE else node.cpus) // node.config.cpus_per_core()
    return cores


def _tres_of(state: ClusterState, reservation: Reservation) -> dict[str, int]:
    tres: dict[str, int] = {}
    for part in reservation.parts:
        node = state.nodes.get(part.node)
        cpus = part.cpus if part.cpus != WHOLE else node.cpus if node is not None else 0
        tres["cpu"] = tres.get("cpu", 0) + cpus
        for name, type_, count in part.gres:
            for key in gres_keys(name, type_):
                tres[key] = tres.get(key, 0) + count
    for name, count in reservation.licenses:
        tres[f"license/{name}"] = count
    return {key: count for key, count in tres.items() if count}
