"""Sends an answer: JSON or YAML, whole or page by page, compressed if the caller takes gzip.

A part that the caller does not take in STALL_TIMEOUT_S, or a page that the controller does not send, ends the connection:
the answer is then visibly incomplete. Nothing more is made for a caller who is gone. A streamed list is JSON also where
YAML is asked for, which is YAML, too.
"""

import asyncio
import json
import logging
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cli.base.document import Json
from cli.base.writers import escaped, yaml_text
from penstock.errors import PenstockError
from rest.limits import SLICE_ITEMS, STALL_TIMEOUT_S

log = logging.getLogger("restd")
JSON_TYPE: Final = "application/json"
#: A shorter answer is not compressed: the head is as long.
COMPRESSED_BYTES_MIN: Final = 1024
#: Fast: 4,000 jobs shrink to a tenth or less at any level.
_LEVEL: Final = 1
_GZIP: Final = 16 + zlib.MAX_WBITS
#: What Accept-Encoding says of a coding that is not taken.
_REFUSED: Final = ("q=0", "q=0.0", "q=0.00", "q=0.000")


def takes_gzip(header: str) -> bool:
    """Whether an Accept-Encoding takes gzip."""
    said = {}
    for one in header.lower().split(","):
        name, _, quality = one.partition(";")
        said[name.strip()] = quality.replace(" ", "") not in _REFUSED
    return said.get("gzip", said.get("*", False)) if header else False


_encoder: Final = msgspec.json.Encoder()


def json_bytes(content: object) -> bytes:
    """JSON without spaces, as UTF-8. Control characters, and bytes that are not UTF-8 (paths of jobs), are escaped."""
    try:
        data = _encoder.encode(content)
    except UnicodeEncodeError:
        return _text_bytes(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
    return data if data.isascii() and b"\x7f" not in data else _text_bytes(data.decode())


def document_bytes(content: object, kind: str) -> bytes:
    """A document as JSON or YAML."""
    if kind == JSON_TYPE:
        return json_bytes(content)
    return _text_bytes(f"---\n{yaml_text(content).lstrip(chr(10))}...\n")


def _text_bytes(text: str) -> bytes:
    return escaped(text).encode("utf-8", "backslashreplace")


def whole(content: object, status: int, kind: str, headers: Mapping[str, str], gzip: bool = False) -> Response:
    """An answer that is held as a whole."""
    body = document_bytes(content, kind)
    more = dict(headers)
    if gzip and len(body) >= COMPRESSED_BYTES_MIN:
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        body = packer.compress(body) + packer.flush()
        more["Content-Encoding"] = "gzip"
    return Response(body, status, more, kind)


class PagedResponse(Response):
    """An answer with a list that is made while it is sent."""

    def __init__(
        self, content: Json, name: str, parts: AsyncIterator[bytes], kind: str, headers: Mapping[str, str], gzip: bool
    ) -> None:
        """`content`: all but the list `name`. `parts`: the texts of its items, of some at a time with commas between them."""
        super().__init__(None, 200, dict(headers) | ({"Content-Encoding": "gzip"} if gzip else {}), kind)
        del self.headers["content-length"]
        self._parts = _texts(content, name, parts)
        self._gzip = gzip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        gone = asyncio.create_task(until_gone(receive))
        try:
            await self._send(scope, send, gone)
        finally:
            gone.cancel()

    async def _send(self, scope: Scope, send: Send, gone: "asyncio.Task[None]") -> None:
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP) if self._gzip else None
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for data in self._parts:
                data = packer.compress(data) if packer is not None else data
                async with asyncio.timeout(STALL_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.sleep(0)  # others have their turn: a caller that reads fast never makes send wait
                if gone.done():
                    return
        except (PenstockError, TimeoutError) as error:
            log.warning("%s: the answer ends early: %s", scope["path"], str(error) or "the caller does not read")
            return  # without an end: the server closes the connection
        end = packer.flush() if packer is not None else b""
        await send({"type": "http.response.body", "body": end, "more_body": False})


async def _texts(content: Json, name: str, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    comma = b""
    yield b"{" + json_bytes(name) + b":["
    async for part in parts:
        yield comma + part
        comma = b","
    rest = json_bytes(content)[1:]
    yield b"]" + rest if rest == b"}" else b"]," + rest


async def item_texts(
    pages: AsyncIterator[Iterable[object]], text_of: Callable[[object], bytes]
) -> AsyncIterator[bytes]:
    """The texts of the items of pages, SLICE_ITEMS at a time."""
    async for page in pages:
        items = iter(page)
        while part := [text_of(one) for one in islice(items, SLICE_ITEMS)]:
            yield b",".join(part)


async def until_gone(receive: Receive) -> None:
    """Ends when the caller does not wait any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
