"""A single-threaded event loop: file descriptors, timers, and callbacks to be run next.

The loop of a stepd and of the commands that speak to one. One epoll, one heap of timers, handlers as plain functions that
must not block; no asyncio, which every stepd and every start of srun would pay for.

Rules
    - A handler is called with the events of its descriptor that it waits for at that time: READ, WRITE, or an error,
      which is always reported.
    - Descriptors that the kernel does not wait for (regular files) count as always ready.
    - Call `forget` before closing a descriptor. Its number may be reused in the same turn: events of the old one are
      not delivered to the new one.
    - A turn handles descriptors, then actions of `soon`, then timers; additions of these are for the next turn.
"""

import heapq
import select
import time
from collections import deque

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
_ERRORS = select.EPOLLERR | select.EPOLLHUP


class LoopTimer:
    """A callback that is due once. `cancel` may be called at any time."""

    __slots__ = ("action",)

    def __init__(self, action: "Callable[[], None]") -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Cancels it."""
        self.action = None


class Loop:
    """An event loop over the descriptors and timers of one process."""

    __slots__ = ("_always", "_awaited", "_count", "_epoll", "_handlers", "_new", "_soon", "_timers")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._awaited: dict[int, int] = {}  # descriptor -> events to wait for
        self._new: set[int] = set()  # watched since the last poll
        self._always: dict[int, tuple[Callable[[int], None], int]] = {}
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, LoopTimer]] = []
        self._count = 0

    def watch(self, fd: int, handler: "Callable[[int], None]", events: int = READ) -> None:
        """Calls `handler` with the events of a descriptor; replaces an earlier handler."""
        if fd in self._handlers:
            self._epoll.modify(fd, events)
        elif fd in self._always:
            self._always[fd] = handler, events
            return
        else:
            try:
                self._epoll.register(fd, events)
            except PermissionError:  # a regular file: it never blocks for long
                self._always[fd] = handler, events
                return
            self._new.add(fd)
        self._handlers[fd] = handler
        self._awaited[fd] = events

    def change(self, fd: int, events: int) -> None:
        """Changes the events to wait for; 0 = only errors."""
        self._epoll.modify(fd, events)
        self._awaited[fd] = events

    def forget(self, fd: int) -> None:
        """Stops watching a descriptor. Nothing happens for one that is not watched."""
        if self._handlers.pop(fd, None) is not None:
            del self._awaited[fd]
            self._epoll.unregister(fd)
        else:
            self._always.pop(fd, None)

    def after(self, delay_s: float, action: "Callable[[], None]") -> LoopTimer:
        """Calls `action` once, after that many seconds."""
        timer = LoopTimer(action)
        self._count += 1
        heapq.heappush(self._timers, (time.monotonic() + delay_s, self._count, timer))
        return timer

    def soon(self, action: "Callable[[], None]") -> None:
        """Calls `action` once, in the next turn."""
        self._soon.append(action)

    def turn(self) -> None:
        """Waits for events, and handles all that have occurred."""
        ready = self._epoll.poll(self._wait_s())
        self._new.clear()
        for fd, events in ready:
            # Looked up each time: an earlier handler may have removed it, or changed its events.
            handler = self._handlers.get(fd)
            if handler is not None and fd not in self._new and (occurred := events & (self._awaited[fd] | _ERRORS)):
                handler(occurred)
        for handler, events in tuple(self._always.values()):
            handler(events)
        for _ in range(len(self._soon)):
            self._soon.popleft()()
        now_s = time.monotonic()
        while self._timers and self._timers[0][0] <= now_s:
            action = heapq.heappop(self._timers)[2].action
            if action is not None:
                action()

    def clear_timers(self) -> None:
        """Removes all timers, between two steps."""
        self._timers.clear()

    def close(self) -> None:
        """Closes the loop's own descriptor."""
        self._epoll.close()

    def _wait_s(self) -> float | None:
        if self._soon or self._always:
            return 0
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        return max(self._timers[0][0] - time.monotonic(), 0) if self._timers else None
