"""Authenticates the caller of a call as a `Peer`, by certificate or token alone, or over the call socket by the uid that
the kernel reports, if the call carries no token. No field of a request is read.

A connection whose client certificate has the role node is that node and nothing else: a token sent over it is ignored,
so a stolen node key cannot be turned into a user. Any other connection is the user that its token names, or
unauthenticated.

A JSON web token (usertokens.py) proves its user wherever it comes from, with all rights of that user. A call that carries
both kinds of token is the user of the JSON web token.

A personal token has a scope, which is a bound of both `role` and `reach` (SCOPE_REACH). The token of a session has one job
(`Peer.session_job_id`): rights.py leaves it two methods, which look at the job, and it is for nobody but its owner, as a
plain user.

A token that a node signed is valid only for a user with a job on that node (TokenVerifier.has_job). Root on a node needs
no job to drain that node, as a HealthCheckProgram does (`Peer.root_of`). Beyond that neither a node nor
a login host can assert an administrator or operator: these roles do not apply there, and users with such a role have
fewer rights there than others. A job of root runs as root on every node, and an operator's job may have access to the
controller's socket: a stolen key must not allow their submission. `Reach` lists the remaining rights.

A token's uid is trusted; the names and groups that go with it are looked up on this machine, in a process of their own
(runtime/lookups.py), and cached for a minute. A token's gid counts only if that user is in the group here. Who cannot be
looked up now is asked to come again: without the names the rights are not known.

Tokens are for one use, so a call is authenticated once, by the gate in entry.py; handlers use `caller()` or
`calling_node()`. The gate asks for the caller `again` when the request is there, before each message of a stream, and
before the answer of a call that waits (rights.py): what it was proven by may have ended, and the user's role changed.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec
from cryptography import x509

from ctld.core.records.accounting_rows import UserRow
from ctld.core.records.events import Actor, Role
from ctld.core.records.personal_token import PersonalToken
from ctld.rpc.gate.context import Context, address_of
from ctld.rpc.gate.localcall import LocalCall
from ctld.rpc.gate.provenwaits import ProvenWaits
from ctld.rpc.gate.usertokens import Proven, UserTokens, presented
from ctld.runtime.answercache import AnswerCache
from ctld.runtime.lookups import LookupFailed, Lookups
from penstock.calls import TOKEN_KEY
from penstock.security.ca import BadCertificate, CertifiedIdentity, check_certificate
from penstock.security.jwtkeys import JwtRefused
from penstock.security.tokens import Caller as VouchedUser
from penstock.security.tokens import TokenRefused, TokenVerifier
from penstock.values.config import Config
from penstock.values.scopes import Scope

#: Cached parsed client certificates: one for each node, with a margin.
CERTIFICATES_MAX: Final = 10_000
#: How a user was authenticated, by the role of the host that vouches for them.
VIA: Final = {"controller": "socket", "login": "token of a login host", "node": "token of a node"}
VIA_USER_TOKEN: Final = "JSON web token"  # noqa: S105 (a word of the audit log)
VIA_PERSONAL_TOKEN: Final = "personal token"  # noqa: S105 (and its name follows)
VIA_SESSION_TOKEN: Final = "token of a session"  # noqa: S105 (a word of the audit log)
_UNKNOWN_USER: Final = "the controller's machine does not know the token's user"
#: In place of a uid: the user of a token, while it is looked up.
_UNKNOWN_UID: Final = -1
#: A group that no caller has: the user's primary one counts.
NO_GID: Final = 0xFFFFFFFF


class Reach(IntEnum):
    """The rights of a caller that the vouching host's authority allows."""

    NODE = 0  # root on a node where root has no job: OWN_NODE and what that needs to know of nodes
    LOOK = 1  # root, SlurmUser, and from a login host all users with a role: read-only methods
    STEPS = 2  # operators and administrators from a node where they have a job: also methods of its steps
    JOBS = 3  # the holder of a personal token with the scope submit: also methods about the user's own jobs
    ALL = 4  # all rights of their role


#: The rights that the scope of a personal token leaves.
SCOPE_REACH: Final = {Scope.READ: Reach.LOOK, Scope.SUBMIT: Reach.JOBS, Scope.ADMIN: Reach.ALL}


class Grounds(NamedTuple):
    """By what a user is proven, and from which address."""

    proof: Proven | VouchedUser
    address: str


