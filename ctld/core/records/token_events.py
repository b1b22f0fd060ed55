"""Events about users' JSON web tokens; events.py has them with all others."""

from ctld.core.records.event_base import Actor, Event
from penstock.values.scopes import Scope


class RevokeTokens(Event, frozen=True):
    """scontrol token revoke: JSON web tokens that were issued until now are no longer valid."""

    actor: Actor
    user_name: str  # "" = everybody
    reply_to: int = 0


class CreatePersonalToken(Event, frozen=True):
    """penstock token create: the record of a token that is made once this is durable."""

    actor: Actor
    token_id: str  # random: the core makes none
    name: str
    scope: Scope
    ends_at_us: int
    reply_to: int = 0


class RevokePersonalToken(Event, frozen=True):
    """penstock token revoke: a personal token is no longer valid."""

    actor: Actor
    user_name: str
    name: str
    reply_to: int = 0


class PersonalTokenUsed(Event, frozen=True):
    """The gate has accepted a personal token from an address from which it was not used in the last hour."""

    actor: Actor
    token_id: str
    address: str
