"""Limits of what callers may send and hold, each with its HTTP status. docs/rest.md lists them.

A caller is its token, as presented; the controller has its own limits for each user (rl_enable).
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rest.answers import RestError

#: Bytes of a body (413). A script is 4 MiB at most, and an environment 1 MiB: a heterogeneous job has several.
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
#: Bytes of all bodies that are held at a time (429): they are read before anybody has checked the token.
BODIES_BYTES_MAX: Final = 64 * 1024 * 1024
#: Nested lists and objects of a body, and values in it (400).
BODY_DEPTH_MAX: Final = 32
BODY_VALUES_MAX: Final = 100_000
#: Time for a body to arrive (408).
BODY_TIMEOUT_S: Final = 30.0
#: Time for the head of a request to arrive, from the connection's start or from its first byte (the connection is closed).
HEAD_TIMEOUT_S: Final = 15.0
#: Idle time of a connection between two requests.
IDLE_TIMEOUT_S: Final = 75
#: Connections in all; one more is closed at once. Each is a descriptor and some KiB.
CONNECTIONS_MAX: Final = 4096
#: Requests in progress: in all, and of one caller (429).
REQUESTS_MAX: Final = 256
CALLER_REQUESTS_MAX: Final = 32
#: Time of one call to the controller.
CALL_TIMEOUT_S: Final = 10.0
#: Time of one call for which the controller plans the whole queue.
PLAN_TIMEOUT_S: Final = 60.0
#: Time of one call that answers in pages, of which each may take CALL_TIMEOUT_S.
STREAM_TIMEOUT_S: Final = 300.0
#: Bytes of the controller's pages that one request holds before it begins to send (some 5,000 jobs).
HELD_BYTES_MAX: Final = 4 * 1024 * 1024
#: Bytes of the controller's pages from which an answer is made as a whole (some 100 jobs); a longer one is made page by page.
WHOLE_BYTES_MAX: Final = 64 * 1024
#: Items that are made before others have their turn: some 20 ms.
SLICE_ITEMS: Final = 50
#: Time in which a caller must take a page of an answer.
STALL_TIMEOUT_S: Final = 30.0
#: Streams of events: in all, and of one caller (429).
STREAMS_MAX: Final = 1024
CALLER_STREAMS_MAX: Final = 256
#: Events that are kept for the streams of one caller with the same wishes, some 500 bytes each.
EVENTS_KEPT_MAX: Final = 1_000
#: A stream without events shows so often that it is there.
KEEP_ALIVE_S: Final = 15.0
#: Retry-After of a 429 that the controller gave no pause for, and of a 503.
RETRY_AFTER_S: Final = 1


class RequestShare:
    """What one request holds of the limits: the bytes of its body."""

    def __init__(self, requests: "Requests") -> None:
        self._requests = requests
        self.body_bytes = 0

    @property
    def parsing(self) -> asyncio.Lock:
        """Held while a large body is parsed: a value takes many times the bytes of its text."""
        return self._requests.parsing

    def hold(self, count: int) -> None:
        """Counts bytes of the body. Raises RestError with 429."""
        if self._requests.body_bytes + count > BODIES_BYTES_MAX:
            raise RestError(429, 0, "the bodies of all requests are too large now", retry_after_s=RETRY_AFTER_S)
        self._requests.body_bytes += count
        self.body_bytes += count


class Requests:
    """The requests in progress."""

    def __init__(self, requests_max: int = REQUESTS_MAX, caller_max: int = CALLER_REQUESTS_MAX) -> None:
        self._requests_max = requests_max
        self._caller_max = caller_max
        self._by_caller: Counter[str] = Counter()
        self._total = 0
        self.body_bytes = 0
        self.parsing = asyncio.Lock()

    @contextmanager
    def one(self, caller: str) -> Iterator[RequestShare]:
        """Counts one request in progress. Raises RestError with 429."""
        if self._total >= self._requests_max:
            raise RestError(429, 0, f"{self._requests_max} requests are in progress here", retry_after_s=RETRY_AFTER_S)
        if self._by_caller[caller] >= self._caller_max:
            text = f"{self._caller_max} requests of this caller are in progress"
            raise RestError(429, 0, text, retry_after_s=RETRY_AFTER_S)
        self._total += 1
        self._by_caller[caller] += 1
        share = RequestShare(self)
        try:
            yield share
        finally:
            self.body_bytes -= share.body_bytes
            self._total -= 1
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
