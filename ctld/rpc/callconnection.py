"""A connection of the call socket (callserver.py): the calls of one client, and the limits of what it may ask for.

The kernel reports the user of a connection when it is made (SO_PEERCRED); nothing that a client sends is believed, but a token
that proves another user for one call. Every call passes the gate (gate/entry.py) as one over gRPC does: rights, rates, calls in
progress, sizes, bounds of fields. One task for each call, no thread. The replies of one turn of the loop leave together, with one
write for each connection.

Limits of one connection, beside those of connections (gate/connections.py) and of users (gate/underway.py, unread.py,
turnshare.py)
    CALLS_MAX           calls in progress; more are not read until one ends
    CALLS_PER_TURN      calls that are begun in one turn of the loop
    LARGE_BYTES         longer requests: of one user AT_ONCE (gate/receiving.py) are received concurrently
    UNREAD_BYTES        replies that wait for a slow reader; beyond it, its requests are not read or begun
    RECEIVE_S           time limit from the first byte of a request to its last, and for a reader that does not read
    IDLE_S              a connection without a call is closed after this time; clients open another
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import grpc
import grpc.aio

from ctld.rpc.gate.localcall import LocalCall
from ctld.rpc.gate.receiving import LargeRequests
from ctld.rpc.gate.unread import UnreadReplies
from penstock.calls import USER_NAME_KEY, USER_TOKEN_KEY
from penstock.frames import (
    HELLO,
    LENGTH_BYTES,
    PROVEN,
    REQUEST,
    REQUEST_BYTES_MAX,
    REQUEST_HEAD_BYTES,
    page_frame,
    refusal_frame,
    reply_frame,
    split_proof,
)
from penstock.security.credentials import peer_credentials
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    from penstock.calls import Proof

log = logging.getLogger("penstock.ctld")

#: Serves one method behind the gate: the request's bytes to the reply's; what answers in pages sends these to the call.
Method = Callable[[bytes, LocalCall], Awaitable[bytes]]

READ_BYTES: Final = 64 * 1024
CALLS_MAX: Final = 4096
CALLS_PER_TURN: Final = 64
LARGE_BYTES: Final = 64 * 1024
UNREAD_BYTES: Final = 256 * 1024
IDLE_S: Final = 120.0
PATH_BYTES_MAX: Final = 255
PROVEN_PATH: Final = PROVEN.encode()
_FRAME_BYTES_MAX: Final = REQUEST_HEAD_BYTES + PATH_BYTES_MAX + REQUEST_BYTES_MAX


class Shared:
    """What the connections of one server share. Belongs to one event loop."""

    def __init__(self, methods: Mapping[str, Method], unread: UnreadReplies, sweep_s: float, receive_s: float) -> None:
        self.unread = unread
        self.methods = {name.encode(): method for name, method in methods.items()}
        self.connections: set[CallerConnection] = set()
        self.large = LargeRequests()
        self.buffer = memoryview(bytearray(READ_BYTES))  # of the connection that is being read
        self.receive_sweeps = max(1, round(receive_s / sweep_s))
        self.idle_sweeps = round(IDLE_S / sweep_s)
        self._written: list[CallerConnection] = []
        self._loop = asyncio.get_running_loop()

    def written(self, connection: "CallerConnection") -> None:
        """Schedules the write of a connection's replies."""
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written.append(connection)

    def flush(self) -> None:
        """Writes the replies of this turn."""
        written = self._written
        self._written = []
        for connection in written:
            connection.flush()


class RunningCall:
    """A call in progress."""

    __slots__ = ("deadline", "ended_as", "is_begun", "task")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline  # by the loop's clock; 0 = none
        self.ended_as = "CANCELLED"  # the status if the task is cancelled
        self.is_begun = False  # its task has run
        self.task: asyncio.Task[None]


