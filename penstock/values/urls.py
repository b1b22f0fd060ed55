"""URLs for messages, listings and logs, without their secrets.

A URL may hold one in any part: a password before the host, a key in the query, and with receivers of chat services the whole
path. The parsers of databases and of HTTP differ in where a password ends, so what may belong to one is omitted.
"""

import re

_PASSWORD = re.compile(r"(://[^/@:]*):.*@", re.DOTALL)
_SECRET_WORD = re.compile(r"(?i)([?&][^=&]*pass(?:word|wd)[^=&]*=)[^&]*")
_SERVER = re.compile(r"(?s)(https?://)(?:.*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]+)?(.*)")


def without_password(url: str) -> str:
    """Returns a database's URL without its passwords."""
    return _SECRET_WORD.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))


def server_of(url: str) -> str:
    """Returns scheme, host and port of a URL: `https://host/...`."""
    found = _SERVER.fullmatch(url)
    return f"{found[1]}{found[2]}{found[3] or ''}{'/...' if found[4] not in ('', '/') else ''}" if found else "..."


def place_without_secret(place: str) -> str:
    """Returns a path as it is, a URL without a password and without its query (JobCompLoc)."""
    if place.startswith("/"):
        return place
    kept, question, _ = without_password(re.sub(r"^([^/@:]*):[^/]*@", r"\1:***@", place)).partition("?")
    return f"{kept}?***" if question else kept
