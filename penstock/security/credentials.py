"""The process at the other end of a Unix socket, as recorded by the kernel when it connected (SO_PEERCRED)."""

import socket
import struct
from typing import Final, NamedTuple

_UCRED: Final = struct.Struct("iII")
#: The kernel's value for ids that are not mapped in this user namespace.
_NO_ID: Final = 0xFFFFFFFF


class PeerCredentials(NamedTuple):
    """Process, user and group at the other end of a connection."""

    pid: int
    uid: int
    gid: int

    @property
    def is_known(self) -> bool:
        """Whether user and group are mapped in this namespace. Others must be refused."""
        return _NO_ID not in (self.uid, self.gid)


def peer_credentials(connection: socket.socket) -> PeerCredentials:
    """Returns the credentials of the process that connected. Raises OSError if `connection` is not a Unix socket."""
    return PeerCredentials(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))
