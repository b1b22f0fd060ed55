"""A process that answers the controller's questions: the names of users (lookuphelper.py), a site's submit filter
(filterworker.py).

What may crash, hang or be slow runs there and not in the controller. A process answers one question at a time, each
within a time limit; when it dies, or is late, it is killed, and the next question starts another. A question and an
answer are bytes after their length (lookuphelper.LENGTH), on a socket that the process inherits.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from ctld.runtime.lookuphelper import LENGTH
from ctld.runtime.programs import limit_files


class HelperFailed(Exception):
    """There is no answer. `is_late`: the process was killed at the time limit."""

    def __init__(self, why: str, is_late: bool = False) -> None:
        super().__init__(why)
        self.is_late = is_late


class HelperProcess:
    """A helper process. Blocks; one thread uses it at a time."""

    def __init__(
        self,
        program: str,
        answer_s: float,
        answer_bytes_max: int,
        tries: int = 1,
        words: tuple[str, ...] = (),
        options: str = "-IS",
    ) -> None:
        """`answer_bytes_max`: a longer answer is a failure; `tries`: how often a question at which the process dies is asked.
        `words`: arguments after the socket's number; `options`: of the interpreter."""
        self._program = program
        self._answer_s = answer_s
        self._answer_bytes_max = answer_bytes_max
        self._tries = tries
        self._words = words
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: socket.socket | None = None
        self._is_closed = False

    def start(self) -> socket.socket:
        """Starts the process, unless it runs. Raises OSError."""
        if self._is_closed:
            raise ConnectionError("the controller stops")
        if self._wire is not None and self._process is not None and self._process.poll() is None:
            return self._wire
        self.stop()
        ours, theirs = socket.socketpair()
        with theirs:
            self._wire = ours
            self._process = subprocess.Popen(
                [sys.executable, self._options, self._program, str(theirs.fileno()), *self._words],
                cwd="/", pass_fds=(theirs.fileno(),), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        limit_files(self._process.pid)
        return ours

    def stop(self) -> None:
        """Ends the process."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._process is not None:
            _kill(self._process)
            self._process = None

    def close(self) -> None:
        """Ends the process, and starts no other. From any thread: a question in progress fails."""
        self._is_closed = True
        process = self._process
        if process is not None:
            _kill(process)

    def ask(self, question: bytes) -> bytes:
        """Returns the answer. Raises HelperFailed."""
        why = ""
        for _ in range(self._tries):
            try:
                return self.exchange(self.start(), question, self._answer_s)
            except TimeoutError:
                self.stop()
                raise HelperFailed(f"no answer within {self._answer_s:g} s", is_late=True) from None
            except OSError as error:
                self.stop()
                why = error.strerror or str(error)
        raise HelperFailed(why)

    def exchange(self, wire: socket.socket, question: bytes, answer_s: float) -> bytes:
        """Sends a question and receives its answer. Raises OSError."""
        end_s = time.monotonic() + answer_s
        wire.settimeout(answer_s)
        wire.sendall(LENGTH.pack(len(question)) + question)
        (size,) = LENGTH.unpack(_receive(wire, LENGTH.size, end_s))
        if size > self._answer_bytes_max:
            raise ConnectionError(f"an answer of {size} bytes")
        return _receive(wire, size, end_s)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a helper, with what it has started itself."""
    if process.poll() is None:  # else its number may be another process's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it leads a session
    process.wait()


def _receive(wire: socket.socket, size: int, end_s: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        wire.settimeout(left_s)
        piece = wire.recv(size - len(data))
        if not piece:
            raise ConnectionError("the process that asks it has ended")
        data += piece
    return bytes(data)
