"""The server: services, limits and the listeners; three of them are gRPC's.

    calls.sock         commands on this machine: no gRPC, the user by the kernel (callserver.py)
    ctld.sock          streams of changes and JSON web tokens on this machine: no TLS, a token for each call
    SlurmctldPort      commands from elsewhere: TLS, a token for each call
    PenstockNodePort   node daemons: mutual TLS

All serve the same services; the gate (gate/entry.py) decides by certificate or token, not by listener. Each of gRPC's
listeners has a server of its own: gRPC receives the calls of a server in the order in which they come, before the gate
knows whose they are, so very many at one listener delay none at another. Methods
are registered from the services' descriptors, so that one without an implementation stops the start. A page of a
listing is encoded already and passes through as bytes.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from ctld.rpc.accounting.accounting import AccountingService
from ctld.rpc.accounting.governance import GovernanceService
from ctld.rpc.accounting.shares import SharesService
from ctld.rpc.callconnection import Method
from ctld.rpc.callserver import CallServer
from ctld.rpc.control.controller import ControllerService
from ctld.rpc.explain.explain import ExplainService
from ctld.rpc.gate import bounds
from ctld.rpc.gate.auth import Authenticator
from ctld.rpc.gate.entry import Gate, direct
from ctld.rpc.gate.ratelimit import RateLimiter
from ctld.rpc.gate.rights import check_complete, is_settled
from ctld.rpc.gate.services import Services
from ctld.rpc.jobs.periodic import PeriodicService
from ctld.rpc.jobs.steps import StepsService
from ctld.rpc.nodelink import NodeLinkService
from ctld.rpc.watch.service import METHOD as WATCH
from ctld.rpc.watch.service import WatchService
from penstock.calls import MESSAGE_BYTES_MAX as CLIENT_BYTES_MAX
from penstock.errors import BadSetup
from penstock.security.authd import listen as listen_unix
from penstock.security.ca import Credentials
from penstock.security.tls import command_port, node_port
from penstock.v1 import (
    accounting_pb2,
    controller_pb2,
    explain_pb2,
    governance_pb2,
    node_pb2,
    periodic_pb2,
    shares_pb2,
    steps_pb2,
    watch_pb2,
)
from penstock.values.config import Config

#: A submission with the largest script and environment has 6 MiB; a registration of a full node 2 MiB. Users' requests
#: are bounded further (gate/underway.py).
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
#: The limit of clients: the layout of a step of 4 million tasks on 65,536 nodes has 20 MiB.
ANSWER_BYTES_MAX: Final = CLIENT_BYTES_MAX
#: Concurrent calls of one connection: the rest waits in its client. gRPC receives calls in the order in which they come,
#: some 0.7 ms each, and drops calls of any user when over a thousand wait, so this is what one connection can delay others.
#: A client with more calls opens further connections (CHANNEL_CALLS_MAX of penstock/aclient.py).
STREAMS_MAX: Final = 32
HEADER_BYTES_MAX: Final = 16 * 1024
#: A peer that answers no keepalive within this time is disconnected, even if TCP has not noticed.
KEEPALIVE_MS: Final = 30_000

#: A connection without a call is closed after this time; clients open another.
IDLE_MS: Final = 120_000
#: Time limit from accept to the end of the TLS handshake and the HTTP/2 preface.
HANDSHAKE_MS: Final = 10_000

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    ("grpc.max_metadata_size", HEADER_BYTES_MAX),
    ("grpc.http2.bdp_probe", 0),  # it would enlarge every stream's window to megabytes, before they are read
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_connection_idle_ms", IDLE_MS),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    ("grpc.so_reuseport", 0),  # a second controller must not share the port
)

#: The files whose services are served.
FILES: Final = tuple(
    module.DESCRIPTOR
    for module in (
        controller_pb2,
        accounting_pb2,
        explain_pb2,
        governance_pb2,
        node_pb2,
        periodic_pb2,
        shares_pb2,
        steps_pb2,
        watch_pb2,
    )
)

_LOOPBACK: Final = ("localhost", "ip6-localhost", "::1")


class GrpcServers:
    """gRPC's servers, one for each listener."""

    def __init__(self, make: Callable[[], grpc.aio.Server]) -> None:
        self.local, self.remote, self.nodes = self._all = make(), make(), make()

    async def start(self) -> None:
        """Starts serving."""
        for server in self._all:
            await server.start()

    async def stop(self, grace_s: float) -> None:
        """Stops listening, and ends calls in progress after `grace_s`."""
        await asyncio.gather(*(server.stop(grace_s) for server in self._all))


