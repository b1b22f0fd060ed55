"""Blocking connections of this machine to its cluster: to the auth socket for a token, to the controller, over TLS or not.

This module does not know requests; `penstock.calls` classifies the errors. All time-outs are in
seconds from now.
"""

import os
import socket
import struct
import time
from typing import Final

from penstock.boundedfile import read_bounded
from penstock.calls import NO_AUTH_SOCKET, TOKEN_BYTES_MAX, UNTRUSTED_TEXT, check_token, raise_for_socket
from penstock.clusterfile import ClusterFile, split_address
from penstock.errors import PenstockError
from penstock.security.names import is_controller, uri_name
from penstock.values.refusals import Code

#: Idle time after which TCP probes a connection, so that a call without a deadline ends when the controller's machine
#: is gone.
KEEPALIVE_S: Final = 30
#: A CA certificate is some hundred bytes; a file may hold several.
CA_BYTES_MAX: Final = 64 * 1024


def uses_socket(cluster: ClusterFile) -> bool:
    """Whether the controller's Unix socket is used: when it is on this machine, or when there is nothing else."""
    return bool(cluster.socket) and (os.path.exists(cluster.socket) or not cluster.address)


def fetch_token(auth_socket: str, timeout_s: float) -> bytes:
    """Fetches a token: connects and reads until the end; nothing is sent."""
    if not auth_socket:
        raise PenstockError(Code.CONFIG_INVALID, NO_AUTH_SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        try:
            connect_unix(connection, auth_socket, timeout_s)
            token = connection.recv(TOKEN_BYTES_MAX)
            while 0 < len(token) <= TOKEN_BYTES_MAX and (more := connection.recv(TOKEN_BYTES_MAX)):
                token += more
        except OSError as error:
            raise_for_socket(error, auth_socket)
    return check_token(token, auth_socket)


def connect_unix(connection: socket.socket, path: str, timeout_s: float) -> None:
    """Connect, and have the time-out for what follows. While the other side's line is full the kernel lets us stand before
    it, in turn with others: a socket that does not block would be sent away at once. Raises OSError."""
    seconds, microseconds = divmod(int(max(timeout_s, 0.001) * 1_000_000), 1_000_000)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, microseconds))
    connection.connect(path)
    connection.settimeout(max(timeout_s, 0.001))


def dial(cluster: ClusterFile, timeout_s: float) -> socket.socket:
    """Connects to the controller's address. Raises TryAgain when no process listens there."""
    where = cluster.socket if uses_socket(cluster) else cluster.address
    try:
        if not uses_socket(cluster):
            wire = socket.create_connection(split_address(cluster.address), max(timeout_s, 0.001))
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
            return wire
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connect_unix(wire, where, timeout_s)
        except BaseException:
            wire.close()
            raise
        return wire
    except OSError as error:
        raise_for_socket(error, where)


def secure(wire: socket.socket, cluster: ClusterFile, timeout_s: float) -> socket.socket:
    """Starts TLS over a connection: the peer proves with the cluster's CA that it is a controller, and the one of that
    name.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and its name
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.hostname_checks_common_name = False  # a node chooses its own
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(cadata=read_ca(cluster).decode("ascii", "replace"))
        wire.settimeout(max(timeout_s, 0.001))
        secured = context.wrap_socket(wire, server_hostname=split_address(cluster.address)[0])
    except ssl.SSLCertVerificationError as error:
        wire.close()
        raise PenstockError(Code.ACCESS_DENIED, UNTRUSTED_TEXT, str(error)) from error
    except OSError as error:
        wire.close()
        raise_for_socket(error, cluster.address)
    if not is_controller(uri := uri_name(secured.getpeercert())):
        secured.close()
        raise PenstockError(
            Code.ACCESS_DENIED, UNTRUSTED_TEXT, f"it is the certificate of {uri or 'nobody in particular'}"
        )
    return secured


def time_left_s(deadline: float) -> float | None:
    """Returns the time-out until `deadline` by time.monotonic(); None = inf, no deadline. Raises TimeoutError after it."""
    if deadline == float("inf"):
        return None
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def read_ca(cluster: ClusterFile) -> bytes:
    """Reads the CA certificate that must have signed the controller's."""
    try:
        return read_bounded(cluster.ca, CA_BYTES_MAX)
    except OSError as error:
        text = f"{cluster.ca or 'the cluster file names no ca, which'}: cannot be read: {error.strerror}"
        raise PenstockError(Code.CONFIG_INVALID, text) from error
