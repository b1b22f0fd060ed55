"""JSON web tokens of callers (auth/jwt): which user a call's token proves.

A token comes in the metadata of a call, under Slurm's names or as a bearer token (RFC 6750). The gate accepts it over TLS
and over the controller's Unix socket, from every host. It proves the user, with all rights of that user: unlike the
signature of a node or a login host it was made with the site's own key. A token of root or SlurmUser may name any other
user, as in Slurm; the caller then is that user, and has that user's rights only (auth.py).

A personal token (penstock token) names its record, which has its scope; without the record it is not valid.

Keys are read at the start and when the configuration is read again. What is known of a token from an earlier call is its
signature and its text (penstock/security/jwtkeys.py): a revocation, the end of the token and other keys count at once.
"""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from ctld.core.records.personal_token import PersonalToken
from ctld.rpc.gate.tokenuses import TokenUses
from penstock.calls import USER_NAME_KEY, USER_TOKEN_KEY
from penstock.errors import BadSetup
from penstock.security.jwt import BadKey, SigningKey, read_key_file, read_signing_key
from penstock.security.jwtkeys import CLOCK_SKEW_S, JwtKeys, JwtRefused
from penstock.security.keyfiles import write_secret
from penstock.values.config import Config

T = TypeVar("T")
_AUTHORIZATION: Final = "authorization"
_BEARER: Final = "bearer "
#: The key beside the state, made if auth/jwt is on and no key is named.
_DEFAULT_KEY: Final = "jwt_hs256.key"
_KEY_BYTES: Final = 32
_SET_BYTES_MAX: Final = 1024 * 1024
#: The user of a revocation that holds for all.
EVERYBODY: Final = ""


class KeysMissing(Exception):
    """A key that the configuration names cannot be used; the text names the file."""


class Keys(NamedTuple):
    """The keys of a configuration. Without auth/jwt there are none."""

    verifying: JwtKeys | None = None
    signing: SigningKey | None = None
    signing_path: str = ""


class Presented(NamedTuple):
    """The proof in a call's metadata."""

    token: str
    user_name: str  # the user that the caller wants to be; "" = the token's


class Proven(NamedTuple):
    """The users of a valid token."""

    user_name: str  # of the token
    wanted: str  # the user that the caller wants to be: only root's token may name another one
    issued_at_us: int  # 0 = the token does not say
    ends_at_us: int
    presented: Presented
    keys: JwtKeys  # by which it was verified
    token_id: str = ""  # of a personal token
    session_job_id: int = 0  # the only job that the token is for; 0 = it is for all that the user may do
    until_s: int = 0  # no token that is made by it is valid for longer; 0 = that is not said


