"""The caller's proof: which metadata a call to the controller carries for whom.

A JSON web token is passed on as it came (X-SLURM-USER-TOKEN, or Authorization: Bearer), with X-SLURM-USER-NAME: this
daemon cannot tell a valid one, and the controller checks it at each call. Over a Unix socket the kernel reports the peer's
uid: for its own uid, and for root, the daemon calls as itself, by the kernel's word; others must bring a token there, too.

Nothing of one caller is kept for another: a proof lives as long as its request.
"""

import ipaddress
import os
import pwd
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.requests import Request

from penstock.calls import USER_NAME_KEY, USER_TOKEN_KEY
from penstock.security.peers import address_key, user_key
from rest.answers import RestError

if TYPE_CHECKING:
    from penstock.calls import Proof

#: A token of RSA with some claims is below 2 KiB.
TOKEN_CHARS_MAX: Final = 8192
NAME_CHARS_MAX: Final = 256
_BEARER: Final = "bearer "
#: Addresses whose keys are kept.
_MACHINES_MAX: Final = 1024


class UnixPeer(NamedTuple):
    """The other end of a Unix socket, instead of an address (`scope["client"]`). TCP has plain tuples there."""

    host: str
    uid: int


class ProvenCaller(NamedTuple):
    """The metadata of this caller's calls; None: the daemon's own, by the kernel's word. `key`: for limits."""

    proof: "Proof | None"
    key: str


def identify(headers: Iterable[tuple[bytes, bytes]], peer: object) -> ProvenCaller:
    """The caller of a request. `peer`: of the connection. Raises RestError with 401, in plain text."""
    tokens: set[str] = set()
    names: set[str] = set()
    for name, value in headers:
        text = value.decode("latin-1").strip()
        if name == b"x-slurm-user-token":
            tokens.add(text)
        elif name == b"x-slurm-user-name":
            names.add(text)
        elif name == b"authorization":
            if text[: len(_BEARER)].lower() != _BEARER:
                raise _unproven()
            tokens.add(text[len(_BEARER) :].strip())
    if len(tokens) > 1 or len(names) > 1:
        raise _unproven()
    user = next(iter(names), "")
    if not tokens:
        return _by_kernel(peer, user)
    token = next(iter(tokens))
    if not (_is_plain(token) and 0 < len(token) <= TOKEN_CHARS_MAX and _is_plain(user) and len(user) <= NAME_CHARS_MAX):
        raise _unproven()
    proof: Proof = ((USER_TOKEN_KEY, token),)
    return ProvenCaller((*proof, (USER_NAME_KEY, user)) if user else proof, token)


def cookie_of(request: Request, name: str) -> str:
    """A cookie of the request as it was set; "" = there is none. Libraries also read cookies in quotes, in a time that grows
    with the square of their length."""
    found = ""
    for header in request.headers.getlist("cookie"):
        for one in header.split(";"):
            key, _, value = one.strip().partition("=")
            found = value if key == name else found
    return found


def peer_key(peer: object) -> str:
    """The other end of a connection, for limits: of a Unix socket its user, else its machine. Users of this machine who
    connect by TCP are one."""
    if isinstance(peer, UnixPeer):
        return user_key(peer.uid)
    return _machine_key(str(peer[0])) if isinstance(peer, tuple) and peer else ""


@lru_cache(_MACHINES_MAX)
def _machine_key(host: str) -> str:
    try:
        return address_key(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return host


def _by_kernel(peer: object, user: str) -> ProvenCaller:
    own = os.geteuid()
    if not isinstance(peer, UnixPeer) or peer.uid not in (own, 0) or (user and user != _login(own)):
        raise _unproven()
    return ProvenCaller(None, "")


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_plain(text: str) -> bool:
    """Whether it may be metadata: printable ASCII without spaces."""
    return text.isascii() and text.isprintable() and " " not in text


def _unproven() -> RestError:
    return RestError(401, 0, "Authentication failure", is_plain=True)