def make_server(
    services: Services, authenticator: Authenticator, call_socket: Path
) -> tuple[GrpcServers, CallServer, Gate]:
    """Builds the servers with all services, not listening yet, and their gate."""
    check_complete(FILES)
    bounds.check_complete(FILES)
    runtime = services.runtime
    limiter = RateLimiter(lambda: runtime.core.state.config.slurmctld_parameters, time.monotonic)
    gate = Gate(
        authenticator,
        runtime.diagnostics.count_call,
        limiter,
        services.denials.note,
        lambda method: runtime.whole(is_settled(method, runtime.core.state.config)),
        runtime.measures.spared,
        runtime.measures.calls.count,
        runtime.debug,
        services.unread,
    )
    made = {
        "Controller": ControllerService(services, authenticator),
        "Accounting": AccountingService(services),
        "Shares": SharesService(services),
        "Governance": GovernanceService(services),
        "Explain": ExplainService(services),
        "Steps": StepsService(services, authenticator),
        "Periodic": PeriodicService(services, authenticator),
        "NodeLink": NodeLinkService(services),
        "Watch": WatchService(services, authenticator),
    }
    handlers = []
    calls: dict[str, Method] = {}
    for name, descriptor in ((name, found) for file in FILES for name, found in file.services_by_name.items()):
        handlers.append(_handlers(descriptor, made[name]))
        for method in descriptor.methods:
            path = f"/{descriptor.full_name}/{method.name}"
            if not method.client_streaming and path != WATCH:
                inner = getattr(made[name], method.name)
                calls[path] = direct(inner, path, gate, _serialize, method.server_streaming)

    def make() -> grpc.aio.Server:
        server = grpc.aio.server(interceptors=[gate], options=OPTIONS)
        server.add_generic_rpc_handlers(handlers)
        return server

    return GrpcServers(make), CallServer(call_socket, calls, gate.unread), gate


def _handlers(
    descriptor: ServiceDescriptor, service: object
) -> "grpc.GenericRpcHandler[Message | bytes, Message | bytes]":
    handlers = {}
    for method in descriptor.methods:
        ways = [("unary", "stream")[way] for way in (method.client_streaming, method.server_streaming)]
        make = getattr(grpc, f"{ways[0]}_{ways[1]}_rpc_method_handler")
        handlers[method.name] = make(
            getattr(service, method.name),
            response_serializer=_serialize,
        )
    return grpc.method_handlers_generic_handler(descriptor.full_name, handlers)


def _serialize(message: Message | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


def listen(servers: GrpcServers, config: Config, socket_path: Path, now: Callable[[], Credentials]) -> None:
    """Opens the three listeners; `now`: the certificate to show. Raises BadSetup when an address is in use."""
    # gRPC replaces an existing socket; the lock of the state folder excludes another controller.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket_path)
    try:
        _add(f"unix:{socket_path}", lambda address: servers.local.add_insecure_port(address))
    except BadSetup:
        listen_unix(socket_path, 1).close()  # raises with the system's error, which gRPC does not tell
        raise
    os.chmod(socket_path, 0o666)  # noqa: S103 (for everybody; a token says who it is)
    host = bind_host(config)
    _add(f"{host}:{config.slurmctld_port}", lambda a: servers.remote.add_secure_port(a, command_port(now)))
    _add(f"{host}:{config.penstock_node_port}", lambda a: servers.nodes.add_secure_port(a, node_port(now)))


def bind_host(config: Config) -> str:
    """Returns the address to listen on. A controller whose address is this machine's loopback listens there alone."""
    address = config.controller_addr
    if address.startswith("127.") or address in _LOOPBACK:
        return "127.0.0.1"
    return "0.0.0.0"  # noqa: S104 (the nodes reach it by any of this machine's addresses)


def _add(address: str, add: Callable[[str], int]) -> None:
    try:
        port = add(address)
    except RuntimeError as error:
        raise BadSetup(f"{address}: cannot listen: {error}") from error
    if not port:
        raise BadSetup(f"{address}: cannot listen")