class UserTokens:
    """Verifies the tokens of callers. `revoked`: by user name, when their tokens were last revoked (the core's live
    table); EVERYBODY for all. `personal`: personal tokens by id (live, too). `uses`: records accepted ones."""

    def __init__(
        self,
        revoked: Mapping[str, int],
        clock_us: Callable[[], int],
        personal: Mapping[str, PersonalToken] | None = None,
        uses: TokenUses | None = None,
    ) -> None:
        self.uses = uses
        self._personal = personal if personal is not None else {}
        self.keys = Keys()
        self.problem = ""  # why there are none
        self._revoked = revoked
        self._clock_us = clock_us

    def load(self, config: Config, cluster: str) -> str:
        """Reads the keys of a configuration, and keeps those that it had if that fails. Blocks. Returns a warning, or ""."""
        try:
            self.keys = read_keys(config, cluster)
            self.problem = ""
        except KeysMissing as error:
            self.problem = str(error)
        return self.problem and f"AuthAltTypes=auth/jwt: {self.problem}"

    def verify(self, presented: Presented) -> Proven:
        """Returns the users of a token, which may be revoked (`check_revoked`). Raises JwtRefused."""
        keys = self.keys.verifying
        if keys is None:
            raise JwtRefused("off", "this cluster accepts no JSON web tokens")
        claims = keys.verify(presented.token, self._clock_us() / 1_000_000)
        wanted = presented.user_name or claims.user_name
        issued_at_us, ends_at_us = (round(at_s * 1_000_000) for at_s in (claims.issued_at_s, claims.ends_at_s))
        return Proven(
            claims.user_name, wanted, issued_at_us, ends_at_us, presented, keys, claims.token_id, claims.session_job_id,
            claims.until_s,
        )  # fmt: skip

    def verify_again(self, proven: Proven) -> Proven:
        """Returns the users of a token that was verified before: its signature is, again, only if the keys are others now.
        Raises JwtRefused."""
        if proven.keys is not self.keys.verifying:
            return self.verify(proven.presented)
        if (ago_us := self._clock_us() - proven.ends_at_us) >= 0:
            raise JwtRefused("expired", f"the token has expired {ago_us / 1_000_000:.0f} s ago")
        return proven

    def check_revoked(self, proven: Proven, user_name: str) -> PersonalToken | None:
        """Checks a token's time of issue and its record, after whatever the caller had to wait for; returns the record of a
        personal token. `user_name`: of the token's user; the system may know a user by several names, and a revocation holds
        for all of them. Raises JwtRefused."""
        if proven.issued_at_us <= max(self.revoked_until_us(proven.user_name), self.revoked_until_us(user_name)):
            raise JwtRefused("revoked", "the token has been revoked")
        if not proven.token_id:
            return None
        token = self._personal.get(proven.token_id)
        if token is None or token.user_name not in (proven.user_name, user_name):
            raise JwtRefused("revoked", "the token has been revoked")
        return token

    def revoked_until_us(self, user_name: str) -> int:
        """Returns until which time of issue tokens of this user are revoked; -1 = none are. Those without a time of issue
        are too.

        An issuer's clock may be ahead by CLOCK_SKEW_S: its tokens that existed at the time of the revocation say so much
        more at most.
        """
        at_us = max(self._revoked.get(user_name, -1), self._revoked.get(EVERYBODY, -1))
        return at_us + CLOCK_SKEW_S * 1_000_000 if at_us >= 0 else -1

    def issue_at_s(self, user_name: str) -> float:
        """Returns the time of issue of a new token: the present second, or one that no revocation so far includes."""
        now_us = self._clock_us()
        revoked_us = self.revoked_until_us(user_name)
        second = now_us // 1_000_000
        return second if second * 1_000_000 > revoked_us else max(now_us, revoked_us + 1) / 1_000_000


def presented(metadata: Sequence[tuple[str, str | bytes]]) -> Presented | None:
    """Returns the JSON web token of a call; None when there is none. Raises JwtRefused for more than one."""
    tokens = []
    names = []
    for key, value in metadata:
        if key == USER_TOKEN_KEY and isinstance(value, str):
            tokens.append(value)
        elif key == _AUTHORIZATION and isinstance(value, str) and value[: len(_BEARER)].lower() == _BEARER:
            tokens.append(value[len(_BEARER) :].strip())
        elif key == USER_NAME_KEY and isinstance(value, str):
            names.append(value)
    if not tokens:
        return None
    if len(set(tokens)) > 1 or len(set(names)) > 1:
        raise JwtRefused("malformed", "the call carries several tokens or names")
    return Presented(tokens[0], names[0] if names else "")


def read_keys(config: Config, cluster: str) -> Keys:
    """Reads the keys that a configuration names, and makes the default one. Blocks. Raises KeysMissing."""
    if not config.has_word("auth_alt_types", "auth/jwt"):
        return Keys()
    value = config.word_value
    path = value("auth_alt_parameters", "jwt_key")
    set_path = value("auth_alt_parameters", "jwks")
    if not path and not set_path:
        path = _default_key(config)
    signing = _named(path, read_signing_key) if path else None
    claim = value("auth_alt_parameters", "userclaimfield")
    if not set_path:
        return Keys(JwtKeys(cluster, signing, None, claim), signing, path)
    verifying = _named(
        set_path, lambda name: JwtKeys(cluster, signing, _read_set(name), claim, config.penstock_jwt_audience)
    )
    return Keys(verifying, signing, path)


def _named(path: str, read: Callable[[str], T]) -> T:
    try:
        return read(path)
    except (OSError, BadKey, BadSetup) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise KeysMissing(f"{path}: {why}") from None


def _default_key(config: Config) -> str:
    path = Path(config.state_save_location) / _DEFAULT_KEY
    if not path.exists():
        _named(str(path), lambda name: write_secret(Path(name), os.urandom(_KEY_BYTES)))
    return str(path)


def _read_set(path: str) -> bytes:
    """Reads a set of public keys. Other users must not be able to write it: who adds a key can be every user. Raises
    OSError, BadKey."""
    return read_key_file(path, stat.S_IWOTH, "can write to it: look through its keys, then `chmod o-w", _SET_BYTES_MAX)
