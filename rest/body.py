"""Reads the body of a request: JSON within limits, and nothing else.

Statuses as Slurm's: 415 another Content-Type, 406 chunked, 413 too long, 400 no JSON or no UTF-8 or nested too deep, all
in plain text.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeVar

from starlette.requests import ClientDisconnect, Request

from rest.answers import RestError
from rest.limits import BODY_BYTES_MAX, BODY_DEPTH_MAX, BODY_TIMEOUT_S, BODY_VALUES_MAX, RequestShare

JSON_TYPE: Final = "application/json"
#: A longer body is parsed and checked in a thread, one at a time, so that others need not wait: it may have 16,000 values.
INLINE_BYTES_MAX: Final = 32 * 1024
#: Digits of a whole number: twice as many as one of 64 bits has.
DIGITS_MAX: Final = 40
BODY_IS_CHUNKED: Final = "send the body with its Content-Length"
_TOO_MANY: Final = f"the body has more than {BODY_VALUES_MAX} values"
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


async def read_body(request: Request, share: RequestShare) -> object:
    """The parsed body; None = there is none. Raises RestError."""
    if not _has_body(request.headers):
        return None
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                share.hold(len(part))
                data += part
                if len(data) > BODY_BYTES_MAX:
                    raise _plain(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    except TimeoutError:
        raise _plain(408, f"the body did not arrive in {BODY_TIMEOUT_S:.0f} s") from None
    except ClientDisconnect:
        raise _plain(400, "the body ends early") from None
    if not data:
        return None
    if request.headers.get("content-type") != JSON_TYPE:
        raise _plain(415, f"Content-Type must be {JSON_TYPE}")
    return await apart(share, parse_json, bytes(data))


async def apart(share: RequestShare, work: Callable[[_Given], _Made], given: _Given) -> _Made:
    """Does a part of the work that a body makes: of a large one in a thread."""
    if share.body_bytes <= INLINE_BYTES_MAX:
        return work(given)
    async with share.parsing:
        return await asyncio.to_thread(work, given)


def parse_json(data: bytes) -> object:
    """The value, whose depth, size and texts are checked. Raises RestError with 400."""
    _check_count(data)
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise _plain(400, "the body is not UTF-8") from None
    except RecursionError:
        raise _plain(400, "the body is nested too deep") from None
    except ValueError as error:
        raise _plain(400, f"the body is not JSON: {error}") from None
    _check(value)
    return value


def _has_body(headers: Mapping[str, str]) -> bool:
    """Whether a body comes. Raises RestError for one that is not read."""
    if "transfer-encoding" in headers:
        raise _plain(406, BODY_IS_CHUNKED)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 20):
        raise _plain(400, "Content-Length is no number")
    kind = headers.get("content-type", JSON_TYPE)
    if kind != JSON_TYPE and length != "0":
        raise _plain(415, f"Content-Type must be {JSON_TYPE}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise _plain(415, "Content-Encoding is not read: send the body as it is")
    return length.strip("0") != ""


def _check_count(data: bytes) -> None:
    """Refuses too many values before they are made: the parser holds the interpreter's lock until it has them all. Bytes
    that are no JSON may be refused here or by the parser."""
    if len(data) <= BODY_VALUES_MAX:
        return
    texts = data.replace(rb"\\", b"").replace(rb"\"", b"")  # a quote is now the begin or end of a text
    # A text has two quotes; a member is two values, with a colon between them; a comma stands between two others.
    if texts.count(b'"') > 2 * BODY_VALUES_MAX:
        raise _plain(400, _TOO_MANY)
    outside = texts.split(b'"')[::2]
    if sum(part.count(b",") + part.count(b":") for part in outside) > BODY_VALUES_MAX:
        raise _plain(400, _TOO_MANY)


def _check(value: object) -> None:
    """Checks depth and number of values, and that all texts are Unicode (an escape may be half of a pair)."""
    count = 0
    level: list[object] = [value]
    depth = 0
    while level:
        depth += 1
        count += len(level)
        if depth > BODY_DEPTH_MAX:
            raise _plain(400, f"the body is nested deeper than {BODY_DEPTH_MAX}")
        if count > BODY_VALUES_MAX:
            raise _plain(400, _TOO_MANY)
        below: list[object] = []
        for one in level:
            if isinstance(one, str):  # first: most are texts
                if not one.isascii():
                    _check_text(one)
            elif isinstance(one, dict):
                below += one.keys()
                below += one.values()
            elif isinstance(one, list):
                below += one
        level = below


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _plain(400, "a text of the body is not Unicode") from None


def _whole(text: str) -> int:
    """A number, whose digits are counted first: reading them takes a time that grows with the square of their number."""
    if len(text) > DIGITS_MAX:
        raise ValueError(f"a number has more than {DIGITS_MAX} digits")
    return int(text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant, parse_int=_whole)


def _plain(status: int, text: str) -> RestError:
    return RestError(status, 0, text, is_plain=True)
