"""Creates JSON web tokens (RFC 7519) for Slurm's auth/jwt: `sun` is the user, `iat` and `exp` are seconds since 1970.

The contents of the key file select the algorithm: an RSA private key in PEM for RS256, anything else for HS256.
penstock/security/jwtkeys.py verifies them. Users who have a Unix socket of the cluster need none: tokens.py.
"""

import json
import os
import stat
from typing import Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

KEY_BYTES_MAX: Final = 64 * 1024
#: RFC 7518, 3.2: a secret is as long as HS256's hash.
KEY_BYTES_MIN: Final = 32
LIFESPAN_DEFAULT_S: Final = 1800
LIFESPAN_MAX_S: Final = 10 * 366 * 86400
#: NIST SP 800-131A.
RSA_BITS_MIN: Final = 2048
#: Different bytes of a secret: random ones of KEY_BYTES_MIN have 24 at least, hexadecimal digits nearly all of 16.
_DIFFERENT_MIN: Final = 8
#: What public keys of SSH begin with.
_SSH: Final = (b"ssh-", b"ecdsa-", b"sk-")
#: SEQUENCE, which public keys and certificates are in DER; the shortest has so many bytes.
_SEQUENCE: Final = 0x30
_DER_BYTES_MIN: Final = 44


class BadKey(ValueError):
    """The file contains no key that can be used."""


class SigningKey:
    """The key of `jwt_key`."""

    def __init__(self, data: bytes) -> None:
        """`data`: the file's contents. Raises BadKey."""
        self._private = _private_key(data)
        self._secret = data
        if self._private is None:
            _check_secret(data)

    @property
    def algorithm(self) -> str:
        """HS256 or RS256."""
        return "HS256" if self._private is None else "RS256"

    @property
    def verification_key(self) -> bytes | rsa.RSAPublicKey:
        """The key that verifies what this one signs."""
        return self._secret if self._private is None else self._private.public_key()

    def make(
        self,
        user_name: str,
        issued_at_s: float,
        lifespan_s: int,
        cluster: str = "",
        token_id: str = "",
        session_job_id: int = 0,
        until_s: int = 0,
    ) -> str:
        """Returns a signed token. `cluster`: the only one that it is for; commands do not show it to others. `token_id`: of a
        personal token, which is valid as long as the controller has its record. `session_job_id`: the job whose session it
        reaches, and nothing else; `until_s`: after this time no token that is made by this one is valid, 0 = that is not said."""
        claims = {"exp": int(issued_at_s) + lifespan_s, "iat": issued_at_s, "sun": user_name}
        if cluster:
            claims["aud"] = cluster
        if token_id:
            claims["penstock_token"] = token_id
        if session_job_id:
            claims["penstock_session"] = session_job_id
        if until_s:
            claims["penstock_until"] = until_s
        return jwt.encode(claims, self._secret if self._private is None else self._private, self.algorithm)


def read_signing_key(path: str) -> SigningKey:
    """Reads a key file. Other users must have no access to it: who reads it can be every user. Raises OSError, BadKey."""
    text = "have access to it: make a new one if it may have been read, else `chmod 600"
    return SigningKey(read_key_file(path, stat.S_IRWXO, text, KEY_BYTES_MAX + 1))


def read_key_file(path: str, forbidden: int, forbidden_text: str, size: int) -> bytes:
    """Reads a file of keys: a regular file of root or of this process, without the permissions `forbidden`, of which
    `forbidden_text` says the consequence and the remedy. Does not wait for a pipe's writer. Raises OSError, BadKey."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise BadKey("it is not a regular file")
        if status.st_uid not in (0, os.geteuid()):
            raise BadKey(f"it belongs to uid {status.st_uid}, and not to root or to the controller's user")
        if status.st_mode & forbidden:
            raise BadKey(f"other users {forbidden_text} {path}`")
        return file.read(size)


def _private_key(key: bytes) -> rsa.RSAPrivateKey | None:
    if b"-----BEGIN" not in key:
        return None
    try:
        found = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise BadKey("it looks like PEM and holds no private key without a password") from error
    if not isinstance(found, rsa.RSAPrivateKey):
        raise BadKey("it holds a private key that is not RSA")
    if found.key_size < RSA_BITS_MIN:
        raise BadKey(f"its RSA key has {found.key_size} bits; the minimum is {RSA_BITS_MIN}")
    return found


def _check_secret(data: bytes) -> None:
    """Checks that these bytes may be an HMAC secret: not what others know, or can guess. Raises BadKey."""
    if not KEY_BYTES_MIN <= len(data) <= KEY_BYTES_MAX:
        raise BadKey(f"it has {len(data)} bytes; {KEY_BYTES_MIN} to {KEY_BYTES_MAX} make a key")
    if data.startswith(_SSH) or _is_der(data) or _is_json(data):
        raise BadKey("it is no secret, but a public key, a certificate or a set of keys (that is jwks=FILE)")
    if len(set(data)) < _DIFFERENT_MIN:
        raise BadKey("it has hardly any different bytes, as after a power failure: make a new one")


def _is_der(data: bytes) -> bool:
    """Whether the bytes are one SEQUENCE and nothing else."""
    if len(data) < _DER_BYTES_MIN or data[0] != _SEQUENCE:
        return False
    length, more = data[1], data[1] & 0x7F
    if length & 0x80:
        return int.from_bytes(data[2 : 2 + more]) + 2 + more == len(data)
    return length + 2 == len(data)


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False
