"""JSON web tokens: revocations, and the records of personal tokens.

A token is not known before it is presented, so `scontrol token revoke` keeps a time: of a user, or of everybody. A token
without a time of issue is not valid once its user has a revocation. A personal token has a record as well, and is valid as
long as that is there. Reading and making tokens is not the core's (ctld/rpc/gate/usertokens.py).
"""

from typing import Final

from ctld.core.queue.rights import require_role
from ctld.core.records.effects import Done, Refused
from ctld.core.records.events import CreatePersonalToken, PersonalTokenUsed, RevokePersonalToken, RevokeTokens, Role
from ctld.core.records.personal_token import PersonalToken
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code

#: Of one user, expired ones not counted: each program or machine may have its own.
PERSONAL_TOKENS_MAX: Final = 100
_OF_ANOTHER: Final = "revoking another user's tokens"


def revoke_tokens(state: ClusterState, now_us: int, event: RevokeTokens) -> None:
    """Handles a revocation. Raises Refused."""
    if event.user_name != event.actor.user_name:
        require_role(event.actor, Role.ADMINISTRATOR, _OF_ANOTHER)
    tokens = state.personal_tokens
    state.applying()
    state.revoked.revoke(event.user_name, now_us)
    for token in tokens.of_user(event.user_name) if event.user_name else list(tokens.by_id.values()):
        tokens.remove(token)
    whose = f"user {event.user_name}" if event.user_name else "all users"
    state.audit.note(now_us, event.actor, "revoke tokens", (whose,))
    state.reply(event.reply_to, Done())


def create_personal_token(state: ClusterState, now_us: int, event: CreatePersonalToken) -> None:
    """Handles the creation of the record, in which an expired one of the same name is replaced. Raises Refused."""
    actor, tokens = event.actor, state.personal_tokens
    present = tokens.of_user(actor.user_name)
    expired = [token for token in present if token.ends_at_us <= now_us]
    if len(present) - len(expired) >= PERSONAL_TOKENS_MAX:
        text = f"the limit is {PERSONAL_TOKENS_MAX} personal tokens of a user: revoke some (penstock token list)"
        raise Refused(Code.INVALID_VALUE, text)
    if any(token.name == event.name for token in present if token not in expired):
        raise Refused(Code.INVALID_VALUE, f"there is a token {event.name!r} already: revoke it first")
    state.applying()
    for token in expired:
        tokens.remove(token)
    scope, ends_at_us = event.scope, event.ends_at_us
    tokens.put(PersonalToken(event.token_id, actor.user_name, event.name, int(scope), now_us, ends_at_us))
    asked = {"scope": scope.name.lower(), "lifespan_s": (ends_at_us - now_us) // 1_000_000}
    state.audit.note(now_us, actor, "create token", (_object(actor.user_name, event.name),), asked=asked)
    state.reply(event.reply_to, Done())


def revoke_personal_token(state: ClusterState, now_us: int, event: RevokePersonalToken) -> None:
    """Handles the end of one. Raises Refused."""
    if event.user_name != event.actor.user_name:
        require_role(event.actor, Role.ADMINISTRATOR, _OF_ANOTHER)
    token = state.personal_tokens.find(event.user_name, event.name)
    if token is None:
        raise Refused(Code.INVALID_VALUE, f"{event.user_name} has no token {event.name!r}")
    state.applying()
    state.personal_tokens.remove(token)
    state.audit.note(now_us, event.actor, "revoke token", (_object(token.user_name, token.name),))
    state.reply(event.reply_to, Done())


def note_use(state: ClusterState, now_us: int, event: PersonalTokenUsed) -> None:
    """Notes when and from where a token was used. It may have been revoked meanwhile."""
    token = state.personal_tokens.by_id.get(event.token_id)
    state.applying()
    if token is None:
        return
    state.personal_tokens.put(token._replace(used_at_us=now_us, used_from=event.address))
    state.audit.note(now_us, event.actor, "use token", (_object(token.user_name, token.name),))


def _object(user_name: str, name: str) -> str:
    return f"token {name} of {user_name}"
