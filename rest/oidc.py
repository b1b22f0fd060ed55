"""Login by an identity provider: OpenID Connect Core 1.0, the authorization code flow with PKCE (RFC 7636).

    GET /web/oidc/start      sends the browser to the provider
    GET /web/oidc/callback   exchanges the provider's code for an ID token, and sends the browser back to the page with a one-time
                             secret for it, as `penstock up --web` does

The ID token is a JSON web token of the user: the controller verifies it with the provider's keys (AuthAltParameters=jwks=FILE),
as any other token, and decides which user it is. So the daemon keeps neither table nor session. What it checks is what the
controller cannot: that the browser which comes back is the one that began (`state`), and that the token was made for this login
(`nonce`). Both are in a cookie of COOKIE_LIFE_S, which other pages cannot read.
"""

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.values.base64url import claims_of, to_text
from rest.answers import NEVER_KEPT, RestError
from rest.callers import cookie_of

T = TypeVar("T")
COOKIE: Final = "penstock_oidc"
COOKIE_LIFE_S: Final = 600
PATH: Final = "/web/oidc/"
#: Of one question to the provider, and of its answer.
PROVIDER_TIMEOUT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 256 * 1024
#: How long the provider's addresses are kept.
DISCOVERY_LIFE_S: Final = 600.0
#: Questions at a time; each has a thread.
QUESTIONS_MAX: Final = 8
CODE_CHARS_MAX: Final = 4096
_SECRET_BYTES: Final = 32
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_AGAIN: Final = "begin the login again from Penstock's page"


class OidcSettings(NamedTuple):
    """What is configured of a provider."""

    issuer: str  # its URL
    client_id: str
    client_secret: str = ""  # "" = a public client, which PKCE protects
    public_url: str = ""  # the address of this daemon as browsers have it; "" = that of the request
    user_claim: str = "preferred_username"  # which names the user: the controller has it as userclaimfield
    scope: str = "openid profile email"


class ProviderFailed(Exception):
    """The identity provider does not do what it should; the text says what."""


#: Asks the provider: a URL, a form to post (None: GET), headers. Blocks. Returns the answer's body. Raises ProviderFailed.
Fetch = Callable[[str, Mapping[str, str] | None, Mapping[str, str]], bytes]


