"""The files of the web interface: built from web/, installed in rest/static, held in memory, served as they are.

A name is looked up in the table of files, never on the disk. Names below /assets/ hold a digest of their content, so
browsers keep them for a year; the page itself they ask for each time. The headers of SECURITY are on every answer of a
daemon that serves the pages: scripts and styles come from this daemon alone, and no other page may frame these.
"""

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rest.sending import takes_gzip

FOLDER: Final = Path(__file__).with_name("static")
#: The list of files, written by the build; it is not served.
MANIFEST: Final = "manifest.json"
SECURITY: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'; img-src 'self' data:",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_KEPT: Final = "public, max-age=31536000, immutable"
_ASKED_FOR: Final = "no-cache"


class StaticFile(NamedTuple):
    """One file, as it is and compressed."""

    kind: str
    data: bytes
    packed: bytes
    tag: str
    cache: str


def load(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """The files by their path on the daemon; empty where they were not built."""
    found: dict[str, StaticFile] = {}
    for path in sorted(folder.rglob("*")):
        kind = _TYPES.get(path.suffix)
        if kind is None:
            continue
        name = path.relative_to(folder).as_posix()
        data = path.read_bytes()
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        cache = _KEPT if name.startswith("assets/") else _ASKED_FOR
        found[f"/{name}"] = StaticFile(kind, data, gzip.compress(data, mtime=0), tag, cache)
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found


class Pages:
    """The files, and behind them the rest of the daemon."""

    def __init__(self, files: Mapping[str, StaticFile], others: ASGIApp) -> None:
        self._files = files
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._others(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.lower().encode(), value.encode()) for name, value in SECURITY.items()]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        file = self._files.get(scope["path"])
        if file is not None:
            await _sent(Request(scope), file)(scope, receive, secured)
        else:
            await self._others(scope, receive, secured)


def _sent(request: Request, file: StaticFile) -> Response:
    if request.method not in ("GET", "HEAD"):
        return PlainTextResponse("Not found", 404)
    headers = {"ETag": file.tag, "Cache-Control": file.cache, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if takes_gzip(request.headers.get("accept-encoding", "")):
        return Response(file.packed, 200, headers | {"Content-Encoding": "gzip"}, file.kind)
    return Response(file.data, 200, headers, file.kind)
