"""Identifies the other end of a connection, as far as the kernel can: the key by which connections are counted.

    a Unix socket                 the uid of the peer (SO_PEERCRED)
    TCP from this machine         the uid that owns the other socket (/proc/net/tcp); users share the address
    TCP from another machine      its address; for IPv6 the /64 network, which belongs to one machine

These keys do not authenticate users, which requires a token or a certificate. They group connections for limits.
"""

import ipaddress
import itertools
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from penstock.security.credentials import peer_credentials

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
IPV6_NETWORK_BITS: Final = 64
UID_PREFIX: Final = "uid "
#: Columns of the tables.
_UID: Final = 7
_INODE: Final = 9
#: Host and port.
Address: TypeAlias = tuple[str, int]
IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def unix_uid(connection: socket.socket) -> int:
    """Returns the uid that connected to a Unix socket."""
    return peer_credentials(connection).uid


def user_key(uid: int) -> str:
    """Returns the key of a user's connections."""
    return f"{UID_PREFIX}{uid}"


class LocalUsers:
    """The owners of this machine's TCP sockets, read once, on first use.

    Sockets are found by both of their addresses: one port may have many connections, some of which are closed. A closed
    one belongs to no process, and the kernel reports uid 0 for it; such lines are left out.
    """

    def __init__(self) -> None:
        self._uids: dict[tuple[Address, Address], int] | None = None

    def of(self, own: Address, other: Address) -> int | None:
        """Returns the uid of the socket that is connected from `own` to `other`; None if no process has it."""
        if self._uids is None:
            self._uids = {}
            for table in _TABLES:
                if os.path.exists(table):
                    with open(table, encoding="ascii") as lines:
                        self._uids |= dict(_entries(lines))
        return self._uids.get((own, other))


class TcpPeer(NamedTuple):
    """The other end of a TCP connection. `is_owner_missing`: it is on this machine, and came after the kernel's table was
    read, or has gone."""

    key: str
    is_owner_missing: bool = False


def tcp_key(connection: socket.socket, users: LocalUsers) -> str:
    """Returns the key of a TCP connection. Raises OSError if it has been disconnected."""
    return tcp_peer(connection, users).key


def tcp_peer(connection: socket.socket, users: LocalUsers) -> TcpPeer:
    """Returns the other end of a TCP connection. Raises OSError if it has been disconnected."""
    peer, own = connection.getpeername(), connection.getsockname()
    address = _unmapped(ipaddress.ip_address(peer[0].partition("%")[0]))
    own_address = _unmapped(ipaddress.ip_address(own[0].partition("%")[0]))
    if address.is_loopback or address == own_address:
        uid = users.of((str(address), peer[1]), (str(own_address), own[1]))
        return TcpPeer(user_key(uid)) if uid is not None else TcpPeer(str(address), is_owner_missing=True)
    return TcpPeer(address_key(address))


def address_key(address: IpAddress) -> str:
    """Returns the key of another machine's connections."""
    address = _unmapped(address)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
    return str(address)


def _entries(lines: Iterable[str]) -> Iterator[tuple[tuple[Address, Address], int]]:
    """Parses /proc/net/tcp: local and remote address, and the uid, of each socket that a process has open."""
    for line in itertools.islice(lines, 1, None):
        words = line.split()
        if words[_INODE] != "0":
            yield (_address(words[1]), _address(words[2])), int(words[_UID])


def _address(word: str) -> Address:
    """Parses an address in 32-bit words of native byte order."""
    host, _, port = word.partition(":")
    raw = bytes.fromhex(host)
    packed = b"".join(struct.pack(">I", *struct.unpack("=I", raw[at : at + 4])) for at in range(0, len(raw), 4))
    return str(_unmapped(ipaddress.ip_address(packed))), int(port, 16)


def _unmapped(address: IpAddress) -> IpAddress:
    """Returns the IPv4 address that an IPv6 address stands for, any other one unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
