"""What travels between a step's supervisor and its clients (srun, sattach, sstat): frames on one ordered stream a node.

    client                          node daemon                       stepd
      | -- greeting (one line) -->     | passes the connection on -->   |
      | <---------------------------------- answer (one line): "ok" --- |
      | <------------- TLS, with the node's certificate --------------> |
      | -- HELLO (key, role, from) --------------------------------->   |
      | <---------------------------------------------- WELCOME ------- |
      | <- DATA, STARTED, EXITED, NOTE, ..., END ----------------------- |
      | -- ACK, STDIN, SIGNAL, WINDOW, ... --------------------------->  |

Rules
    - The answer to the greeting is "ok", or "no " and a sentence, before TLS and whoever asks: read up to the newline and
      not beyond. After "no" the connection is closed. A client that comes before its step waits a little (the node
      daemon does that for it), then gets a "no" and may come again.
    - A frame is a head and at most PAYLOAD_BYTES_MAX bytes. A payload that is one number is its decimal digits; one of
      several values is made by `packing.pack_values`, and read by `packing.unpack` as a list of byte strings.
    - Frames of stepd are counted in bytes, heads included, from the step's first one (all but WELCOME and ANSWER). A
      client acknowledges what it has handled; a connection that broke is opened again with HELLO `from` = what was
      handled, and goes on there. stepd keeps what is not acknowledged, and stops reading its tasks' output when
      KEPT_BYTES_MAX are kept: back-pressure instead of loss. Acknowledge at the latest every ACK_EVERY_BYTES, and END;
      with TCP_NODELAY, or each acknowledgement waits for the kernel's.
    - A step whose owner has been gone for OWNER_WAIT_S (or has not come for so long) goes on without him: then the
      oldest output is dropped. WELCOME says where it goes on; LOST how much is missing, and what had been told of starts
      and ends follows once more.
    - A VIEWER gets what is kept and what comes; one that is too slow gets LOST and goes on with what is kept.
    - Standard input has a window of STDIN_WINDOW_BYTES: a client sends no more than that beyond what STDIN_TAKEN says.
      Whole frames count, and WELCOME says how many bytes of the owner's have come: a new connection goes on there.
"""

import struct
from enum import IntEnum

#: Kind, stream, two bytes of nothing, task (global rank), length of the payload.
HEAD = struct.Struct("<BBxxII")
PAYLOAD_BYTES_MAX = 256 * 1024
KEPT_BYTES_MAX = 1024 * 1024
ACK_EVERY_BYTES = 256 * 1024
STDIN_WINDOW_BYTES = 256 * 1024
OWNER_WAIT_S = 60.0
#: No task in particular; of STDIN: all tasks.
NO_TASK = 0xFFFFFFFF
KEY_BYTES = 32

GREETING = b"PENSTOCK-STEP/1 "
#: "PENSTOCK-STEP/1 JOB.ATTEMPT.STEP" and a newline.
GREETING_BYTES_MAX = 64
ANSWER_OK = b"ok\n"
ANSWER_NO = b"no "
ANSWER_BYTES_MAX = 256


class Kind(IntEnum):
    """What a frame is. The first block comes from clients, the second from stepd."""

    HELLO = 1  # key, role, from, then "name=value" options
    STDIN = 2  # data for `task` (or all); empty = end of file
    ACK = 3  # number: stepd's bytes handled so far
    SIGNAL = 4  # number; to all tasks. Of the owner only
    WINDOW = 5  # rows, columns
    QUESTION = 6  # a word: "usage", "pids"; answered by ANSWER
    EXCHANGE = 7  # answer to a GATHER: what all nodes have brought together

    WELCOME = 32  # node, from (greater than asked for when output was lost), bytes of standard input that came, options
    DATA = 33  # output of `task`: stream 1 or 2
    STARTED = 34  # pids of this node's tasks, in the order of their ranks
    EXITED = 35  # number: wait status of `task`
    NOTE = 36  # a line of stepd itself, for the error output; without its newline
    LOST = 37  # number: bytes of output that were dropped
    STDIN_TAKEN = 38  # number: bytes of standard input passed on so far
    GATHER = 39  # of all nodes, brought together by the step's owner (PMI); round, data
    ANSWER = 40  # to a QUESTION: `packing.dump` of a dictionary
    END = 41  # nothing follows: all tasks have ended, all output was sent; payload: failure text or nothing
    FAILED = 42  # `task` could not be started: text


class Role(IntEnum):
    """Who connects. Only one OWNER at a time: a newer one takes over."""

    OWNER = 0
    VIEWER = 1  # sattach: sees what comes from now on (and what is kept), may send input
    ASKER = 2  # sstat, listpids: questions only


def asking_key(io_key: bytes) -> bytes:
    """What lets an ASKER in who may see the step and not touch it; nobody comes from it to the step's own key."""
    import hashlib  # not for stepd: noded makes this one for it

    return hashlib.sha256(b"ask " + io_key).digest() if io_key else b""


class BadFrame(Exception):
    """What came is no frame: the connection is of no use any more."""


def frame(kind: Kind, payload: bytes = b"", task: int = NO_TASK, stream: int = 0) -> bytes:
    """A frame as bytes. `stream`: 1 = standard output, 2 = standard error."""
    return HEAD.pack(kind, stream, task, len(payload)) + payload


def greeting(job_id: int, attempt: int, step_id: int) -> bytes:
    """What a client says before TLS begins: which step it wants."""
    return GREETING + b"%d.%d.%d\n" % (job_id, attempt, step_id)


class FrameReader:
    """Puts frames together from pieces: `feed`, then `take` until it gives None."""

    __slots__ = ("_at", "_buffer", "counted")

    def __init__(self, counted: int = 0) -> None:
        self._buffer = bytearray()
        self._at = 0
        self.counted = counted  # bytes of whole frames taken so far

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def take(self) -> tuple[int, int, int, bytes] | None:
        """The next whole frame as (kind, stream, task, payload), or None. Raises BadFrame."""
        at = self._at
        if len(self._buffer) - at < HEAD.size:
            return None
        kind, stream, task, length = HEAD.unpack_from(self._buffer, at)
        if length > PAYLOAD_BYTES_MAX:
            raise BadFrame(f"a frame of {length} bytes, the limit is {PAYLOAD_BYTES_MAX}")
        end = at + HEAD.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(memoryview(self._buffer)[at + HEAD.size : end])
        self._at = end
        self.counted += HEAD.size + length
        return kind, stream, task, payload
