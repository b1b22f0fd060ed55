"""A personal token: a JSON web token with a name, a scope and a record, so that its owner sees it and may revoke it alone."""

from typing import NamedTuple


class PersonalToken(NamedTuple):
    """The record of a personal token, which does not contain the token; without it the token is not valid. Primary key
    token_id."""

    # made by tools/records: row of personal_token
    token_id: str  # the claim of the token that refers to it
    user_name: str
    name: str  # unique among those of its user
    scope: int  # penstock.values.scopes.Scope
    created_at_us: int
    ends_at_us: int
    used_at_us: int = 0  # when a use was last noted; 0 = never
    used_from: str = ""  # the address of that use
    # end of what is made
