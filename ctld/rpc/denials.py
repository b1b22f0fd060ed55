"""Calls that were denied, on their way into the audit log: the first of a caller at once, the others as a count.

A flood must neither fill the disk nor stay unseen. So a caller has at most two records in a window: one for the first
call, and at the window's end one that says how often each method was tried since. Callers beyond CALLERS_MAX share one.
The answer to the caller does not wait for the record.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ctld.core.events import RecordAct
from ctld.rpc.auth import Peer

#: How long calls of one caller are counted before that is written.
WINDOW_S: Final = 60.0
#: Callers that are counted apart: attackers with many addresses are one.
CALLERS_MAX: Final = 200
#: Characters of a refusal that a record holds.
TEXT_MAX: Final = 500
OTHERS: Final = "others"


@dataclass
class _Window:
    """What a caller has tried since its first record."""

    peer: Peer
    origin: str
    methods: dict[str, int] = field(default_factory=dict)
    text: str = ""


class Denials:
    """Belongs to the loop's thread."""

    def __init__(self, post: Callable[[RecordAct], None]) -> None:
        """`post` takes an event for the core."""
        self._post = post
        self._windows: dict[str, _Window] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def note(self, peer: Peer, method: str, text: str, origin: str) -> None:
        """A call was denied. `origin`: the connection's address, as gRPC has it."""
        address = address_of(origin)
        key = f"uid {peer.actor.uid}" if peer.actor is not None else f"node {peer.node}" if peer.node else address
        if key not in self._windows and len(self._windows) >= CALLERS_MAX:
            key, peer, address = OTHERS, Peer(), OTHERS
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
        """Write what has been counted, at a stop."""
        for timer in self._timers.values():
            timer.cancel()
        for window in self._windows.values():
            if window.methods:
                self._write(window.peer, window.methods, window.text, window.origin)
        self._windows, self._timers = {}, {}

    def _end(self, key: str) -> None:
        window = self._windows[key]
        if not window.methods:
            del self._windows[key], self._timers[key]
            return
        self._write(window.peer, window.methods, window.text, window.origin)
        window.methods = {}
        self._timers[key] = asyncio.get_running_loop().call_later(WINDOW_S, self._end, key)

    def _write(self, peer: Peer, methods: dict[str, int], text: str, origin: str) -> None:
        more: dict[str, object] = {"count": sum(methods.values()), "methods": dict(sorted(methods.items()))}
        if peer.actor is None:
            more |= {"from": origin, "auth": "certificate" if peer.node else ""}
            more |= {"user": f"node {peer.node}"} if peer.node else {}
        action = "call" if len(methods) > 1 else f"call {next(iter(methods))}"
        self._post(RecordAct(peer.actor, action, result=f"denied: {text[:TEXT_MAX]}", more=more))


def address_of(peer: str) -> str:
    """The address of gRPC's words for the other side, without its port: ipv4:10.0.0.1:4711 -> 10.0.0.1."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return kind
    return rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")
