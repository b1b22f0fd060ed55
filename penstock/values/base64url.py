"""Bytes as text that URLs, headers and cookies may carry: base64 for addresses without padding (RFC 4648, section 5), and
the claims of a token that is written in it, unverified."""

import json
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode


def to_text(data: bytes) -> str:
    """Returns the text of bytes."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def to_bytes(text: str) -> bytes:
    """Returns the bytes of such a text. Raises ValueError."""
    return b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def claims_of(token: str) -> dict[str, object]:
    """Returns what a token (JWT) claims; nothing of one that cannot be read. Not strict: what another reader would repair is
    read."""
    try:
        found = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    except (ValueError, IndexError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
