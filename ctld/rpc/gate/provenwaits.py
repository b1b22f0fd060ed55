"""Waits that end with their caller's JSON web token: at its expiry, and at a revocation.

For calls that wait for something which then begins: a step that waits for its job's resources starts as soon as they are
free. The call that waited is authenticated again after its wait, as all calls that wait (entry.py), and refused; since its wait
has ended, nothing starts for it. Calls of others are not concerned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctld.rpc.gate.auth import Peer


class ProvenWaits:
    """The waits in progress whose callers have a token that can end."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._peers: dict[asyncio.Timeout, Peer] = {}

    @contextmanager
    def bounded(self, limit: asyncio.Timeout, peer: "Peer") -> Iterator[None]:
        """Within it, `limit` (entered, with an end) is not later than the end of the caller's token."""
        when = limit.when()
        if not peer.ends_at_us or when is None:
            yield
            return
        left_s = (peer.ends_at_us - self._clock_us()) / 1_000_000
        limit.reschedule(min(when, asyncio.get_running_loop().time() + max(0.0, left_s)))
        self._peers[limit] = peer
        try:
            yield
        finally:
            del self._peers[limit]

    async def end_revoked(self, again: "Callable[[Peer], Awaitable[Peer]]") -> None:
        """Ends those whose callers are nobody any more; `again` authenticates."""
        for limit, peer in list(self._peers.items()):
            if (await again(peer)).actor is None and limit in self._peers and not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
