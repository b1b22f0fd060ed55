"""Receives requests: after the caller is authenticated, and a limited number of one caller's at a time.

gRPC reads a unary call's message, of up to 16 MiB, before it calls the handler. Unauthenticated callers could thus fill
the memory with thousands of requests that are refused afterwards. So every method is served as if its request were a
stream (the wire format is the same): the gate authenticates the caller first, and then reads its one message. Until
then it stays in the caller's socket.

    AT_ONCE      messages of one caller that are read concurrently
    RECEIVE_S    time limit for reading a message, after which the call ends
    PROOFS_MAX   calls of one address, or of one node, whose proof is in the request (JoinNode, RenewCertificate)
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: A caller: a uid, or the key of an unauthenticated one.
CallerKey = int | str
AT_ONCE: Final = 32
RECEIVE_S: Final = 60.0
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
