"""Who is calling: from a gRPC call to a `Peer`, by certificate or token alone. No field of a request is looked at.

A connection whose client certificate has the role node is that node and nothing else: a token sent over it is ignored,
so a stolen node key cannot be turned into a user. Any other connection is the user that its token names, or nobody.

A token that a node signed is good only for a user with a job on that node (TokenVerifier.has_job), and only for what
every user may do: nobody is an administrator or operator from there, as a stolen node key would be.

A token's uid is trusted; the names and groups that go with it are looked up on this machine, off the event loop, and
kept for a minute. A token's gid counts only if that user is in the group here.

Tokens are for one use, so a call is identified once, by the gate in rights.py; handlers ask `caller()` or
`calling_node()`.
"""

import asyncio
import grp
import os
import pwd
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from cryptography import x509

from ctld.core.events import Actor, Role
from ctld.core.fairshare import UserRow
from penstock.client import TOKEN_KEY
from penstock.security.ca import BadCertificate, Identity, check_certificate
from penstock.security.tokens import TokenRefused, TokenVerifier
from penstock.values.config import Config

#: Users who call within one minute; beyond this the oldest are looked up again.
USERS_MAX: Final = 10_000
USER_TTL_US: Final = 60_000_000
#: Client certificates that are kept parsed: one for each node, and some to spare.
CERTIFICATES_MAX: Final = 10_000
#: How a user is known, by the role of the host whose kernel said who he is.
VIA: Final = {"controller": "socket", "login": "token of a login host", "node": "token of a node"}


class Peer(msgspec.Struct, frozen=True):
    """The other side of a call: a user, a node, or nobody, and then why."""

    actor: Actor | None = None
    node: str | None = None
    why_nobody: str = ""
    #: nobody for a reason that passes: the caller may simply try again
    passing: bool = False


class User(msgspec.Struct, frozen=True):
    """What this machine knows of a uid."""

    name: str
    gid: int
    group_names: dict[int, str]  # by gid; the primary group and all others
    until_us: int


@dataclass(frozen=True, slots=True)
class Roles:
    """Who is more than a user. Replaced as a whole when the configuration is; what accounting says counts at once."""

    administrators: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    administrator_uids: frozenset[int] = frozenset({0})
    people: Mapping[str, UserRow] = field(default_factory=dict)  # the core's, which changes while we look

    @classmethod
    def of(cls, config: Config, people: Mapping[str, UserRow]) -> "Roles":
        """root, who runs the controller, SlurmUser and the two lists; and those to whom sacctmgr has given a level."""
        administrators = frozenset((config.slurm_user, *config.penstock_administrators))
        return cls(administrators, frozenset(config.penstock_operators), frozenset((0, os.geteuid())), people)

    def role(self, uid: int, name: str) -> Role:
        """What this user may do: the highest of what is said of him."""
        if uid in self.administrator_uids or name in self.administrators:
            return Role.ADMINISTRATOR
        person = self.people.get(name)
        given = Role(person.admin_level) if person is not None else Role.USER
        return max(given, Role.OPERATOR) if name in self.operators else given


class UserDirectory:
    """pwd and grp with a memory, asked in a thread: behind them may be a slow LDAP server."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._users: dict[int, User] = {}

    async def find(self, uid: int, gid: int) -> User:
        """What is known of this uid; one that is not known gets its numbers for names."""
        now_us = self._clock_us()
        user = self._users.get(uid)
        if user is None or user.until_us < now_us:
            user = await asyncio.to_thread(look_up, uid, gid, now_us + USER_TTL_US)
            self._users.pop(uid, None)
            while len(self._users) >= USERS_MAX:
                del self._users[next(iter(self._users))]
            self._users[uid] = user
        return user

    def clear(self) -> None:
        """Look everybody up again (after a reload)."""
        self._users.clear()


def look_up(uid: int, gid: int, until_us: int) -> User:
    """Ask pwd and grp. Blocks."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return User(str(uid), gid, {gid: group_name(gid)}, until_us)
    gids = dict.fromkeys((entry.pw_gid, *os.getgrouplist(entry.pw_name, entry.pw_gid)))
    return User(entry.pw_name, entry.pw_gid, {g: group_name(g) for g in gids}, until_us)


