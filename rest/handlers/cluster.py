"""Reading the cluster: ping, diagnostics, nodes, partitions, reservations, licenses; host lists."""

import asyncio

from cli.base.document import Json, time_object
from cli.listings.diagnostics import statistics
from cli.listings.jsonnode import node_object
from cli.listings.jsonpart import licenses_document, partition_object, reservation_object
from penstock.v1.controller_pb2 import (
    ListLicensesRequest,
    ListNodesRequest,
    ListPartitionsRequest,
    ListReservationsRequest,
    PingRequest,
)
from penstock.v1.explain_pb2 import DiagnosticsRequest
from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.hostlist import HOSTLIST_TEXT_MAX, compress, expand
from rest.answers import NotModified, RestError
from rest.calling import RestCall
from rest.contract.parse import CONVERSION
from rest.limits import SLICE_ITEMS
from rest.listing import KeptItems


async def ping(call: RestCall) -> Json:
    """GET ping: of the controller."""
    reply = await call.call("Ping", PingRequest())
    one: Json = {
        "hostname": reply.controller_host,
        "pinged": "UP",
        "status": "UP",
        "responding": True,
        "latency": 0,
        "mode": "primary",
        "primary": True,
    }
    return {"pings": [one]}


async def diag(call: RestCall) -> Json:
    """GET diag."""
    return {"statistics": statistics(await call.call("Diagnostics", DiagnosticsRequest()))}


async def nodes(call: RestCall) -> Json:
    """GET nodes."""
    check_update_time(call)
    reply = await call.polled("ListNodes", ListNodesRequest())
    nodes = KeptItems(reply.nodes, lambda one: node_object(one, call.cluster))
    is_long = len(reply.nodes) > SLICE_ITEMS
    return {"nodes": nodes if is_long else nodes.made(), "last_update": time_object(call.now_us)}


async def node(call: RestCall) -> Json:
    """GET node/{node_name}: a name or a host list."""
    name = call.path["node_name"]
    wanted = set(_names(name, "node_name"))
    reply = await call.polled("ListNodes", ListNodesRequest())
    found = [node_object(one, call.cluster) for one in reply.nodes if one.name in wanted]
    if not found:
        call.fail(f"Failure to query node {name}", source="_dump_nodes")
        return {}
    return {"nodes": found, "last_update": time_object(call.now_us)}


async def partitions(call: RestCall) -> Json:
    """GET partitions."""
    check_update_time(call)
    reply = await call.polled("ListPartitions", ListPartitionsRequest())
    found = [partition_object(one, call.cluster) for one in reply.partitions]
    return {"partitions": found, "last_update": time_object(call.now_us)}


async def partition(call: RestCall) -> Json:
    """GET partition/{partition_name}."""
    check_update_time(call)
    name = call.path["partition_name"]
    reply = await call.polled("ListPartitions", ListPartitionsRequest())
    found = [partition_object(one, call.cluster) for one in reply.partitions if one.name == name]
    if not found:
        call.warn(f"Unable to find partition {name}", "_op_handler_partition")
        return {}
    return {"partitions": found, "last_update": time_object(call.now_us)}


async def reservations(call: RestCall) -> Json:
    """GET reservations."""
    check_update_time(call)
    reply = await call.polled("ListReservations", ListReservationsRequest())
    return {
        "reservations": [reservation_object(one) for one in reply.reservations],
        "last_update": time_object(call.now_us),
    }


async def reservation(call: RestCall) -> Json:
    """GET reservation/{reservation_name}."""
    name = call.path["reservation_name"]
    reply = await call.polled("ListReservations", ListReservationsRequest())
    found = [reservation_object(one) for one in reply.reservations if one.name == name]
    if not found:
        call.fail(f"Unable to query reservation {name}", source="_op_handler_reservation")
    return {"reservations": found, "last_update": time_object(call.now_us)}


async def licenses(call: RestCall) -> Json:
    """GET licenses."""
    reply = await call.call("ListLicenses", ListLicensesRequest())
    made = licenses_document(reply.licenses, call.cluster, call.now_us)
    return {"licenses": made["licenses"], "last_update": time_object(call.now_us)}


async def hostlist(call: RestCall) -> Json:
    """POST hostlist: names to a host list."""
    allowance = Allowance()
    names = [name for one in call.words_in("hostnames") for name in _names(one, "hostnames", allowance)]
    return {"hostlist": await asyncio.to_thread(compress, names)}


async def hostnames(call: RestCall) -> Json:
    """POST hostnames: a host list to names."""
    return {"hostnames": _names(call.text_in("hostlist", HOSTLIST_TEXT_MAX), "hostlist")}


def check_update_time(call: RestCall) -> None:
    """Raises NotModified for an update_time in the future. Any other is answered in full: what changed since is not known."""
    if call.number("update_time") * 1_000_000 > call.now_us:
        raise NotModified


def _names(text: str, where: str, allowance: Allowance | None = None) -> list[str]:
    """The names of a host list. `allowance`: that of the request. Raises RestError."""
    try:
        return expand(text, allowance) if text else []
    except BadValue as error:
        raise RestError(422, CONVERSION, str(error), source=f"#/{where}") from error
