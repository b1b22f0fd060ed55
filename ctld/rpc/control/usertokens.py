"""The Controller service's methods of JSON web tokens: `scontrol token`, `penstock token`.

The gate accepts them (gate/usertokens.py).
"""

import secrets
from typing import Final

from ctld.core.records.events import Actor, CreatePersonalToken, RevokePersonalToken, RevokeTokens, Role
from ctld.core.records.personal_token import PersonalToken
from ctld.rpc.control.administration import Administration
from ctld.rpc.gate.auth import VIA, Authenticator, caller, current_peer
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import translated
from ctld.rpc.gate.usertokens import Proven
from ctld.runtime.errors import BadRequest
from penstock.security.jwt import LIFESPAN_DEFAULT_S, LIFESPAN_MAX_S, SigningKey
from penstock.v1 import controller_pb2
from penstock.values.config import Config
from penstock.values.refusals import TEXT, Code
from penstock.values.scopes import Scope
from penstock.values.states import END_STATES

#: Callers who get no token, and why.
_ALREADY_BY_ONE: Final = "a token makes no other one, since it would never end"
_NOT_BY_NODE: Final = (
    "a node speaks for its users while they have jobs on it, and a token would outlive them: run it on the controller's "
    "machine or on a login host"
)
#: Of AuthAltParameters: users make no tokens.
_NO_CREATION: Final = "disable_token_creation"
_NONE_GIVEN: Final = (
    "users of this cluster make no tokens: enter the session with a token that an administrator has given you"
)
_ENDS: Final = "the token by which the session was entered has ended"
#: Of a personal token.
PERSONAL_LIFESPAN_DEFAULT_S: Final = 30 * 86400
PERSONAL_LIFESPAN_MAX_S: Final = 366 * 86400
#: Of the token of a session, which is renewed while it is in use.
SESSION_LIFESPAN_MAX_S: Final = 3600
#: Random bytes of an id; as a secret it would be too short, and the token's signature is what proves.
_ID_BYTES: Final = 12


