"""Receives requests: after the caller is authenticated, and a limited number of one caller's at a time.

gRPC reads a unary call's message, of up to 16 MiB, before it calls the handler. Unauthenticated callers could thus fill
the memory with thousands of requests that are refused afterwards. So every method is served as if its request were a
stream (the wire format is the same): the gate authenticates the caller first, and then reads its one message. Until
then it stays in the caller's socket.

    AT_ONCE      messages of one caller that are read concurrently
    RECEIVE_S    time limit for reading a message, after which the call ends
    CALLS_MAX    calls of one caller whose message has not arrived, those that wait for their turn included
    PROOFS_MAX   calls of one address, or of one node, whose proof is in the request (JoinNode, RenewCertificate)
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

#: A caller: a uid, or the key of an unauthenticated one.
CallerKey = int | str
AT_ONCE: Final = 32
RECEIVE_S: Final = 60.0
CALLS_MAX: Final = 2048
PROOFS_MAX: Final = 16


class Receiving:
    """The admission of requests. Belongs to one event loop."""

    def __init__(self, at_once: int = AT_ONCE, limit_s: float = RECEIVE_S) -> None:
        self._at_once = at_once
        self._limit_s = limit_s
        self._here: Counter[CallerKey] = Counter()
        self._turns: dict[CallerKey, asyncio.Semaphore] = {}
        self._proofs: Counter[CallerKey] = Counter()

    @property
    def is_idle(self) -> bool:
        """Whether no call is being received and nothing is kept of any."""
        return not (self._here or self._turns or self._proofs)

    def number_of(self, key: CallerKey) -> int:
        """How many calls of a caller are being received, or wait for it."""
        return self._here[key]

    @contextmanager
    def proofs(self, key: CallerKey) -> Iterator[bool]:
        """Counts the call of an unauthenticated caller until it is answered. Yields False when there are too many of
        them. Users have other limits."""
        if isinstance(key, int):
            yield True
            return
        if self._proofs[key] >= PROOFS_MAX:
            yield False
            return
        self._proofs[key] += 1
        try:
            yield True
        finally:
            self._proofs[key] -= 1
            if not self._proofs[key]:
                del self._proofs[key]

    async def message(self, key: CallerKey, read: Callable[[], Awaitable[object]]) -> bytes | None:
        """Returns the one message of a call, by gRPC's `context.read`; None = there was none."""
        with self._counted(key) as turns:
            async with turns:
                try:
                    async with asyncio.timeout(self._limit_s):
                        data = await read()
                except TimeoutError:
                    return None
        return data if isinstance(data, bytes) else None  # else it is gRPC's marker for an end without a message

    @contextmanager
    def _counted(self, key: CallerKey) -> Iterator[asyncio.Semaphore]:
        turns = self._turns.get(key)
        if turns is None:
            turns = self._turns[key] = asyncio.Semaphore(self._at_once)
        self._here[key] += 1
        try:
            yield turns
        finally:
            self._here[key] -= 1
            if not self._here[key]:
                del self._here[key], self._turns[key]


class Receiver(Protocol):
    """A connection of the call socket."""

    uid: int

    @property
    def is_connected(self) -> bool:
        """Whether the client is still there."""

    def take_turn(self) -> None:
        """Continues to receive a large request."""


class LargeRequests:
    """Turns to receive large requests over the call socket: AT_ONCE of one user's at a time."""

    def __init__(self) -> None:
        self._receiving: Counter[int] = Counter()  # by uid
        self._waiting: dict[int, deque[Receiver]] = {}  # by uid

    @property
    def is_idle(self) -> bool:
        """Whether none is being received or waits."""
        return not (self._receiving or self._waiting)

    def number_of(self, uid: int) -> tuple[int, int]:
        """How many of a user's are being received, and wait."""
        return self._receiving[uid], len(self._waiting.get(uid, ()))

    def begin(self, connection: Receiver) -> bool:
        """Whether the connection may receive a large request now; if not, it waits for its turn."""
        if self._receiving[connection.uid] >= AT_ONCE:
            self._waiting.setdefault(connection.uid, deque()).append(connection)
            return False
        self._receiving[connection.uid] += 1
        return True

    def end(self, uid: int) -> None:
        """Ends the reception of a large request, and gives its turn to the next."""
        line = self._waiting.get(uid)
        while line:
            connection = line.popleft()
            if not line:
                del self._waiting[uid]
            if connection.is_connected:
                connection.take_turn()
                return
        self._receiving[uid] -= 1
        if not self._receiving[uid]:
            del self._receiving[uid]
