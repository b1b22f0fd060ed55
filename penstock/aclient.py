"""The asyncio form of `penstock.client.Client`, with the same rules (`penstock.calls`). For dashboards, load generators
and tests.

Calls of one AsyncClient may run side by side over its one connection to the controller's call socket; an answer that is followed
has a connection of its own meanwhile. Over gRPC, from other machines and for streams without an end, each call fetches its own
token. A program that serves several users passes the proof of each to the call: it is sent with that call and kept nowhere.
"""

import asyncio
import math
import os
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, contextmanager

# Any: gRPC does not type channels, calls and their results
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from penstock.acallsocket import CallChannel
from penstock.calls import (
    FAILURES,
    LIMITED_MAX_S,
    MESSAGE_BYTES_MAX,
    NO_AUTH_SOCKET,
    NOT_SERVED,
    SILENT_S,
    TIMEOUT_S,
    TOKEN_BYTES_MAX,
    TOKEN_KEY,
    USER_NAME_KEY,
    USER_TOKEN_KEY,
    Attempts,
    CallFailed,
    Contact,
    check_token,
    final_error,
    find_rpc,
    find_stream,
    ignore_notice,
    own_proof,
    raise_for_socket,
)
from penstock.client import ReplyMessage
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile
from penstock.errors import RECEIVE_FAILURE, RECEIVE_FAILURE_TEXT, PenstockError, Unreachable
from penstock.frames import CarriedProof, proof_bytes
from penstock.grpclib import CHANNEL_OPTIONS, call_failed, time_left
from penstock.security.names import CONTROLLER_OPTIONS
from penstock.security.tls import client_channel
from penstock.transport import dial, read_ca, uses_socket
from penstock.values.refusals import Code

if TYPE_CHECKING:
    from penstock.calls import Proof

T = TypeVar("T")
#: One attempt over gRPC, with the proof of the user and the time left; one over the call socket, with its deadline.
_Attempt: TypeAlias = Callable[["Proof", float | None], Awaitable[T]]
Direct: TypeAlias = Callable[[CallChannel, float], Awaitable[T]]
#: The first message of an answer that is followed, the others, and what is held until they are read.
_Followed: TypeAlias = tuple[
    object, "_FollowedPages | grpc.aio.UnaryStreamCall[Message, Message]", AbstractAsyncContextManager[object]
]
#: Pause before the auth socket is tried again when its backlog is full.
LINE_PAUSE_S: Final = 0.01
#: Calls at a time over one connection: the controller takes a few more (STREAMS_MAX of ctld/rpc/server.py), and what exceeds
#: them waits for others to end. Beyond this a further connection is opened.
CHANNEL_CALLS_MAX: Final = 24
#: Answers that are followed over the call socket at a time, each over a connection of its own; further ones take gRPC.
FOLLOWED_MAX: Final = 32
END: Any = getattr(grpc.aio, "EOF")  # noqa: B009 (not in the type stubs)


class _FollowedPages:
    """An answer that is followed over the call socket, with what `follow` needs of one over gRPC."""

    def __init__(self, pages: AsyncIterator[bytes], read: Callable[[bytes], Message]) -> None:
        self._pages = pages
        self._read = read

    async def read(self) -> object:
        """Returns the next page, or END. Raises CallFailed."""
        page = await anext(self._pages, None)
        return END if page is None else self._read(page)

    def cancel(self) -> bool:
        """Nothing: the connection is closed when it is left before the end."""
        return False


