"""The line of requests that wait until one of their machine's has ended.

Many people may be behind one address: of a proxy, or of a login host. Their browsers ask at the same moment, when the cluster
has changed, and each for little; so a request that finds no room waits for a while before it is refused. Each peer has a line of
its own, in the order of arrival, and what becomes free goes to the peers in turn.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator


class RequestLine:
    """The lines of one daemon. `is_full`: whether nothing more of a peer may begin now. Belongs to one event loop."""

    def __init__(self, is_full: Callable[[str], bool], peer_max: int, wait_s: float) -> None:
        self._is_full = is_full
        self._peer_max = peer_max
        self._wait_s = wait_s
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._lines.values()))

    async def turn(self, peer: str) -> bool:
        """Returns True when a request of this peer may begin, which it then does at once; False: it has waited for too long, or
        too many wait."""
        if peer not in self._lines and not self._is_full(peer):
            return True
        if len(self._lines.get(peer, ())) >= self._peer_max:
            return False
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._wait_s
        was_let_in = False
        while True:
            future: asyncio.Future[None] = loop.create_future()
            line = self._lines.setdefault(peer, deque())
            (line.appendleft if was_let_in else line.append)(future)
            try:
                async with asyncio.timeout_at(end_s):
                    await future
            except TimeoutError:
                return self._left(peer, future) and not self._is_full(peer)
            except asyncio.CancelledError:
                if self._left(peer, future):
                    self.next()
                raise
            if not self._is_full(peer):
                return True
            was_let_in = True  # and another request was quicker

    def next(self) -> None:
        """Lets the next request begin: one has ended."""
        for peer, line in list(self._lines.items()):
            if self._is_full(peer):
                continue
            there = next((one for one in _taken(line) if not one.done()), None)  # others have just given up
            if line:
                self._lines.move_to_end(peer)
            else:
                del self._lines[peer]
            if there is not None:
                there.set_result(None)
                return

    def _left(self, peer: str, future: asyncio.Future[None]) -> bool:
        """Takes a request out of its line. Returns whether it was let in already."""
        line = self._lines.get(peer)
        if line is None or future not in line:
            return True
        line.remove(future)
        if not line:
            del self._lines[peer]
        return False


def _taken(line: deque[asyncio.Future[None]]) -> Iterator[asyncio.Future[None]]:
    while line:
        yield line.popleft()
