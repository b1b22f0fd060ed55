"""A stepd's control socket: receives noded's datagrams, under an abstract address that the kernel chooses and all may
send to.

The kernel reports the sender of a datagram, so that only noded's are obeyed. But the queue is short, and a sender that
keeps it full locks noded out. So each datagram begins with a token from the step's claim, which only root can read, and
the socket has a filter: datagrams without the token are dropped before they are queued.

noded's own sockets are closed to others, too: that of orders has no address, and one that awaits reports is connected to the
stepd's, for which the kernel refuses all other senders.

A claim's `control` is the address and the token; an older stepd's has no token. Where the kernel accepts no filter the
token is checked all the same, but the queue can be filled.
"""

import contextlib
import ctypes
import os
import socket
import struct

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Iterable

TOKEN_BYTES = 16
#: Credentials that the kernel adds to each datagram: pid, uid, gid.
CREDENTIALS = struct.Struct("3i")
#: An address that the kernel chooses: a zero and five hexadecimal digits.
_NAME_BYTES = 6
_WORD_BYTES = 4
_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("HBBI")  # operation, jumps if true and if false, number
_LOAD_WORD = 0x20
_JUMP_IF_EQUAL = 0x15
_RETURN = 0x06
_ALL = 0xFFFFFFFF
_PROGRAM = struct.Struct("HP")


def open_control() -> tuple[socket.socket, bytes]:
    """Opens the socket; returns it with its token. Raises OSError."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    token = os.urandom(TOKEN_BYTES)
    with contextlib.suppress(OSError):
        _attach(control, token)
    control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    control.bind("")
    return control, token


def send(sock: socket.socket, where: bytes, data: bytes, ancillary: "Iterable[tuple[int, int, bytes]]" = ()) -> None:
    """Sends to the stepd of a claim's `control`. Raises OSError."""
    sock.sendmsg([where[_NAME_BYTES:], data], ancillary, 0, where[:_NAME_BYTES])


def connected(where: bytes) -> "socket.socket | None":
    """Opens a socket to which only the stepd of a claim's `control` can send; None when it is gone. Raises OSError when no
    descriptor is left."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        sock.connect(where[:_NAME_BYTES])  # before it has an address: nothing of others can be waiting
        sock.bind("")
    except OSError:
        sock.close()
        return None
    return sock


def without_token(data: bytes, token: bytes) -> bytes:
    """Returns the data after the token; nothing for a datagram without it."""
    return data[len(token) :] if data.startswith(token) else b""


def is_from_noded(ancillary: "Iterable[tuple[int, int, bytes]]") -> bool:
    """True when root, or the user that this process runs as, sent the datagram, as the kernel reports it."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            _, uid, _ = CREDENTIALS.unpack(data[: CREDENTIALS.size])
            return uid in (0, os.geteuid())
    return False


def _attach(control: socket.socket, token: bytes) -> None:
    """Accepts datagrams that begin with the token, compared in units of 32 bits; the last instruction drops all
    others."""
    words = struct.unpack(f"!{TOKEN_BYTES // _WORD_BYTES}I", token)
    code = []
    for index, word in enumerate(words):
        code.append(_INSTRUCTION.pack(_LOAD_WORD, 0, 0, index * _WORD_BYTES))
        code.append(_INSTRUCTION.pack(_JUMP_IF_EQUAL, 0, 2 * (len(words) - index) - 1, word))
    code += [_INSTRUCTION.pack(_RETURN, 0, 0, _ALL), _INSTRUCTION.pack(_RETURN, 0, 0, 0)]
    program = ctypes.create_string_buffer(b"".join(code))
    control.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _PROGRAM.pack(len(code), ctypes.addressof(program)))
