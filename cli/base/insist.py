"""A request that must not be dropped: what gives resources back is repeated until the controller has acknowledged it.

A controller whose database does not answer, or has no room, refuses changes; one that restarts is not there. A caller
that went then would leave an allocation that runs on. So the request is repeated, for `INSIST_S` at most: longer
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
    began = time.monotonic()
    try:
        client.call(method, request, ATTEMPT_S)
        return
    except PenstockError as error:
        if not _passes(error):
            raise
        last = error
    pause_s = PAUSE_FIRST_S
    try:
        with interruptible():
            say(f"{last.text}; trying again for up to {INSIST_S / 60:.0f} minutes")
            while time.monotonic() - began < INSIST_S:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                try:
                    client.call(method, request, ATTEMPT_S)
                    return
                except PenstockError as error:
                    if not _passes(error):
                        raise
                    last = error
    except Interrupted:
        client.close()  # an interrupted call leaves the connection in an unknown state
    raise last


def _passes(error: PenstockError) -> bool:
    return isinstance(error, Unreachable) or error.code in PASSING