class TokenMethods(Administration):
    """Methods of the service."""

    _authenticator: Authenticator

    @translated
    async def IssueToken(
        self, request: controller_pb2.IssueTokenRequest, context: Context
    ) -> controller_pb2.IssueTokenReply:
        """scontrol token; and the token of a session, for its owner alone."""
        actor = caller()
        if request.session_job_id or current_peer().session_job_id:
            return self._session_token(request, actor)
        name = request.for_user or actor.user_name
        if name != actor.user_name:
            if actor.role < Role.ADMINISTRATOR:
                raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
            name = await self._user_name(name)
        _check_may_have_one()
        config = self._services.runtime.core.state.config
        lifespan_s = _lifespan_s(config, request.lifespan_s, actor.role, LIFESPAN_DEFAULT_S, LIFESPAN_MAX_S)
        signing = self._signing(config)
        token = signing.make(name, self._services.user_tokens.issue_at_s(name), lifespan_s, config.cluster_name)
        if name != actor.user_name:
            await self._services.record("issue token", (f"user {name}",), asked={"lifespan_s": lifespan_s})
        return controller_pb2.IssueTokenReply(token=token)

    def _session_token(self, request: controller_pb2.IssueTokenRequest, actor: Actor) -> controller_pb2.IssueTokenReply:
        """The token that reaches the session of one job. Unlike others it may be made by a token, also by one of its own
        kind: it ends with its job, and by the same revocations, that of a personal token included. Raises BadRequest."""
        runtime = self._services.runtime
        job_id = request.session_job_id
        peer = current_peer()
        job = runtime.snapshot.jobs.get(job_id)
        proven = peer.grounds.proof if peer.grounds and isinstance(peer.grounds.proof, Proven) else None
        speaks_for_another = request.for_user or (proven is not None and proven.wanted != proven.user_name)
        is_other = peer.session_job_id not in (0, job_id) or actor.via == VIA["node"] or speaks_for_another
        if job is None or job.user_id != actor.uid or is_other:  # whether there is such a job is not told
            raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: job {job_id} is no session of yours")
        if job.state in END_STATES:
            raise BadRequest(Code.INVALID_JOB_ID, f"{TEXT[Code.INVALID_JOB_ID]}: job {job_id} has ended")
        lifespan_s = request.lifespan_s or SESSION_LIFESPAN_MAX_S
        if not 0 < lifespan_s <= SESSION_LIFESPAN_MAX_S:
            text = f"{TEXT[Code.INVALID_VALUE]}: lifespan {lifespan_s}: the limit is {SESSION_LIFESPAN_MAX_S} s"
            raise BadRequest(Code.INVALID_VALUE, text)
        name, config = actor.user_name, runtime.core.state.config
        issue_at_s = self._services.user_tokens.issue_at_s(name)
        until_s = _session_until_s(config, actor.role, proven)
        if until_s:
            lifespan_s = min(lifespan_s, until_s - int(issue_at_s))
        if lifespan_s <= 0:
            raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {_ENDS}")
        token_id = proven.token_id if proven is not None else ""
        signing = self._signing(config)
        token = signing.make(
            name, issue_at_s, lifespan_s, config.cluster_name, token_id, session_job_id=job_id, until_s=until_s
        )
        ends_at_us = (int(issue_at_s) + lifespan_s) * 1_000_000
        return controller_pb2.IssueTokenReply(token=token, ends_at_us=ends_at_us)

    @translated
    async def RevokeTokens(self, request: controller_pb2.RevokeTokensRequest, context: Context) -> controller_pb2.Empty:
        """scontrol token revoke."""
        actor = caller()
        if request.everybody and request.for_user:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: a user, or everybody")
        name = "" if request.everybody else request.for_user or actor.user_name
        if name not in ("", actor.user_name) and actor.role is Role.ADMINISTRATOR:
            name = await self._user_name(name)
        await self._services.ask(RevokeTokens(actor, name, self._services.runtime.new_reply_to()), context)
        await self._authenticator.end_waits()
        return controller_pb2.Empty()

    @translated
    async def CreatePersonalToken(
        self, request: controller_pb2.CreatePersonalTokenRequest, context: Context
    ) -> controller_pb2.CreatePersonalTokenReply:
        """penstock token create."""
        actor = caller()
        _check_may_have_one()
        if not request.name:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: the token needs a name")
        if int(request.scope) not in list(Scope):
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: the scope is read, submit or admin")
        config = self._services.runtime.core.state.config
        signing = self._signing(config)
        lifespan_s = _lifespan_s(
            config, request.lifespan_s, actor.role, PERSONAL_LIFESPAN_DEFAULT_S, PERSONAL_LIFESPAN_MAX_S
        )
        issue_at_s = self._services.user_tokens.issue_at_s(actor.user_name)
        token_id, ends_at_us = secrets.token_urlsafe(_ID_BYTES), (int(issue_at_s) + lifespan_s) * 1_000_000
        await self._services.ask(
            CreatePersonalToken(
                actor, token_id, request.name, Scope(request.scope), ends_at_us, self._services.runtime.new_reply_to()
            ),
            context,
        )
        token = signing.make(actor.user_name, issue_at_s, lifespan_s, config.cluster_name, token_id)
        return controller_pb2.CreatePersonalTokenReply(token=token, ends_at_us=ends_at_us)

    @translated
    async def ListPersonalTokens(
        self, request: controller_pb2.ListPersonalTokensRequest, context: Context
    ) -> controller_pb2.ListPersonalTokensReply:
        """penstock token list."""
        actor = caller()
        name = request.user or actor.user_name
        if (request.everybody or name != actor.user_name) and actor.role < Role.ADMINISTRATOR:
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        if name != actor.user_name:
            name = await self._user_name(name)
        tokens = self._services.runtime.core.state.personal_tokens
        found = list(tokens.by_id.values()) if request.everybody else tokens.of_user(name)
        return controller_pb2.ListPersonalTokensReply(tokens=map(_info, found))

    @translated
    async def RevokePersonalToken(
        self, request: controller_pb2.RevokePersonalTokenRequest, context: Context
    ) -> controller_pb2.Empty:
        """penstock token revoke."""
        actor = caller()
        name = request.for_user or actor.user_name
        if name != actor.user_name and actor.role is Role.ADMINISTRATOR:
            name = await self._user_name(name)
        reply_to = self._services.runtime.new_reply_to()
        await self._services.ask(RevokePersonalToken(actor, name, request.name, reply_to), context)
        await self._authenticator.end_waits()
        return controller_pb2.Empty()

    def _signing(self, config: Config) -> SigningKey:
        """Returns the key that makes tokens. Raises BadRequest."""
        tokens = self._services.user_tokens
        if tokens.keys.signing is None:
            raise BadRequest(Code.NO_TOKEN, f"{TEXT[Code.NO_TOKEN]}: {_why_none(config, tokens.problem)}")
        return tokens.keys.signing

    async def _user_name(self, name: str) -> str:
        """Returns the name by which tokens of a user are known: the system may know others, or the number. Raises
        BadRequest."""
        uid = await self._services.names.uid(name)
        found = await self._services.names.name(uid) if uid is not None else ""
        if uid is None or found == str(uid):
            raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: {name[:64]}")
        return found


