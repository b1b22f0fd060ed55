"""The server of a session that is a terminal: one shell on one pseudo terminal, for all pages that have it open.

It listens on the session's socket and speaks WebSocket (wsproto) on every path; everything else is answered with 400. The
terminal lives until its shell ends: a page that is loaded again sees the last output (KEPT_BYTES) and goes on.

    page -> server   binary: what was typed; text: {"rows": 24, "columns": 80}
    server -> page   binary: output
"""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import pwd
import signal
import struct
import sys
import termios
from collections import deque

from penstock.values.sessions import EXIT_NOT_FOUND, SOCKET_VARIABLE

try:
    from wsproto import ConnectionType, WSConnection
    from wsproto.events import (
        AcceptConnection,
        BytesMessage,
        CloseConnection,
        Event,
        Ping,
        RejectConnection,
        Request,
        TextMessage,
    )
    from wsproto.utilities import LocalProtocolError, RemoteProtocolError
except ModuleNotFoundError:  # optional: only nodes with terminals need it
    print("penstock session: wsproto is not installed on this node: pip install 'penstock[terminal]'", file=sys.stderr)  # noqa: T201
    raise SystemExit(EXIT_NOT_FOUND) from None

#: Output that a new page sees.
KEPT_BYTES = 256 * 1024
READ_BYTES = 64 * 1024
#: Bytes that wait for one page; a page that reads too slowly loses its connection, and comes again.
PAGE_BYTES_MAX = 1024 * 1024
#: Bytes of one message of a page: what is pasted.
MESSAGE_BYTES_MAX = 1024 * 1024
PAGES_MAX = 16
SIDE_MAX = 1000
_WINDOW = struct.Struct("HHHH")


class SharedTerminal:
    """The shell, its pseudo terminal, and the pages."""

    def __init__(self) -> None:
        self._pages: list[asyncio.StreamWriter] = []
        self._sockets: dict[asyncio.StreamWriter, WSConnection] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._typed = bytearray()
        self._fd = -1
        self._pid = 0
        self.ended = asyncio.Event()

    def start(self, shell: str) -> None:
        """Starts the shell. It is no login shell: the job's script is one, and has its environment."""
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.environ["TERM"] = "xterm-256color"
            try:
                os.execv(shell, [shell])  # noqa: S606 (the user's own shell, as the user)
            finally:
                os._exit(127)
        os.set_blocking(self._fd, False)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def wait_status(self) -> int:
        """The exit status of the shell, which has ended."""
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def hang_up(self) -> None:
        """Tells the shell that its terminal is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGHUP)

    async def close_pages(self) -> None:
        """Ends all connections, when what was written to them is sent."""
        for page in list(self._sockets):
            page.close()
        await asyncio.gather(*self._serving)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # EIO: no process has the terminal open any more
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            self.ended.set()
            return
        self._kept.append(data)
        self._kept_bytes += len(data)
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft())
        for page in self._pages[:]:
            self._send(page, BytesMessage(data))

    def _send(self, page: asyncio.StreamWriter, event: Event) -> None:
        if page.transport.get_write_buffer_size() > PAGE_BYTES_MAX:
            self._drop(page)
            return
        with contextlib.suppress(LocalProtocolError):  # it is closing
            page.write(self._sockets[page].send(event))

    def _drop(self, page: asyncio.StreamWriter) -> None:
        if page in self._pages:
            self._pages.remove(page)
        page.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one page."""
        self._sockets[writer] = wire = WSConnection(ConnectionType.SERVER)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while data := await reader.read(READ_BYTES):
                wire.receive_data(data)
                for event in wire.events():
                    self._handle(writer, wire, event)
                await writer.drain()
        except RemoteProtocolError as error:
            if error.event_hint is not None:  # the answer to what is no WebSocket
                writer.write(wire.send(error.event_hint))
        except (OSError, LocalProtocolError):  # it is gone
            pass
        finally:
            if writer in self._pages:
                self._pages.remove(writer)
            del self._sockets[writer]
            self._serving.discard(task)
            writer.close()

    def _handle(self, page: asyncio.StreamWriter, wire: WSConnection, event: Event) -> None:
        if isinstance(event, Request):
            if len(self._pages) >= PAGES_MAX:
                page.write(wire.send(RejectConnection(status_code=503)))
                return
            page.write(wire.send(AcceptConnection()))
            self._pages.append(page)
            self._send(page, BytesMessage(b"".join(self._kept)))
        elif isinstance(event, BytesMessage):
            self._type(bytes(event.data))
        elif isinstance(event, TextMessage):
            self._resize(event.data)
        elif isinstance(event, Ping):
            page.write(wire.send(event.response()))
        elif isinstance(event, CloseConnection):
            page.write(wire.send(event.response()))
            page.close()

    def _type(self, data: bytes) -> None:
        """Writes input as the terminal takes it; what is too much is dropped, as a terminal does."""
        if len(self._typed) + len(data) <= MESSAGE_BYTES_MAX:
            self._typed += data
        self._write()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._typed:
                del self._typed[: os.write(self._fd, self._typed)]
        except BlockingIOError:
            loop.add_writer(self._fd, self._write)
            return
        except OSError:  # the shell has ended
            self._typed.clear()
        loop.remove_writer(self._fd)

    def _resize(self, text: str) -> None:
        try:
            sides = json.loads(text)
            rows, columns = (min(max(int(sides[name]), 1), SIDE_MAX) for name in ("rows", "columns"))
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, _WINDOW.pack(rows, columns, 0, 0))


async def run(path: str, shell: str) -> int:
    """Serves until the shell ends; returns its exit status."""
    terminal = SharedTerminal()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, terminal.hang_up)
    terminal.start(shell)
    server = await asyncio.start_unix_server(terminal.serve, path, limit=READ_BYTES)
    try:
        await terminal.ended.wait()
    finally:
        server.close()
        await terminal.close_pages()
    return await asyncio.to_thread(terminal.wait_status)


def login_shell() -> str:
    """The user's shell, as the system has it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


if __name__ == "__main__":
    path_ = os.environ.get(SOCKET_VARIABLE, "")
    shell_ = sys.argv[1] if len(sys.argv) > 1 else login_shell()
    sys.exit(asyncio.run(run(path_, shell_)))
