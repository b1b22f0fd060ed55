"""The proxy of sessions: an origin of its own, where pages are programs of strangers, so nothing here acts with a login.

    /-/enter?ticket=...     a ticket becomes the cookie of one session
    /-/terminal?job=ID      the terminal's page, and its files below /assets/
    /session/ID/...         the program of a session, by that cookie

A request is one connection: its head is read whole, within limits; the cookie's token is shown to the controller; then one
tunnel is opened and both heads pass through h11 (exchange.py). Requests of pages from elsewhere are refused by Origin and
Sec-Fetch-Site, also those that browsers send with cookies: other ports of this host count as the same site.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import parse_qs, urlsplit

from cli.steps.trust import Trust
from penstock.values.sessions import base_path, is_kind
from rest.callers import peer_key
from rest.interactive.exchange import Exchange, with_watch
from rest.interactive.gate import RECHECK_S, SessionGate, is_token
from rest.interactive.heads import HEAD_BYTES_MAX, Headers, ProxyRefusal, check_head, cookie, one
from rest.interactive.service import ENTER_PATH, TERMINAL_PATH, SessionPass, SessionService
from rest.interactive.tunnel import NoTunnel, open_tunnel
from rest.limits import HEAD_TIMEOUT_S

log = logging.getLogger("restd")
_COOKIE: Final = "penstock_session_"
_PREFIX: Final = "/session/"
_JOB_DIGITS_MAX: Final = 10
_TICKET_CHARS_MAX: Final = 128
_NO_STORE: Final[Headers] = [(b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer")]
_TEXT: Final[Headers] = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
#: Of the terminal's page.
_PAGE: Final[Headers] = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
     b"form-action 'none'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:"),
]  # fmt: skip
_LATE_S: Final = 5.0


class ServedFile(Protocol):
    """A file of the web interface (rest/pages.py)."""

    @property
    def kind(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def cache(self) -> str: ...


class SessionProxy:
    """Serves the connections of one daemon."""

    def __init__(
        self, service: SessionService, gate: SessionGate, trust: Trust, files: Mapping[str, ServedFile]
    ) -> None:
        self._service = service
        self._gate = gate
        self._trust = trust
        self._files = files
        self._origin = service.url.encode()
        self._host = urlsplit(service.url).netloc.encode()
        self._is_secure = service.url.startswith("https:")
        self._open: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a new connection."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def close(self) -> None:
        """Ends all connections."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange: Exchange | None = None
        try:
            with self._gate.connection(peer_key(writer.get_extra_info("peername"))):
                async with asyncio.timeout(HEAD_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                check_head(head)
                exchange = Exchange(reader, writer, head)
                await self._answer(exchange)
        except ProxyRefusal as refusal:
            await _refuse(writer, exchange, refusal)
        except asyncio.LimitOverrunError:
            await _refuse(writer, None, ProxyRefusal(431, f"the head has more than {HEAD_BYTES_MAX} bytes"))
        except (TimeoutError, OSError, asyncio.IncompleteReadError):  # too slow, or gone
            pass
        except Exception:
            log.exception("a connection to a session: internal error")
        finally:
            with contextlib.suppress(OSError, TimeoutError):
                writer.close()
                async with asyncio.timeout(_LATE_S):
                    await writer.wait_closed()

    async def _answer(self, exchange: Exchange) -> None:
        """Answers one request. Raises ProxyRefusal."""
        self._check_source(exchange)
        path, _, query = exchange.path.partition("?")
        if path == ENTER_PATH:
            await self._enter(exchange, query)
        elif path.startswith(_PREFIX):
            await self._pass_on(exchange)
        elif path == TERMINAL_PATH:
            await self._file(exchange, "/terminal.html")
        elif path.startswith("/assets/"):
            await self._file(exchange, path)
        else:
            raise ProxyRefusal(404, "there is nothing here: sessions are opened from the page Sessions of Penstock")

    def _check_source(self, exchange: Exchange) -> None:
        """Raises ProxyRefusal for a request to another name of this machine, or from another origin's page."""
        headers = exchange.headers
        if one(headers, b"host").lower() != self._host:
            raise ProxyRefusal(421, "sessions have another address: --sessions-url of penstock restd")
        origin = one(headers, b"origin")
        if origin and origin.lower() != self._origin:
            raise ProxyRefusal(403, "the request comes from a page of another origin")
        if exchange.asks_for_upgrade and not origin:
            raise ProxyRefusal(403, "a WebSocket needs an Origin")
        is_navigation = one(headers, b"sec-fetch-mode") == b"navigate"
        if one(headers, b"sec-fetch-site") in (b"cross-site", b"same-site") and not is_navigation:
            raise ProxyRefusal(403, "the request comes from a page of another origin")

    async def _enter(self, exchange: Exchange, query: str) -> None:
        if exchange.request.method != b"GET":
            raise ProxyRefusal(405, "only GET")
        values = parse_qs(query, max_num_fields=4).get("ticket", []) if len(query) < _TICKET_CHARS_MAX * 2 else []
        given = self._service.tickets.take(values[0][:_TICKET_CHARS_MAX]) if len(values) == 1 else None
        if given is None:
            raise ProxyRefusal(403, "this address was used already, or is too old: open the session again")
        place = self._service.landing(given).encode()
        await exchange.answer(303, [(b"location", place), self._cookie(given), *_NO_STORE], b"")

    def _cookie(self, given: SessionPass) -> tuple[bytes, bytes]:
        secure = "; Secure" if self._is_secure else ""
        value = f"{_COOKIE}{given.job_id}={given.kind}.{given.token}; Path={base_path(given.job_id)}"
        return b"set-cookie", f"{value}; HttpOnly; SameSite=Lax{secure}".encode()

    async def _file(self, exchange: Exchange, name: str) -> None:
        file = self._files.get(name)
        if file is None or exchange.request.method not in (b"GET", b"HEAD"):
            raise ProxyRefusal(404, "there is no such file; the terminal's page needs --web")
        kind = file.kind + ("; charset=utf-8" if file.kind.startswith("text/") else "")
        headers = [(b"content-type", kind.encode()), (b"cache-control", file.cache.encode()), *_PAGE]
        await exchange.answer(200, headers, file.data)

    async def _pass_on(self, exchange: Exchange) -> None:
        job_id, rest = _split(exchange.path)
        given = _pass_of(exchange.headers, job_id)
        attached = await self._gate.attach(job_id, given.token)
        kind = self._service.kinds.get(given.kind)
        target = f"/{rest}" if kind is not None and kind.strips_base else exchange.path
        with self._gate.use(attached):
            try:
                tunnel = await open_tunnel(attached, self._trust)
            except NoTunnel as problem:
                await self._gate.attach(job_id, given.token, is_fresh=True)  # 403 or 404 if it has ended meanwhile
                raise ProxyRefusal(503, str(problem)) from None
            try:
                token = await self._gate.renewed(job_id, given.token, time.time())
                more = [self._cookie(given._replace(token=token))] if token else []
                work = asyncio.create_task(exchange.forward(tunnel, target, base_path(job_id), more))
                await self._watch(work, given._replace(token=token or given.token))
            finally:
                tunnel.writer.close()

    async def _watch(self, work: "asyncio.Task[None]", given: SessionPass) -> None:
        """Waits for an exchange, which ends when the controller no longer knows its token."""
        token = given.token

        async def is_valid() -> bool:
            nonlocal token
            try:
                await self._gate.attach(given.job_id, token, is_fresh=True)
            except ProxyRefusal as refusal:
                return refusal.status == 503  # the controller is away: nothing was revoked
            token = await self._gate.renewed(given.job_id, token, time.time()) or token
            return True

        await with_watch(work, lambda: asyncio.ensure_future(is_valid()), RECHECK_S)


def _split(target: str) -> tuple[int, str]:
    """The job of /session/ID/..., and what follows. Raises ProxyRefusal."""
    digits, slash, rest = target.removeprefix(_PREFIX).partition("/")
    if not slash or not (digits.isdigit() and len(digits) <= _JOB_DIGITS_MAX and digits == str(int(digits))):
        raise ProxyRefusal(404, "expected /session/JOBID/")
    return int(digits), rest


def _pass_of(headers: Headers, job_id: int) -> SessionPass:
    """What the cookie of a session has. Raises ProxyRefusal."""
    kind, _, token = cookie(headers, f"{_COOKIE}{job_id}".encode()).decode("latin-1").partition(".")
    if not is_kind(kind) or not is_token(token):
        raise ProxyRefusal(403, "this session is not open in this browser: open it from the page Sessions of Penstock")
    return SessionPass(job_id, kind, token)


async def _refuse(writer: asyncio.StreamWriter, exchange: Exchange | None, refusal: ProxyRefusal) -> None:
    """Answers with a line, if nothing was answered."""
    text = f"{refusal}\n".encode()
    with contextlib.suppress(OSError):
        if exchange is None:
            lines = (b"HTTP/1.1 %d Refused" % refusal.status, b"content-type: text/plain; charset=utf-8",
                     b"content-length: %d" % len(text), b"connection: close")  # fmt: skip
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + text)
            await writer.drain()
        elif exchange.has_answered:
            writer.transport.abort()  # the browser must not take the part for the whole
        else:
            await exchange.answer(refusal.status, [*_TEXT, *_NO_STORE], text)
