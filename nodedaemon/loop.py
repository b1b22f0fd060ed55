"""The loop of a stepd: one epoll, one heap of timers, handlers as plain functions. No asyncio: every stepd would pay for it.

Handlers are called with the events of their descriptor. One loop serves a stepd for all its steps; who watches a
descriptor forgets it before closing it.
"""

import heapq
import select
import time

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Timer:
    """Something that is due once. `cancel` may be called at any time."""

    __slots__ = ("action",)

    def __init__(self, action: "Callable[[], None]") -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """It is not due any more."""
        self.action = None


class Loop:
    """Descriptors and timers of one process."""

    __slots__ = ("_count", "_epoll", "_handlers", "_timers")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0

    def watch(self, fd: int, handler: "Callable[[int], None]", events: int = READ) -> None:
        """Call `handler` with what happens on a descriptor (READ, WRITE, or an error)."""
        self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def change(self, fd: int, events: int) -> None:
        """Watch for other events; 0 = only for errors."""
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Watch no more. Nothing happens for one that is not watched."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def after(self, delay_s: float, action: "Callable[[], None]") -> Timer:
        """Call `action` once, in so many seconds."""
        timer = Timer(action)
        self._count += 1
        heapq.heappush(self._timers, (time.monotonic() + delay_s, self._count, timer))
        return timer

    def turn(self) -> None:
        """Wait until something happens, and handle all that has."""
        for fd, events in self._epoll.poll(self._wait_s()):
            handler = self._handlers.get(fd)
            if handler is not None:  # a handler before it may have forgotten it
                handler(events)
        while self._timers and self._timers[0][0] <= time.monotonic():
            action = heapq.heappop(self._timers)[2].action
            if action is not None:
                action()

    def clear_timers(self) -> None:
        """Between two steps."""
        self._timers.clear()

    def _wait_s(self) -> float | None:
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        return max(self._timers[0][0] - time.monotonic(), 0) if self._timers else None
