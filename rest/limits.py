"""Limits of what callers may send and hold, each with its HTTP status. docs/rest.md lists them.

A caller is its token, as presented; the controller has its own limits for each user (rl_enable). Nobody has checked the token
yet, and who has many tokens is many callers. So one peer - a user of this machine by a Unix socket, else another machine - has at
most half of everything: the rest is for others.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakValueDictionary

from penstock.threads import started_pool
from rest.answers import RestError
from rest.waiting import RequestLine

if TYPE_CHECKING:
    from concurrent.futures import Executor

log = logging.getLogger("restd")
T = TypeVar("T")
#: Bytes of a body (413). A script is 4 MiB at most, and an environment 1 MiB: a heterogeneous job has several.
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
#: Bytes of all bodies that are held at a time, and of those of one peer (429): nobody has checked the token when they are read.
BODIES_BYTES_MAX: Final = 64 * 1024 * 1024
PEER_BODIES_BYTES_MAX: Final = 32 * 1024 * 1024
#: Nested lists and objects of a body, and values in it (400).
BODY_DEPTH_MAX: Final = 32
BODY_VALUES_MAX: Final = 100_000
#: Parameters of a query (422), and content types of Accept that are read: either may have tens of thousands.
PARAMETERS_MAX: Final = 128
ACCEPTED_MAX: Final = 32
#: Characters of a text of a body that is taken apart here: the controller's limit of a list of nodes or jobs (422).
TEXT_CHARS_MAX: Final = 65_536
#: Time for a body to arrive (408).
BODY_TIMEOUT_S: Final = 30.0
#: Time for the head of a request to arrive, from the connection's start or from its first byte (the connection is closed).
HEAD_TIMEOUT_S: Final = 15.0
#: Threads in which nodes are asked, and those that requests of one peer have; others wait for their turn.
ASKING_MAX: Final = 16
PEER_ASKING_MAX: Final = 8
#: Running steps of a job whose nodes one request asks, nodes of each, and the time for each step.
ASKED_STEPS_MAX: Final = 8
ASKED_NODES_MAX: Final = 64
ASKED_STEP_S: Final = 3.0
#: Running jobs of which one request asks what they use: as many as a large screen has; nodes of all their steps, time for all.
ASKED_JOBS_MAX: Final = 100
ASKED_JOBS_NODES_MAX: Final = 256
ASKED_JOBS_S: Final = 6.0
#: Outputs of jobs that are being read at a time for one caller (429).
CALLER_READINGS_MAX: Final = 4
#: Simulations that run at a time (429): each is a process with 60 s of processor time and 3 GiB at most. One of a user.
RUNNING_SIMULATIONS_MAX: Final = 2
#: Time of a simulation, and that in which nobody needs to ask for it: tabs out of sight ask once a minute.
SIMULATION_WALL_S: Final = 180.0
SIMULATION_LEASE_S: Final = 90.0
#: Results that are kept, some 50 KiB each: in all, of one user, and for how long.
SIMULATIONS_KEPT_MAX: Final = 64
USER_SIMULATIONS_KEPT_MAX: Final = 4
SIMULATION_KEPT_S: Final = 3600.0
#: Policies of a simulation, characters of each, days of the cluster's own jobs, and jobs of them (422).
SIMULATED_POLICIES_MAX: Final = 6
POLICY_CHARS_MAX: Final = 100
SIMULATED_DAYS_MAX: Final = 90
SIMULATED_JOBS_MAX: Final = 200_000
#: Of the text of a policy that is planned: bytes, and values in it where anchors are used (422). Some 2,000 users.
POLICY_BYTES_MAX: Final = 128 * 1024
POLICY_VALUES_MAX: Final = 50_000
#: Jobs of a replay of a policy (422).
REPLAYED_JOBS_MAX: Final = 20_000
#: Of a script that is checked while it is written, what is looked at: bytes and lines from its beginning. Findings of a rule that
#: are shown.
LINT_BYTES_MAX: Final = 64 * 1024
LINT_LINES_MAX: Final = 1_000
LINT_FINDINGS_MAX: Final = 100
#: Idle time of a connection between two requests.
IDLE_TIMEOUT_S: Final = 75
#: Connections in all; one more is closed at once. Each is a descriptor and some KiB.
CONNECTIONS_MAX: Final = 4096
#: Those of one peer; one more is closed at once.
PEER_CONNECTIONS_MAX: Final = 2048
#: Requests in progress: in all, of one peer, and of one caller (429).
REQUESTS_MAX: Final = 256
PEER_REQUESTS_MAX: Final = 128
CALLER_REQUESTS_MAX: Final = 32
#: Requests of one peer that wait until there is room, which count as their callers', and for how long (then 429).
PEER_WAITING_MAX: Final = 512
WAIT_S: Final = 5.0
#: Between two lines in the log about refused requests.
REFUSALS_LOG_S: Final = 60.0
#: Time of one call to the controller.
CALL_TIMEOUT_S: Final = 10.0
#: Time of one call for which the controller plans the whole queue.
PLAN_TIMEOUT_S: Final = 60.0
#: What takes longer than CALL_TIMEOUT_S may: after so long without an answer, or a page of one, the controller is asked
#: whether it is there, and has the rest of CALL_TIMEOUT_S to say so.
SILENT_S: Final = 5.0
#: Time of one call that answers in pages: that of a statement of the database.
STREAM_TIMEOUT_S: Final = 300.0
#: Bytes of the controller's pages that one request holds before it begins to send (some 5,000 jobs).
HELD_BYTES_MAX: Final = 4 * 1024 * 1024
#: Bytes of them (some 200 to 600 jobs) from which a list of jobs has the tag of its moment, so that its first part leaves
#: while the rest is on its way. A shorter one has a tag of what is in it, which other users' commits do not change.
TAG_BYTES_MAX: Final = 128 * 1024
#: Bytes of the controller's pages from which an answer is made as a whole (some 100 jobs); a longer one is made page by page.
WHOLE_BYTES_MAX: Final = 64 * 1024
#: Bytes of texts of items that are kept for pollers: some 5,000 jobs with all their members.
TEXTS_BYTES_MAX: Final = 32 * 1024 * 1024
#: Items that are made before others have their turn: some 20 ms.
SLICE_ITEMS: Final = 50
#: Time in which a caller must take a page of an answer.
STALL_TIMEOUT_S: Final = 30.0
#: Streams of events: in all, of one peer, and of one caller (429).
STREAMS_MAX: Final = 1024
PEER_STREAMS_MAX: Final = 512
CALLER_STREAMS_MAX: Final = 256
#: Events that are kept for the streams of one caller with the same wishes, some 500 bytes each.
EVENTS_KEPT_MAX: Final = 1_000
#: A stream without events shows so often that it is there.
KEEP_ALIVE_S: Final = 15.0
#: Retry-After of a 429 that the controller gave no pause for, and of a 503.
RETRY_AFTER_S: Final = 1


_ALL_FULL: Final = "{} requests are in progress here"
_PEER_FULL: Final = (
    "{} requests from this machine are in progress: those of all users of it, or behind one proxy, count together"
)
_CALLER_FULL: Final = "{} requests of this caller are in progress"


class RequestShare:
    """What one request holds of the limits: the bytes of its body."""

    def __init__(self, requests: "Requests", peer: str, caller: str) -> None:
        self._requests = requests
        self._peer = peer
        self._caller = caller
        self.body_bytes = 0

    @property
    def parsing(self) -> asyncio.Lock:
        """Held while a large body is parsed: a value takes many times the bytes of its text."""
        return self._requests.parsing

    @property
    def planning(self) -> asyncio.Lock:
        """Held while a policy is compared: up to some seconds of processor time, which threads would take from all others."""
        return self._requests.planning

    def hold(self, count: int) -> None:
        """Counts bytes of the body. Raises RestError with 429."""
        if self._requests.body_bytes + count > BODIES_BYTES_MAX:
            raise too_many("the bodies of all requests are too large now")
        if self._requests.peer_body_bytes[self._peer] + count > PEER_BODIES_BYTES_MAX:
            raise too_many("the bodies of all requests from this machine are too large now")
        self._add(count)

    def release(self) -> None:
        """Gives back what was counted."""
        self._add(-self.body_bytes)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Does what blocks in a thread, when one is free and the peer has not its half of them."""
        requests = self._requests
        turn = requests.asking_turns.setdefault(self._peer, asyncio.Semaphore(PEER_ASKING_MAX))
        async with turn:
            return await asyncio.get_running_loop().run_in_executor(requests.asking, work)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Counts one file that is being read for the caller. Raises RestError with 429."""
        readings = self._requests.readings
        if readings[self._caller] >= CALLER_READINGS_MAX:
            raise too_many(f"{CALLER_READINGS_MAX} outputs are being read for this caller")
        with counted(readings, self._caller):
            yield

    def _add(self, count: int) -> None:
        self.body_bytes += count
        self._requests.body_bytes += count
        change(self._requests.peer_body_bytes, self._peer, count)


class Requests:
    """The requests in progress."""

    def __init__(
        self,
        requests_max: int = REQUESTS_MAX,
        caller_max: int = CALLER_REQUESTS_MAX,
        peer_max: int = PEER_REQUESTS_MAX,
        wait_s: float = WAIT_S,
    ) -> None:
        self._requests_max = requests_max
        self._caller_max = caller_max
        self._peer_max = peer_max
        self._by_caller: Counter[str] = Counter()
        self._by_peer: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()  # by caller
        self._line = RequestLine(self._is_full, PEER_WAITING_MAX, wait_s)
        self._refused = 0  # since the last line in the log
        self._logged_s = -math.inf
        self.body_bytes = 0
        self.peer_body_bytes: Counter[str] = Counter()
        self.readings: Counter[str] = Counter()  # by caller
        self.parsing = asyncio.Lock()
        self.planning = asyncio.Lock()
        self.asking_turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by peer

    @cached_property
    def asking(self) -> "Executor":
        """The threads in which nodes are asked. Raises RestError with 429."""
        try:
            return started_pool(ASKING_MAX, "asking")
        except OSError as error:
            raise too_many(f"no thread can be started: {error.strerror}") from error

    @contextmanager
    def one(self, caller: str, peer: str) -> Iterator[RequestShare]:
        """Counts one request in progress. Raises RestError with 429."""
        if (why := self._why_not(caller, peer)) is not None:
            raise self._refusal(why, peer)
        share = RequestShare(self, peer, caller)
        try:
            change(self._by_caller, caller, 1)
            change(self._by_peer, peer, 1)
            try:
                yield share
            finally:
                share.release()
                change(self._by_peer, peer, -1)
                change(self._by_caller, caller, -1)
        finally:
            self._line.next()

    async def in_turn(self, caller: str, peer: str) -> AbstractContextManager[RequestShare]:
        """As one(), after a wait where all together, or those of the peer, are too many now; it is to be entered at once. Raises
        RestError with 429."""
        if self._by_caller[caller] + self._waiting[caller] >= self._caller_max:
            raise self._refusal(_CALLER_FULL.format(self._caller_max), peer)
        with counted(self._waiting, caller):
            await self._line.turn(peer)  # else it is refused now
        return self.one(caller, peer)

    def _is_full(self, peer: str) -> bool:
        return self._by_caller.total() >= self._requests_max or self._by_peer[peer] >= self._peer_max

    def _why_not(self, caller: str, peer: str) -> str | None:
        if self._by_caller.total() >= self._requests_max:
            return _ALL_FULL.format(self._requests_max)
        if self._by_peer[peer] >= self._peer_max:
            return _PEER_FULL.format(self._peer_max)
        return _CALLER_FULL.format(self._caller_max) if self._by_caller[caller] >= self._caller_max else None

    def _refusal(self, why: str, peer: str) -> RestError:
        """The refusal of a request, which the log has, too."""
        self._refused += 1
        now_s = time.monotonic()
        if now_s - self._logged_s >= REFUSALS_LOG_S:
            log.warning("%d requests refused, the last one of %s: %s", self._refused, peer or "nobody", why)
            self._refused = 0
            self._logged_s = now_s
        return too_many(why)


@contextmanager
def counted(counter: Counter[str], key: str) -> Iterator[None]:
    """Counts one while the block runs."""
    change(counter, key, 1)
    try:
        yield
    finally:
        change(counter, key, -1)


def change(counter: Counter[str], key: str, count: int) -> None:
    """Adds to a counter, which keeps no zeros: keys are of callers."""
    counter[key] += count
    if not counter[key]:
        del counter[key]


def too_many(text: str) -> RestError:
    """The refusal of what passes later."""
    return RestError(429, 0, text, retry_after_s=RETRY_AFTER_S)
