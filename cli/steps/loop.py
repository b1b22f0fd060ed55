"""One thread that waits for many things: descriptors, points in time, and things to be done next.

What a command that speaks to a step has beside gRPC: a small event loop, without the price of asyncio at each start. A
callback gets no arguments and must not block. Descriptors that the kernel will not wait for (regular files) count as
always ready.
"""

import heapq
import selectors
import time
from collections import deque
from collections.abc import Callable

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
Callback = Callable[[], None]


class Timer:
    """A point in time at which something is to be done, unless it was cancelled."""

    __slots__ = ("callback", "number", "when")

    def __init__(self, when: float, number: int, callback: Callback) -> None:
        self.when = when
        self.number = number
        self.callback: Callback | None = callback

    def __lt__(self, other: "Timer") -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """It will not be done."""
        self.callback = None


class Loop:
    """Descriptors, timers, and what is to be done at once."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._callbacks: dict[int, tuple[Callback | None, Callback | None]] = {}
        self._since: dict[int, int] = {}  # a number is soon another descriptor's: which one an event was for
        self._always: dict[int, Callback] = {}
        self._timers: list[Timer] = []
        self._soon: deque[Callback] = deque()
        self._made = 0

    def watch(self, fd: int, read: Callback | None = None, write: Callback | None = None) -> None:
        """Call `read` or `write` when the descriptor is ready for it. Without both: forget the descriptor."""
        if read is None and write is None:
            self.forget(fd)
            return
        if fd in self._always:
            self._always[fd] = read or write or _nothing
            return
        events = (READ if read else 0) | (WRITE if write else 0)
        known = fd in self._callbacks
        self._callbacks[fd] = (read, write)
        try:
            if known:
                self._selector.modify(fd, events, self._since[fd])
            else:
                self._made += 1
                self._since[fd] = self._made
                self._selector.register(fd, events, self._made)
        except PermissionError:  # a regular file: the kernel does not wait for these, they never block for long
            del self._callbacks[fd]
            self._always[fd] = read or write or _nothing

    def forget(self, fd: int) -> None:
        """Wait for the descriptor no more; before it is closed."""
        self._always.pop(fd, None)
        if self._callbacks.pop(fd, None) is not None:
            self._selector.unregister(fd)

    def at(self, delay_s: float, callback: Callback) -> Timer:
        """Do something after a while."""
        self._made += 1
        timer = Timer(time.monotonic() + delay_s, self._made, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def soon(self, callback: Callback) -> None:
        """Do something in the next round."""
        self._soon.append(callback)

    def once(self) -> None:
        """Wait until something is ready, and do what is due."""
        for key, events in self._selector.select(self._patience_s()):
            for event, which in ((READ, 0), (WRITE, 1)):
                # Looked up each time: what was done before may have changed what is waited for.
                callback = self._callbacks.get(key.fd, (None, None))[which]
                if events & event and callback is not None and self._since[key.fd] == key.data:
                    callback()
        for callback in list(self._always.values()):
            callback()
        for _ in range(len(self._soon)):
            self._soon.popleft()()
        now = time.monotonic()
        while self._timers and self._timers[0].when <= now:
            timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()

    def _patience_s(self) -> float | None:
        if self._soon or self._always:
            return 0
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0].when - time.monotonic()) if self._timers else None

    def close(self) -> None:
        """Free the selector's own descriptor."""
        self._selector.close()


def _nothing() -> None:
    """For descriptors that nobody wants to hear of."""
