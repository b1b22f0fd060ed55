"""The Controller service's methods of JSON web tokens: `scontrol token`. The gate accepts them (gate/usertokens.py)."""

from typing import Final

from ctld.core.records.events import RevokeTokens, Role
from ctld.rpc.control.administration import Administration
from ctld.rpc.gate.auth import VIA, VIA_USER_TOKEN, Authenticator, caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import translated
from ctld.runtime.errors import BadRequest
from penstock.security.jwt import LIFESPAN_DEFAULT_S, LIFESPAN_MAX_S
from penstock.v1 import controller_pb2
from penstock.values.config import Config
from penstock.values.refusals import TEXT, Code

#: Callers who get no token, and why, by how they were authenticated.
_NOT_BY: Final = {
    VIA_USER_TOKEN: "a token makes no other one, since it would never end",
    VIA[
        "node"
    ]: "a node speaks for its users while they have jobs on it, and a token would outlive them: run it on the "
    "controller's machine or on a login host",
}


class TokenMethods(Administration):
    """Methods of the service."""

    _authenticator: Authenticator

    @translated
    async def IssueToken(
        self, request: controller_pb2.IssueTokenRequest, context: Context
    ) -> controller_pb2.IssueTokenReply:
        """scontrol token."""
        actor = caller()
        name = request.for_user or actor.user_name
        if name != actor.user_name:
            if actor.role < Role.ADMINISTRATOR:
                raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
            name = await self._user_name(name)
        if actor.via in _NOT_BY:
            raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {_NOT_BY[actor.via]}")
        config = self._services.runtime.core.state.config
        lifespan_s = _lifespan_s(config, request.lifespan_s, actor.role)
        tokens = self._services.user_tokens
        if tokens.keys.signing is None:
            raise BadRequest(Code.NO_TOKEN, f"{TEXT[Code.NO_TOKEN]}: {_why_none(config, tokens.problem)}")
        token = tokens.keys.signing.make(name, tokens.issue_at_s(name), lifespan_s, config.cluster_name)
        if name != actor.user_name:
            await self._services.record("issue token", (f"user {name}",), asked={"lifespan_s": lifespan_s})
        return controller_pb2.IssueTokenReply(token=token)

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
        await self._authenticator.waits.end_revoked(self._authenticator.again)
        return controller_pb2.Empty()

    async def _user_name(self, name: str) -> str:
        """Returns the name by which tokens of a user are known: the system may know others, or the number. Raises
        BadRequest."""
        uid = await self._services.names.uid(name)
        found = await self._services.names.name(uid) if uid is not None else ""
        if uid is None or found == str(uid):
            raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: {name[:64]}")
        return found


def _lifespan_s(config: Config, asked_s: int, role: Role) -> int:
    """Returns the life of a new token. Raises BadRequest."""
    if config.has_word("auth_alt_parameters", "disable_token_creation") and role < Role.ADMINISTRATOR:
        raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
    most = config.word_value("auth_alt_parameters", "max_token_lifespan")
    most_s = int(most) if most.isascii() and most.isdigit() and role < Role.ADMINISTRATOR else LIFESPAN_MAX_S
    lifespan_s = asked_s or min(LIFESPAN_DEFAULT_S, most_s)
    if not 0 < lifespan_s <= min(most_s, LIFESPAN_MAX_S):
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: lifespan {lifespan_s}")
    return lifespan_s


def _why_none(config: Config, problem: str) -> str:
    if not config.has_word("auth_alt_types", "auth/jwt"):
        return "AuthAltTypes=auth/jwt is not set"
    return problem or "AuthAltParameters=jwt_key=FILE is not set"
