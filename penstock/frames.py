"""The framing of calls over the controller's call socket, a Unix socket of this machine. Pure: no I/O.

The kernel reports the user of a connection (SO_PEERCRED), so a call needs no token. A program that calls for others, as the
REST daemon does, sends the JSON web token of each with the call, and the kernel's word does not count then. The messages are
those of `proto/`; streams without an end, and other machines, use gRPC.

    client, once    HELLO, which ends in the version of this framing
    request         length  u32   of what follows the length
                    number  u32   the call's, chosen by the client; unique among its calls in progress
                    timeout u32   milliseconds; 0 = none
                    path    u8    length of the path, which follows; 0 = cancels the call of that number
                    path, message; of a path that begins with "+" the method is what comes after it, and before the
                    message are length u16 and proof: a token, a NUL, the user that it is to be ("" = the token's), in ASCII.
                    A server that does not know this says that it serves no such method
    reply           length  u32
                    number  u32   of the call
                    status  u8    gRPC's number; 0 = OK; MORE = a page of the answer, after which a reply to the same call follows
                    message, empty after pages; for another status the refusal's number in digits, a NUL, and the text in
                    UTF-8

Integers are big-endian. Replies come in any order. A server that does not know the version closes the connection.
"""

import struct
from typing import Final, NamedTuple

VERSION: Final = 1
HELLO: Final = b"PNSTCK\0" + bytes([VERSION])
REQUEST: Final = struct.Struct(">IIIB")
REPLY: Final = struct.Struct(">IIB")
LENGTH_BYTES: Final = 4
#: The part of the two headers that `length` counts.
REQUEST_HEAD_BYTES: Final = REQUEST.size - LENGTH_BYTES
REPLY_HEAD_BYTES: Final = REPLY.size - LENGTH_BYTES
#: The largest message that a request may have: gRPC's limit of the controller.
REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
#: A client uses a connection again within this time: half of that after which the server closes an idle one, so that a
#: request does not meet the close, which would leave its outcome unknown.
REUSE_S: Final = 60.0
TIMEOUT_MS_MAX: Final = 2**32 - 1
NUMBER_MAX: Final = 2**32 - 1

STATUSES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
NUMBERS: Final = {name: number for number, name in enumerate(STATUSES)}
MORE: Final = 255
#: Before the path of a call that carries a proof.
PROVEN: Final = "+"
PROOF_LENGTH: Final = struct.Struct(">H")
#: gRPC's limit of metadata.
PROOF_BYTES_MAX: Final = 16 * 1024


class CarriedProof(NamedTuple):
    """A JSON web token, and the user that its holder wants to be; "" = the token's."""

    token: str
    user_name: str


def proof_bytes(proof: CarriedProof) -> bytes | None:
    """Encodes a proof as it stands before a message; None: this framing does not carry it."""
    text = "\0".join(proof)
    if not proof.token or not text.isascii() or text.count("\0") > 1 or len(text) > PROOF_BYTES_MAX:
        return None
    return PROOF_LENGTH.pack(len(text)) + text.encode("ascii")


def split_proof(data: bytes) -> tuple[CarriedProof, bytes]:
    """Decodes what `proof_bytes` has encoded, and the message after it. Raises ValueError."""
    end = PROOF_LENGTH.size + int.from_bytes(data[: PROOF_LENGTH.size], "big")
    if not PROOF_LENGTH.size < end <= min(len(data), PROOF_LENGTH.size + PROOF_BYTES_MAX):
        raise ValueError("no proof")
    token, _, user_name = data[PROOF_LENGTH.size : end].decode("ascii").partition("\0")
    return CarriedProof(token, user_name), data[end:]


def request_frame(number: int, path: bytes, message: bytes, left_s: float) -> bytes:
    """Encodes a request. `left_s`: the time until its deadline; inf = none."""
    timeout_ms = 0 if left_s == float("inf") else min(max(int(left_s * 1000) + 1, 1), TIMEOUT_MS_MAX)
    length = REQUEST_HEAD_BYTES + len(path) + len(message)
    return b"".join((REQUEST.pack(length, number, timeout_ms, len(path)), path, message))


def cancel_frame(number: int) -> bytes:
    """Encodes the cancellation of a call."""
    return REQUEST.pack(REQUEST_HEAD_BYTES, number, 0, 0)


def reply_frame(number: int, message: bytes) -> bytes:
    """Encodes the reply of a call that succeeded."""
    return REPLY.pack(REPLY_HEAD_BYTES + len(message), number, 0) + message


def page_frame(number: int, message: bytes) -> bytes:
    """Encodes a page of the answer."""
    return REPLY.pack(REPLY_HEAD_BYTES + len(message), number, MORE) + message


def refusal_frame(number: int, status: str, text: str, code: str = "") -> bytes:
    """Encodes the reply of a call that failed; `code`: the refusal's number, "" = none."""
    body = b"%s\0%s" % (code.encode(), text.encode("utf-8", "replace"))
    return REPLY.pack(REPLY_HEAD_BYTES + len(body), number, NUMBERS[status]) + body


def refusal_of(status: int, body: bytes) -> tuple[str, str, str]:
    """Decodes a failed call's reply: the status's name, the text, the refusal's number."""
    code, _, text = body.partition(b"\0")
    name = STATUSES[status] if status < len(STATUSES) else "UNKNOWN"
    return name, text.decode("utf-8", "replace"), code.decode("ascii", "replace")
