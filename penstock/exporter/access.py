"""Access to metrics: the addresses that are allowed, and a bearer token.

    no token, no list    all that can connect: by default the endpoint is on the loopback address
    a list               peers with these addresses alone
    a token              callers that present it (`Authorization: Bearer ...`) alone

A caller with the token is trusted: PrivateData hides nothing from it, as from an operator. Pure.
"""

import hmac
from enum import IntEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

#: A shorter token could be guessed.
TOKEN_CHARS_MIN: Final = 16


class AccessVerdict(IntEnum):
    """What a caller gets; a refusal is the HTTP status."""

    ADMITTED = 0
    TRUSTED = 1
    NO_TOKEN = 401
    FORBIDDEN = 403


class ScrapeAccess(NamedTuple):
    """The rules. `token` b"" = none is asked for; `networks` () = all addresses."""

    token: bytes = b""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def judge(self, peer: str, authorization: str) -> AccessVerdict:
        """Judges a request. `peer`: the address; `authorization`: the header, "" = there is none."""
        if self.networks and not _is_in(peer, self.networks):
            return AccessVerdict.FORBIDDEN
        if not self.token:
            return AccessVerdict.ADMITTED
        scheme, _, given = authorization.partition(" ")
        is_token = hmac.compare_digest(given.strip().encode(), self.token)
        return AccessVerdict.TRUSTED if is_token and scheme.lower() == "bearer" else AccessVerdict.NO_TOKEN


def networks_of(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Reads addresses and networks. Raises ValueError."""
    return tuple(ip_network(text) for text in texts)


def _is_in(peer: str, networks: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)
