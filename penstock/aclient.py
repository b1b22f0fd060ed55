"""The asyncio form of `penstock.client.Client`, with the same rules. For dashboards, load generators and tests.

Calls of one AsyncClient may run side by side over its one channel; each fetches its own token.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from penstock.client import (
    CHANNEL_OPTIONS,
    LIMITED_MAX_S,
    PAUSE_FIRST_S,
    PAUSE_MAX_S,
    TIMEOUT_S,
    TOKEN_BYTES_MAX,
    TOKEN_KEY,
    TryAgain,
    dial,
    find_rpc,
    raise_for,
    raise_for_socket,
    read_ca,
    time_left,
    uses_socket,
)
from penstock.cluster import ClusterFile, find_cluster
from penstock.errors import PenstockError, Unreachable
from penstock.security.tls import client_channel
from penstock.values.refusals import Code

T = TypeVar("T")
END: Any = getattr(grpc.aio, "EOF")  # noqa: B009 (not in the type stubs)


class AsyncClient:
    """One program's connection, shared by its tasks."""

    def __init__(self, cluster: ClusterFile, timeout_s: float = TIMEOUT_S, *, retry: bool = False) -> None:
        self.cluster = cluster
        self.timeout_s = timeout_s
        self._patient = retry
        self._channel: Any = None

    @classmethod
    def open(cls, timeout_s: float = TIMEOUT_S, *, retry: bool = False, cluster: ClusterFile | None = None) -> Self:
        """Find the cluster. Nothing is sent yet."""
        return cls(cluster or find_cluster(), timeout_s, retry=retry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connection; calls that are under way end with an error."""
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def call(self, method: str, request: Message, timeout_s: float | None = None) -> Any:
        """One request, one answer."""
        rpc = find_rpc(method, request)

        async def attempt(left_s: float | None, token: bytes) -> Any:
            stub = self._connect().unary_unary(rpc.path, rpc.serialize, rpc.deserialize)
            return await stub(request, timeout=left_s, metadata=((TOKEN_KEY, token),))

        return await self._persist(attempt, self._deadline(timeout_s))

    async def stream(self, method: str, request: Message, timeout_s: float | None = None) -> AsyncIterator[Any]:
        """One request, pages of answers."""
        rpc = find_rpc(method, request)
        if not rpc.is_stream:
            raise ValueError(f"{method} answers once: use call()")

        async def attempt(left_s: float | None, token: bytes) -> tuple[Any, Any]:
            stub = self._connect().unary_stream(rpc.path, rpc.serialize, rpc.deserialize)
            pages = stub(request, timeout=left_s, metadata=((TOKEN_KEY, token),))
            return await pages.read(), pages

        page, pages = await self._persist(attempt, self._deadline(timeout_s))
        try:
            while page is not END:
                yield page
                page = await pages.read()
        except grpc.RpcError as error:
            try:
                raise_for(error)
            except TryAgain as broken:
                raise broken.error from error
        finally:
            pages.cancel()

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)

    async def _persist(self, attempt: Callable[[float | None, bytes], Awaitable[T]], deadline: float) -> T:
        pause_s = PAUSE_FIRST_S
        limited_s = 0.0
        while True:
            try:
                return await self._attempt(attempt, deadline)
            except TryAgain as failed:
                if failed.pause_s:
                    if limited_s + failed.pause_s > LIMITED_MAX_S:
                        raise failed.error from failed
                    limited_s, deadline = limited_s + failed.pause_s, deadline + failed.pause_s
                    await asyncio.sleep(failed.pause_s)
                    continue
                self._patient = self._patient or failed.seen
                if not self._patient or time.monotonic() + pause_s >= deadline:
                    raise failed.error from failed
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.7, PAUSE_MAX_S)

    async def _attempt(self, attempt: Callable[[float | None, bytes], Awaitable[T]], deadline: float) -> T:
        left_s = min(deadline - time.monotonic(), TIMEOUT_S)
        token = await fetch_token(self.cluster.auth_socket, left_s)
        if not self._patient and self._channel is None:
            (await asyncio.to_thread(dial, self.cluster, left_s)).close()
        try:
            result = await attempt(time_left(deadline), token)
        except grpc.RpcError as error:
            raise_for(error)
        self._patient = True
        return result

    def _connect(self) -> Any:
        """The channel is kept over failures (others use it): it reconnects by itself, soon, as its options say."""
        if self._channel is None:
            options = (
                *CHANNEL_OPTIONS,
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
            )
            if uses_socket(self.cluster):
                self._channel = grpc.aio.insecure_channel(f"unix:{self.cluster.socket}", options=options)
            else:
                credentials = client_channel(read_ca(self.cluster))
                self._channel = grpc.aio.secure_channel(self.cluster.address, credentials, options=options)
        return self._channel


async def fetch_token(auth_socket: str, timeout_s: float) -> bytes:
    """As in penstock.client, without blocking the loop."""
    if not auth_socket:
        raise PenstockError(Code.CONFIG_INVALID, "the cluster file names no auth_socket: this machine gives no tokens")
    try:
        async with asyncio.timeout(max(timeout_s, 0.001)):
            reader, writer = await asyncio.open_unix_connection(auth_socket, limit=TOKEN_BYTES_MAX)
            try:
                token = await reader.read(-1)
            finally:
                writer.close()
    except OSError as error:
        raise_for_socket(error, auth_socket)
    if not token:
        raise TryAgain(Unreachable(detail=f"{auth_socket}: gave no token"), seen=True)
    if len(token) > TOKEN_BYTES_MAX:
        raise PenstockError(Code.INTERNAL, f"{auth_socket}: answers more than a token")
    return token
