"""Who may call which method: one table, and the gate that enforces it before any handler runs.

This decides on methods. Whether a user may touch that particular job is decided by the core, which knows the job.
A method without an entry cannot be served: `check_complete` stops the start, and the gate refuses it in any case.

A refusal is UNAUTHENTICATED when nobody is calling and PERMISSION_DENIED when somebody is who may not, with Slurm's
words and the refusal's number in the trailer `penstock-code`. Each one is logged; tokens never are.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from typing import Any, Final, NoReturn

import grpc
import grpc.aio

from ctld.core.events import Role
from ctld.rpc.auth import Authenticator, Peer, calling_node, current_peer, set_peer
from ctld.rpc.ratelimit import RateLimiter
from penstock.client import CODE_KEY
from penstock.values.refusals import TEXT, Code

audit = logging.getLogger("penstock.audit")


class Who(Enum):
    """The least that a caller must be."""

    USER = auto()
    OPERATOR = auto()
    ADMINISTRATOR = auto()
    NODE = auto()
    JOIN_TOKEN = auto()  # anybody who reaches the port; the handler asks for the join token in the request


_CONTROLLER: Final = "/penstock.v1.Controller/"

RIGHTS: Final[dict[str, Who]] = {
    _CONTROLLER + "Ping": Who.USER,
    _CONTROLLER + "SubmitJob": Who.USER,
    _CONTROLLER + "AwaitJob": Who.USER,
    _CONTROLLER + "ListJobs": Who.USER,
    _CONTROLLER + "ListNodes": Who.USER,
    _CONTROLLER + "ListPartitions": Who.USER,
    _CONTROLLER + "ShowConfig": Who.USER,
    _CONTROLLER + "CancelJobs": Who.USER,
    _CONTROLLER + "ControlJobs": Who.USER,
    _CONTROLLER + "UpdateJobs": Who.USER,
    _CONTROLLER + "GetBatchScript": Who.USER,
    _CONTROLLER + "Story": Who.USER,
    _CONTROLLER + "ListReservations": Who.USER,
    _CONTROLLER + "ListLicenses": Who.USER,
    _CONTROLLER + "ShowTopology": Who.USER,
    _CONTROLLER + "DeleteReservation": Who.USER,  # operators, and who may use a USER_DELETE one: the core knows
    _CONTROLLER + "CreateReservation": Who.OPERATOR,
    _CONTROLLER + "UpdateReservation": Who.OPERATOR,
    _CONTROLLER + "ListQos": Who.USER,
    _CONTROLLER + "ChangeQos": Who.OPERATOR,
    _CONTROLLER + "UpdateNodes": Who.ADMINISTRATOR,
    _CONTROLLER + "UpdatePartition": Who.ADMINISTRATOR,
    _CONTROLLER + "Reconfigure": Who.ADMINISTRATOR,
    _CONTROLLER + "Shutdown": Who.ADMINISTRATOR,
    _CONTROLLER + "CreateNodeToken": Who.ADMINISTRATOR,
    _CONTROLLER + "JoinNode": Who.JOIN_TOKEN,
    _CONTROLLER + "CreatePartition": Who.ADMINISTRATOR,
    _CONTROLLER + "DeletePartition": Who.ADMINISTRATOR,
    _CONTROLLER + "CreateNodes": Who.ADMINISTRATOR,
    _CONTROLLER + "DeleteNodes": Who.ADMINISTRATOR,
    _CONTROLLER + "SetController": Who.ADMINISTRATOR,
    _CONTROLLER + "IssueToken": Who.USER,  # for others: administrators, the handler knows
    _CONTROLLER + "RenderConfig": Who.USER,
    "/penstock.v1.Accounting/ListRecords": Who.USER,
    "/penstock.v1.Shares/ListAssociations": Who.USER,
    "/penstock.v1.Shares/ListPriorities": Who.USER,
    "/penstock.v1.Shares/ChangeAccounts": Who.USER,  # coordinators, for what is below them: the core knows
    "/penstock.v1.Governance/ChangeMany": Who.USER,  # coordinators may change what is below them: the core knows
    "/penstock.v1.Governance/ListWckeys": Who.USER,
    "/penstock.v1.Governance/ListTres": Who.USER,
    "/penstock.v1.Governance/ListResources": Who.USER,
    "/penstock.v1.Governance/ListCounters": Who.USER,
    "/penstock.v1.Governance/ListBudgets": Who.USER,
    "/penstock.v1.Governance/ListEvents": Who.USER,
    "/penstock.v1.Governance/ListTransactions": Who.OPERATOR,
    "/penstock.v1.Governance/ListAudit": Who.ADMINISTRATOR,
    "/penstock.v1.Governance/ListRunaway": Who.OPERATOR,
    "/penstock.v1.Governance/FixRunaway": Who.OPERATOR,
    "/penstock.v1.Governance/ModifyRecords": Who.USER,  # of others' jobs: operators, the handler knows
    "/penstock.v1.Governance/Report": Who.USER,
    "/penstock.v1.Governance/Purge": Who.ADMINISTRATOR,
    "/penstock.v1.Governance/LoadArchive": Who.ADMINISTRATOR,
    "/penstock.v1.Explain/WhyJob": Who.USER,
    "/penstock.v1.Explain/Fits": Who.USER,
    "/penstock.v1.Explain/Diagnostics": Who.USER,
    "/penstock.v1.Explain/ResetDiagnostics": Who.OPERATOR,
    "/penstock.v1.Steps/AwaitAllocation": Who.USER,
    "/penstock.v1.Steps/EndAllocation": Who.USER,
    "/penstock.v1.Steps/CreateStep": Who.USER,
    "/penstock.v1.Steps/AwaitStep": Who.USER,
    "/penstock.v1.Steps/ListSteps": Who.USER,
    "/penstock.v1.Steps/AttachStep": Who.USER,
    "/penstock.v1.Steps/NotifyJob": Who.USER,
    "/penstock.v1.Periodic/GetCrontab": Who.USER,  # of others administrators: the method knows
    "/penstock.v1.Periodic/UpdateCrontab": Who.USER,
    "/penstock.v1.Periodic/SetTrigger": Who.USER,  # with allow_user_triggers: the core knows
    "/penstock.v1.Periodic/ListTriggers": Who.USER,
    "/penstock.v1.Periodic/ClearTriggers": Who.USER,  # of others administrators: the core knows
    "/penstock.v1.NodeLink/Connect": Who.NODE,
}

#: Takes who called, the method, the refusal's text and the address.
Denied = Callable[[Peer, str, str, str], None]

_LEAST_ROLE: Final = {
    Who.USER: Role.USER,
    Who.OPERATOR: Role.OPERATOR,
    Who.ADMINISTRATOR: Role.ADMINISTRATOR,
}


def check_complete(descriptors: Iterable[Any]) -> None:
    """Every method of these services (or of these files' services) has an entry, and every entry of theirs a method."""
    services: list[Any] = []
    for descriptor in descriptors:
        by_name = getattr(descriptor, "services_by_name", None)
        services += [descriptor] if by_name is None else by_name.values()
    methods = {f"/{service.full_name}/{name}" for service in services for name in service.methods_by_name}
    prefixes = tuple(f"/{service.full_name}/" for service in services)
    entries = {name for name in RIGHTS if name.startswith(prefixes)}
    if missing := sorted(methods - entries):
        raise RuntimeError(f"nobody has said who may call {', '.join(missing)}: add it to RIGHTS")
    if stale := sorted(entries - methods):
        raise RuntimeError(f"RIGHTS names methods that do not exist: {', '.join(stale)}")


def judge(method: str, peer: Peer) -> tuple[grpc.StatusCode, str] | None:
    """None when this peer may call the method, else the status and the words of the refusal."""
    who = RIGHTS.get(method)
    if who is None:
        return grpc.StatusCode.PERMISSION_DENIED, "the method has no entry in the table of rights"
    if who is Who.JOIN_TOKEN:
        return None
    if peer.actor is None and peer.node is None:
        status = grpc.StatusCode.UNAVAILABLE if peer.passing else grpc.StatusCode.UNAUTHENTICATED
        return status, peer.why_nobody
    if who is Who.NODE:
        return None if peer.node is not None else (grpc.StatusCode.PERMISSION_DENIED, "only node daemons may do this")
    if peer.actor is None:
        return grpc.StatusCode.PERMISSION_DENIED, "a node daemon may not do this"
    least = _LEAST_ROLE[who]
    if peer.actor.role < least:
        return grpc.StatusCode.PERMISSION_DENIED, f"only {'an' if least else 'a'} {least.name.lower()} may do this"
    return None


async def refuse(context: Any, status: grpc.StatusCode, code: Code, text: str) -> NoReturn:
    """End the call with a refusal: the status for gRPC, the number and the text for the user."""
    await context.abort(status, text, ((CODE_KEY, str(int(code))),))
    raise AssertionError("abort does not return")


async def require_node(context: Any, claimed: str) -> str:
    """The calling node's name, if it is the one that it claims to be."""
    node = calling_node()
    if claimed != node:
        audit.warning("denied method=Connect node=%s claims to be %r", node, claimed)
        text = f"{TEXT[Code.ACCESS_DENIED]}: the certificate is for node {node}"
        await refuse(context, grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED, text)
    return node


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[type-arg,misc,unused-ignore]
    """The interceptor: identifies the caller of every call and lets pass who may call the method."""

    def __init__(
        self,
        authenticator: Authenticator,
        count: Callable[[str, int, int], None] | None = None,
        limiter: RateLimiter | None = None,
        denied: Denied | None = None,
        whole: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        """`count` is told of each call that was let in: method, uid (-1 = a node), microseconds.

        `denied` is told of each call that was not: by this gate, by its handler or by the core. `whole`: what to await
        while the core is amid a change that takes long (Runtime.whole).
        """
        self._whole = whole
        self._denied = denied
        self._authenticator = authenticator
        self._count = count
        self._limiter = limiter
        self._wrapped: dict[str, Any] = {}  # by method: only those that there are

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """Wrap the method's handler; None (no such method) stays None, which gRPC answers with UNIMPLEMENTED."""
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            wrapped = self._wrapped[method] = _wrap(handler, method, self)
        return wrapped

    async def enter(self, method: str, context: Any) -> int:
        """Return the uid (-1 = a node, or nobody yet) of who may pass; else the call ends here."""
        await self._until_whole()
        peer = await self._authenticator.identify(context)
        await self._until_whole()
        refusal = judge(method, peer)
        if refusal is None:
            wait_ms = self._limiter.wait_ms(peer.actor) if self._limiter is not None else 0
            if wait_ms:
                text = f"{TEXT[Code.RATE_LIMITED]}: {wait_ms}"
                await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, Code.RATE_LIMITED, text)
            set_peer(peer)
            return peer.actor.uid if peer.actor is not None else -1
        status, explanation = refusal
        audit.warning("denied method=%s caller=%s from=%s: %s", method, _name(peer), context.peer(), explanation)
        if self._denied is not None and not peer.passing:
            self._denied(peer, method, explanation, context.peer())
        await refuse(context, status, Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {explanation}")

    async def _until_whole(self) -> None:
        waiting = self._whole() if self._whole is not None else None
        if waiting is not None:
            await waiting

    def aborted(self, method: str, context: Any) -> None:
        """A handler has ended the call with a refusal."""
        text = context.details() or ""
        if self._denied is not None and text.startswith(TEXT[Code.ACCESS_DENIED]):
            self._denied(current_peer(), method, text, context.peer())

    def told(self, method: str, uid: int, begun_ns: int) -> None:
        """A call that was let in is over."""
        if self._count is not None:
            self._count(method.rpartition("/")[2], uid, (time.perf_counter_ns() - begun_ns) // 1000)


def _name(peer: Peer) -> str:
    if peer.actor is not None:
        return f"{peer.actor.user_name}({peer.actor.uid})"
    return f"node {peer.node}" if peer.node else "nobody"


def _wrap(handler: Any, method: str, gate: Gate) -> Any:
    """The same kind of handler with the gate before it. Handlers are coroutines, or async generators for streams."""

    async def once(request: Any, context: Any) -> Any:
        begun = time.perf_counter_ns()
        uid = await gate.enter(method, context)
        try:
            return await inner(request, context)
        except grpc.aio.AbortError:
            gate.aborted(method, context)
            raise
        finally:
            gate.told(method, uid, begun)

    async def many(request: Any, context: Any) -> Any:
        begun = time.perf_counter_ns()
        uid = await gate.enter(method, context)
        try:
            async for reply in inner(request, context):
                yield reply
        except grpc.aio.AbortError:
            gate.aborted(method, context)
            raise
        finally:
            gate.told(method, uid, begun)

    kind = f"{'stream' if handler.request_streaming else 'unary'}_{'stream' if handler.response_streaming else 'unary'}"
    inner = getattr(handler, kind)
    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(
        many if handler.response_streaming else once,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
