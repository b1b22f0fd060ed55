"""Verifies JSON web tokens (RFC 7519) of users: the keys that a site accepts, and the claims that a token must have.

The signature is verified by PyJWT. A key has exactly one algorithm, by its own kind and never by the token's header, so a
public key cannot be used as an HMAC secret and `none` is no algorithm:

    jwt_key=FILE   the key that `scontrol token` signs with: HS256, or RS256 for an RSA private key
    jwks=FILE      public keys of an identity provider (RFC 7517), chosen by the header's `kid`: RS256 and ES256

UserClaims (RFC 7519, 4.1): `exp` is required; `nbf`, `iat` and `aud` count if they are there, with CLOCK_SKEW_S. The user is
`sun` or `username`, as in Slurm's tokens, or the claim that `userclaimfield` names. A token is valid for as many calls
as its holder makes; ctld/core/requests/tokens.py revokes tokens by the time of their issue.

A page of a browser sends the same token with each of its questions. Its signature and its text say the same each time, so they
are read once, and its times at each call. What it was is known by a digest alone; other keys are another JwtKeys.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from penstock.security.jwt import RSA_BITS_MIN, BadKey, SigningKey

#: A token and its name fit into the metadata of one call (gRPC's limit is 8 KiB for all of it).
JWT_BYTES_MAX: Final = 6 * 1024
#: Keys of one set; providers publish two to four.
KEYS_MAX: Final = 64
#: Tolerated difference between the clocks of the issuer and of the controller.
CLOCK_SKEW_S: Final = 30
#: Times that tokens state: to the year 5138. Their arithmetic is in microseconds.
TIME_MAX_S: Final = 1e11
USER_CLAIMS: Final = ("sun", "username")
#: Tokens that are known to be signed, each some 600 bytes; the least lately used go first.
KNOWN_MAX: Final = 2048
_DIGEST_BYTES: Final = 32
#: Errors of the readers of a token that is not verified yet: RecursionError for deep nesting, ValueError and its
#: subclasses for bad JSON, base64, UTF-8, and numbers of too many digits.
_UNREADABLE: Final = (jwt.PyJWTError, msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError)

#: A key for verification: of cryptography, or the bytes of an HMAC secret.
VerificationKey = bytes | rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class JwtRefused(Exception):
    """A token is not accepted. `reason` is one word for tables and tests, `explanation` a sentence without secrets."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(explanation)
        self.reason = reason
        self.explanation = explanation


class UserClaims(msgspec.Struct, frozen=True):
    """What a valid token states."""

    user_name: str
    issued_at_s: float  # 0 = it does not say
    ends_at_s: float
    token_id: str = ""  # of a personal token
    session_job_id: int = 0  # the job whose session it reaches, and nothing else; 0 = it has all rights of the user
    until_s: int = 0  # no token that is made by it is valid for longer; 0 = that is not said


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str = ""
    crit: object = None  # extensions that a reader must understand (RFC 7515, 4.1.11); there is none


class _Registered(msgspec.Struct, frozen=True):
    """The registered claims, by their names in RFC 7519."""

    exp: float
    nbf: float = 0.0
    iat: float = 0.0
    aud: str | list[str] | None = None
    penstock_token: str = ""  # a private name (RFC 7519, 4.3): `jti` is the identity provider's
    penstock_session: Annotated[int, msgspec.Meta(ge=0)] = 0  # another
    penstock_until: Annotated[int, msgspec.Meta(ge=0)] = 0  # and another


class _Signed(NamedTuple):
    """What a token with a valid signature states for this cluster."""

    claims: UserClaims
    begins_at_s: float  # nbf


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[dict[str, object]]


class _Key(msgspec.Struct, frozen=True):
    algorithm: str
    key: VerificationKey


