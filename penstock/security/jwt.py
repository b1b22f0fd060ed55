"""Creates JSON web tokens (RFC 7519) for Slurm's auth/jwt: `sun` is the user, `iat` and `exp` are seconds since 1970.

The contents of the key file select the algorithm: an RSA private key in PEM for RS256, anything else for HS256.
penstock/security/jwtkeys.py verifies them. Users who have a Unix socket of the cluster need none: tokens.py.
"""

import os
from typing import Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

KEY_BYTES_MAX: Final = 64 * 1024
#: RFC 7518, 3.2: a secret is as long as HS256's hash.
KEY_BYTES_MIN: Final = 32
LIFESPAN_DEFAULT_S: Final = 1800
LIFESPAN_MAX_S: Final = 10 * 366 * 86400
_OTHERS: Final = 0o007


class BadKey(ValueError):
    """The file contains no key that can be used."""


class SigningKey:
    """The key of `jwt_key`."""

    def __init__(self, data: bytes) -> None:
        """`data`: the file's contents. Raises BadKey."""
        self._private = _private_key(data)
        self._secret = data
        if self._private is None and not KEY_BYTES_MIN <= len(data) <= KEY_BYTES_MAX:
            raise BadKey(f"it has {len(data)} bytes; {KEY_BYTES_MIN} to {KEY_BYTES_MAX} make a key")

    @property
    def algorithm(self) -> str:
        """HS256 or RS256."""
        return "HS256" if self._private is None else "RS256"

    @property
    def verification_key(self) -> bytes | rsa.RSAPublicKey:
        """The key that verifies what this one signs."""
        return self._secret if self._private is None else self._private.public_key()

    def make(self, user_name: str, issued_at_s: float, lifespan_s: int) -> str:
        """Returns a signed token."""
        claims = {"exp": int(issued_at_s) + lifespan_s, "iat": issued_at_s, "sun": user_name}
        return jwt.encode(claims, self._secret if self._private is None else self._private, self.algorithm)


def read_signing_key(path: str) -> SigningKey:
    """Reads a key file. Other users must have no access to it: who reads it can be every user. Raises OSError, BadKey."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_mode & _OTHERS:
            raise BadKey(
                f"other users have access to it: make a new one if it may have been read, else `chmod 600 {path}`"
            )
        return SigningKey(file.read(KEY_BYTES_MAX + 1))


def _private_key(key: bytes) -> rsa.RSAPrivateKey | None:
    if b"-----BEGIN" not in key:
        return None
    try:
        found = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise BadKey("it looks like PEM and holds no private key without a password") from error
    if not isinstance(found, rsa.RSAPrivateKey):
        raise BadKey("it holds a private key that is not RSA")
    return found