class CallerConnection(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, shared: Shared) -> None:
        self.uid = -1
        self._gid = -1
        self.calls: dict[int, RunningCall] = {}
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._needed = len(HELLO)  # bytes that the buffer must contain before the next step
        self._greeted = False
        self._is_large = False  # a large request is being received
        self._waits = False  # for its turn to receive one
        self._is_due = False  # a further turn is scheduled
        self._unread = False  # the client does not read its replies
        self._is_read = asyncio.Event()  # set while it does
        self._is_read.set()
        self._counted = 0  # bytes of replies that the user's unread ones include
        self._paused = False
        self._outbox: list[bytes] = []
        self._sweeps = 0  # since the last progress
        self._left_unread = 0  # bytes, at the last check of the time limits

    @property
    def is_connected(self) -> bool:
        """Whether the client is still there."""
        return self._transport is not None

    @property
    def unread_bytes(self) -> int:
        """The size of the replies that wait for the client to read them."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # ---- the transport -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Identifies the user."""
        self._transport = cast(asyncio.Transport, transport)
        wire: socket.socket = transport.get_extra_info("socket")
        peer = peer_credentials(wire)
        if not peer.is_known:
            log.warning("calls: a caller without a uid in this namespace was refused")
            self._transport.abort()
            return
        self.uid = peer.uid
        self._gid = peer.gid
        self._transport.set_write_buffer_limits(UNREAD_BYTES)
        self._shared.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Cancels the calls of a client that has disconnected."""
        self._transport = None
        self._shared.connections.discard(self)
        if self._is_large:
            self._is_large = False
            self._shared.large.end(self.uid)
        for call in self.calls.values():
            call.task.cancel()
        self._buffer.clear()
        self._outbox.clear()
        self._count_unread()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the buffer of all connections: what is read is copied at once."""
        return self._shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what was read."""
        self._buffer += self._shared.buffer[:nbytes]
        if len(self._buffer) >= self._needed:
            self._read()

    def eof_received(self) -> bool:
        """Closes the connection: a client that shuts down its side takes no replies either."""
        return False

    def pause_writing(self) -> None:
        """Reads no more requests of a client that does not read its replies."""
        self._unread = True
        self._is_read.clear()
        self._adjust()

    def resume_writing(self) -> None:
        """Reads requests again."""
        self._unread = False
        self._is_read.set()
        self._sweeps = 0
        self._count_unread()
        self._resume_reading()

    def close(self) -> None:
        """Closes the connection after what is written."""
        if self._transport is not None:
            self._transport.close()

    def _abort(self, why: str) -> None:
        if self._transport is not None:
            log.info("calls: a connection of uid %d is closed: %s", self.uid, why)
            self._transport.abort()

    def _adjust(self) -> None:
        """Pauses or resumes reading from the socket."""
        paused = self._waits or self._is_due or self._unread or len(self.calls) >= CALLS_MAX
        if self._transport is None or paused == self._paused or self._transport.is_closing():
            return
        self._paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _resume_reading(self) -> None:
        """Resumes reading requests, those in the buffer first."""
        self._adjust()
        if not self._paused and self._transport is not None and len(self._buffer) >= self._needed:
            self._read()

    def _resume_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._adjust()
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_due = False
        self._resume_reading()

    def sweep(self, now: float) -> None:
        """Checks the time limits."""
        if self._transport is None:
            return
        self._count_unread()
        for number, call in tuple(self.calls.items()):
            if call.deadline and call.deadline <= now:
                call.ended_as = "DEADLINE_EXCEEDED"
                self.give_up(number)
        self._sweeps = 0 if self.unread_bytes < self._left_unread else self._sweeps + 1
        self._left_unread = self.unread_bytes
        if self._unread and self._sweeps > self._shared.receive_sweeps:
            self._abort("it does not read its replies")
        elif self._buffer and not self._paused and self._sweeps > self._shared.receive_sweeps:
            self._abort("its request has not arrived")
        elif not (self.calls or self._buffer) and self._sweeps > self._shared.idle_sweeps:
            self.close()

    # ---- requests ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Begins the calls of whole frames, as many as one turn allows."""
        if not self._greeted and not self._greet():
            return
        buffer = self._buffer
        at = begun = 0
        self._sweeps = 0
        while not (self._paused or self._transport is None):
            if begun >= CALLS_PER_TURN:
                self._resume_soon()
                break
            if len(buffer) - at < REQUEST.size:
                self._needed = REQUEST.size
                break
            length, number, timeout_ms, path_length = REQUEST.unpack_from(buffer, at)
            end = at + LENGTH_BYTES + length
            if not REQUEST_HEAD_BYTES + path_length <= length <= _FRAME_BYTES_MAX:
                self._refuse_frame(number, length)
                break
            if length > LARGE_BYTES and not self._is_large and not self._take_large():
                self._needed = end - at
                break
            if len(buffer) < end:
                self._needed = end - at
                break
            body = at + REQUEST.size + path_length
            if path_length:
                path, message = bytes(buffer[at + REQUEST.size : body]), bytes(buffer[body:end])
                self._begin(number, timeout_ms, path, message)
            else:
                self.give_up(number)
            at = end
            begun += 1
            if self._is_large:
                self._is_large = False
                self._shared.large.end(self.uid)
        del buffer[:at]
        if self._paused:
            self._needed = 0  # the rest is examined when reading continues

    def _greet(self) -> bool:
        if self._buffer[: len(HELLO)] != HELLO:
            self._abort("it does not speak this version of calls")
            return False
        del self._buffer[: len(HELLO)]
        self._greeted = True
        return True

    def _refuse_frame(self, number: int, length: int) -> None:
        """Refuses an invalid or oversized frame and closes the connection: the bytes after it cannot be interpreted."""
        text = f"a request of {length} bytes; the limit is {REQUEST_BYTES_MAX}"
        is_long = length > _FRAME_BYTES_MAX
        self._send(refusal_frame(number, "RESOURCE_EXHAUSTED" if is_long else "INTERNAL", text))
        self.flush()
        self._buffer.clear()
        self.close()

    def _take_large(self) -> bool:
        self._is_large = self._shared.large.begin(self)
        self._waits = not self._is_large
        self._adjust()
        return self._is_large

    def take_turn(self) -> None:
        """Continues to receive a large request."""
        self._waits = False
        self._is_large = True
        self._sweeps = 0
        self._resume_soon()

    def _begin(self, number: int, timeout_ms: int, path: bytes, message: bytes) -> None:
        if number in self.calls:
            self._abort("two calls have the same number")
            return
        proof: Proof = ()
        method = self._shared.methods.get(path.removeprefix(PROVEN_PATH))
        if path.startswith(PROVEN_PATH):
            try:
                carried, message = split_proof(message)
                proof = (
                    (USER_TOKEN_KEY, carried.token),
                    *(((USER_NAME_KEY, carried.user_name),) * bool(carried.user_name)),
                )
            except ValueError:
                self._abort("the proof of a call cannot be read")
                return
        if method is None:
            text = f"{path.decode('ascii', 'backslashreplace')} is not served over the call socket"
            self._send(refusal_frame(number, "UNIMPLEMENTED", text))
            return
        call = self.calls[number] = RunningCall(self._loop.time() + timeout_ms / 1000 if timeout_ms else 0)
        call.task = self._loop.create_task(self._serve(call, number, method, message, proof))
        if len(self.calls) >= CALLS_MAX:
            self._adjust()

    async def _serve(self, call: RunningCall, number: int, method: Method, message: bytes, proof: "Proof") -> None:
        call.is_begun = True
        seen = LocalCall(self.uid, self._gid, partial(self._send_page, number), proof)
        try:
            if self._unread:
                await self._is_read.wait()
            frame = reply_frame(number, await method(message, seen))
        except grpc.aio.AbortError:
            frame = refusal_frame(number, seen.status.name, seen.text, seen.code)
        except asyncio.CancelledError:
            frame = refusal_frame(number, call.ended_as, "the call has ended before its answer")
        except Exception:
            log.exception("calls: a call of uid %d has failed outside of the gate", self.uid)
            frame = refusal_frame(number, "INTERNAL", TEXT[Code.INTERNAL], str(int(Code.INTERNAL)))
        self._end(number, frame)

    async def _send_page(self, number: int, page: bytes) -> None:
        self._send(page_frame(number, page))
        await asyncio.sleep(0)  # it is written with the replies of this turn
        if self._unread:
            await self._is_read.wait()

    def _end(self, number: int, frame: bytes) -> None:
        self._sweeps = 0
        del self.calls[number]
        self._send(frame)
        if self._paused:
            self._resume_reading()

    def give_up(self, number: int) -> None:
        """Cancels a call whose caller does not wait any longer."""
        call = self.calls.get(number)
        if call is None:
            return
        call.task.cancel()
        if not call.is_begun:  # its task ends before its first step
            self._end(number, refusal_frame(number, call.ended_as, "the call has ended before its answer"))

    # ---- replies -------------------------------------------------------------------------------------------------

    def _send(self, frame: bytes) -> None:
        if self._transport is None:
            return
        if not self._outbox:
            self._shared.written(self)
        self._outbox.append(frame)
        self._counted += len(frame)
        self._shared.unread.add(self.uid, len(frame))

    def flush(self) -> None:
        """Writes the replies that are ready."""
        outbox = self._outbox
        if outbox and self._transport is not None:
            self._transport.write(outbox[0] if len(outbox) == 1 else b"".join(outbox))
        outbox.clear()
        self._count_unread()

    def _count_unread(self) -> None:
        """Takes what has been read from the user's unread replies: after a write, when the reader has caught up, and with
        each check of the limits."""
        read = self._counted - self.unread_bytes - sum(map(len, self._outbox))
        if read:
            self._counted -= read
            self._shared.unread.drop(self.uid, read)
