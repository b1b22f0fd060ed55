"""A connection to a controller that outlives its client: for the workers of the command server
(cli/commandserver/served.py).

A worker runs one command after the other, mostly against one controller. A new connection for each would cost both
sides a third of a submission, and three quarters of one over TLS. So `Client` returns a connection to this module when
it is done, and the next call of the same worker takes it.

A worker serves one user only. A gRPC connection has no identity: the controller authenticates each call by its token,
which is fetched for that call and based on the kernel's credentials of this process (ctld/rpc/gate/auth.py). A connection
to the call socket has the ids that the process had when it was made, and is not reused after they have changed
(penstock/callsocket.py). No state of a call stays in a connection: its answers are dropped, and its token is never put
into HTTP/2's table of headers.

A connection is reused only if all of this holds: the last call on it completed, the server has not closed it or sent
GOAWAY, it leads to the same socket (the file itself, which a restarted controller creates again) or to the same
address with the same CA, it was used within `KEEP_S`, and the file at its number is still the one that was put there.
In all other cases it is closed and the call makes its own. It has a number of its own, so that a worker can close all
other files, and is closed on exec. One connection of each kind is kept.
"""

import fcntl
import os
import socket
import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.errors import PenstockError
from penstock.transport import read_ca, uses_socket

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.callsocket import CallConnection
    from penstock.clusterfile import ClusterFile
    from penstock.h2call import Connection

#: Above the descriptors that callers pass; a worker with a lower limit of open files keeps no connection. One for gRPC,
#: one for the call socket.
NUMBER: Final = 200
CALLS_NUMBER: Final = 201
#: Bounds the time until a controller that moved to another machine is found; loops call much more often.
KEEP_S: Final = 5.0

_Key = tuple[str, object, object]


C = TypeVar("C", "Connection", "CallConnection")


class Keeper(Generic[C]):
    """Holds at most one connection, at file descriptor `number`. `key` identifies a cluster's controller."""

    def __init__(self, number: int, key: "Callable[[ClusterFile], _Key | None]") -> None:
        self._number = number
        self._key_of = key
        self._key: _Key | None = None  # target of the connection at `number`, lent or not
        self._inode = 0
        self._connection: C | None = None  # None = none, or lent
        self._used_at = 0.0

    def take(self, cluster: "ClusterFile") -> C | None:
        """Returns the kept connection, if it leads to this cluster and still works."""
        connection = self._connection
        if connection is None:
            return None
        self._connection = None
        if not self._is_ours():  # the command closed all files it did not know
            connection.forget_file()
        elif self._key == self._key_of(cluster) and time.monotonic() - self._used_at <= KEEP_S and connection.usable():
            return connection
        connection.close()
        return None

    def reserve_number(self, wire: socket.socket, cluster: "ClusterFile") -> socket.socket:
        """Moves a new connection to the number where it can be kept; if that is in use, it stays as it is."""
        try:
            number = fcntl.fcntl(wire.fileno(), fcntl.F_DUPFD_CLOEXEC, self._number)
        except OSError:  # the limit is below it
            return wire
        if number != self._number:
            os.close(number)
            return wire
        wire.close()
        self._key = self._key_of(cluster)
        self._inode = os.fstat(number).st_ino
        return socket.socket(fileno=number)

    def keep(self, connection: C) -> bool:
        """Takes a connection back. False: it cannot be kept, and the caller closes it."""
        if connection.fileno() != self._number or self._connection is not None or self._key is None:
            return False
        if not self._is_ours() or not connection.usable():
            return False
        connection.forget()
        self._connection = connection
        self._used_at = time.monotonic()
        return True

    def number(self) -> int | None:
        """The descriptor that must stay open between two calls."""
        return None if self._connection is None else self._number

    def drop(self) -> None:
        """Closes the kept connection."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.close()

    def _is_ours(self) -> bool:
        try:
            return os.fstat(self._number).st_ino == self._inode
        except OSError:
            return False


def call_socket_key(cluster: "ClusterFile") -> _Key | None:
    """Identifies the controller by its call socket; None = there is none."""
    try:
        status = os.stat(cluster.call_socket)
    except OSError:  # the connection attempt will report the error
        return None
    return cluster.call_socket, status.st_dev, status.st_ino


def controller_key(cluster: "ClusterFile") -> _Key | None:
    """Identifies the cluster's controller now; None = there is none."""
    try:
        if uses_socket(cluster):
            status = os.stat(cluster.socket)
            return cluster.socket, status.st_dev, status.st_ino
        return cluster.address, cluster.ca, read_ca(cluster)
    except (OSError, PenstockError):  # the connection attempt will report the error
        return None
