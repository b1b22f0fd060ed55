"""The program of a session, for tests: HTTP by hand on the session's socket. The last word of the path says what it answers.

echo      the head of the request, as it came     cookies   cookies that reach for more than the session
body      the length of the request's body        garbage, endless, many (1xx), short, silent, chunks, upgrade
link      replaces the socket by a link to another (the path that SESSION_LINK names)
"""

import contextlib
import os
import re
import socket
import sys
import threading

COOKIES = (
    b"Set-Cookie: a=1; Path=/; Domain=localhost\r\nSet-Cookie: penstock_1=stolen; Path=/\r\n"
    b"Set-Cookie: __Host-x=1; Path=/; Secure\r\nSet-Cookie: b=2; Path=%sdeep/; HttpOnly\r\n"
    b'Service-Worker-Allowed: /\r\nClear-Site-Data: "*"\r\n'
)
BASE = os.environ["PENSTOCK_SESSION_BASE"].encode()


def read_head(wire: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        part = wire.recv(65536)
        if not part:
            return data, b""
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def answer(wire: socket.socket, body: bytes, more: bytes = b"") -> None:
    wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), more, body))


def serve(wire: socket.socket) -> None:
    head, rest = read_head(wire)
    if not head:
        return
    word = head.split(b" ")[1].rpartition(b"/")[2].decode()
    if word == "body":
        found = re.search(rb"content-length: (\d+)", head.lower())
        count = len(rest)
        while found is not None and count < int(found[1]):
            count += len(wire.recv(65536))
        answer(wire, b"%d bytes" % count)
    elif word == "cookies":
        answer(wire, b"", COOKIES % BASE)
    elif word == "garbage":
        wire.sendall(b"\x00\xffSSH-2.0-no http\r\n\r\n" * 100)
    elif word == "endless":
        wire.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            wire.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")
    elif word == "many":
        while True:
            wire.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
    elif word == "short":
        wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    elif word == "silent":
        wire.recv(1)
    elif word == "chunks":
        wire.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n")
    elif word == "upgrade":
        wire.sendall(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nfrom the start ")
        while part := wire.recv(65536):
            wire.sendall(part.upper())
    elif word == "big":
        wire.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(400):
            wire.sendall(b"y" * 65536)
    elif word == "link":
        os.unlink(path)
        os.symlink(os.environ["SESSION_LINK"], path)
        answer(wire, b"done")
    else:
        while b"chunked" in head.lower() and not rest.endswith(b"0\r\n\r\n"):
            rest += wire.recv(65536)
        answer(wire, head)


def one(wire: socket.socket) -> None:
    with wire, contextlib.suppress(OSError):
        serve(wire)


path = os.environ["PENSTOCK_SESSION_SOCKET"]
if len(sys.argv) > 1:
    os.environ["SESSION_LINK"] = sys.argv[1]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(64)
while True:
    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()
