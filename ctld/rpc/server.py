"""The gRPC server: services, limits and the three ways in.

    ctld.sock          commands on this machine: no TLS, a token for each call
    SlurmctldPort      commands from elsewhere: TLS, a token for each call
    PenstockNodePort   node daemons: mutual TLS

All three serve the same services; the gate (rights.py) decides by certificate or token, not by the way in. Methods are
registered from the services' descriptors, so that one without an implementation stops the start. A page of a listing
is encoded already and passes through as bytes.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

from ctld.rpc.accounting import AccountingService
from ctld.rpc.auth import Authenticator
from ctld.rpc.controller import ControllerService
from ctld.rpc.explain import ExplainService
from ctld.rpc.governance import GovernanceService
from ctld.rpc.nodelink import NodeLinkService
from ctld.rpc.periodic import PeriodicService
from ctld.rpc.ratelimit import RateLimiter
from ctld.rpc.rights import Gate, check_complete
from ctld.rpc.services import Services
from ctld.rpc.shares import SharesService
from ctld.rpc.steps import StepsService
from penstock.errors import BadSetup
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
)
from penstock.values.config import Config

#: A submission with the largest script and environment has 5 MiB; a registration of a full node 2 MiB.
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
#: Calls of one connection at a time. A dashboard has some; a flood waits.
STREAMS_MAX: Final = 4096
HEADER_BYTES_MAX: Final = 16 * 1024
#: A peer that answers no keepalive within this is gone, also when TCP has noticed nothing.
KEEPALIVE_MS: Final = 30_000

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    ("grpc.max_metadata_size", HEADER_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),  # a second controller must not share the port
)

#: Whose services are served.
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
    )
)

_LOOPBACK: Final = ("localhost", "ip6-localhost", "::1")


def make_server(services: Services, authenticator: Authenticator) -> grpc.aio.Server:
    """The server with all services, not listening yet."""
    check_complete(FILES)
    runtime = services.runtime
    limiter = RateLimiter(lambda: runtime.core.state.config.slurmctld_parameters, time.monotonic)
    gate = Gate(authenticator, runtime.diagnostics.count_call, limiter, services.denials.note, runtime.whole)
    server = grpc.aio.server(interceptors=[gate], options=OPTIONS)
    made = {
        "Controller": ControllerService(services),
        "Accounting": AccountingService(services),
        "Shares": SharesService(services),
        "Governance": GovernanceService(services),
        "Explain": ExplainService(services),
        "Steps": StepsService(services),
        "Periodic": PeriodicService(services, authenticator),
        "NodeLink": NodeLinkService(services),
    }
    for name, descriptor in ((name, found) for file in FILES for name, found in file.services_by_name.items()):
        server.add_generic_rpc_handlers((_handlers(descriptor, made[name]),))
    return server


def _handlers(descriptor: Any, service: object) -> Any:
    handlers = {}
    for method in descriptor.methods:
        ways = [("unary", "stream")[way] for way in (method.client_streaming, method.server_streaming)]
        make = getattr(grpc, f"{ways[0]}_{ways[1]}_rpc_method_handler")
        handlers[method.name] = make(
            getattr(service, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=_serialize,
        )
    return grpc.method_handlers_generic_handler(descriptor.full_name, handlers)


def _serialize(message: Any) -> bytes:
    return message if type(message) is bytes else message.SerializeToString()


def listen(server: grpc.aio.Server, config: Config, socket_path: Path, credentials: Credentials) -> None:
    """Open the three ways in. Raises BadSetup when one is taken."""
    # gRPC replaces a socket in the way; the store's lock has made sure that no other controller serves it.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket_path)
    _add(f"unix:{socket_path}", lambda address: server.add_insecure_port(address))
    os.chmod(socket_path, 0o666)  # noqa: S103 (for everybody; a token says who it is)
    host = bind_host(config)
    _add(f"{host}:{config.slurmctld_port}", lambda a: server.add_secure_port(a, command_port(credentials)))
    _add(f"{host}:{config.penstock_node_port}", lambda a: server.add_secure_port(a, node_port(credentials)))


def bind_host(config: Config) -> str:
    """A controller whose address is this machine's loopback is not meant for others."""
    address = config.controller_addr
    if address.startswith("127.") or address in _LOOPBACK:
        return "127.0.0.1"
    return "0.0.0.0"  # noqa: S104 (the nodes reach it by any of this machine's addresses)


def _add(address: str, add: Any) -> None:
    try:
        port = add(address)
    except RuntimeError as error:
        raise BadSetup(f"{address}: cannot listen: {error}") from error
    if not port:
        raise BadSetup(f"{address}: cannot listen")
