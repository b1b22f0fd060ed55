"""The inbox: events queued for the core, and the callers that await an answer to theirs.

Rules
    - It is bounded. A request beyond the limit is refused; the reader of a node's stream waits for `room`.
    - While the database takes no writes, requests that would change something are refused or wait (storage.py).
    - When a caller disconnects while the core holds the request (WAITING), a StopWaiting cancels it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

# Any: each request has an answer of its own type, which its caller knows
from typing import Any, Final

from ctld.core.records.effects import AllocationState, Effect, JobEnded, Refusal, Reply, StepCreated, StepSeen
from ctld.core.records.events import (
    AwaitAllocation,
    AwaitJob,
    AwaitStep,
    CreateStep,
    Event,
    StopWaiting,
    SubmitJob,
    reply_to_of,
)
from ctld.core.state.state import ClusterState
from ctld.metrics import Metrics
from ctld.runtime.errors import NotTaken
from ctld.runtime.fatalcauses import FatalCauses
from ctld.runtime.storage import Storage
from penstock.values.refusals import Code

log = logging.getLogger("penstock.ctld")

#: Maximum number of queued events: some seconds of the highest load. Each is a kilobyte or a submission of some
#: kilobytes.
INBOX_EVENTS_MAX: Final = 20_000
#: Requests whose callers may disconnect before they are answered.
WAITING: Final = frozenset((AwaitJob, AwaitAllocation, AwaitStep, CreateStep))
#: Requests that change nothing.
READING: Final = frozenset((AwaitJob, AwaitAllocation, AwaitStep))
#: Answers whose time is not bounded: they come with their batch.
_AWAITED: Final = frozenset((JobEnded, AllocationState, StepCreated, StepSeen))


class Inbox:
    """Events in the order of arrival. `wake` is called after each that is queued."""

    def __init__(
        self,
        state: ClusterState,
        storage: Storage,
        metrics: Metrics,
        fatal_causes: FatalCauses,
        wake: Callable[[], None],
    ) -> None:
        self.events: deque[Event] = deque()
        self._state = state
        self._storage = storage
        self._metrics = metrics
        self._fatal_causes = fatal_causes
        self._wake = wake
        self._callers: dict[int, asyncio.Future[object]] = {}
        self._next_reply_to = 1
        self._closing = False
        self._room = asyncio.Event()
        self._room.set()
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        """Returns the number of requests and reports that wait for the core."""
        return len(self.events)

    def new_reply_to(self) -> int:
        """Returns a number for an event whose answer is awaited."""
        number = self._next_reply_to
        self._next_reply_to += 1
        return number

    def post(self, event: Event) -> None:
        """Queues a fact. A caller that posts many waits for `room` first."""
        if self._fatal_causes.bars(event):
            log.error("%s is left out: an earlier process has ended over one like it", type(event).__name__)
            return
        self.events.append(event)
        if len(self.events) >= INBOX_EVENTS_MAX:
            self._room.clear()
        self._wake()

    async def ask(self, event: Event) -> Any:
        """Posts a request with a `reply_to` of `new_reply_to` and waits for the body of its Reply. Raises NotTaken."""
        if self._storage.is_away and type(event) not in READING:
            await self._storage.wait()
        self._admit(event)
        reply_to = reply_to_of(event)
        future: asyncio.Future[object] = self._loop.create_future()
        self._callers[reply_to] = future
        self.events.append(event)
        self._wake()
        try:
            return await future
        except asyncio.CancelledError:
            if self._callers.pop(reply_to, None) is not None and type(event) in WAITING and not self._closing:
                self.post(StopWaiting(reply_to))
            raise

    def _admit(self, event: Event) -> None:
        if self._closing:
            raise NotTaken(Code.BUSY, "the controller is stopping", passing=True)
        if len(self.events) >= INBOX_EVENTS_MAX:
            self._metrics.inbox_full += 1
            raise NotTaken(Code.BUSY, f"{INBOX_EVENTS_MAX} requests are waiting")
        if self._storage.is_full and type(event) not in READING:
            raise NotTaken(Code.STORAGE_WAITS if self._is_kept(event) else Code.STORAGE_FULL, "")
        if self._fatal_causes.bars(event):
            raise NotTaken(Code.INTERNAL, "the controller has ended over a request like this one")

    def _is_kept(self, event: Event) -> bool:
        """Whether it is a known submission that waits for the database to have space."""
        return type(event) is SubmitJob and (event.actor.uid, event.submit_key) in self._state.submissions.keys

    async def room(self) -> None:
        """Returns when the inbox has room."""
        await self._room.wait()

    def stepped(self) -> None:
        """Wakes those that wait for room, after events were taken out."""
        if len(self.events) < INBOX_EVENTS_MAX:
            self._room.set()

    def answer(self, reply_to: int) -> "asyncio.Future[object] | None":
        """Removes and returns the future of a waiting caller; None when there is none."""
        future = self._callers.pop(reply_to, None)
        return None if future is None or future.done() else future

    def refuse_for_full(self, effects: Iterable[Effect]) -> None:
        """Answers the callers of these effects, and those of events behind them, as the database has no space for them."""
        for reply in effects:
            if type(reply) is Reply and type(reply.body) not in _AWAITED:
                is_refused = type(reply.body) is Refusal
                self._refuse(reply.reply_to, Code.STORAGE_FULL if is_refused else Code.STORAGE_WAITS)
        kept = []
        for event in self.events:  # the core has not handled these, and will not
            reply_to = reply_to_of(event)
            if reply_to in self._callers and type(event) not in READING:
                self._refuse(reply_to, Code.STORAGE_FULL)
            else:
                kept.append(event)
        self.events.clear()
        self.events.extend(kept)

    def _refuse(self, reply_to: int, code: Code) -> None:
        future = self.answer(reply_to)
        if future is not None:
            future.set_exception(NotTaken(code, ""))

    def close(self) -> None:
        """Take no more requests; facts are still taken."""
        self._closing = True

    def abandon(self) -> None:
        """Refuses all waiting callers: the process ends."""
        for future in self._callers.values():
            if not future.done():
                future.set_exception(NotTaken(Code.BUSY, "the controller is stopping", passing=True))
        self._callers.clear()
