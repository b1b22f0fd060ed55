"""The gate itself: every call passes it before a handler runs (rights.py decides who may call what).

    who calls -> may they -> rate -> the request's bytes -> calls in progress -> their share of the loop's turn ->
unread replies -> may they still -> the message within its bounds -> the handler -> the reply's bytes

A caller may keep the request's bytes back for as long as it likes, and wait for its turn: it is asked for again then.

It reads bytes and gives bytes: requests are decoded (incoming.py) after authentication, and replies encoded where their
size is counted (unread.py). Whatever a call does wrong, or its handler, ends in a refusal of this call.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from ctld.core.records.events import Role
from ctld.rpc.gate import incoming
from ctld.rpc.gate.auth import Authenticator, Peer, current_peer, set_peer
from ctld.rpc.gate.context import Context, address_of
from ctld.rpc.gate.localcall import LocalCall
from ctld.rpc.gate.ratelimit import RateLimiter
from ctld.rpc.gate.receiving import CALLS_MAX, PROOFS_MAX, CallerKey, Receiving
from ctld.rpc.gate.rights import WAITING, admit_again, judge, refuse
from ctld.rpc.gate.turnshare import TurnMark, TurnShare
from ctld.rpc.gate.underway import PAUSE_MS, Underway
from ctld.rpc.gate.unread import UnreadReplies
from ctld.runtime.debuglog import DebugLog
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[object, object]

log = logging.getLogger("penstock.ctld")

#: gRPC's numbers of statuses; its contexts return these, or None while nothing was said.
_STATUS_NAMES: Final[dict[object, str]] = {None: "OK"} | {status.value[0]: status.name for status in grpc.StatusCode}
#: Called with the caller, the method, the refusal's text and the address.
Denied = Callable[[Peer, str, str, str], None]


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[type-arg,misc,unused-ignore]
    """The interceptor: authenticates the caller of every call and checks the rights to the method."""

    def __init__(
        self,
        authenticator: Authenticator,
        count: Callable[[str, int, int], None] | None = None,
        limiter: RateLimiter | None = None,
        denied: Denied | None = None,
        whole: Callable[[str], Awaitable[None] | None] = lambda method: None,
        failed: Callable[[], None] | None = None,
        ended: Callable[[str, str], None] = lambda method, status: None,
        debug: DebugLog | None = None,
        unread: UnreadReplies | None = None,
    ) -> None:
        """`count` is called for each admitted call: method, uid (-1 = a node), microseconds; `ended` for every call:
        method, gRPC status; `debug`'s `call` likewise, while a flag asks for it.

        `denied` is called for each denied call: by this gate, by its handler or by the core. `whole`: what to await
        before a method while the core handles a long change (Runtime.whole). `failed` is called for each handler that failed.
        """
        self._on_failed = failed
        self._ended = ended
        self._debug = debug or DebugLog([])
        self._whole = whole
        self._denied = denied
        self._authenticator = authenticator
        self._count = count
        self._limiter = limiter
        self.underway = Underway()
        self.unread = unread or UnreadReplies()
        self.share = TurnShare()
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
        if (waiting := self._whole(method)) is not None:
            await waiting
        peer = await self._authenticator.identify(context)
        if (waiting := self._whole(method)) is not None:
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
        key, actor = self.key(uid, context), current_peer().actor
        if self.receiving.number_of(key) >= CALLS_MAX and (actor is None or actor.role < Role.ADMINISTRATOR):
            text = f"{CALLS_MAX} calls of yours have not sent their requests; again in milliseconds: {PAUSE_MS}"
            await _refuse_for_now(context, (Code.RATE_LIMITED, f"{TEXT[Code.RATE_LIMITED]}: {text}"))
        data = await self.receiving.message(key, context.read)
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
        if (refusal := self.underway.refusal(actor, size)) is not None:
            await _refuse_for_now(context, refusal)
        self.underway.begin(uid, size)
        return size

    async def turn(self, uid: int, context: Context) -> TurnMark:
        """Waits for the user's share of the loop's turn; ends the call of one who does not read replies."""
        mark = await self.next_turn(uid)
        if (refusal := self.unread.refusal(current_peer().actor)) is not None:
            await _refuse_for_now(context, refusal)
        return mark

    async def next_turn(self, uid: int) -> TurnMark:
        """Waits for the user's share of the loop's turn, before a further page."""
        if uid >= 0 and self.share.must_wait(uid):
            await self.share.wait(uid)
        return self.share.mark()

    def end(self, uid: int, size: int) -> None:
        """Ends what `begin` has counted."""
        if uid >= 0:
            self.underway.end(uid, size)

    async def admit_again(self, method: str, context: Context) -> None:
        """Ends the call of one whose proof does not hold any more."""
        await admit_again(context, method, self._authenticator)

    def answered(self, uid: int, mark: TurnMark, size: int) -> None:
        """Counts a call's work in the present turn."""
        if uid >= 0:
            self.share.charge(uid, mark, size)

    @contextmanager
    def sending(self, uid: int, size: int) -> Iterator[None]:
        """Counts a page until its reader has taken it."""
        if uid < 0:  # a node
            yield
            return
        with self.unread.counted(uid, size):
            yield

    def aborted(self, method: str, uid: int | None, context: Context) -> None:
        """Reports a call that its handler has denied, for the audit log. Those of `enter` are reported."""
        text = context.details() or ""
        if uid is not None and self._denied is not None and text.startswith(TEXT[Code.ACCESS_DENIED]):
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

    def count_call_end(self, method: str, uid: int | None, begun_ns: int, context: Context) -> None:
        """Counts the end of a call; `uid` None = it was not admitted."""
        name = method.rpartition("/")[2]
        status = _status_of(context)
        self._ended(name, status)
        if uid is not None and self._count is not None:
            self._count(name, uid, (time.perf_counter_ns() - begun_ns) // 1000)
        if self._debug.call is not None:
            self._debug.call(name, uid, status, (time.perf_counter_ns() - begun_ns) // 1000)


def _status_of(context: Context) -> str:
    """Returns the name of the status with which a call ends."""
    if isinstance(context, LocalCall):
        return context.status.name
    return _STATUS_NAMES.get(context.code(), "UNKNOWN")


async def _refuse_for_now(context: Context, refusal: tuple[Code, str]) -> NoReturn:
    code, text = refusal
    is_passing = code is Code.RATE_LIMITED
    status = grpc.StatusCode.RESOURCE_EXHAUSTED if is_passing else grpc.StatusCode.INVALID_ARGUMENT
    await refuse(context, status, code, text)


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


def _count_until_sent(gate: Gate, uid: int, context: Context, size: int) -> None:
    """Counts a reply until gRPC has handed it to its reader, or the reader has left."""
    if uid >= 0:
        gate.unread.add(uid, size)
        done = cast("grpc.aio.DoneCallback[bytes, Message | bytes]", partial(_sent, gate, uid, size))
        context.add_done_callback(done)


def _sent(gate: Gate, uid: int, size: int, context: object) -> None:
    gate.unread.drop(uid, size)


def _reading(reader: incoming.Reader, takes_stream: bool) -> Callable[[object], Awaitable[object]]:
    """Returns what makes a request of a call's bytes, or a stream of requests of a stream of bytes."""

    async def each(stream: AsyncIterator[bytes]) -> AsyncIterator[object]:
        async for data in stream:
            yield await reader.read(data)

    async def request_of(data: object) -> object:
        return each(cast("AsyncIterator[bytes]", data)) if takes_stream else await reader.read(cast(bytes, data))

    return request_of


def _wrap(handler: "Handler", method: str, gate: Gate) -> "Handler":
    """Returns a handler of the same kind behind the gate. Handlers are coroutines, or async generators for streams."""

    takes_stream = handler.request_streaming
    request_of = _reading(incoming.Reader(method), takes_stream)
    serialize = cast(Callable[[object], bytes], handler.response_serializer)

    async def once(stream: object, context: Context) -> object:
        begun = time.perf_counter_ns()
        uid: int | None = None  # until the caller is admitted
        try:
            uid = await gate.enter(method, context)
            async with _let_in(gate, uid, context, stream, takes_stream) as data:
                mark = await gate.turn(uid, context)
                await gate.admit_again(method, context)
                reply = serialize(await inner(await request_of(data), context))
                if method in WAITING:
                    await gate.admit_again(method, context)
                gate.answered(uid, mark, len(reply))
                _count_until_sent(gate, uid, context, len(reply))
                return reply
        except grpc.aio.AbortError as error:
            gate.aborted(method, uid, context)
            data = None
            raise error.with_traceback(None)  # noqa: B904 (gRPC keeps it, and with it every frame that has the request)
        except grpc.aio.InternalError:
            raise  # raised by the transport: the caller has disconnected, and gRPC drops the call
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this call's)
            data = None
            await gate.failed(method, context, error)
        finally:
            gate.count_call_end(method, uid, begun, context)

    async def many(stream: object, context: Context) -> object:
        begun = time.perf_counter_ns()
        uid: int | None = None
        try:
            uid = await gate.enter(method, context)
            async with _let_in(gate, uid, context, stream, takes_stream) as data:
                await gate.turn(uid, context)
                await gate.admit_again(method, context)
                async for reply in inner(await request_of(data), context):
                    page = serialize(reply)
                    await gate.admit_again(method, context)
                    with gate.sending(uid, len(page)):
                        yield page
        except grpc.aio.AbortError as error:
            gate.aborted(method, uid, context)
            data = None
            raise error.with_traceback(None)  # noqa: B904 (as above)
        except grpc.aio.InternalError:
            raise  # as above
        except Exception as error:  # noqa: BLE001 (as above)
            data = None
            await gate.failed(method, context, error)
        finally:
            gate.count_call_end(method, uid, begun, context)

    kind = f"{'stream' if handler.request_streaming else 'unary'}_{'stream' if handler.response_streaming else 'unary'}"
    inner = getattr(handler, kind)
    # the gate reads the message of a unary call itself (receiving.py)
    make = getattr(grpc, f"stream_{kind.partition('_')[2]}_rpc_method_handler")
    made: Handler = make(
        many if handler.response_streaming else once,
        request_deserializer=None,  # bytes, for the reader
        response_serializer=None,  # bytes already: their size counts
    )
    return made


async def _in_pages(
    pages: AsyncIterator[bytes], method: str, uid: int, mark: TurnMark, gate: Gate, call: LocalCall
) -> None:
    """Sends the pages of an answer, each in its user's share of a turn."""
    async for page in pages:
        await gate.admit_again(method, cast(Context, call))
        gate.answered(uid, mark, len(page))
        await call.send_page(page)
        mark = await gate.next_turn(uid)


def direct(
    inner: Callable[[Message, Context], Awaitable[Message] | AsyncIterator[Message | bytes]],
    method: str,
    gate: Gate,
    serialize: Callable[[Message | bytes], bytes],
    in_pages: bool,
) -> Callable[[bytes, LocalCall], Awaitable[bytes]]:
    """Returns a method behind the gate, for calls whose request has been received (rpc/callconnection.py). `in_pages`: it
    yields them, and the call sends them."""
    reader = incoming.Reader(method)

    async def pages_of(request: Message, context: Context) -> AsyncIterator[bytes]:
        async for page in cast("AsyncIterator[Message | bytes]", inner(request, context)):
            yield serialize(page)

    async def once(data: bytes, call: LocalCall) -> bytes:
        context = cast(Context, call)
        begun = time.perf_counter_ns()
        uid: int | None = None
        try:
            uid = await gate.enter(method, context)
            size = await gate.begin(uid, context, data)
            try:
                mark = await gate.turn(uid, context)
                await gate.admit_again(method, context)
                request = await reader.read(data)
                if in_pages:
                    await _in_pages(pages_of(request, context), method, uid, mark, gate, call)
                    return b""
                reply = serialize(await cast("Awaitable[Message]", inner(request, context)))
                if method in WAITING:
                    await gate.admit_again(method, context)
                gate.answered(uid, mark, len(reply))
            finally:
                gate.end(uid, size)
        except grpc.aio.AbortError:
            gate.aborted(method, uid, context)
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, it is this call's)
            await gate.failed(method, context, error)
        finally:
            gate.count_call_end(method, uid, begun, context)
        return reply

    return once