class JwtKeys:
    """The keys of one cluster, and the rules for its tokens."""

    def __init__(
        self,
        audience: str,
        own: SigningKey | None = None,
        key_set: bytes | None = None,
        user_claim: str = "",
        provider_audience: str = "",
    ) -> None:
        """`audience`: the cluster's name. `own`: the key of jwt_key. `key_set`: the text of the jwks file; `user_claim` and
        `provider_audience` are of its tokens: which claim names the user, and another audience. Raises BadKey."""
        self._audience = audience
        self._provider_audience = provider_audience
        self._user_claims = (user_claim,) if user_claim else USER_CLAIMS
        self._own = _Key(own.algorithm, own.verification_key) if own is not None else None
        self._by_id = _read_set(key_set) if key_set is not None else {}
        self._known: OrderedDict[bytes, _Signed] = OrderedDict()  # by their digests

    def verify(self, token: str, now_s: float) -> UserClaims:
        """Returns the claims of a valid token. Raises JwtRefused."""
        if len(token) > JWT_BYTES_MAX:
            raise JwtRefused("malformed", f"the token has more than {JWT_BYTES_MAX} characters")
        digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        signed = self._known.get(digest)
        if signed is not None:
            self._known.move_to_end(digest)
            claims = signed.claims
            _check_times(claims.ends_at_s, signed.begins_at_s, claims.issued_at_s, now_s)
            return claims
        signed = self._known[digest] = self._read(token, now_s)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return signed.claims

    def _read(self, token: str, now_s: float) -> _Signed:
        """Verifies a token. Raises JwtRefused."""
        try:
            header = msgspec.convert(jwt.get_unverified_header(token), _Header)
        except _UNREADABLE as error:
            raise JwtRefused("malformed", "the token cannot be read") from error
        if header.crit is not None:
            raise JwtRefused("malformed", "the token has extensions that are not known")
        key = self._key(header)
        payload = self._payload(token, key)
        try:
            registered = msgspec.json.decode(payload, type=_Registered)
            named = json.loads(payload, object_pairs_hook=_once)
        except _UNREADABLE as error:
            raise JwtRefused("claims", f"the token's claims are not valid: {error}") from error
        is_own = key is self._own
        self._check(registered, now_s, (self._audience,) if is_own else (self._audience, self._provider_audience))
        # scontrol token names the user by Slurm's claim, whatever the provider's tokens have
        is_slurms = is_own and not any(name in named for name in self._user_claims)
        user = _user_of(named, USER_CLAIMS if is_slurms else self._user_claims)
        own = (registered.penstock_token, registered.penstock_session, registered.penstock_until)
        return _Signed(UserClaims(user, registered.iat, registered.exp, *own), registered.nbf)

    def _key(self, header: _Header) -> _Key:
        """Chooses the key by the header, and refuses every algorithm but that key's own. A token without a key's name is by
        the site's own key, or by the only one of the set, whichever has the algorithm."""
        key = self._by_id.get(header.kid) if header.kid else None
        if key is None:
            only = list(self._by_id.values()) if len(self._by_id) == 1 and not header.kid else []
            nameless = [one for one in (self._own, *only) if one is not None]
            if not nameless:
                raise JwtRefused("key", "the token is signed by a key that is not known here")
            key = next((one for one in nameless if one.algorithm == header.alg), nameless[0])
        if header.alg != key.algorithm:
            raise JwtRefused("algorithm", f"the token's algorithm is not that of its key, {key.algorithm}")
        return key

    def _payload(self, token: str, key: _Key) -> bytes:
        try:
            payload: bytes = jwt.api_jws.decode_complete(token, key.key, algorithms=[key.algorithm])["payload"]
        except jwt.InvalidSignatureError as error:
            raise JwtRefused("signature", "the token's signature is wrong") from error
        except _UNREADABLE as error:
            raise JwtRefused("malformed", "the token cannot be read") from error
        return payload

    def _check(self, claims: _Registered, now_s: float, wanted: tuple[str, ...]) -> None:
        if any(abs(at_s) > TIME_MAX_S for at_s in (claims.exp, claims.nbf, claims.iat)):
            raise JwtRefused("claims", "the token's claims are not valid: a time is out of its range")
        _check_times(claims.exp, claims.nbf, claims.iat, now_s)
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if audiences is not None and not any(name in audiences for name in wanted if name):
            raise JwtRefused("audience", f"the token is not for cluster {self._audience!r}")


def _check_times(ends_at_s: float, begins_at_s: float, issued_at_s: float, now_s: float) -> None:
    if ends_at_s <= now_s:
        raise JwtRefused("expired", f"the token has expired {now_s - ends_at_s:.0f} s ago")
    for name, begin_s in (("nbf", begins_at_s), ("iat", issued_at_s)):
        if begin_s > now_s + CLOCK_SKEW_S:
            raise JwtRefused("early", f"the token is not valid yet: its {name} is {begin_s - now_s:.0f} s ahead")


def _user_of(claims: Mapping[str, object], names: tuple[str, ...]) -> str:
    found = [claims[name] for name in names if name in claims]
    if not found or not isinstance(found[0], str) or not found[0]:
        raise JwtRefused("user", f"the token names no user in its claim {' or '.join(names)}")
    if any(other != found[0] for other in found):
        raise JwtRefused("user", "the token names two users")
    return found[0]


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Returns the members of an object. RFC 7519 lets a reader refuse names that come twice: others may have read the
    first of them. Raises ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _read_set(text: bytes) -> dict[str, _Key]:
    """Reads a JSON Web Key Set. Keys for other purposes and of other kinds are left out; without any it is refused."""
    try:
        entries = msgspec.json.decode(text, type=_KeySet).keys
        if len(entries) > KEYS_MAX:
            raise BadKey(f"it has {len(entries)} keys; the limit is {KEYS_MAX}")
        found = jwt.PyJWKSet(entries).keys
    except BadKey:
        raise
    except _UNREADABLE as error:
        raise BadKey(f"it is no JSON Web Key Set with keys that can be used: {error}") from error
    keys: dict[str, _Key] = {}
    for one in found:
        key = one.key
        if isinstance(key, rsa.RSAPublicKey) and key.key_size >= RSA_BITS_MIN:
            accepted = _Key("RS256", key)
        elif isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            accepted = _Key("ES256", key)
        else:  # an HMAC secret, a private key, a short one, another curve
            continue
        if one.public_key_use not in (None, "sig") or one.algorithm_name != accepted.algorithm:
            continue
        keys[one.key_id or ""] = accepted
    if not keys:
        raise BadKey("it has no public key for RS256 (2048 bits or more) or ES256")
    return keys