def _check_may_have_one() -> None:
    """Checks that the caller may make a token, by how they were authenticated. Raises BadRequest."""
    grounds = current_peer().grounds
    is_token = grounds is not None and isinstance(grounds.proof, Proven)
    why = _ALREADY_BY_ONE if is_token else _NOT_BY_NODE if caller().via == VIA["node"] else ""
    if why:
        raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {why}")


def _session_until_s(config: Config, role: Role, proven: Proven | None) -> int:
    """Returns the time after which no token of the session is valid; 0 = there is none. Where users may not make tokens, a
    session's is part of the one that they were given, and ends with it. Raises BadRequest."""
    if proven is not None and proven.session_job_id:  # it is renewed: an administrator has no role by it
        return proven.until_s
    if role >= Role.ADMINISTRATOR or not config.has_word("auth_alt_parameters", _NO_CREATION):
        return 0
    if proven is None:
        raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {_NONE_GIVEN}")
    return proven.ends_at_us // 1_000_000


def _info(token: PersonalToken) -> controller_pb2.PersonalTokenInfo:
    return controller_pb2.PersonalTokenInfo(
        user=token.user_name,
        name=token.name,
        scope=f"TOKEN_SCOPE_{Scope(token.scope).name}",
        created_at_us=token.created_at_us,
        ends_at_us=token.ends_at_us,
        used_at_us=token.used_at_us,
        used_from=token.used_from,
    )


def _lifespan_s(config: Config, asked_s: int, role: Role, default_s: int, max_s: int) -> int:
    """Returns the life of a new token. Raises BadRequest."""
    if config.has_word("auth_alt_parameters", _NO_CREATION) and role < Role.ADMINISTRATOR:
        raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
    most = config.word_value("auth_alt_parameters", "max_token_lifespan")
    most_s = int(most) if most.isascii() and most.isdigit() and role < Role.ADMINISTRATOR else max_s
    limit_s = min(most_s, max_s)
    lifespan_s = asked_s or min(default_s, most_s)
    if not 0 < lifespan_s <= limit_s:
        text = f"{TEXT[Code.INVALID_VALUE]}: lifespan {lifespan_s}: the limit is {limit_s} s"
        raise BadRequest(Code.INVALID_VALUE, text)
    return lifespan_s


def _why_none(config: Config, problem: str) -> str:
    if not config.has_word("auth_alt_types", "auth/jwt"):
        return "AuthAltTypes=auth/jwt is not set"
    return problem or "AuthAltParameters=jwt_key=FILE is not set"
