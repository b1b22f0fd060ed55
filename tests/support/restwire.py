"""One connection of the REST daemon without a socket: what a client sends, what is written, whether it was closed.

found = exchanged(app, b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", size=7)      # in parts of seven bytes
found.written, found.writes, found.is_closed
"""

import asyncio
from typing import Any, NamedTuple

import uvicorn
from uvicorn.server import ServerState

from rest.protocol import RestProtocol

#: Turns of the loop in which all is done that a request without real waiting needs.
TURNS = 20


class MemoryTransport(asyncio.Transport):
    """A connection that keeps what is written. `reads`: it is not paused."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False
        self.reads = True

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Exchanged(NamedTuple):
    """What a connection did."""

    writes: list[bytes]
    is_closed: bool

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)


def connection_of(app: Any, wire: MemoryTransport) -> RestProtocol:
    """A connection to an application, in the running loop."""
    config = uvicorn.Config(app, http=RestProtocol, ws="none", lifespan="off", log_config=None, date_header=False)
    config.load()
    connection = RestProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    connection.connection_made(wire)
    return connection


def exchanged(app: Any, data: bytes, size: int) -> Exchanged:
    """What a connection answers to the data, which come in parts of this size."""

    async def story() -> Exchanged:
        wire = MemoryTransport()
        connection = connection_of(app, wire)
        for begin in range(0, len(data), size):
            if not wire.is_closed:
                connection.data_received(data[begin : begin + size])
            for _ in range(TURNS):
                await asyncio.sleep(0)
        found = Exchanged(wire.writes, wire.is_closed)
        for task in connection.tasks:
            task.cancel()
        connection.connection_lost(None)
        return found

    return asyncio.run(story())
