"""Repeats a request that must not be dropped, one that releases resources, until the controller has acknowledged it.

A controller whose database does not answer or is full refuses changes; while it restarts it cannot be reached. A caller
that exited then would leave a running allocation behind. So the request is repeated, for `INSIST_S` at most: longer
than any restart, shorter than an outage over night. A signal (Ctrl-C) ends the waiting earlier. In both cases the
caller gets the error, and has to report it with a status that is not 0.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, Unreachable
from penstock.values.refusals import Code

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.v1.controller_pb2 import CancelJobsRequest
    from penstock.v1.steps_pb2 import EndAllocationRequest

INSIST_S: Final = 600.0
#: One attempt, in which the client itself repeats what found no controller.
ATTEMPT_S: Final = 30.0
PAUSE_FIRST_S: Final = 0.5
PAUSE_MAX_S: Final = 8.0
#: Refusals that pass: nothing was changed, or the change waits in memory.
PASSING: Final = frozenset((Code.BUSY, Code.STORAGE_AWAY, Code.STORAGE_FULL, Code.STORAGE_WAITS, Code.RATE_LIMITED))


class Interrupted(Exception):
    """A signal arrived while a command waited for the answer to its request."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Makes terminating signals raise Interrupted, once, in the waiting call."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def insist(
    client: "Client", method: str, request: "CancelJobsRequest | EndAllocationRequest", say: Callable[[str], None]
) -> None:
    """Makes the call until it is acknowledged or refused for good. Raises the PenstockError that remained. `say` is
    called once when it is repeated.
    """
    ends_s = time.monotonic() + INSIST_S
    error = _attempt(client, method, request)
    if error is None:
        return
    try:
        with interruptible():
            say(f"{error.text}; trying again for up to {INSIST_S / 60:.0f} minutes")
            pause_s = PAUSE_FIRST_S
            while error is not None and time.monotonic() < ends_s:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                error = _attempt(client, method, request)
    except Interrupted:
        client.close()  # an interrupted call leaves the connection in an unknown state
    if error is not None:
        raise error


def _attempt(
    client: "Client", method: str, request: "CancelJobsRequest | EndAllocationRequest"
) -> PenstockError | None:
    """Makes the call once. Returns an error that may pass, None = acknowledged. Raises any other error."""
    try:
        client.call(method, request, ATTEMPT_S)
    except PenstockError as error:
        if isinstance(error, Unreachable) or error.code in PASSING:
            return error
        raise
    return None
