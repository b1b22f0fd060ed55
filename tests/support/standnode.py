"""A stand-in for a node's stream port: sends scripted frames and records received ones, with or without TLS.

    with StandNode(node="n1") as node:
        node.play(frame(Kind.DATA, b"hello\\n", 0, 1), frame(Kind.END))
        ... connect to node.endpoint() ...
        node.heard                      # frames of the client, in order

It keeps its frames and, like stepd, continues at HELLO's `from` on a new connection. `cut_at` breaks the connection
once, after this many bytes.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

from patience import END_S

from cli.steps.streamclient import StreamEndpoint
from penstock.values.packing import pack_values, unpack
from penstock.values.stepframes import ANSWER_NO, ANSWER_OK, GREETING, FrameKind, FrameReader, frame

KEY = b"k" * 32
#: A wait for what is not a frame of a client's looks again after this time.
POLL_S = 0.05


class StandNode:
    def __init__(self, node: str = "n1", *, index: int = 0, certs: Path | None = None, cut_at: int = 0) -> None:
        self.node = node
        self.index = index
        self.heard: list[tuple[int, int, int, bytes]] = []
        self.greetings: list[bytes] = []
        self.froms: list[int] = []
        self.roles: list[int] = []
        self.said = bytearray()
        self.cut_at = cut_at
        self.refusal = b""
        self.stdin_had = 0
        self.changed = threading.Condition()
        self.context: ssl.SSLContext | None = None
        if certs is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            (key,) = certs.glob("*.key")
            self.context.load_cert_chain(certs / f"{key.stem}.pem", key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.closed = False
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> "StandNode":
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.changed:
            self.changed.notify_all()

    def endpoint(self) -> StreamEndpoint:
        return StreamEndpoint(
            self.node, "127.0.0.1", self.listener.getsockname()[1], self.context is not None, self.index
        )

    def play(self, *frames: bytes) -> None:
        """Sends this now or when a client has connected."""
        with self.changed:
            self.said += b"".join(frames)
            self.changed.notify_all()

    def wait_for(self, kind: FrameKind, limit_s: float = END_S) -> tuple[int, int, int, bytes]:
        """Waits for the first received frame of a kind."""
        deadline = time.monotonic() + limit_s
        with self.changed:
            while True:
                for one in self.heard:
                    if one[0] == kind:
                        return one
                assert self.changed.wait(deadline - time.monotonic()), f"no {kind!r} among {self.heard}"

    def wait_until(self, condition: Callable[[], object], limit_s: float = END_S) -> None:
        """Waits until a condition is true, which need not be one on the received frames."""
        deadline = time.monotonic() + limit_s
        with self.changed:
            while not condition():
                assert time.monotonic() < deadline, self.heard
                self.changed.wait(POLL_S)

    def of(self, kind: FrameKind) -> list[bytes]:
        """Payloads of all received frames of a kind."""
        return [payload for found, _, _, payload in self.heard if found == kind]

    def _serve(self) -> None:
        while not self.closed:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            line = b""
            while not line.endswith(b"\n"):
                line += connection.recv(1)
            self.greetings.append(line)
            assert line.startswith(GREETING)
            if self.refusal:
                connection.sendall(ANSWER_NO + self.refusal + b"\n")
                return
            connection.sendall(ANSWER_OK)
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            self._answer(connection)
        except OSError:
            return
        finally:
            connection.close()

    def _answer(self, connection: socket.socket) -> None:
        reader = FrameReader()
        hello = self._frame(connection, reader)
        if hello is None:
            return  # the client rejected the certificate
        assert hello[0] == FrameKind.HELLO
        key, role, start, *_ = unpack(hello[3])
        assert key == KEY
        with self.changed:
            self.froms.append(int(start))
            self.roles.append(int(role))
            self.changed.notify_all()
        connection.sendall(frame(FrameKind.WELCOME, pack_values(self.node, int(start), self.stdin_had)))
        threading.Thread(target=self._say, args=(connection, int(start)), daemon=True).start()
        while (heard := self._frame(connection, reader)) is not None:
            with self.changed:
                self.heard.append(heard)
                if heard[0] == FrameKind.STDIN:
                    self.stdin_had += len(heard[3])
                    if heard[3]:
                        self.said += frame(FrameKind.STDIN_TAKEN, b"%d" % self.stdin_had)
                self.changed.notify_all()

    def _say(self, connection: socket.socket, at: int) -> None:
        try:
            while not self.closed:
                with self.changed:
                    self.changed.wait_for(lambda: self.closed or len(self.said) > at)
                    data = bytes(self.said[at : at + 100_000])
                if self.cut_at and at + len(data) >= self.cut_at:
                    connection.sendall(data[: self.cut_at - at])
                    self.cut_at = 0
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(data)
                at += len(data)
        except OSError:
            return

    @staticmethod
    def _frame(connection: socket.socket, reader: FrameReader) -> tuple[int, int, int, bytes] | None:
        while (taken := reader.take()) is None:
            data = connection.recv(65536)
            if not data:
                return None
            reader.feed(data)
        return taken