class _Endpoints(msgspec.Struct, frozen=True):
    """The members of the discovery document that are used (OpenID Connect Discovery 1.0, 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str


class _Tokens(msgspec.Struct, frozen=True):
    """A successful answer of the token endpoint (3.1.3.3)."""

    id_token: str


class OidcLogin:
    """Logins by one provider. Belongs to the loop's thread."""

    def __init__(
        self, settings: OidcSettings, fetch: "Fetch | None" = None, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._fetch = fetch or ask_provider
        self._clock_s = clock_s
        self._endpoints: _Endpoints | None = None
        self._read_at_s = 0.0
        self._free = asyncio.Semaphore(QUESTIONS_MAX)

    @property
    def name(self) -> str:
        """The provider's host, to be shown."""
        return urlsplit(self._settings.issuer).netloc

    @property
    def user_claim(self) -> str:
        """The claim that names the user."""
        return self._settings.user_claim

    async def start(self, request: Request) -> Response:
        """Sends the browser to the provider. Raises RestError."""
        endpoints = await self._discover()
        state, verifier, nonce = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(3))
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri(request),
            "scope": self._settings.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": to_text(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in endpoints.authorization_endpoint else "?"
        response = RedirectResponse(f"{endpoints.authorization_endpoint}{mark}{urlencode(asked)}", 303, NEVER_KEPT)
        # Lax: the provider's page sends the browser back.
        response.set_cookie(
            COOKIE, f"{state}.{verifier}.{nonce}", max_age=COOKIE_LIFE_S, path=PATH,
            secure=self.is_secure(request), httponly=True, samesite="lax",
        )  # fmt: skip
        return response

    async def finish(self, request: Request) -> str:
        """Returns the ID token of a browser that comes back. The controller has not verified it yet. Raises RestError."""
        given = request.query_params
        began = cookie_of(request, COOKIE).split(".")
        state, verifier, nonce = began if len(began) == 3 else ("", "", "")
        if not state or not hmac.compare_digest(state.encode(), given.get("state", "").encode("utf-8", "replace")):
            raise RestError(401, 0, f"this browser did not begin this login, or too long ago: {_AGAIN}", is_plain=True)
        if "error" in given:
            raise RestError(401, 0, f"{self.name} refuses the login: {_word(given['error'])}", is_plain=True)
        code = given.get("code", "")
        if not code or len(code) > CODE_CHARS_MAX:
            raise RestError(401, 0, f"{self.name} has sent no code: {_AGAIN}", is_plain=True)
        token = await self._exchange(code, verifier, self._redirect_uri(request))
        said = claims_of(token).get("nonce")
        if not isinstance(said, str) or not hmac.compare_digest(said.encode("utf-8", "replace"), nonce.encode()):
            raise RestError(401, 0, f"the token of {self.name} was made for another login: {_AGAIN}", is_plain=True)
        return token

    def _redirect_uri(self, request: Request) -> str:
        base = self._settings.public_url or f"{'https' if self.is_secure(request) else 'http'}://{request.url.netloc}"
        return f"{base.rstrip('/')}{PATH}callback"

    def is_secure(self, request: Request) -> bool:
        """Whether browsers reach this daemon over TLS."""
        return request.url.scheme == "https" or self._settings.public_url.startswith("https://")

    async def _exchange(self, code: str, verifier: str, redirect_uri: str) -> str:
        endpoints = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers: dict[str, str] = {}
        if self._settings.client_secret:
            pair = f"{quote(self._settings.client_id, '')}:{quote(self._settings.client_secret, '')}"  # RFC 6749, 2.3.1
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = self._settings.client_id
        return (await self._ask(endpoints.token_endpoint, form, headers, _Tokens)).id_token

    async def _discover(self) -> _Endpoints:
        if self._endpoints is not None and self._clock_s() - self._read_at_s < DISCOVERY_LIFE_S:
            return self._endpoints
        issuer = self._settings.issuer
        found = await self._ask(f"{issuer.rstrip('/')}/.well-known/openid-configuration", None, {}, _Endpoints)
        if found.issuer.rstrip("/") != issuer.rstrip("/"):
            raise RestError(502, 0, f"{self.name} calls itself by another name, {_word(found.issuer)}", is_plain=True)
        for url in (found.authorization_endpoint, found.token_endpoint):
            if why := why_no_provider(url):
                raise RestError(502, 0, f"{self.name}: {_word(url)}: {why}", is_plain=True)
        self._endpoints = found
        self._read_at_s = self._clock_s()
        return found

    async def _ask(self, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str], kind: type[T]) -> T:
        try:
            async with self._free:
                body = await asyncio.to_thread(self._fetch, url, form, headers)
            return msgspec.json.decode(body, type=kind)
        except ProviderFailed as error:
            raise RestError(502, 0, f"{self.name}: {error}", is_plain=True) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RestError(502, 0, f"{self.name}: its answer cannot be read", is_plain=True) from error


def forget(response: Response) -> Response:
    """The same response, with which the browser drops the cookie of the login."""
    response.delete_cookie(COOKIE, path=PATH, httponly=True, samesite="lax")
    return response


def why_no_provider(url: str) -> str:
    """Why this cannot be an address of a provider; "" = it can."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username is not None:
        return "an address begins with https:// and a host"
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        return "without TLS tokens can be read on the way: https:// is needed"
    return ""


def ask_provider(url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> bytes:
    """Fetches a document, or posts a form. Follows no redirect. Blocks. Raises ProviderFailed."""
    ends_at_s = time.monotonic() + PROVIDER_TIMEOUT_S
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=PROVIDER_TIMEOUT_S)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    sent = {"Accept": "application/json", **headers}
    try:
        if form is None:
            connection.request("GET", path, headers=sent)
        else:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
            connection.request("POST", path, urlencode(form), sent)
        answer = connection.getresponse()
        body = _read(answer, ends_at_s)
    except (OSError, http.client.HTTPException) as error:
        raise ProviderFailed(f"it cannot be asked: {getattr(error, 'strerror', None) or error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise ProviderFailed(f"it answers {answer.status}{_why(body)}")
    return body


def _read(answer: http.client.HTTPResponse, ends_at_s: float) -> bytes:
    """Reads an answer as far as it may go. Raises ProviderFailed."""
    body = b""
    while chunk := answer.read1(65_536):
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise ProviderFailed(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > ends_at_s:
            raise ProviderFailed(f"its answer takes more than {PROVIDER_TIMEOUT_S:.0f} s")
    return body


def _why(body: bytes) -> str:
    """What an error of the token endpoint says (RFC 6749, 5.2)."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = said.get("error") if isinstance(said, dict) else None
    return f": {_word(error)}" if isinstance(error, str) else ""


def _word(text: str) -> str:
    """A text of others, short and printable."""
    return "".join(char if char.isprintable() else "?" for char in text[:200])
