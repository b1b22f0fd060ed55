"""scontrol token revoke: JSON web tokens that were issued until now are no longer valid.

A token is not known before it is presented, so what is kept is a time: of a user, or of everybody. A token without a
time of issue is not valid once its user has a revocation. Reading and making tokens is not the core's
(ctld/rpc/gate/usertokens.py).
"""

from ctld.core.queue.rights import require_role
from ctld.core.records.effects import Done
from ctld.core.records.events import RevokeTokens, Role
from ctld.core.state.state import ClusterState


def revoke_tokens(state: ClusterState, now_us: int, event: RevokeTokens) -> None:
    """Handles a revocation. Raises Refused."""
    if event.user_name != event.actor.user_name:
        require_role(event.actor, Role.ADMINISTRATOR, "revoking another user's tokens")
    state.applying()
    state.revoked.revoke(event.user_name, now_us)
    whose = f"user {event.user_name}" if event.user_name else "all users"
    state.audit.note(now_us, event.actor, "revoke tokens", (whose,))
    state.reply(event.reply_to, Done())
