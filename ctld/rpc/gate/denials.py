"""Records denied calls in the audit log and in the controller's log: the first of a caller at once, the others as a
count.

A flood must neither fill the disk nor go unnoticed. So a caller has at most two records in a window: one for the first
call, and at the window's end one with the number of further calls by method. Callers beyond CALLERS_MAX share one. The
answer to the caller does not wait for the record. A call that is denied for a temporary reason is logged alone.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ctld.core.records.events import RecordAct
from ctld.rpc.gate.auth import Peer
from ctld.rpc.gate.context import address_of

#: Length of a window.
WINDOW_S: Final = 60.0
#: Callers that are counted separately: attackers with many addresses share one entry.
CALLERS_MAX: Final = 200
#: Maximum characters of a refusal in a record.
TEXT_MAX: Final = 500
OTHERS: Final = "others"

log = logging.getLogger("penstock.audit")


@dataclass
class _Window:
    """The denied calls of a caller since its first record."""

    peer: Peer
    origin: str
    methods: dict[str, int] = field(default_factory=dict)
    text: str = ""


class Denials:
    """The counts of denied calls. Belongs to the loop's thread."""

    def __init__(self, post: Callable[[RecordAct], None]) -> None:
        """`post` takes an event for the core."""
        self._post = post
        self._windows: dict[str, _Window] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def note(self, peer: Peer, method: str, text: str, origin: str) -> None:
        """Counts a denied call. `origin`: the connection's address, as gRPC has it."""
        address = address_of(origin)
        key = f"uid {peer.actor.uid}" if peer.actor is not None else f"node {peer.node}" if peer.node else address
        key = f"{key}, temporarily" if peer.passing else key
        if key not in self._windows and len(self._windows) >= CALLERS_MAX:
            key = OTHERS
            peer = Peer()
            address = OTHERS
        name = method.rpartition("/")[2]
        window = self._windows.get(key)
        if window is not None:
            window.methods[name] = window.methods.get(name, 0) + 1
            window.text = text
            return
        self._windows[key] = _Window(peer, address)
        self._write(peer, {name: 1}, text, address)
        self._timers[key] = asyncio.get_running_loop().call_later(WINDOW_S, self._end, key)

    def flush(self) -> None:
        """Writes the counts, at a stop."""
        for timer in self._timers.values():
            timer.cancel()
        for window in self._windows.values():
            if window.methods:
                self._write(window.peer, window.methods, window.text, window.origin)
        self._windows = {}
        self._timers = {}

    def _end(self, key: str) -> None:
        window = self._windows[key]
        if not window.methods:
            del self._windows[key], self._timers[key]
            return
        self._write(window.peer, window.methods, window.text, window.origin)
        window.methods = {}
        self._timers[key] = asyncio.get_running_loop().call_later(WINDOW_S, self._end, key)

    def _write(self, peer: Peer, methods: dict[str, int], text: str, origin: str) -> None:
        named = ",".join(sorted(methods))
        log.warning(
            "denied method=%s caller=%s from=%s calls=%d: %s", named, name_of(peer), origin, sum(methods.values()), text
        )
        if peer.passing:
            return
        more: dict[str, object] = {"count": sum(methods.values()), "methods": dict(sorted(methods.items()))}
        if peer.actor is None:
            more |= {"from": origin, "auth": "certificate" if peer.node else ""}
            more |= {"user": f"node {peer.node}"} if peer.node else {}
        action = "call" if len(methods) > 1 else f"call {next(iter(methods))}"
        self._post(RecordAct(peer.actor, action, result=f"denied: {text[:TEXT_MAX]}", more=more))


def name_of(peer: Peer) -> str:
    """Returns the caller's name for the log."""
    if peer.actor is not None:
        return f"{peer.actor.user_name}({peer.actor.uid})"
    return f"node {peer.node}" if peer.node else "unauthenticated"
