"""A stepd's control socket: datagrams of noded, under an abstract name that the kernel chooses and anybody may send to.

The kernel says who sent a datagram, so that nobody else's is obeyed. But few fit into the queue, and who keeps it full
keeps noded's out. So each begins with a token that only the step's claim tells, which is root's to read, and the socket
has a filter: what does not begin with it is thrown away before it is queued.

A claim's `control` is the name and the token; an older stepd's has no token. Where the kernel takes no filter the token
is checked all the same, and only the queue is everybody's.
"""

import contextlib
import ctypes
import os
import socket
import struct

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from collections.abc import Iterable

TOKEN_BYTES = 16
#: What comes with each datagram, from the kernel: pid, uid, gid.
CREDENTIALS = struct.Struct("3i")
#: What the kernel chooses: a zero and five hexadecimal digits.
_NAME_BYTES = 6
_WORD_BYTES = 4
_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("HBBI")  # operation, jumps if true and if not, number
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALL = 0xFFFFFFFF
_PROGRAM = struct.Struct("HP")


def open_control() -> tuple[socket.socket, bytes]:
    """The socket, and its token. Raises OSError."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    token = os.urandom(TOKEN_BYTES)
    with contextlib.suppress(OSError):
        _attach(control, token)
    control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    control.bind("")
    return control, token


def send(sock: socket.socket, where: bytes, data: bytes, ancillary: "Iterable[tuple[int, int, bytes]]" = ()) -> None:
    """Send to the stepd of a claim's `control`. Raises OSError."""
    sock.sendmsg([where[_NAME_BYTES:], data], ancillary, 0, where[:_NAME_BYTES])


def without_token(data: bytes, token: bytes) -> bytes:
    """What follows the token; nothing for a datagram without it."""
    return data[len(token) :] if data.startswith(token) else b""


def is_own_word(ancillary: "Iterable[tuple[int, int, bytes]]") -> bool:
    """True when root, or the user that this process runs as, sent the datagram: the kernel says who."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            _, uid, _ = CREDENTIALS.unpack(data[: CREDENTIALS.size])
            return uid in (0, os.geteuid())
    return False


def _attach(control: socket.socket, token: bytes) -> None:
    """Keep what begins with the token, word by word; every other datagram ends at the last instruction."""
    words = struct.unpack(f"!{TOKEN_BYTES // _WORD_BYTES}I", token)
    code = []
    for place, word in enumerate(words):
        code.append(_INSTRUCTION.pack(_LOAD_WORD, 0, 0, place * _WORD_BYTES))
        code.append(_INSTRUCTION.pack(_JUMP_IF_EQUAL, 0, 2 * (len(words) - place) - 1, word))
    code += [_INSTRUCTION.pack(_RETURN, 0, 0, _ALL), _INSTRUCTION.pack(_RETURN, 0, 0, 0)]
    program = ctypes.create_string_buffer(b"".join(code))
    control.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _PROGRAM.pack(len(code), ctypes.addressof(program)))
