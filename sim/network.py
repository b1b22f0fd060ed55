"""The network between nodes and controller: streams that are ordered, and that break.

A stream is what gRPC gives: two lanes, each in order, nothing lost in the middle. It can fail as such a stream can: it
is slow, it stalls, it breaks and the two sides notice at different times, one direction silently loses all messages
(half-open) until the other side has missed its heartbeats, or a node can not be reached at all. Messages in flight when
a stream breaks may still arrive at a side that has not noticed. A message may be repeated (`repeat`), which TCP does
not do but proxies and retries do. Order changes only between an old stream and a new one.

Heartbeats are not sent one by one: a side that receives nothing any more gives up SILENCE_US later.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from sim.timeline import US, Timeline

#: Three missed heartbeats of 5 s, checked every 5 s.
SILENCE_US = (15 * US, 20 * US)
NODE, CTLD = "node", "ctld"
OTHER = {NODE: CTLD, CTLD: NODE}


class Side(Protocol):
    """The holder of one end of a stream."""

    def take(self, stream: "SimStream", message: object) -> None:
        """A message has arrived."""

    def broken(self, stream: "SimStream") -> None:
        """This side has noticed the end of the stream."""


class SimListener(Side, Protocol):
    """The side that waits for streams; `up` False = its machine refuses connections."""

    up: bool


class SimStream:
    """One stream of one node."""

    def __init__(self, network: "Network", index: int, node: str, number: int, sides: dict[str, Side]) -> None:
        self.index = index
        self.node = node
        self.number = number  # the node's own count of its streams
        self.link_id = 0  # the controller's number for it
        self.commands = 0  # sequence of the last command that was sent down
        self.unacked: dict[int, object] = {}  # commands that the node has not answered
        self.open = {NODE: True, CTLD: True}
        self.black = {NODE: False, CTLD: False}  # nothing sent by that side arrives any more
        self._sides = sides
        self._network = network
        self._last_us = {NODE: 0, CTLD: 0}  # when the last message of that sender arrives

    def send(self, sender: str, message: object) -> None:
        """Sends in order; arrival is not confirmed."""
        if not self.open[sender] or self.black[sender]:
            return
        network = self._network
        for _ in range(2 if network.is_repeated() else 1):
            at_us = max(network.timeline.now_us + network.delay_us(), self._last_us[sender])
            self._last_us[sender] = at_us
            network.timeline.at(at_us, self._deliver, OTHER[sender], message)

    def _deliver(self, to: str, message: object) -> None:
        if self.open[to]:
            self._sides[to].take(self, message)

    def close(self, side: str) -> None:
        """One side ends the stream, or finds it broken; the other is notified if it can be."""
        if not self.open[side]:
            return
        self.open[side] = False
        self._network.forget(self)
        self._sides[side].broken(self)
        if self.open[OTHER[side]] and not self.black[side]:
            at_us = max(self._network.timeline.now_us + self._network.delay_us(), self._last_us[side])
            self._network.timeline.at(at_us, self.close, OTHER[side])

    def cut(self) -> None:
        """The connection is reset: the two sides notice at different times."""
        for side in (NODE, CTLD):
            self.black[side] = True
            self._network.timeline.after(self._network.delay_us(), self.close, side)

    def stall(self, duration_us: int) -> None:
        """Delays all messages by this time."""
        until_us = self._network.timeline.now_us + duration_us
        for side in (NODE, CTLD):
            self._last_us[side] = max(self._last_us[side], until_us)

    def drop_messages(self, sender: str) -> None:
        """Messages of this side are lost from now on, until the other gives up."""
        self.black[sender] = True
        self._network.timeline.after(self._network.between(*SILENCE_US), self.close, OTHER[sender])


class Network:
    """Delays and partitions of the network."""

    def __init__(self, timeline: Timeline, random: Random, delay_max_us: int, repeats: float) -> None:
        self.timeline = timeline
        self.streams: dict[int, SimStream] = {}
        self._random = random
        self._delay_max_us = delay_max_us
        self._repeats = repeats
        self._apart: dict[str, int] = {}  # node -> cut off until then
        self._opened = 0

    def between(self, low: int, high: int) -> int:
        """A number drawn evenly."""
        return self._random.randint(low, high)

    def delay_us(self) -> int:
        """The delay of one message: mostly the shortest, sometimes up to the longest."""
        if self._random.random() < 0.8:
            return self._random.randint(100, 2_000)
        return self._random.randint(2_000, self._delay_max_us)

    def is_repeated(self) -> bool:
        """Whether this message is delivered twice."""
        return self._repeats > 0 and self._random.random() < self._repeats

    def reaches(self, node: str) -> bool:
        """Whether this node could connect now."""
        return self._apart.get(node, 0) <= self.timeline.now_us

    def connect(self, node: str, number: int, sides: dict[str, Side]) -> SimStream:
        """A new stream; the caller checks that the other side listens."""
        self._opened += 1
        stream = self.streams[self._opened] = SimStream(self, self._opened, node, number, sides)
        return stream

    def forget(self, stream: SimStream) -> None:
        """Removes a stream that both sides have closed."""
        if not any(stream.open.values()):
            self.streams.pop(stream.index, None)

    def of(self, node: str) -> list[SimStream]:
        """The node's streams that at least one side has open."""
        return [stream for stream in self.streams.values() if stream.node == node]

    def part(self, node: str, duration_us: int) -> None:
        """Cuts the node off for this time."""
        self._apart[node] = max(self._apart.get(node, 0), self.timeline.now_us + duration_us)
        for stream in self.of(node):
            if duration_us < SILENCE_US[0]:
                stream.stall(duration_us)
            else:
                stream.drop_messages(NODE)
                stream.drop_messages(CTLD)

    def heal(self) -> None:
        """Ends all disturbances: no partition, no delays, no repeats."""
        self._apart.clear()
        self._delay_max_us = 5_000
        self._repeats = 0.0

    def each(self, act: Callable[[SimStream], None]) -> None:
        """Do something to every stream."""
        for stream in list(self.streams.values()):
            act(stream)
