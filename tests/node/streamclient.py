"""A client of a step's streams, as srun is one: blocking, with a deadline on everything, and no cleverness."""

import contextlib
import os
import socket
import ssl
import time
from pathlib import Path
from typing import Any

from patience import ANSWER_S, END_S

from penstock.values.packing import load, pack_values, unpack
from penstock.values.stepframes import ANSWER_OK, FrameKind, FrameReader, StreamRole, frame, greeting


class Refused(Exception):
    """The answer to the greeting was no."""


def trust(ca: Path) -> ssl.SSLContext:
    """What a client believes: the cluster's CA. Whose certificate it is, is looked at by `check_node`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(ca)
    return context


def names_of(sock: ssl.SSLSocket) -> list[str]:
    """The URI names in the server's certificate."""
    certificate: Any = sock.getpeercert()
    return [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]


def greet(port: int, key: tuple[int, int, int]) -> socket.socket:
    """A connection that has asked for a step."""
    sock = socket.create_connection(("127.0.0.1", port), ANSWER_S)
    sock.settimeout(ANSWER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an ACK frame waits for the kernel's
    sock.sendall(greeting(*key))
    return sock


class Client:
    """One connection. `frames` holds all that came; output is also gathered per (task, stream)."""

    def __init__(
        self,
        port: int,
        key: tuple[int, int, int],
        tls: ssl.SSLContext | None = None,
        greeted: socket.socket | None = None,
    ) -> None:
        self.sock = greeted or greet(port, key)
        answer = b""
        while not answer.endswith(b"\n"):
            byte = self.sock.recv(1)
            if not byte:
                raise Refused("closed")
            answer += byte
        if answer != ANSWER_OK:
            self.sock.close()
            raise Refused(answer.decode().strip())
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock)
        self.reader = FrameReader()
        self.frames: list[tuple[int, int, int, bytes]] = []
        self.output: dict[tuple[int, int], bytes] = {}
        self.exits: dict[int, int] = {}
        self.pids: list[int] = []
        self.start = 0
        self.acks = True

    def hello(self, io_key: bytes, role: StreamRole = StreamRole.OWNER, start: int = 0) -> list[bytes]:
        self.sock.sendall(frame(FrameKind.HELLO, pack_values(io_key, int(role), start)))
        kind, _, _, payload = self.take()
        assert kind == FrameKind.WELCOME
        welcome = unpack(payload)
        self.start = int(welcome[1])
        self.reader.counted = 0
        return welcome

    @property
    def handled(self) -> int:
        return self.start + self.reader.counted

    def take(self) -> tuple[int, int, int, bytes]:
        """The next frame; raises EOFError at the end of the connection."""
        end_s = time.monotonic() + END_S
        while (found := self.reader.take()) is None:
            if time.monotonic() > end_s:
                raise TimeoutError
            data = self.sock.recv(256 * 1024)
            if not data:
                raise EOFError
            self.reader.feed(data)
        kind, stream, task, payload = found
        if kind in (FrameKind.WELCOME, FrameKind.ANSWER):
            self.reader.counted -= 12 + len(payload)
            return found
        self.frames.append(found)
        if kind == FrameKind.DATA:
            self.output[task, stream] = self.output.get((task, stream), b"") + payload
        elif kind == FrameKind.EXITED:
            self.exits[task] = int(payload)
        elif kind == FrameKind.STARTED:
            self.pids = [int(pid) for pid in unpack(payload)]
        if self.acks:
            self.ack()
        return found

    def ack(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send(FrameKind.ACK, b"%d" % self.handled)

    def send(self, kind: FrameKind, payload: bytes = b"", task: int = 0) -> None:
        self.sock.sendall(frame(kind, payload, task))

    def until(self, *kinds: FrameKind) -> bytes:
        """Take frames until one of a kind comes; its payload."""
        while True:
            kind, _, _, payload = self.take()
            if kind in kinds:
                return payload

    def until_output(self, text: bytes, task: int = 0, stream: int = 1) -> None:
        while text not in self.output.get((task, stream), b""):
            self.take()

    def ask(self, word: str) -> dict:
        self.send(FrameKind.QUESTION, word.encode())
        while True:
            kind, _, _, payload = self.take()
            if kind == FrameKind.ANSWER:
                answer: Any = load(payload)
                return answer

    def close(self) -> None:
        self.sock.close()

    def break_off(self) -> None:
        """As a machine that goes down: no word."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        socket.socket(fileno=os.dup(self.sock.fileno())).close()
        self.sock.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