def group_name(gid: int) -> str:
    """The group's name, or its number when it has none here."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


class Authenticator:
    """Identifies calls. `roles` and `denied` may be replaced while it works."""

    def __init__(
        self,
        verifier: TokenVerifier,
        ca: x509.Certificate,
        cluster: str,
        roles: Roles,
        clock_us: Callable[[], int],
        denied: frozenset[int] = frozenset(),
    ) -> None:
        self.roles = roles
        self.directory = UserDirectory(clock_us)
        self._verifier = verifier
        self._ca = ca
        self._cluster = cluster
        self._clock_us = clock_us
        self._certificates: dict[bytes, x509.Certificate] = {}
        self.deny(denied)

    def deny(self, serials: frozenset[int]) -> None:
        """Certificates that are no longer accepted, from now on."""
        self._denied = self._verifier.denied = serials

    async def identify(self, context: Any) -> Peer:
        """Who is behind this call. Uses the call's token up: once per call."""
        pem = context.auth_context().get("x509_pem_cert")
        if pem:
            try:
                identity = self._certified(bytes(pem[0]))
            except BadCertificate as error:
                return Peer(why_nobody=str(error))
            if identity.role == "node":
                return Peer(node=identity.name)
        token = next((v for k, v in context.invocation_metadata() or () if k == TOKEN_KEY), None)
        if token is None:
            return Peer(why_nobody="the call carries no token")
        try:
            said = self._verifier.verify(bytes(token), self._clock_us())
        except TokenRefused as error:
            return Peer(why_nobody=error.explanation, passing=error.passing)
        address = context.peer()
        origin = said.host if address.startswith("unix:") else f"{said.host} {address}"
        actor = await self.actor(said.uid, said.gid, VIA.get(said.role, said.role), origin)
        return Peer(actor=msgspec.structs.replace(actor, role=Role.USER) if said.role == "node" else actor)

    async def actor(self, uid: int, gid: int, via: str = "", origin: str = "") -> Actor:
        """The user as the core knows him. `via`, `origin`: how he is known, and from where, for the audit log."""
        user = await self.directory.find(uid, gid)
        if gid not in user.group_names:
            gid = user.gid
        groups = tuple(user.group_names.values())
        role = self.roles.role(uid, user.name)
        return Actor(uid, gid, user.name, user.group_names[gid], groups, role, via, origin)

    def _certified(self, pem: bytes) -> Identity:
        """TLS has checked the chain at the handshake; the term and the deny list are checked at every call."""
        certificate = self._certificates.get(pem)
        if certificate is None:
            try:
                certificate = x509.load_pem_x509_certificate(pem)
            except ValueError as error:
                raise BadCertificate("the client's certificate cannot be read") from error
            if len(self._certificates) >= CERTIFICATES_MAX:
                self._certificates.clear()
            self._certificates[pem] = certificate
        identity = check_certificate(certificate, self._ca, self._clock_us())
        if certificate.serial_number in self._denied:
            raise BadCertificate("the client's certificate has been revoked")
        if identity.cluster != self._cluster:
            raise BadCertificate(f"the client's certificate is for cluster {identity.cluster!r}")
        return identity


_peer: ContextVar[Peer] = ContextVar("penstock_peer")


def set_peer(peer: Peer) -> None:
    """Note who makes the call that this task serves. For the gate only."""
    _peer.set(peer)


def current_peer() -> Peer:
    """Who makes the call that this task serves. LookupError when the gate was not passed: a mistake in the wiring."""
    return _peer.get()


def caller() -> Actor:
    """The user who makes the call that this task serves."""
    actor = current_peer().actor
    if actor is None:
        raise LookupError("this method is not called by users: its entry in RIGHTS is wrong")
    return actor


def calling_node() -> str:
    """The node whose daemon makes the call that this task serves."""
    node = current_peer().node
    if node is None:
        raise LookupError("this method is not called by nodes: its entry in RIGHTS is wrong")
    return node