class AsyncClient:
    """One program's connection, shared by its tasks."""

    def __init__(
        self,
        cluster: ClusterFile,
        timeout_s: float = TIMEOUT_S,
        *,
        retry: bool = False,
        limited_max_s: float = LIMITED_MAX_S,
    ) -> None:
        """`limited_max_s`: the longest total wait while the controller limits requests; beyond it the call is refused."""
        self.cluster = cluster
        self.timeout_s = timeout_s
        self.on_notice: Callable[[str], None] = ignore_notice  # called while the limit of requests makes us wait
        self._proof = own_proof(os.environ, cluster.cluster_name)
        self._limited_max_s = limited_max_s
        self._contact = Contact(bool(cluster.local), retry)
        self._channels: dict[Any, int] = {}  # with the number of calls in progress
        self._calls: CallChannel | None = None
        self._idle: list[CallChannel] = []  # connections over which an answer was followed
        self._lent: set[CallChannel] = set()  # those over which one is followed now
        self._connecting = asyncio.Lock()

    @classmethod
    def open(cls, timeout_s: float = TIMEOUT_S, *, retry: bool = False, cluster: ClusterFile | None = None) -> Self:
        """Finds the cluster, without connecting."""
        return cls(cluster or find_cluster(), timeout_s, retry=retry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; calls in progress end with an error."""
        if self._calls is not None:
            self._calls.close()
            self._calls = None
        for followed in (*self._idle, *self._lent):
            followed.close()
        self._idle.clear()
        channels = list(self._channels)
        self._channels.clear()
        for channel in channels:
            await channel.close()

    async def call(
        self, method: str, request: Message, timeout_s: float | None = None, *, proof: "Proof | None" = None
    ) -> ReplyMessage:
        """Sends one request and returns one answer. `proof`: of the user for whom this call is made; None = this program's
        own."""
        rpc, carried = find_rpc(method, request), self._carried(proof)

        async def direct(calls: CallChannel, deadline: float) -> ReplyMessage:
            return rpc.deserialize(await calls.call(rpc.path, rpc.serialize(request), deadline, carried or b""))

        async def attempt(proven: "Proof", left_s: float | None) -> ReplyMessage:
            with self._connected() as channel:
                stub = channel.unary_unary(rpc.path, rpc.serialize, rpc.deserialize)
                return await stub(request, timeout=left_s, metadata=proven)

        is_direct = not rpc.is_stream and carried is not None
        return await self._persist(attempt, self._attempts(method, timeout_s), direct if is_direct else None, proof)

    async def stream(
        self, method: str, request: Message, timeout_s: float | None = None, *, proof: "Proof | None" = None
    ) -> AsyncIterator[ReplyMessage]:
        """Sends one request and yields the pages of its answer once all have arrived, as `Client.stream` does. `proof`:
        as in call()."""
        rpc, carried = find_stream(method, request), self._carried(proof)

        async def attempt(proven: "Proof", left_s: float | None) -> deque[Message]:
            with self._connected() as channel:
                stub = channel.unary_stream(rpc.path, rpc.serialize, rpc.deserialize)
                return deque([page async for page in stub(request, timeout=left_s, metadata=proven)])

        async def direct(calls: CallChannel, deadline: float) -> deque[Message]:
            pages = await calls.pages(rpc.path, rpc.serialize(request), deadline, carried or b"")
            return deque(map(rpc.deserialize, pages))

        is_direct = carried is not None
        pages = await self._persist(attempt, self._attempts(method, timeout_s), direct if is_direct else None, proof)
        while pages:
            yield pages.popleft()

    async def follow(
        self,
        method: str,
        request: Message,
        timeout_s: float = math.inf,
        *,
        proof: "Proof | None" = None,
        read_as: type[Message] | None = None,
    ) -> AsyncGenerator[ReplyMessage]:
        """Sends one request and yields messages as they arrive, as `Client.follow` does: of Watch, or pages that are not
        to be held. `timeout_s`: for all of them. `proof`: as in call(). `read_as`: the message that they are read as; None =
        the method's own.
        """
        limit_s, silent_s = (None, SILENT_S) if timeout_s == math.inf else (timeout_s, None)
        rpc = find_stream(method, request)
        read = read_as.FromString if read_as is not None else rpc.deserialize
        carried = self._carried(proof)

        async def direct(_: CallChannel, deadline: float) -> _Followed:
            async with AsyncExitStack() as held:
                channel = await held.enter_async_context(self._borrowed(deadline - time.monotonic()))
                pages = channel.follow(rpc.path, rpc.serialize(request), time.monotonic() + timeout_s, carried or b"")
                messages = _FollowedPages(await held.enter_async_context(aclosing(pages)), read)
                return await messages.read(), messages, held.pop_all()

        async def attempt(proven: "Proof", left_s: float | None) -> _Followed:
            async with AsyncExitStack() as held:
                channel = held.enter_context(self._connected())
                messages = channel.unary_stream(rpc.path, rpc.serialize, read)(
                    request, timeout=limit_s, metadata=proven
                )
                try:
                    async with asyncio.timeout(silent_s):
                        return await messages.read(), messages, held.pop_all()
                except TimeoutError:
                    messages.cancel()
                    raise Unreachable(RECEIVE_FAILURE_TEXT, code=RECEIVE_FAILURE) from None

        is_direct = carried is not None and timeout_s != math.inf and len(self._lent) < FOLLOWED_MAX
        attempts = self._attempts(method, None)
        message, messages, held = await self._persist(attempt, attempts, direct if is_direct else None, proof)
        async with held:
            try:
                while message is not END:
                    yield message
                    async with asyncio.timeout(silent_s):
                        message = await messages.read()
            except TimeoutError:
                raise Unreachable(RECEIVE_FAILURE_TEXT, code=RECEIVE_FAILURE) from None
            except grpc.RpcError as error:
                raise final_error(call_failed(error)) from error
            except CallFailed as error:
                raise final_error(error) from error
            finally:
                messages.cancel()

    def _attempts(self, method: str, timeout_s: float | None) -> Attempts:
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        return Attempts(method, self._contact, deadline, self._limited_max_s)

    async def _persist(
        self, attempt: _Attempt[T], attempts: Attempts, direct: Direct[T] | None, proof: "Proof | None"
    ) -> T:
        """Repeats the attempt until it succeeds, is refused, or the time is up."""
        while True:
            try:
                calls = await self._connect_calls(attempts) if direct is not None else None
                if direct is not None and calls is not None:
                    result = await direct(calls, attempts.deadline)
                else:
                    result = await self._attempt(attempt, attempts, proof or self._proof)
            except FAILURES as error:
                if direct is not None and isinstance(error, CallFailed) and error.status == NOT_SERVED:
                    direct = None  # a controller of an earlier release serves it over gRPC alone
                    continue
                pause = attempts.failed(error, time.monotonic())
            else:
                attempts.succeeded()
                return result
            if pause.notice:
                self.on_notice(pause.notice)
            await asyncio.sleep(pause.pause_s)

    async def _connect_calls(self, attempts: Attempts) -> CallChannel | None:
        """Returns the connection to the call socket; None: this cluster offers none here."""
        path = self.cluster.call_socket
        if not path:
            return None
        if self._calls is not None and self._calls.is_open:
            return self._calls
        async with self._connecting:
            if self._calls is None or not self._calls.is_open:
                if self._calls is not None:
                    self._calls.close()
                self._calls = await _call_channel(path, attempts.connect_s(time.monotonic()))
            return self._calls

    def _carried(self, proof: "Proof | None") -> bytes | None:
        """Returns what a call over the call socket carries of the proof; None: it has to go over gRPC."""
        known = proof or self._proof
        if not known:
            return b""
        texts = {key: value for key, value in known if isinstance(value, str)}
        if len(texts) != len(known) or texts.keys() - {USER_TOKEN_KEY, USER_NAME_KEY}:
            return None
        return proof_bytes(CarriedProof(texts.get(USER_TOKEN_KEY, ""), texts.get(USER_NAME_KEY, "")))

    @asynccontextmanager
    async def _borrowed(self, timeout_s: float) -> AsyncIterator[CallChannel]:
        """A connection to the call socket over which one answer is followed. Raises CallFailed, TryAgain."""
        channel = None
        while self._idle and (channel is None or not channel.is_open):
            channel = self._idle.pop()
        if channel is None or not channel.is_open:
            channel = await _call_channel(self.cluster.call_socket, timeout_s)
            if channel is None:
                raise CallFailed("UNAVAILABLE", "the controller does not listen")
        self._lent.add(channel)
        try:
            yield channel
        finally:
            self._lent.discard(channel)
            if channel.is_open:
                self._idle.append(channel)

    async def _attempt(self, attempt: _Attempt[T], attempts: Attempts, known: "Proof | None") -> T:
        left_s = attempts.connect_s(time.monotonic())
        proof = known or ((TOKEN_KEY, await fetch_token(self.cluster.auth_socket, left_s)),)
        if not self._contact.is_patient and not self._channels:
            (await asyncio.to_thread(dial, self.cluster, left_s)).close()  # gRPC would wait for a dead server
        try:
            return await attempt(proof, time_left(attempts.deadline))
        except grpc.RpcError as error:
            raise call_failed(error) from error

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Yields a channel with room for a call, which counts as one of its calls meanwhile. Channels are kept after
        failures, since other tasks use them: they reconnect by themselves, soon, as their options say."""
        channel = next((known for known, calls in self._channels.items() if calls < CHANNEL_CALLS_MAX), None)
        if channel is None:
            channel = self._new_channel()
            self._channels[channel] = 0
        self._channels[channel] += 1
        try:
            yield channel
        finally:
            if channel in self._channels:  # else it was closed
                self._channels[channel] -= 1

    def _new_channel(self) -> object:
        options = (
            *CHANNEL_OPTIONS,
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.use_local_subchannel_pool", 1),  # a connection of its own
        )
        if uses_socket(self.cluster):
            return grpc.aio.insecure_channel(f"unix:{self.cluster.socket}", options=options)
        credentials = client_channel(read_ca(self.cluster))
        return grpc.aio.secure_channel(self.cluster.address, credentials, options=(*options, *CONTROLLER_OPTIONS))


async def _dialled(path: str) -> socket.socket:
    """A connection to a Unix socket, as soon as its backlog has space.

    asyncio takes EAGAIN, which means that it has none, for a connection in progress.
    """
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        while True:
            try:
                wire.connect(path)
            except BlockingIOError:
                await asyncio.sleep(LINE_PAUSE_S)
            else:
                return wire
    except BaseException:
        wire.close()
        raise


async def _call_channel(path: str, timeout_s: float) -> CallChannel | None:
    """Connects to the call socket. None: no process listens there, so gRPC is to be tried. Raises TryAgain."""
    try:
        async with asyncio.timeout(max(timeout_s, 0.001)):
            wire = await _dialled(path)
            loop = asyncio.get_running_loop()
            _, channel = await loop.create_unix_connection(lambda: CallChannel(MESSAGE_BYTES_MAX), sock=wire)
            return channel
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise_for_socket(error, path)


async def fetch_token(auth_socket: str, timeout_s: float) -> bytes:
    """As in penstock.transport, without blocking the loop."""
    if not auth_socket:
        raise PenstockError(Code.CONFIG_INVALID, NO_AUTH_SOCKET)
    try:
        async with asyncio.timeout(max(timeout_s, 0.001)):
            wire = await _dialled(auth_socket)
            reader, writer = await asyncio.open_unix_connection(sock=wire, limit=TOKEN_BYTES_MAX)
            try:
                token = await reader.read(-1)
            finally:
                writer.close()
    except OSError as error:
        raise_for_socket(error, auth_socket)
    return check_token(token, auth_socket)
