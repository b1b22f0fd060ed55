"""The token that scrapers of metrics present, in a file that its daemon alone can read."""

from pathlib import Path

from penstock.errors import BadSetup
from penstock.exporter.access import TOKEN_CHARS_MIN
from penstock.security.keyfiles import read_secret


def token_of(path: Path) -> bytes:
    """Reads the token. Raises BadSetup."""
    token = read_secret(path, "metrics token").strip()
    if len(token) < TOKEN_CHARS_MIN:
        raise BadSetup(f"{path}: the metrics token needs at least {TOKEN_CHARS_MIN} characters")
    return token
