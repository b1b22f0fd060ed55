"""A browser's side of a session, byte by byte: requests to the proxy as they are written here, and a WebSocket.

session = SessionClient.enter(origin, url)       # follows the one-time address
session.get("api/status"); with session.websocket("ws") as wire: wire.send(b"echo hi\n"); wire.until(b"hi")
"""

import re
import socket
from typing import Self
from urllib.parse import urlsplit

from patience import ANSWER_S
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Request, TextMessage


class Answer:
    """Status, headers (names in small letters) and body."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.raw = data
        self.status = int(lines[0].split(" ")[1]) if data else 0
        self.headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]

    def all(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for key, value in self.headers if key == name]

    @property
    def text(self) -> str:
        """The body, without the frames of chunks."""
        return self.body.decode("utf-8", "replace")


def exchange(origin: str, data: bytes) -> Answer:
    """Sends bytes to the proxy, and reads until it closes."""
    with connect(origin) as wire:
        wire.sendall(data)
        return Answer(read_all(wire))


def connect(origin: str) -> socket.socket:
    """A connection to the proxy."""
    parts = urlsplit(origin)
    assert parts.hostname is not None
    return socket.create_connection((parts.hostname, parts.port or 80), ANSWER_S)


def read_all(wire: socket.socket) -> bytes:
    """What comes until the end; a reset is one."""
    found = bytearray()
    while True:
        try:
            part = wire.recv(65536)
        except ConnectionError:
            return bytes(found)
        if not part:
            return bytes(found)
        found += part


class SessionClient:
    """One browser with the cookie of one session."""

    def __init__(self, origin: str, job_id: int, cookie: str) -> None:
        self.origin = origin
        self.host = urlsplit(origin).netloc
        self.base = f"/session/{job_id}/"
        self.cookie = cookie

    @classmethod
    def enter(cls, origin: str, url: str) -> "SessionClient":
        """Follows the one-time address."""
        answer = exchange(origin, _head("GET", url.removeprefix(origin), urlsplit(origin).netloc, []))
        assert answer.status == 303, answer.raw
        (cookie,) = answer.all("set-cookie")
        found = re.fullmatch(r"(penstock_session_(\d+)=[^;]+); Path=/session/\2/; HttpOnly; SameSite=Lax", cookie)
        assert found is not None, cookie
        return cls(origin, int(found[2]), found[1])

    def request(self, method: str, path: str, *lines: str, body: bytes = b"") -> Answer:
        """One request below the session's path, with these lines in its head, and the answer."""
        more = [f"Cookie: {self.cookie}", *lines]
        return exchange(self.origin, _head(method, self.base + path, self.host, more) + body)

    def get(self, path: str, *lines: str) -> Answer:
        """A GET."""
        return self.request("GET", path, *lines)

    def websocket(self, path: str, origin: str | None = None) -> "SessionSocket":
        """A WebSocket; `origin`: of the page that opens it."""
        return SessionSocket(self, path, self.origin if origin is None else origin)


class SessionSocket:
    """A WebSocket to a session's program."""

    def __init__(self, session: SessionClient, path: str, origin: str) -> None:
        self._wire = connect(session.origin)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        headers = [(b"cookie", session.cookie.encode())] + ([(b"origin", origin.encode())] if origin else [])
        self._send(Request(host=session.host, target=session.base + path, extra_headers=headers))
        self.seen = b""
        self.is_open = True
        self.is_accepted = False
        self.first = b""
        while not self.is_accepted and self.is_open:
            self._receive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def send(self, data: bytes) -> None:
        """Sends a binary message."""
        self._send(BytesMessage(data))

    def send_text(self, text: str) -> None:
        """Sends a text message."""
        self._send(TextMessage(text))

    def until(self, text: bytes) -> bytes:
        """What has come when it contains this."""
        while text not in self.seen:
            assert self.is_open, (text, self.seen)
            self._receive()
        return self.seen

    def until_closed(self) -> bytes:
        """What has come until the end."""
        while self.is_open:
            self._receive()
        return self.seen

    def send_raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._wire.sendall(data)

    def until_raw(self, text: bytes) -> bytes:
        """Bytes as they come, until they contain this."""
        found = b""
        while text not in self.first + found:
            part = self._wire.recv(65536)
            assert part, found
            found += part
        return found

    def until_end(self) -> bool:
        """Whether the connection ends."""
        read_all(self._wire)
        return True

    def _send(self, event: Event) -> None:
        self._wire.sendall(self._protocol.send(event))

    def _receive(self) -> None:
        try:
            data = self._wire.recv(65536)
        except ConnectionError:
            data = b""
        self.first = self.first or data
        if not data:
            self.is_open = False
            return
        if not self.is_accepted and b" 101 " not in self.first.split(b"\r\n")[0]:
            self.is_open = False
            return
        if (
            not self.is_accepted
            and b"Sec-WebSocket-Accept" not in self.first
            and b"sec-websocket-accept" not in self.first
        ):
            self.is_accepted = True  # a program of tests that switches without a WebSocket
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            if isinstance(event, AcceptConnection):
                self.is_accepted = True
            elif isinstance(event, BytesMessage | TextMessage):
                self.seen += event.data.encode() if isinstance(event.data, str) else bytes(event.data)
            elif isinstance(event, CloseConnection):
                self.is_open = False


def _head(method: str, target: str, host: str, lines: list[str]) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode("latin-1")