class Peer(msgspec.Struct, frozen=True):
    """The other side of a call: a user, a node, or unauthenticated, with the reason."""

    actor: Actor | None = None
    node: str | None = None
    why_nobody: str = ""
    #: unauthenticated for a temporary reason: the caller may try again
    passing: bool = False
    reach: Reach = Reach.ALL
    root_of: str = ""  # root on this node, by the node's token
    ends_at_us: int = 0  # the end of a node's certificate, or of a user's JSON web token; 0 = open
    serial: int = 0  # of a node's certificate
    grounds: Grounds | None = None  # of a user with a token
    why_less: str = ""  # what bounds `reach`; "" = who vouches
    session_job_id: int = 0  # by a token that reaches the session of this job alone; 0 = by any other proof


class User(msgspec.Struct, frozen=True):
    """The identity of a uid on this machine."""

    name: str
    gid: int
    group_names: dict[int, str]  # by gid; the primary group and all others


@dataclass(frozen=True, slots=True)
class Roles:
    """The users with more than a user's rights. Replaced as a whole when the configuration is; accounting's levels
    count at once.
    """

    administrators: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    administrator_uids: frozenset[int] = frozenset({0})
    slurm_user: str = "root"
    people: Mapping[str, UserRow] = field(default_factory=dict)  # of the last whole change

    @classmethod
    def of(cls, config: Config, people: Mapping[str, UserRow]) -> "Roles":
        """Builds the roles: root, the user that runs the controller, SlurmUser, the two lists, and users with a level
        from sacctmgr.
        """
        administrators = frozenset((config.slurm_user, *config.penstock_administrators))
        operators, uids = frozenset(config.penstock_operators), frozenset((0, os.geteuid()))
        return cls(administrators, operators, uids, config.slurm_user, people)

    def role(self, uid: int, name: str) -> Role:
        """Returns the role of this user: the highest that applies."""
        if uid in self.administrator_uids or name in self.administrators:
            return Role.ADMINISTRATOR
        person = self.people.get(name)
        given = Role(person.admin_level) if person is not None else Role.USER
        return max(given, Role.OPERATOR) if name in self.operators else given

    def reach(self, actor: Actor, signer_role: str, has_job: bool = True) -> Reach:
        """Returns the rights that a host with that role may assert for this user."""
        if not has_job:
            return Reach.NODE
        if signer_role == "controller" or actor.role is Role.USER:
            return Reach.ALL
        is_system = actor.uid in self.administrator_uids or actor.user_name == self.slurm_user
        return Reach.STEPS if signer_role == "node" and not is_system else Reach.LOOK


class UserDirectory:
    """A cache of users and groups of this machine."""

    def __init__(self, clock_us: Callable[[], int], lookups: Lookups) -> None:
        self.lookups = lookups
        self._users: AnswerCache[int, User | None] = AnswerCache(clock_us)
        self._groups: AnswerCache[int, str] = AnswerCache(clock_us)
        self._uids: AnswerCache[str, int | None] = AnswerCache(clock_us)

    async def uid_of(self, name: str) -> int | None:
        """Returns the uid of a user that a token names; None for an unknown one. Raises LookupFailed."""
        return await self._uids.get(_UNKNOWN_UID, name, lambda: self.lookups.caller_uid(name, _UNKNOWN_UID))

    async def find(self, uid: int, gid: int) -> User:
        """Returns the identity of this uid; an unknown one gets its numbers for names, and the group of this call. Raises
        LookupFailed."""
        user = await self._users.get(uid, uid, lambda: self._user(uid))
        return user or User(str(uid), gid, {gid: await self.group_name(gid, uid)})

    async def group_name(self, gid: int, for_uid: int) -> str:
        """Returns the group's name, or its number when it has none here. Raises LookupFailed."""
        return await self._groups.get(for_uid, gid, lambda: self._group(gid, for_uid))

    async def _user(self, uid: int) -> User | None:
        account = await self.lookups.account(uid)
        return User(account.name, account.gid, dict(account.groups)) if account is not None else None

    async def _group(self, gid: int, for_uid: int) -> str:
        return await self.lookups.group_name(gid, for_uid) or str(gid)

    def clear(self) -> None:
        """Empties the cache (after a reload)."""
        self._users.clear()
        self._groups.clear()
        self._uids.clear()


