"""Access control of methods: one table, and the gate that enforces it before any handler runs.

The gate also receives (receiving.py) and decodes (incoming.py) requests, after authentication: it reads bytes, and
passes handlers messages within their bounds.

The table is about methods. Rights to a particular job are checked by the core. A method without an entry cannot be
served: `check_complete` stops the start, and the gate refuses it in any case.

A refusal is UNAUTHENTICATED for an unauthenticated caller and PERMISSION_DENIED for one without the right, with Slurm's
message and the refusal's number in the trailer `penstock-code`. Each one is logged; tokens never are.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from enum import Enum, auto

# Any: what a handler takes, bytes or a stream of them, follows from its kind
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import grpc
import grpc.aio
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from ctld.core.records.events import Role
from ctld.rpc.gate import incoming
from ctld.rpc.gate.auth import Authenticator, Peer, Reach, calling_node, current_peer, set_peer
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.denials import address_of
from ctld.rpc.gate.localcall import LocalCall
from ctld.rpc.gate.ratelimit import RateLimiter
from ctld.rpc.gate.receiving import PROOFS_MAX, CallerKey, Receiving
from ctld.rpc.gate.underway import Underway
from penstock.calls import CODE_KEY
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[object, object]

log = logging.getLogger("penstock.ctld")


class LeastRole(Enum):
    """The least role that a caller must have."""

    LOOK = auto()  # a user; a read-only method about public data
    STEPS = auto()  # a user; about their own steps and allocations
    USER = auto()
    OPERATOR = auto()
    ADMINISTRATOR = auto()
    OWN_NODE = auto()  # administrators, and root on a node for that node: which changes, checked by the method
    NODE = auto()
    PROOF = auto()  # unauthenticated callers; the proof is in the request: a join token, or a certificate's signature


_CONTROLLER: Final = "/penstock.v1.Controller/"

RIGHTS: Final[dict[str, LeastRole]] = {
    _CONTROLLER + "Ping": LeastRole.LOOK,
    _CONTROLLER + "SubmitJob": LeastRole.USER,
    _CONTROLLER + "AwaitJob": LeastRole.LOOK,
    _CONTROLLER + "ListJobs": LeastRole.LOOK,
    _CONTROLLER + "ListNodes": LeastRole.LOOK,
    _CONTROLLER + "ListPartitions": LeastRole.LOOK,
    _CONTROLLER + "ShowConfig": LeastRole.LOOK,
    _CONTROLLER + "CancelJobs": LeastRole.USER,
    _CONTROLLER + "ControlJobs": LeastRole.USER,
    _CONTROLLER + "UpdateJobs": LeastRole.USER,
    _CONTROLLER + "GetBatchScript": LeastRole.USER,
    _CONTROLLER + "Story": LeastRole.LOOK,
    _CONTROLLER + "ListReservations": LeastRole.LOOK,
    _CONTROLLER + "ListLicenses": LeastRole.LOOK,
    _CONTROLLER + "ShowTopology": LeastRole.LOOK,
    _CONTROLLER + "DeleteReservation": LeastRole.USER,  # operators, and users of a USER_DELETE one: checked by the core
    _CONTROLLER + "CreateReservation": LeastRole.OPERATOR,
    _CONTROLLER + "UpdateReservation": LeastRole.OPERATOR,
    _CONTROLLER + "ListQos": LeastRole.LOOK,
    _CONTROLLER + "ChangeQos": LeastRole.OPERATOR,
    _CONTROLLER + "UpdateNodes": LeastRole.OWN_NODE,
    _CONTROLLER + "UpdatePartition": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "Reconfigure": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "Shutdown": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "CreateNodeToken": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "JoinNode": LeastRole.PROOF,
    _CONTROLLER + "RenewCertificate": LeastRole.PROOF,
    _CONTROLLER + "CreatePartition": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "DeletePartition": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "CreateNodes": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "DeleteNodes": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "SetController": LeastRole.ADMINISTRATOR,
    _CONTROLLER + "IssueToken": LeastRole.USER,  # for others: administrators, checked by the handler
    _CONTROLLER + "RenderConfig": LeastRole.LOOK,
    "/penstock.v1.Accounting/ListRecords": LeastRole.LOOK,
    "/penstock.v1.Shares/ListAssociations": LeastRole.LOOK,
    "/penstock.v1.Shares/ListPriorities": LeastRole.LOOK,
    "/penstock.v1.Shares/ChangeAccounts": LeastRole.USER,  # coordinators, for what is below them: checked by the core
    "/penstock.v1.Governance/ChangeMany": LeastRole.USER,  # coordinators may change what is below them: checked by the core
    "/penstock.v1.Governance/ListWckeys": LeastRole.LOOK,
    "/penstock.v1.Governance/ListTres": LeastRole.LOOK,
    "/penstock.v1.Governance/ListResources": LeastRole.LOOK,
    "/penstock.v1.Governance/ListCounters": LeastRole.LOOK,
    "/penstock.v1.Governance/ListBudgets": LeastRole.LOOK,
    "/penstock.v1.Governance/ListEvents": LeastRole.LOOK,
    "/penstock.v1.Governance/ListTransactions": LeastRole.OPERATOR,
    "/penstock.v1.Governance/ListAudit": LeastRole.ADMINISTRATOR,
    "/penstock.v1.Governance/ListRunaway": LeastRole.OPERATOR,
    "/penstock.v1.Governance/FixRunaway": LeastRole.OPERATOR,
    "/penstock.v1.Governance/ModifyRecords": LeastRole.USER,  # for other users' jobs: operators, checked by the handler
    "/penstock.v1.Governance/Report": LeastRole.LOOK,
    "/penstock.v1.Governance/Purge": LeastRole.ADMINISTRATOR,
    "/penstock.v1.Governance/LoadArchive": LeastRole.ADMINISTRATOR,
    "/penstock.v1.Explain/WhyJob": LeastRole.LOOK,
    "/penstock.v1.Explain/Fits": LeastRole.LOOK,
    "/penstock.v1.Explain/Diagnostics": LeastRole.LOOK,
    "/penstock.v1.Explain/ResetDiagnostics": LeastRole.OPERATOR,
    "/penstock.v1.Steps/AwaitAllocation": LeastRole.STEPS,
    "/penstock.v1.Steps/EndAllocation": LeastRole.STEPS,
    "/penstock.v1.Steps/CreateStep": LeastRole.STEPS,
    "/penstock.v1.Steps/AwaitStep": LeastRole.STEPS,
    "/penstock.v1.Steps/ListSteps": LeastRole.LOOK,
    "/penstock.v1.Steps/AttachStep": LeastRole.STEPS,
    "/penstock.v1.Steps/NotifyJob": LeastRole.STEPS,
    "/penstock.v1.Periodic/GetCrontab": LeastRole.USER,  # for other users: administrators, checked by the method
    "/penstock.v1.Periodic/UpdateCrontab": LeastRole.USER,
    "/penstock.v1.Periodic/SetTrigger": LeastRole.USER,  # with allow_user_triggers: checked by the core
    "/penstock.v1.Periodic/ListTriggers": LeastRole.LOOK,
    "/penstock.v1.Periodic/ClearTriggers": LeastRole.USER,  # for other users: administrators, checked by the core
    "/penstock.v1.NodeLink/Connect": LeastRole.NODE,
}

#: Called with the caller, the method, the refusal's text and the address.
Denied = Callable[[Peer, str, str, str], None]

_LEAST_ROLE: Final = {
    LeastRole.LOOK: Role.USER,
    LeastRole.STEPS: Role.USER,
    LeastRole.USER: Role.USER,
    LeastRole.OPERATOR: Role.OPERATOR,
    LeastRole.ADMINISTRATOR: Role.ADMINISTRATOR,
    LeastRole.OWN_NODE: Role.ADMINISTRATOR,
}
#: What root on a node may call without a job there: commands need it to change the state of a node.
_NODE_METHODS: Final = frozenset(_CONTROLLER + name for name in ("Ping", "ListNodes", "ListPartitions"))

_LEAST_REACH: Final = {LeastRole.LOOK: Reach.LOOK, LeastRole.STEPS: Reach.STEPS}
_FROM_AFAR: Final = (
    "nodes and login hosts do not speak for root, SlurmUser, operators and administrators: "
    "do it on the controller's machine, or as another user"
)


def check_complete(descriptors: Iterable[FileDescriptor | ServiceDescriptor]) -> None:
    """Checks that every method of these services (or of these files' services) has an entry, and that every entry has a
    method."""
    services: list[ServiceDescriptor] = []
    for descriptor in descriptors:
        services += [descriptor] if isinstance(descriptor, ServiceDescriptor) else descriptor.services_by_name.values()
    methods = {f"/{service.full_name}/{name}" for service in services for name in service.methods_by_name}
    prefixes = tuple(f"/{service.full_name}/" for service in services)
    entries = {name for name in RIGHTS if name.startswith(prefixes)}
    if missing := sorted(methods - entries):
        raise RuntimeError(f"there is no right for {', '.join(missing)}: add it to RIGHTS")
    if stale := sorted(entries - methods):
        raise RuntimeError(f"RIGHTS names methods that do not exist: {', '.join(stale)}")


def judge(method: str, peer: Peer) -> tuple[grpc.StatusCode, str] | None:
    """Returns None when this peer may call the method, else the status and the text of the refusal."""
    who = RIGHTS.get(method)
    if who is None:
        return grpc.StatusCode.PERMISSION_DENIED, "the method has no entry in the table of rights"
    if who is LeastRole.PROOF:
        return None
    if peer.actor is None and peer.node is None:
        status = grpc.StatusCode.UNAVAILABLE if peer.passing else grpc.StatusCode.UNAUTHENTICATED
        return status, peer.why_nobody
    if who is LeastRole.NODE:
        return None if peer.node is not None else (grpc.StatusCode.PERMISSION_DENIED, "only node daemons may do this")
    if peer.actor is None:
        return grpc.StatusCode.PERMISSION_DENIED, "a node daemon may not do this"
    if who is LeastRole.OWN_NODE and peer.root_of:
        return None
    if peer.reach is Reach.NODE:
        text = f"root has no job on node {peer.root_of}, and may only drain this node"
        return None if method in _NODE_METHODS else (grpc.StatusCode.PERMISSION_DENIED, text)
    if peer.reach < _LEAST_REACH.get(who, Reach.ALL):
        return grpc.StatusCode.PERMISSION_DENIED, _FROM_AFAR
    least = _LEAST_ROLE[who]
    if peer.actor.role < least:
        return grpc.StatusCode.PERMISSION_DENIED, f"only {'an' if least else 'a'} {least.name.lower()} may do this"
    return None


async def refuse(context: Context, status: grpc.StatusCode, code: Code, text: str) -> NoReturn:
    """Ends the call with a refusal: the status for gRPC, the number and the text for the user."""
    await context.abort(status, text, ((CODE_KEY, str(int(code))),))
    raise AssertionError("abort does not return")


async def require_node(context: Context, claimed: str) -> str:
    """Returns the calling node's name, if it is the one that it claims to be."""
    node = calling_node()
    if claimed != node:
        text = f"{TEXT[Code.ACCESS_DENIED]}: the certificate is for node {node}"
        await refuse(context, grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED, text)
    return node


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[type-arg,misc,unused-ignore]
    """The interceptor: authenticates the caller of every call and checks the rights to the method."""

    def __init__(
        self,
        authenticator: Authenticator,
        count: Callable[[str, int, int], None] | None = None,
        limiter: RateLimiter | None = None,
        denied: Denied | None = None,
        whole: Callable[[], Awaitable[None] | None] = lambda: None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        """`count` is called for each admitted call: method, uid (-1 = a node), microseconds.

        `denied` is called for each denied call: by this gate, by its handler or by the core. `whole`: what to await
        while the core handles a long change (Runtime.whole). `failed` is called for each handler that failed.
        """
        self._on_failed = failed
        self._whole = whole
        self._denied = denied
        self._authenticator = authenticator
        self._count = count
        self._limiter = limiter
        self.underway = Underway()
        self.receiving = Receiving()
        self._wrapped: dict[str, Handler] = {}  # by method: only existing ones

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["Handler"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler":
        """Wraps the method's handler; None (no such method) stays None, which gRPC answers with UNIMPLEMENTED."""
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return handler
            wrapped = self._wrapped[method] = _wrap(handler, method, self)
        return wrapped

    async def enter(self, method: str, context: Context) -> int:
        """Returns the uid (-1 = a node, or unauthenticated) of an admitted caller; otherwise the call ends here."""
        if (waiting := self._whole()) is not None:
            await waiting
        peer = await self._authenticator.identify(context)
        if (waiting := self._whole()) is not None:
            await waiting
        refusal = judge(method, peer)
        if refusal is None:
            wait_ms = self._limiter.wait_ms(peer.actor) if self._limiter is not None else 0
            if wait_ms:
                text = f"{TEXT[Code.RATE_LIMITED]}: {wait_ms}"
                await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, Code.RATE_LIMITED, text)
            set_peer(peer)
            return peer.actor.uid if peer.actor is not None else -1
        status, explanation = refusal
        if self._denied is not None:
            self._denied(peer, method, explanation, context.peer())
        await refuse(context, status, Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {explanation}")

    async def receive(self, uid: int, context: Context) -> bytes:
        """Returns the request of an admitted call, or ends the call."""
        data = await self.receiving.message(self.key(uid, context), context.read)
        if data is None:
            text = f"{TEXT[Code.INVALID_VALUE]}: the request has not arrived"
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, Code.INVALID_VALUE, text)
        return data

    def key(self, uid: int, context: Context) -> CallerKey:
        """Returns the key under which calls are counted: a user's, a node's, or for unauthenticated callers the
        address."""
        node = current_peer().node
        return uid if uid >= 0 else f"node {node}" if node is not None else address_of(context.peer())

    async def begin(self, uid: int, context: Context, data: bytes) -> int:
        """Counts the call among its user's calls in progress: returns the request's bytes, or ends the call."""
        actor = current_peer().actor
        if actor is None or uid < 0:  # a node, or unauthenticated
            return 0
        size = len(data)
        refusal = self.underway.refusal(actor, size)
        if refusal is not None:
            code, text = refusal
            is_passing = code is Code.RATE_LIMITED
            status = grpc.StatusCode.RESOURCE_EXHAUSTED if is_passing else grpc.StatusCode.INVALID_ARGUMENT
            await refuse(context, status, code, text)
        self.underway.begin(uid, size)
        return size

    def end(self, uid: int, size: int) -> None:
        """Ends what `begin` has counted."""
        if uid >= 0:
            self.underway.end(uid, size)

    def aborted(self, method: str, context: Context) -> None:
        """Reports a call that its handler has denied, for the audit log."""
        text = context.details() or ""
        if self._denied is not None and text.startswith(TEXT[Code.ACCESS_DENIED]):
            self._denied(current_peer(), method, text, context.peer())

    async def failed(self, method: str, context: Context, error: Exception) -> NoReturn:
        """Ends a call whose request is out of its bounds, or whose handler has failed."""
        if isinstance(error, incoming.OutOfBounds):
            error.__traceback__ = None  # its frames hold the request, and gRPC keeps the exception
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, error.code, error.text)
        log.error("%s failed, and was refused: %r", method, error, exc_info=error)
        if self._on_failed is not None:
            self._on_failed()
        await refuse(context, grpc.StatusCode.INTERNAL, Code.INTERNAL, TEXT[Code.INTERNAL])

    def count_call_end(self, method: str, uid: int, begun_ns: int) -> None:
        """Counts the end of an admitted call."""
        if self._count is not None:
            self._count(method.rpartition("/")[2], uid, (time.perf_counter_ns() - begun_ns) // 1000)


@asynccontextmanager
async def _let_in(gate: Gate, uid: int, context: Context, stream: object, takes_stream: bool) -> AsyncIterator[object]:
    """Yields the request of an admitted call, while it counts as its caller's."""
    if takes_stream:
        yield stream
        return
    with gate.receiving.proofs(gate.key(uid, context) if uid < 0 else uid) as is_let_in:
        if not is_let_in:
            text = f"{TEXT[Code.RATE_LIMITED]}: {PROOFS_MAX} such calls of yours are under way; again in milliseconds: 1000"
            await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, Code.RATE_LIMITED, text)
        data = await gate.receive(uid, context)
        size = await gate.begin(uid, context, data)
        try:
            yield data
        finally:
            gate.end(uid, size)


def _wrap(handler: "Handler", method: str, gate: Gate) -> "Handler":
    """Returns a handler of the same kind behind the gate. Handlers are coroutines, or async generators for streams."""

    reader = incoming.Reader(method)
    takes_stream = handler.request_streaming

    async def once(stream: object, context: Context) -> object:
        begun = time.perf_counter_ns()
        uid = await gate.enter(method, context)
        try:
            async with _let_in(gate, uid, context, stream, takes_stream) as data:
                return await inner(await request_of(data), context)
        except grpc.aio.AbortError as error:
            gate.aborted(method, context)
            data = None
            raise error.with_traceback(None)  # noqa: B904 (gRPC keeps it, and with it every frame that has the request)
        except grpc.aio.InternalError:
            raise  # raised by the transport: the caller has disconnected, and gRPC drops the call
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this call's)
            data = None
            await gate.failed(method, context, error)
        finally:
            gate.count_call_end(method, uid, begun)

    async def many(stream: object, context: Context) -> object:
        begun = time.perf_counter_ns()
        uid = await gate.enter(method, context)
        try:
            async with _let_in(gate, uid, context, stream, takes_stream) as data:
                async for reply in inner(await request_of(data), context):
                    yield reply
        except grpc.aio.AbortError as error:
            gate.aborted(method, context)
            data = None
            raise error.with_traceback(None)  # noqa: B904 (as above)
        except grpc.aio.InternalError:
            raise  # as above
        except Exception as error:  # noqa: BLE001 (as above)
            data = None
            await gate.failed(method, context, error)
        finally:
            gate.count_call_end(method, uid, begun)

    async def each(stream: AsyncIterator[bytes]) -> AsyncIterator[object]:
        async for data in stream:
            yield await reader.read(data)

    async def request_of(data: Any) -> object:
        return each(data) if takes_stream else await reader.read(data)

    kind = f"{'stream' if handler.request_streaming else 'unary'}_{'stream' if handler.response_streaming else 'unary'}"
    inner = getattr(handler, kind)
    # the gate reads the message of a unary call itself (receiving.py)
    make = getattr(grpc, f"stream_{kind.partition('_')[2]}_rpc_method_handler")
    made: Handler = make(
        many if handler.response_streaming else once,
        request_deserializer=None,  # bytes, for the reader
        response_serializer=handler.response_serializer,
    )
    return made


def direct(
    inner: Callable[[Message, Context], Awaitable[Message]],
    method: str,
    gate: Gate,
    serialize: Callable[[Message], bytes],
) -> Callable[[bytes, LocalCall], Awaitable[bytes]]:
    """Returns a unary method behind the gate, for calls whose request has been received (rpc/callconnection.py)."""
    reader = incoming.Reader(method)

    async def once(data: bytes, call: LocalCall) -> bytes:
        context = cast(Context, call)
        begun = time.perf_counter_ns()
        uid = await gate.enter(method, context)
        try:
            size = await gate.begin(uid, context, data)
            try:
                reply = serialize(await inner(await reader.read(data), context))
            finally:
                gate.end(uid, size)
        except grpc.aio.AbortError:
            gate.aborted(method, context)
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this call's)
            await gate.failed(method, context, error)
        finally:
            gate.count_call_end(method, uid, begun)
        return reply

    return once
