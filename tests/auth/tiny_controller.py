"""A tiny controller for these tests: the real gate, auth socket, certificates and ports, handlers that do nothing.

Handlers note who called what; methods in `refusals` answer with that refusal instead. Runs in a thread with its own
loop, so that the blocking client can be tried against it.
"""

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from patience import ANSWER_S

from ctld.rpc.gate.auth import Authenticator, Roles, calling_node, current_peer
from ctld.rpc.gate.entry import Gate
from ctld.rpc.gate.rights import refuse, require_node
from ctld.rpc.server import FILES
from ctld.runtime.lookups import Lookups
from penstock.clusterfile import ClusterFile
from penstock.security import tls
from penstock.security.authd import AuthServer
from penstock.security.ca import create_ca, ensure_controller, issue_to_folder, load_credentials, to_pem
from penstock.security.join import JoinRefused, JoinTokens, admit
from penstock.security.renew import renew
from penstock.security.tokens import TokenIssuer, TokenVerifier
from penstock.v1 import node_pb2
from penstock.values.refusals import Code

CLUSTER = "tiny"
OPERATOR_UID, ADMINISTRATOR_UID, USER_UID = 771001, 771002, 771003  # nobody's on any machine


def clock_us() -> int:
    return time.time_ns() // 1000


class TinyController:
    """Starts on `start()`; `calls` has (method, peer) of every call that reached a handler."""

    def __init__(self, folder: Path, hosts=("localhost", "127.0.0.1")) -> None:
        self.folder = folder
        self.authority = create_ca(folder / "ca", CLUSTER, clock_us())
        self.credentials = ensure_controller(folder / "ca", "ctl", hosts, clock_us())
        self.issuer = TokenIssuer(self.credentials)
        self.calls: list[tuple[str, object]] = []
        self.tokens_seen: list[bytes] = []
        self.refusals: dict[str, list[tuple[grpc.StatusCode, int, str]]] = {}
        self.pages: dict[str, list[Message]] = {}  # the pages of a listing; three empty ones unless given
        self.breaks: dict[str, list[grpc.StatusCode]] = {}  # how the next listings end after their first page
        self.ports: dict[str, int] = {}
        self.denied: frozenset[int] = frozenset()
        self.denied_calls: list[tuple[str, str]] = []  # method and text of every call that the gate has denied
        self.reached: asyncio.Event | None = None  # set by a call of Story, which then waits for its caller to hang up
        self.join_tokens: JoinTokens | None = None
        self.host = "127.0.0.1"  # by which clients of other machines find it

    @property
    def cluster(self) -> ClusterFile:
        return ClusterFile(CLUSTER, "here", str(self.folder / "ctld.sock"), str(self.folder / "auth.sock"))

    @property
    def remote_cluster(self) -> ClusterFile:
        address = f"{self.host}:{self.ports['command']}"
        return ClusterFile(
            CLUSTER, "there", "", str(self.folder / "auth.sock"), address, str(self.folder / "ca/ca.pem")
        )

    def member(self, role: str, name: str):
        """Credentials of a node or login host."""
        folder = self.folder / f"{role}-{name}"
        if not folder.exists():
            issue_to_folder(self.authority, folder, role, name, clock_us())
        return load_credentials(folder, role, clock_us())

    async def serve(self) -> None:
        """Listen on all sockets; to be called on the loop that shall serve."""
        verifier = TokenVerifier(self.authority.certificate, CLUSTER, clock_us())
        roles = Roles(operators=frozenset({str(OPERATOR_UID)}), administrator_uids=frozenset({ADMINISTRATOR_UID}))
        self.authenticator = Authenticator(
            verifier, self.authority.certificate, CLUSTER, roles, clock_us, Lookups(), self.denied
        )
        self.server = grpc.aio.server(interceptors=[Gate(self.authenticator, denied=self.denied_call)])
        for file in FILES:
            for service in file.services_by_name.values():
                handlers = {name: self._handler(m) for name, m in service.methods_by_name.items()}
                self.server.add_generic_rpc_handlers(
                    (grpc.method_handlers_generic_handler(service.full_name, handlers),)
                )
        self.server.add_insecure_port(f"unix:{self.folder / 'ctld.sock'}")
        self.ports["command"] = self.server.add_secure_port("127.0.0.1:0", tls.command_port(lambda: self.credentials))
        self.ports["node"] = self.server.add_secure_port("127.0.0.1:0", tls.node_port(lambda: self.credentials))
        address = f"{self.host}:{self.ports['command']}"
        self.join_tokens = JoinTokens(self.folder / "join.json", CLUSTER, self.authority.certificate, address)
        await self.server.start()
        self.auth = AuthServer(self.folder / "auth.sock", self.issuer, clock_us)
        self.auth.start()

    def denied_call(self, peer, method: str, text: str, origin: str) -> None:
        """Keeps what the gate has denied."""
        self.denied_calls.append((method, text))

    async def leave(self) -> None:
        self.auth.close()
        await self.server.stop(0)

    def _handler(self, method):
        request, reply = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

        async def note(context) -> None:
            self.calls.append((method.name, current_peer()))
            if method.name == "Story" and self.reached is not None:
                self.reached.set()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
            self.tokens_seen += [v for k, v in context.invocation_metadata() if k == "penstock-token-bin"]
            if self.refusals.get(method.name):
                status, code, text = self.refusals[method.name].pop(0)
                if code:
                    await refuse(context, status, Code(code), text)
                await context.abort(status, text)

        async def once(message, context):
            await note(context)
            if method.name == "RenewCertificate":
                return reply(**await self._renew(message, context))
            if method.name == "JoinNode":
                return reply(**await self._admit(message, context))
            if method.name == "Ping":
                return reply(cluster_name=CLUSTER, pid=current_peer().actor.uid)
            return reply()

        async def pages(message, context):
            await note(context)
            for page in self.pages.get(method.name, [reply()] * 3):
                yield page
                if self.breaks.get(method.name):
                    await context.abort(self.breaks[method.name].pop(0), "going down")

        async def link(messages, context):
            await note(context)
            async for message in messages:
                await require_node(context, message.register.node_name)
                yield reply(registered=node_pb2.Registered(cluster_name=CLUSTER, epoch=1))
                assert calling_node() == message.register.node_name
                return

        coders: dict[str, Any] = {
            "request_deserializer": request.FromString,
            "response_serializer": reply.SerializeToString,
        }
        if method.client_streaming:
            return grpc.stream_stream_rpc_method_handler(link, **coders)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(pages, **coders)
        return grpc.unary_unary_rpc_method_handler(once, **coders)

    async def _renew(self, message, context) -> dict[str, bytes]:
        try:
            _, certificate = renew(self.authority, self.denied, message.certificate_pem, message.csr_pem, clock_us())
        except JoinRefused as error:
            await refuse(context, grpc.StatusCode.PERMISSION_DENIED, Code(error.code), error.text)
        return {"certificate_pem": to_pem(certificate)}

    async def _admit(self, message, context) -> dict[str, bytes]:
        try:
            certificate_pem, ca_pem = admit(
                self.authority, self.join_tokens, message.token, message.node_name, message.csr_pem, clock_us()
            )
        except JoinRefused as error:
            await refuse(context, grpc.StatusCode.PERMISSION_DENIED, Code(error.code), error.text)
        return {"certificate_pem": certificate_pem, "ca_pem": ca_pem}

    def start(self) -> None:
        """Serve from a thread of its own."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.serve(), self._loop).result(ANSWER_S)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.leave(), self._loop).result(ANSWER_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S)
        self._loop.close()
