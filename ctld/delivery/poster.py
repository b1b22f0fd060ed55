"""Sends requests of deliveries over HTTP: run as a process of its own, by receivers.py.

    python -I -S poster.py FD

A server that hangs, drips or sends without end holds up this process, and not the controller. A request ends at its time limit
by SIGALRM; one that does not (a resolver that hangs) ends with the process, which the controller kills some seconds later.
As root it becomes NOBODY first. It ends with the socket FD, on which a question is a request (one line of JSON, then the body
as it is) and an answer what has become of it (JSON), each after its length in four bytes. The connection is kept for the next
request.

Rules
    - The URL is the administrator's. No redirect is followed, no proxy of the environment used.
    - Certificates are verified, by the machine's authorities or those of the request; TLS 1.2 at least.
    - Of an answer ANSWER_BYTES_MAX are read, and of these TEXT_CHARS_MAX reported; a longer one ends the connection.

Loads nothing but the standard library and small modules of the project.
"""

import encodings.idna  # noqa: F401 (loaded by the first look-up of a host, as a user who may not be able to read it)
import http.client
import json
import os
import resource
import signal
import socket
import ssl
import sys
from urllib.parse import urlsplit

if __name__ == "__main__":  # -I omits the project; it comes last, so that it cannot shadow the standard library
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from ctld.runtime.lookuphelper import LENGTH, NOBODY, receive
from penstock.oom import allow_oom_kill

ANSWER_BYTES_MAX = 64 * 1024
TEXT_CHARS_MAX = 300
#: Between a request and its body.
BODY_FOLLOWS = b"\n"
#: A server's answer, its certificates and ours: some MB; more is a leak or an attack.
MEMORY_BYTES_MAX = 512 * 1024 * 1024


class TimeIsOver(Exception):
    """A request has reached its time limit. Not an OSError: connecting goes on to the next address after one."""


class Poster:
    """The connection to the last server asked."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._connection: http.client.HTTPConnection | None = None

    def post(self, question: dict[str, object], body: bytes) -> dict[str, object]:
        """Sends one request. Returns its status and the beginning of the answer, or why there is none."""
        signal.setitimer(signal.ITIMER_REAL, float(str(question["timeout_s"])))
        try:
            return self._sent(question, body)
        except TimeIsOver:
            self._close()
            return {"error": f"no answer within {question['timeout_s']} s"}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _sent(self, question: dict[str, object], body: bytes) -> dict[str, object]:
        was_kept = self._connection is not None
        try:
            return self._once(question, body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._close()
            if was_kept and isinstance(error, ConnectionError):  # the server had closed it meanwhile
                return self._sent(question, body)
            return {"error": str(error) or type(error).__name__}

    def _once(self, question: dict[str, object], body: bytes) -> dict[str, object]:
        url = urlsplit(str(question["url"]))
        connection = self._connect(url.scheme, url.hostname or "", url.port, question)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = question["headers"]
        assert isinstance(headers, dict)
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        data = answer.read(ANSWER_BYTES_MAX)
        if answer.read(1):
            self._close()
        return {"status": answer.status, "text": data.decode("utf-8", "replace")[:TEXT_CHARS_MAX]}

    def _connect(
        self, scheme: str, host: str, port: int | None, question: dict[str, object]
    ) -> http.client.HTTPConnection:
        key = (scheme, host, port, question["ca"])
        if self._connection is None or key != self._key:
            self._close()
            if scheme == "https":
                context = ssl.create_default_context(cadata=str(question["ca"]) or None)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                self._connection = http.client.HTTPSConnection(host, port, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, port)
            self._key = key
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _time_is_over(_number: int, _frame: object) -> None:
    raise TimeIsOver


def main(fd: int) -> None:
    """Sends until the other side closes."""
    allow_oom_kill()  # first: after the switch the file is not writable
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    signal.signal(signal.SIGALRM, _time_is_over)
    poster = Poster()
    with socket.socket(fileno=fd) as wire:
        while head := receive(wire, LENGTH.size):
            asked, _, body = receive(wire, *LENGTH.unpack(head)).partition(BODY_FOLLOWS)
            answer = json.dumps(poster.post(json.loads(asked), body)).encode()
            wire.sendall(LENGTH.pack(len(answer)) + answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