class Authenticator:
    """Authenticates calls. `roles` and `denied` may be replaced while it works."""

    def __init__(
        self,
        verifier: TokenVerifier,
        ca: x509.Certificate,
        cluster: str,
        roles: Roles,
        clock_us: Callable[[], int],
        lookups: Lookups,
        denied: frozenset[int] = frozenset(),
        host: str = "",
        user_tokens: UserTokens | None = None,
    ) -> None:
        """`host`: the controller's name, the origin of its own users in the audit log. `user_tokens`: None = there are
        none."""
        self.roles = roles
        self.user_tokens = user_tokens or UserTokens({}, clock_us)
        self._host = host
        self.directory = UserDirectory(clock_us, lookups)
        self.waits: ProvenWaits[Peer] = ProvenWaits(clock_us)
        self._verifier = verifier
        self._ca = ca
        self._cluster = cluster
        self._clock_us = clock_us
        self._certificates: dict[bytes, x509.Certificate] = {}
        self.deny(denied)

    def deny(self, serials: frozenset[int]) -> None:
        """Sets the certificates that are no longer accepted."""
        self._denied = self._verifier.denied = serials

    async def identify(self, context: Context) -> Peer:
        """Authenticates the caller of this call. Consumes the call's token: once per call."""
        return await _or_nobody(self._identified(context))

    async def again(self, peer: Peer) -> Peer:
        """Returns the caller of an earlier call with the rights of this moment: unauthenticated, with the reason, if what
        proved the user does not hold any more."""
        return peer if peer.grounds is None else await _or_nobody(self._proven_again(peer.grounds))

    async def end_waits(self) -> None:
        """Ends the waits of callers whose token was revoked: what they wait for does not begin."""

        async def is_over(peer: Peer) -> bool:
            return (await self.again(peer)).actor is None

        await self.waits.end_those(is_over)

    async def _identified(self, context: Context) -> Peer:
        if isinstance(context, LocalCall) and not context.proof:
            return Peer(await self.actor(context.uid, context.gid, VIA["controller"], self._host))
        pem = context.auth_context().get("x509_pem_cert")
        if pem:
            try:
                identity, certificate = self._certified(bytes(next(iter(pem))))
            except BadCertificate as error:
                return Peer(why_nobody=str(error))
            if identity.role == "node":
                end_us = int(certificate.not_valid_after_utc.timestamp()) * 1_000_000
                return Peer(node=identity.name, ends_at_us=end_us, serial=certificate.serial_number)
        metadata = tuple(context.invocation_metadata() or ())
        proof = presented(metadata)
        if proof is not None:
            peer = await self._proven(self.user_tokens.verify(proof), context.peer())
            self._note_use(peer)
            return peer
        token = next((v for k, v in metadata if k == TOKEN_KEY), None)
        if token is None:
            return Peer(why_nobody="the call carries no token")
        said = self._verifier.verify(token if isinstance(token, bytes) else token.encode(), self._clock_us())
        return await self._vouched(said, context.peer())

    async def _proven_again(self, grounds: Grounds) -> Peer:
        """Raises JwtRefused, TokenRefused, LookupFailed."""
        proof, address = grounds
        if isinstance(proof, Proven):
            return await self._proven(self.user_tokens.verify_again(proof), address)
        return await self._vouched(self._verifier.verify_again(proof), address)

    async def _vouched(self, said: VouchedUser, address: str) -> Peer:
        """Returns the user of a host's token. Raises LookupFailed."""
        origin = said.host if address.startswith("unix:") else f"{said.host} {address}"
        actor = await self.actor(said.uid, said.gid, VIA.get(said.role, said.role), origin)
        reach = self.roles.reach(actor, said.role, said.has_job)
        root_of = said.host if said.role == "node" and said.uid == 0 else ""
        known = actor if reach is Reach.ALL else msgspec.structs.replace(actor, role=Role.USER)
        return Peer(known, reach=reach, root_of=root_of, grounds=Grounds(said, address))

    async def _proven(self, proven: Proven, address: str) -> Peer:
        """Returns the user of a JSON web token. Raises JwtRefused, LookupFailed."""
        owner = actor = await self._named(proven.user_name, address)
        if proven.session_job_id:
            return self._of_session(owner, proven, address)
        if proven.wanted != proven.user_name:
            if owner.uid not in self.roles.administrator_uids and owner.user_name != self.roles.slurm_user:
                raise JwtRefused("user", "the token is another user's")
            actor = await self._named(proven.wanted, f"{address} by {owner.user_name}")
        token = self.user_tokens.check_revoked(proven, owner.user_name)
        if token is None:
            return Peer(actor, ends_at_us=proven.ends_at_us, grounds=Grounds(proven, address))
        return _scoped(actor, token, proven, address)

    def _of_session(self, owner: Actor, proven: Proven, address: str) -> Peer:
        """Returns the user of the token of a session. Raises JwtRefused."""
        if proven.wanted != proven.user_name:
            raise JwtRefused("user", "the token of a session is for nobody but its owner")
        self.user_tokens.check_revoked(proven, owner.user_name)  # and the personal token by which it was made
        known = msgspec.structs.replace(owner, role=Role.USER, via=VIA_SESSION_TOKEN)
        return Peer(
            known, ends_at_us=proven.ends_at_us, grounds=Grounds(proven, address), session_job_id=proven.session_job_id
        )

    def _note_use(self, peer: Peer) -> None:
        """Tells of the use of a personal token."""
        uses, grounds = self.user_tokens.uses, peer.grounds
        if uses is None or peer.actor is None or grounds is None or not isinstance(grounds.proof, Proven):
            return
        if grounds.proof.token_id:
            uses.note(peer.actor, grounds.proof.token_id, address_of(grounds.address))

    async def _named(self, name: str, origin: str) -> Actor:
        """Returns the user of that name. Raises JwtRefused, LookupFailed."""
        uid = await self.directory.uid_of(name)
        actor = await self.actor(uid, NO_GID, VIA_USER_TOKEN, origin) if uid is not None else None
        if actor is None or actor.gid == NO_GID:
            raise JwtRefused("user", _UNKNOWN_USER)
        return actor

    async def actor(self, uid: int, gid: int, via: str = "", origin: str = "") -> Actor:
        """Returns the user as the core's actor. `via`, `origin`: how they are authenticated, and from where, for the
        audit log. Raises LookupFailed."""
        user = await self.directory.find(uid, gid)
        if gid not in user.group_names:
            gid = user.gid
        groups = tuple(user.group_names.values())
        role = self.roles.role(uid, user.name)
        return Actor(uid, gid, user.name, user.group_names[gid], groups, role, via, origin)

    def _certified(self, pem: bytes) -> tuple[CertifiedIdentity, x509.Certificate]:
        """Returns the identity and the certificate. TLS has checked the chain; the term and the deny list are
        checked at every call."""
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
        return identity, certificate


