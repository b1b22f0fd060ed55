"""Making and changing reservations and partitions, and new nodes: the keys of scontrol, whose values the controller parses.

A record with the name of an existing one changes it, else it is made; with `If-None-Match: *` it is made or refused. Several
records of a body are made in their order; a refusal ends the request, and what was made before it stays, as in Slurm.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Final

from cli.base.document import Json
from cli.base.newentity import NODE, read_words
from cli.base.run import CommandError
from penstock.v1.controller_pb2 import (
    CreateNodesRequest,
    CreatePartitionRequest,
    CreateReservationReply,
    CreateReservationRequest,
    ListPartitionsRequest,
    ListReservationsRequest,
    UpdatePartitionRequest,
    UpdateReservationRequest,
)
from penstock.values.dates import format_date
from penstock.values.duration import format_duration
from penstock.values.refusals import Code
from rest.answers import RestError
from rest.calling import RestCall
from rest.contract.parse import CONVERSION, INFINITE, NO_MEMBER
from rest.handlers.members import (
    Members,
    MemberSetting,
    as_amounts,
    as_names,
    as_text,
    at,
    records_of,
    settings,
    text_of,
    texts_of,
)

UNLIMITED: Final = "UNLIMITED"
PURGE: Final = "PURGE_COMP"
#: Flags that say how `duration` is meant.
_SIGNS: Final = {"DURATION_PLUS": "+", "DURATION_MINUS": "-"}


def _as_minutes(value: object) -> str | None:
    return UNLIMITED if value == INFINITE else str(value)


def _as_time(value: object) -> str | None:
    return format_date(value * 1_000_000) if isinstance(value, int) and value > 0 else None


def _as_count(value: object) -> str | None:
    return UNLIMITED if value == INFINITE else str(value)


def _as_memory(value: object) -> str | None:
    return "0" if value == INFINITE else str(value)  # 0: no limit


_RESERVATION: Final[Mapping[str, MemberSetting]] = {
    "accounts": MemberSetting("accounts", as_names), "comment": MemberSetting("comment", as_text),
    "core_count": MemberSetting("corecnt", _as_count), "duration": MemberSetting("duration", _as_minutes),
    "end_time": MemberSetting("endtime", _as_time), "start_time": MemberSetting("starttime", _as_time),
    "features": MemberSetting("features", as_text), "groups": MemberSetting("groups", as_names),
    "licenses": MemberSetting("licenses", as_names), "node_count": MemberSetting("nodecnt", _as_count),
    "node_list": MemberSetting("nodes", as_names), "partition": MemberSetting("partitionname", as_text),
    "tres": MemberSetting("tres", as_amounts), "users": MemberSetting("users", as_names),
}  # fmt: skip
_PARTITION: Final[Mapping[str, MemberSetting]] = {
    "accounts.allowed": MemberSetting("allowaccounts", as_text), "accounts.deny": MemberSetting("denyaccounts", as_text),
    "alternate": MemberSetting("alternate", as_text), "defaults.job": MemberSetting("jobdefaults", as_text),
    "defaults.partition_memory_per_cpu": MemberSetting("defmempercpu", _as_memory),
    "defaults.partition_memory_per_node": MemberSetting("defmempernode", _as_memory),
    "defaults.time": MemberSetting("defaulttime", _as_minutes), "grace_time": MemberSetting("gracetime", as_text),
    "groups.allowed": MemberSetting("allowgroups", as_text), "maximums.cpus_per_node": MemberSetting("maxcpuspernode", _as_count),
    "maximums.cpus_per_socket": MemberSetting("maxcpuspersocket", _as_count),
    "maximums.nodes": MemberSetting("maxnodes", _as_count),
    "maximums.over_time_limit": MemberSetting("overtimelimit", _as_minutes),
    "maximums.partition_memory_per_cpu": MemberSetting("maxmempercpu", _as_memory),
    "maximums.partition_memory_per_node": MemberSetting("maxmempernode", _as_memory),
    "maximums.time": MemberSetting("maxtime", _as_minutes), "minimums.nodes": MemberSetting("minnodes", as_text),
    "nodes.allowed_allocation": MemberSetting("allocnodes", as_text), "nodes.configured": MemberSetting("nodes", as_text),
    "partition.exclusive": MemberSetting("exclusive", as_text),
    "partition.oversubscribe": MemberSetting("oversubscribe", as_text),
    "partition.state": MemberSetting("state", as_names), "preempt_mode": MemberSetting("preemptmode", as_names),
    "priority.job_factor": MemberSetting("priorityjobfactor", as_text), "priority.tier": MemberSetting("prioritytier", as_text),
    "qos.allowed": MemberSetting("allowqos", as_text), "qos.assigned": MemberSetting("qos", as_text),
    "qos.deny": MemberSetting("denyqos", as_text), "suspend_time": MemberSetting("suspendtime", _as_count),
    "timeouts.resume": MemberSetting("resumetimeout", _as_count), "timeouts.suspend": MemberSetting("suspendtimeout", _as_count),
    "topology": MemberSetting("topology", as_text), "tres.billing_weights": MemberSetting("tresbillingweights", as_text),
}  # fmt: skip
#: Flags of a partition, by the key that they switch; with _CLEAR they switch it off.
_PARTITION_FLAGS: Final = {
    "DEFAULT": "default", "HIDDEN": "hidden", "NO_ROOT": "disablerootjobs", "ROOT_ONLY": "rootonly",
    "REQ_RESV": "reqresv", "LLN": "lln", "PDOI": "powerdownonidle",
}  # fmt: skip
_NO_EFFECT: Final = {
    "reservation": ("burst_buffer", "max_start_delay"),
    "partition": ("cpus.task_binding", "node_sets", "select_type"),
}


# ---- reservations


async def post_reservation(call: RestCall) -> Json:
    """POST reservation."""
    return {"reservations": await _reservations(call, [call.record()], "#")}


async def post_reservations(call: RestCall) -> Json:
    """POST reservations."""
    return {"reservations": await _reservations(call, records_of(call.record(), "reservations"), "#/reservations")}


async def _reservations(call: RestCall, records: list[Members], source: str) -> list[Json]:
    """Makes or changes each. Returns them as they were described, with their names."""
    reply = await call.call("ListReservations", ListReservationsRequest())
    known = {one.name for one in reply.reservations}
    made: list[Json] = []
    for record in records:
        name, changes = text_of(record, "name"), _reservation(record)
        call.check_new(name in known, Code.RESERVATION_INVALID, name, f"{source}/name")
        _warn(call, record, "reservation", source)
        if name in known:
            await call.call("UpdateReservation", UpdateReservationRequest(name=name, changes=changes))
        else:
            request = CreateReservationRequest(name=name, changes=changes)
            created: CreateReservationReply = await call.call("CreateReservation", request)
            name = created.name
            known.add(name)
        made.append({**record, "name": name})
    return made


def _reservation(record: Members) -> dict[str, str]:
    found = settings(record, _RESERVATION)
    flags = texts_of(record, "flags")
    for flag, sign in _SIGNS.items():
        if flag in flags and "duration" in found:
            found["duration"] = sign + found["duration"]
    purge = at(record, "purge_completed.time")
    words = [flag for flag in flags if flag not in _SIGNS and flag != PURGE]
    if isinstance(purge, int) and purge > 0:
        words.append(f"{PURGE}={format_duration(purge)}")
    elif PURGE in flags:
        words.append(PURGE)
    if words:
        found["flags"] = ",".join(words)
    return found


# ---- partitions, nodes


async def post_partitions(call: RestCall) -> Json:
    """POST partitions."""
    reply = await call.call("ListPartitions", ListPartitionsRequest())
    known = {one.name for one in reply.partitions}
    for index, record in enumerate(records_of(call.record(), "partitions")):
        source, name = f"#/partitions/{index}", text_of(record, "name")
        if not name:
            raise RestError(422, NO_MEMBER, "name is missing", source=f"{source}/name")
        call.check_new(name in known, Code.PARTITION_EXISTS, name, f"{source}/name")
        changes = settings(record, _PARTITION)
        for flag in texts_of(record, "flags"):
            changes[_PARTITION_FLAGS[flag.removesuffix("_CLEAR")]] = "NO" if flag.endswith("_CLEAR") else "YES"
        _warn(call, record, "partition", source)
        make: Callable[..., CreatePartitionRequest | UpdatePartitionRequest]
        method, make = (
            ("UpdatePartition", UpdatePartitionRequest)
            if name in known
            else ("CreatePartition", CreatePartitionRequest)
        )
        await call.call(method, make(name=name, changes=changes))
        known.add(name)
    return {}


async def new_node(call: RestCall) -> Json:
    """POST new/node: a dynamic node, described by a line of slurm.conf."""
    try:
        new = read_words(shlex.split(call.text_in("node_conf")), NODE)
    except (CommandError, ValueError) as error:
        text = " ".join(str(error).split())
        raise RestError(422, CONVERSION, text, source="#/node_conf") from error
    await call.call("CreateNodes", CreateNodesRequest(names=new.name, changes=new.changes))
    return {}


def _warn(call: RestCall, record: Members, kind: str, source: str) -> None:
    for path in _NO_EFFECT[kind]:
        if at(record, path):
            call.warn(f"{path} has no effect here", f"{source}/{path.replace('.', '/')}")
