"""Requests as the metrics endpoint reads them: a head of HTTP/1.0 or 1.1 without a body; and the heads of its answers."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

HEAD_BYTES_MAX: Final = 8 * 1024
_LINE: Final = re.compile(r"([A-Z]{1,16}) (\S{1,2048}) HTTP/1\.([01])\Z")
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class BadHead(Exception):
    """A request that is not answered with metrics; the text says what is wrong with it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ScrapeRequest(NamedTuple):
    """One request. Names of headers are in lower case; a name that occurs twice has its first value."""

    method: str
    path: str  # without the query
    headers: Mapping[str, str]
    keeps_alive: bool


async def read_request(reader: asyncio.StreamReader) -> ScrapeRequest | None:
    """Reads one request; None: the client has closed the connection. Raises BadHead, IncompleteReadError, OSError."""
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    except asyncio.LimitOverrunError:
        raise BadHead(431, f"the head of a request has at most {HEAD_BYTES_MAX} bytes") from None
    return parse_request(data)


def parse_request(data: bytes) -> ScrapeRequest:
    """Parses a head. Raises BadHead."""
    line, *fields = data.decode("latin-1").split("\r\n")[:-2]
    match = _LINE.match(line)
    if match is None:
        raise BadHead(400, "expected a line such as GET /metrics HTTP/1.1")
    headers: dict[str, str] = {}
    for field in fields:
        name, colon, value = field.partition(":")
        if not (colon and _FIELD_NAME.fullmatch(name)):
            raise BadHead(400, "a header is no NAME: VALUE")
        headers.setdefault(name.lower(), value.strip(" \t"))  # a pattern that finds both ends takes the square of 8 KiB
    if match[1] not in ("GET", "HEAD"):
        raise BadHead(405, "only GET and HEAD are answered")
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadHead(413, "a request for metrics has no body")
    words = [word.strip().lower() for word in headers.get("connection", "").split(",")]
    keeps_alive = "close" not in words and (match[3] == "1" or "keep-alive" in words)
    return ScrapeRequest(match[1], match[2].partition("?")[0], headers, keeps_alive)


def head(status: int, content_type: str, length: int, is_last: bool, more: Iterable[str] = ()) -> bytes:
    """Returns the head of an answer."""
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {length}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'close' if is_last else 'keep-alive'}",
        *more,
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