def _scoped(actor: Actor, token: PersonalToken, proven: Proven, address: str) -> Peer:
    """Returns the user of a personal token with the rights of its scope. Raises JwtRefused."""
    scope = Scope(token.scope)
    if proven.wanted != proven.user_name and scope is not Scope.ADMIN:
        raise JwtRefused("user", f"the token is for {scope.name.lower()}, and for nobody but its owner")
    role = actor.role if scope is Scope.ADMIN else Role.USER
    known = msgspec.structs.replace(actor, role=role, via=f"{VIA_PERSONAL_TOKEN} {token.name}")
    why = "" if scope is Scope.ADMIN else f"the scope of the token {token.name!r} is {scope.name.lower()}"
    grounds = Grounds(proven, address)
    return Peer(known, reach=SCOPE_REACH[scope], ends_at_us=proven.ends_at_us, grounds=grounds, why_less=why)


async def _or_nobody(authenticated: Awaitable[Peer]) -> Peer:
    """Returns the peer, or an unauthenticated one with the reason."""
    try:
        return await authenticated
    except LookupFailed as error:
        return Peer(why_nobody=error.text, passing=True)
    except JwtRefused as error:
        return Peer(why_nobody=error.explanation)
    except TokenRefused as error:
        return Peer(why_nobody=error.explanation, passing=error.passing)


_peer: ContextVar[Peer] = ContextVar("penstock_peer")


def set_peer(peer: Peer) -> None:
    """Stores the caller of this task's call. For the gate only."""
    _peer.set(peer)


def current_peer() -> Peer:
    """Returns the caller of this task's call. LookupError when the gate was not passed: a programming error."""
    return _peer.get()


def caller() -> Actor:
    """Returns the user who makes this task's call."""
    actor = current_peer().actor
    if actor is None:
        raise LookupError("this method is not called by users: its entry in RIGHTS is wrong")
    return actor


def calling_node() -> str:
    """Returns the node whose daemon makes this task's call."""
    node = current_peer().node
    if node is None:
        raise LookupError("this method is not called by nodes: its entry in RIGHTS is wrong")
    return node
