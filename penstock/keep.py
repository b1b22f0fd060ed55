"""One connection to a controller that outlives its client: for the workers of the command server (cli/served.py).

A worker runs one command after the other, mostly against one controller. Connecting anew for each would cost both
sides a third of a submission, and three quarters of one over TLS. So `Client` puts a connection back here when it is
done, and the next call of the same worker takes it.

Why this changes nothing about who a caller is: a connection is nobody. The controller believes the token of each call,
which is fetched anew for that call from the kernel's word about this process, and looks at nothing else (ctld/rpc/auth);
a worker serves one user only. And nothing of a call stays in the connection: its answers are dropped, and its token is
never put into HTTP/2's table of headers.

A connection is given out again only if all of this holds: the last call on it came to its end, the server neither
closed nor left it, it leads to the same socket (the file itself, which a restarted controller makes anew) or to the same
address with the same CA, it was used within `KEEP_S`, and the file at its number is still the one that was put there.
In all other cases it is closed and the call makes its own. It has a number of its own, so that a worker can close all
other files, and is closed on exec. A second connection at the same time is not kept.
"""

import fcntl
import os
import socket
import time
from typing import TYPE_CHECKING, Final

from penstock.client import read_ca, uses_socket
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.cluster import ClusterFile
    from penstock.h2call import Connection

#: Above what callers hand over; a worker whose limit of open files is below it keeps nothing.
NUMBER: Final = 200
#: A controller that moved to another machine is found after this at the latest; loops call much more often.
KEEP_S: Final = 5.0

Key = tuple[str, object, object]


class Keeper:
    """Holds at most one connection, at file descriptor `NUMBER`."""

    def __init__(self) -> None:
        self._key: Key | None = None  # where the connection at NUMBER leads, lent or not
        self._inode = 0
        self._connection: Connection | None = None  # None = none, or lent
        self._used_at = 0.0

    def take(self, cluster: "ClusterFile") -> "Connection | None":
        """The connection that was kept, if it leads to this cluster and still works."""
        connection = self._connection
        if connection is None:
            return None
        self._connection = None
        if not self._is_ours():  # the command closed files that are not its own
            connection.forget_file()
        elif self._key == _key(cluster) and time.monotonic() - self._used_at <= KEEP_S and connection.usable():
            return connection
        connection.close()
        return None

    def place(self, wire: socket.socket, cluster: "ClusterFile") -> socket.socket:
        """A new connection at the number where it can be kept; if that is taken, as it is."""
        try:
            number = fcntl.fcntl(wire.fileno(), fcntl.F_DUPFD_CLOEXEC, NUMBER)
        except OSError:  # a limit below NUMBER
            return wire
        if number != NUMBER:
            os.close(number)
            return wire
        wire.close()
        self._key, self._inode = _key(cluster), os.fstat(number).st_ino
        return socket.socket(fileno=number)

    def keep(self, connection: "Connection") -> bool:
        """Take a connection back. False: it is not one to keep, close it."""
        if connection.fileno() != NUMBER or self._connection is not None or self._key is None:
            return False
        if not self._is_ours() or not connection.usable():
            return False
        connection.forget()
        self._connection, self._used_at = connection, time.monotonic()
        return True

    def number(self) -> int | None:
        """The file that must stay open between two calls."""
        return None if self._connection is None else NUMBER

    def drop(self) -> None:
        """Close what is kept."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _is_ours(self) -> bool:
        try:
            return os.fstat(NUMBER).st_ino == self._inode
        except OSError:
            return False


def _key(cluster: "ClusterFile") -> Key | None:
    """Where the cluster's controller is now; None = nowhere."""
    try:
        if uses_socket(cluster):
            status = os.stat(cluster.socket)
            return cluster.socket, status.st_dev, status.st_ino
        return cluster.address, cluster.ca, read_ca(cluster)
    except (OSError, PenstockError):  # dialling will say what is wrong
        return None
