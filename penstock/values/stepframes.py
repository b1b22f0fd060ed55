"""The frame protocol between a step's supervisor and its clients (srun, sattach, sstat): frames on one ordered stream
per node.

    client                          node daemon                       stepd
      | -- greeting (one line) -->     | passes the connection on -->   |
      | <---------------------------------- answer (one line): "ok" --- |
      | <------------- TLS, with the node's certificate --------------> |
      | -- HELLO (key, role, from) --------------------------------->   |
      | <---------------------------------------------- WELCOME ------- |
      | <- DATA, STARTED, EXITED, NOTE, ..., END ----------------------- |
      | -- ACK, STDIN, SIGNAL, WINDOW, ... --------------------------->  |

Rules
    - The answer to the greeting is "ok", or "no " and a sentence. It is sent before TLS and to any client: read up to
      the newline and no further. After "no" the connection is closed. If a client connects before its step exists, the
      node daemon waits a little for the step before it answers "no", and the client may retry.
    - A frame is a header and a payload of at most PAYLOAD_BYTES_MAX. A single number is encoded as decimal digits,
      several values by `packing.pack_values`; `packing.unpack` reads these as a list of byte strings.
    - stepd's frames are counted in bytes, headers included, from the step's first one (except WELCOME and ANSWER). A
      client acknowledges what it has handled; to resume after a lost connection it sends HELLO with `from` = the bytes
      handled. stepd keeps unacknowledged frames, and stops reading its tasks' output when it keeps KEPT_BYTES_MAX:
      back-pressure instead of loss. Clients acknowledge at least every ACK_EVERY_BYTES, and END; they set TCP_NODELAY,
      otherwise each acknowledgement waits for the kernel's.
    - A step continues when its owner has been disconnected, or has not connected, for OWNER_WAIT_S; the oldest output is
      then dropped. WELCOME says where the stream resumes, LOST how much is missing, and the starts and ends that had
      been reported are sent again.
    - The tasks' standard input ends, and their terminal is hung up, OWNER_WAIT_S after the owner closed its connection, or
      CUT_WAIT_S after it was cut off, unless an owner or a VIEWER is there then.
    - A VIEWER receives what is kept and what follows; one that is too slow gets LOST and continues with what is kept.
    - Standard input has a window: a client sends at most STDIN_WINDOW_BYTES beyond what STDIN_TAKEN reports. Whole
      frames count. WELCOME reports how many bytes of the owner were received: a new connection resumes there.
"""

import struct
from enum import IntEnum

#: Kind, stream, two padding bytes, task (global rank), length of the payload.
HEAD = struct.Struct("<BBxxII")
PAYLOAD_BYTES_MAX = 256 * 1024
KEPT_BYTES_MAX = 1024 * 1024
ACK_EVERY_BYTES = 256 * 1024
STDIN_WINDOW_BYTES = 256 * 1024
OWNER_WAIT_S = 60.0
CUT_WAIT_S = 600.0
#: No particular task; for STDIN: all tasks.
NO_TASK = 0xFFFFFFFF
KEY_BYTES = 32

GREETING = b"PENSTOCK-STEP/1 "
#: Limit of "PENSTOCK-STEP/1 JOB.ATTEMPT.STEP" and a newline.
GREETING_BYTES_MAX = 64
ANSWER_OK = b"ok\n"
ANSWER_NO = b"no "
ANSWER_BYTES_MAX = 256


class FrameKind(IntEnum):
    """The kind of a frame. Kinds of the first block are sent by clients, of the second by stepd."""

    HELLO = 1  # key, role, from, then "name=value" options
    STDIN = 2  # data for `task` (or all); empty = end of file
    ACK = 3  # number: bytes of stepd's frames handled so far
    SIGNAL = 4  # number; sent to all tasks. Owner only
    WINDOW = 5  # rows, columns
    QUESTION = 6  # "usage" or "pids"; answered by ANSWER
    EXCHANGE = 7  # answer to GATHER: the joined blobs of all nodes

    WELCOME = 32  # node, from (more than requested if output was lost), bytes of standard input received, options
    DATA = 33  # output of `task`: stream 1 or 2
    STARTED = 34  # pids of this node's tasks, in rank order
    EXITED = 35  # number: wait status of `task`
    NOTE = 36  # a message of stepd for standard error, without newline
    LOST = 37  # number: bytes of output that were dropped
    STDIN_TAKEN = 38  # number: bytes of standard input passed on so far
    GATHER = 39  # this node's blob for the all-gather by the step's owner (PMI): round, data
    ANSWER = 40  # to a QUESTION: `packing.dump` of a dictionary
    END = 41  # last frame: all tasks have ended, all output was sent; payload: failure text or empty
    FAILED = 42  # `task` could not be started: text


class StreamRole(IntEnum):
    """The role of a client. A step has one OWNER at a time: a newer one takes over."""

    OWNER = 0
    VIEWER = 1  # sattach: receives output that is kept and that follows, may send input
    QUERY = 2  # sstat, listpids: sends questions only
    TUNNEL = 3  # rest/interactive: after WELCOME all bytes are for the session that the job is, or FAILED says why not


def asking_key(io_key: bytes) -> bytes:
    """Returns the key of a QUERY client, which gives read access to the step; the step's own key cannot be derived from it."""
    import hashlib  # not imported by stepd: noded derives this key for it

    return hashlib.sha256(b"ask " + io_key).digest() if io_key else b""


class BadFrame(Exception):
    """The error for data that is not a frame: the connection must be closed."""


def frame(kind: FrameKind, payload: bytes = b"", task: int = NO_TASK, stream: int = 0) -> bytes:
    """Encodes a frame. `stream`: 1 = standard output, 2 = standard error."""
    return HEAD.pack(kind, stream, task, len(payload)) + payload


def greeting(job_id: int, attempt: int, step_id: int) -> bytes:
    """Returns the client's first line, sent before TLS begins, which names the step."""
    return GREETING + b"%d.%d.%d\n" % (job_id, attempt, step_id)


class FrameReader:
    """Reassembles frames from received pieces: call `feed`, then `take` until it returns None."""

    __slots__ = ("_at", "_buffer", "counted")

    def __init__(self, counted: int = 0) -> None:
        self._buffer = bytearray()
        self._at = 0
        self.counted = counted  # bytes of whole frames taken so far

    def feed(self, data: bytes) -> None:
        """Adds received bytes."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def take(self) -> tuple[int, int, int, bytes] | None:
        """Returns the next whole frame as (kind, stream, task, payload), or None. Raises BadFrame."""
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
