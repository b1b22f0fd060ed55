"""Identifies the other end of a connection, as far as the kernel can: the key by which connections are counted.

    a Unix socket                 the uid of the peer (SO_PEERCRED)
    TCP from this machine         the uid that owns the other socket (/proc/net/tcp); users share the address
    TCP from another machine      its address; for IPv6 the /64 network, which belongs to one machine

These keys do not authenticate users, which requires a token or a certificate. They group connections for limits.
"""

import ipaddress
import os
import socket
import struct
from typing import Final

from penstock.security.credentials import peer_credentials

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
IPV6_NETWORK_BITS: Final = 64
UID_PREFIX: Final = "uid "


def unix_uid(connection: socket.socket) -> int:
    """Returns the uid that connected to a Unix socket."""
    return peer_credentials(connection).uid


def user_key(uid: int) -> str:
    """Returns the key of a user's connections."""
    return f"{UID_PREFIX}{uid}"


class LocalUsers:
    """The owners of this machine's TCP sockets, read once, on first use."""

    def __init__(self) -> None:
        self._uids: dict[tuple[str, int], int] | None = None

    def of(self, address: tuple[str, int]) -> int | None:
        """Returns the uid of the socket with that address; None if it does not exist."""
        if self._uids is None:
            self._uids = {}
            for table in _TABLES:
                if os.path.exists(table):
                    with open(table, encoding="ascii") as lines:
                        self._uids |= dict(map(_entry, list(lines)[1:]))
        return self._uids.get(address)


def tcp_key(connection: socket.socket, users: LocalUsers) -> str:
    """Returns the key of a TCP connection. Raises OSError if it has been disconnected."""
    peer, own = connection.getpeername(), connection.getsockname()
    address = ipaddress.ip_address(peer[0].partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped is not None:
        address = mapped
    if address.is_loopback or peer[0] == own[0]:
        uid = users.of((str(address), peer[1]))
        return user_key(uid) if uid is not None else str(address)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
    return str(address)


def _entry(line: str) -> tuple[tuple[str, int], int]:
    """Parses a line of /proc/net/tcp: the local address, in 32-bit words of native byte order, and the uid."""
    words = line.split()
    host, _, port = words[1].partition(":")
    raw = bytes.fromhex(host)
    packed = b"".join(struct.pack(">I", *struct.unpack("=I", raw[at : at + 4])) for at in range(0, len(raw), 4))
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (str(mapped or address), int(port, 16)), int(words[7])
