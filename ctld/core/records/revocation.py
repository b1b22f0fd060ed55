"""The revocation of a user's JSON web tokens."""

from typing import NamedTuple


class TokenRevocation(NamedTuple):
    """Tokens of this user that were issued until then are not valid. Primary key user_name."""

    # made by tools/records: row of token_revocation
    user_name: str  # "" = everybody
    at_us: int
    # end of what is made
