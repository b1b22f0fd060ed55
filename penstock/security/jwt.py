"""Creates JSON web tokens (RFC 7519) for Slurm's auth/jwt: `sun` is the user, `iat` and `exp` are seconds since 1970.

The contents of the key file select the algorithm: an RSA private key in PEM for RS256, anything else for HS256.
Penstock's own requests use the tokens of tokens.py instead.
"""

import base64
import json
from typing import Final

from cryptography.hazmat.primitives import hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_BYTES_MAX: Final = 64 * 1024
#: Below the 32 bytes that RFC 7518 requires for HS256 and Slurm's instructions generate.
KEY_BYTES_MIN: Final = 16
LIFESPAN_DEFAULT_S: Final = 1800
LIFESPAN_MAX_S: Final = 10 * 366 * 86400


class BadKey(ValueError):
    """The file contains no key that can sign."""


def make_jwt(key: bytes, user_name: str, now_s: int, lifespan_s: int) -> str:
    """Returns a signed token. Raises BadKey."""
    private = _private_key(key)
    algorithm = "HS256" if private is None else "RS256"
    claims = {"exp": now_s + lifespan_s, "iat": now_s, "sun": user_name}
    parts = ({"alg": algorithm, "typ": "JWT"}, claims)
    text = b".".join(_encoded(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    if private is not None:
        signature = private.sign(text, padding.PKCS1v15(), hashes.SHA256())
    else:
        if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
            raise BadKey(f"it has {len(key)} bytes; {KEY_BYTES_MIN} to {KEY_BYTES_MAX} make a key")
        signer = hmac.HMAC(key, hashes.SHA256())
        signer.update(text)
        signature = signer.finalize()
    return b".".join((text, _encoded(signature))).decode()


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


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
