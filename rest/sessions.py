"""Sessions of the web interface: a cookie holds the user's own token, encrypted; it is passed on as the token of a header is.

    POST /web/login {"token": ...}    the controller is asked whether it accepts the token; then the cookie is set
    POST /web/login {"user": ..., "password": ...}   a user's name and password, where PAM is asked (passwords.py)
    POST /web/login {"secret": ...}   a one-time secret of `penstock up --web`, for the token that it was made for
    POST /web/link                    such a secret; over the Unix socket only, for the daemon's own user and root
    GET  /web/oidc/...                the login of an identity provider, which ends in such a secret (oidc.py)
    POST /web/logout                  removes the cookie
    GET  /web/session                 who is logged in ("": nobody), to be shown: rights are the controller's matter

The daemon has no secret and no table of sessions: any number of daemons serve the same browser. Secrets of links live for
LINK_LIFE_S in memory; one of an identity provider is valid in the browser that has logged in there (a cookie has the proof), so
that nobody can lead another user into a session of their own. A login makes a key, encrypts the token with it into the cookie
and gives the key to the page, which sends it with each request (PAGE_HEADER). Browsers send cookies to all ports of a host, also
to a server of another user of this machine; the key stays with the origin. So the cookie alone is worth nothing, and no other
page can use it.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.calls import USER_TOKEN_KEY
from penstock.errors import NotProven, PenstockError
from penstock.v1.controller_pb2 import PingRequest
from penstock.values.base64url import claims_of, to_bytes, to_text
from rest.answers import NEVER_KEPT, RestError, error_of
from rest.body import read_body
from rest.callers import UnixPeer, cookie_of, identify, peer_key
from rest.calling import ControllerClient
from rest.limits import CALL_TIMEOUT_S, Requests
from rest.oidc import OidcLogin, forget
from rest.passwords import PasswordLogin
from rest.sending import JSON_TYPE, whole

if TYPE_CHECKING:
    from penstock.calls import Proof

PREFIX: Final = "/web/"
#: The key, with each request of the page. A browser asks before it sends the header to another origin, and is refused here.
PAGE_HEADER: Final = "x-penstock-web"
COOKIE: Final = "penstock"
#: Browsers keep cookies of 4,096 bytes with name and attributes.
COOKIE_CHARS_MAX: Final = 3800
#: What is left for the token: AES-GCM adds NONCE_BYTES and 16, base64 a third.
TOKEN_CHARS_MAX: Final = 2800
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
LINK_LIFE_S: Final = 300.0
#: Links of one user that wait to be used; one more removes the user's oldest.
LINKS_MAX: Final = 16
#: What a link's cookie is called after the session's. Browsers send it to LOGIN_PATH alone.
LINK_COOKIE: Final = "_login"
LOGIN_PATH: Final = "/web/login"
SECRET_BYTES: Final = 32
#: Claims with the user's name in tokens of scontrol.
USER_CLAIMS: Final = ("sun", "username")
_NO_LINK: Final = "this link was used already, is too old or another browser's: log in again, or run penstock up --web"
_OIDC: Final = (("GET", "oidc/start"), ("GET", "oidc/callback"))
_OWN_SITE: Final = ("same-origin", "none")  # "none": typed by the user


class LoginLink(NamedTuple):
    """A one-time secret that waits, and the token that it stands for."""

    secret: str
    token: str
    ends_at_s: float
    user: str
    browser: str  # what the cookie of the browser has that it was made for; "" = any browser may use it


class LoginLinks:
    """One-time secrets of logins."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waiting: list[LoginLink] = []

    def make(self, token: str, user: str, browser: str = "") -> str:
        """A secret for this token of a user, which the controller has accepted."""
        link = LoginLink(secrets.token_urlsafe(SECRET_BYTES), token, self._clock_s() + LINK_LIFE_S, user, browser)
        waiting = self._valid()
        oldest = [one for one in waiting if one.user == user][: -LINKS_MAX + 1]
        self._waiting = [*(one for one in waiting if one not in oldest), link]
        return link.secret

    def take(self, secret: str, browser: str = "") -> str:
        """The token of a secret, which is void then; "" for a secret that is not valid (any more), or another browser's."""
        given = secret.encode("utf-8", "surrogatepass")
        self._waiting = self._valid()
        # All are compared, each in constant time.
        found = [one for one in self._waiting if hmac.compare_digest(one.secret.encode(), given)]
        self._waiting = [one for one in self._waiting if one not in found]
        shown = browser.encode("utf-8", "surrogatepass")
        valid = [one for one in found if not one.browser or hmac.compare_digest(one.browser.encode(), shown)]
        return valid[0].token if valid else ""

    def _valid(self) -> list[LoginLink]:
        return [one for one in self._waiting if one.ends_at_s > self._clock_s()]


class LoginWays(NamedTuple):
    """How users log in, beside a token and a link; None = not in this way."""

    oidc: OidcLogin | None = None  # by an identity provider
    passwords: PasswordLogin | None = None


TOKENS_ALONE: Final = LoginWays()


class Sessions:
    """The paths below /web/, and the way of a cookie to the API."""

    def __init__(
        self, api: ASGIApp, client: ControllerClient, cluster: str, requests: Requests, ways: LoginWays = TOKENS_ALONE
    ) -> None:
        self._oidc = ways.oidc
        self._passwords = ways.passwords
        self._api = api
        self._client = client
        self._cluster = cluster
        self._requests = requests
        self._links = LoginLinks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or passes it on with the proof that the cookie is."""
        request = Request(scope, receive)
        try:
            if scope["path"].startswith(PREFIX):
                await (await self._answer(request))(scope, receive, send)
                return
            scope = with_proof(scope, request)
        except RestError as error:
            await refusal(error)(scope, receive, send)
            return
        await self._api(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        asked = (request.method, request.url.path.removeprefix(PREFIX))
        if asked == ("GET", "session"):
            return self._session(request)
        if asked == ("POST", "login"):
            check_origin(request)
            return await self._login(request)
        if asked == ("POST", "logout"):
            check_origin(request)
            return self._with_cookie(request, "", {})
        if asked == ("POST", "link"):
            return self._link(request)
        if self._oidc is not None and asked in _OIDC:
            return await self._by_provider(request, self._oidc)
        raise RestError(404, 0, "Not found", is_plain=True)

    def _session(self, request: Request) -> Response:
        check_origin(request)
        token = session_token(request)
        provider = self._oidc.name if self._oidc is not None else ""
        user = self._claimed_user(token) if token else ""
        content = {
            "user": user,
            "cluster": self._cluster if token else "",
            "provider": provider,
            "passwords": self._passwords is not None,
        }
        return whole(content, 200, JSON_TYPE, NEVER_KEPT)

    async def _by_provider(self, request: Request, oidc: OidcLogin) -> Response:
        """A step of a login by an identity provider."""
        peer = peer_key(request.scope.get("client"))
        with self._requests.one(f"login from {peer}", peer):
            if request.url.path.endswith("start"):
                return await oidc.start(request)
            token = await oidc.finish(request)
            check_fits(token)
            await self._check(identify([(b"x-slurm-user-token", token.encode("utf-8", "replace"))], None).proof)
        browser = secrets.token_urlsafe(SECRET_BYTES)
        secret = self._links.make(token, self._claimed_user(token), browser)
        response = RedirectResponse(f"/#login={secret}", 303, NEVER_KEPT)
        response.set_cookie(
            cookie_name(request) + LINK_COOKIE, browser, max_age=int(LINK_LIFE_S), path=LOGIN_PATH,
            secure=oidc.is_secure(request), httponly=True, samesite="strict",
        )  # fmt: skip
        return forget(response)

    def _claimed_user(self, token: str) -> str:
        return claimed_user(token, USER_CLAIMS if self._oidc is None else (*USER_CLAIMS, self._oidc.user_claim))

    async def _login(self, request: Request) -> Response:
        peer = peer_key(request.scope.get("client"))
        with self._requests.one(f"login from {peer}", peer) as share:
            body = await read_body(request, share)
            given = body if isinstance(body, dict) else {}
            secret, token = given.get("secret"), given.get("token")
            if "password" in given:
                token = await self._by_password(given, peer)
        if isinstance(secret, str):
            token = self._links.take(secret, cookie_of(request, cookie_name(request) + LINK_COOKIE))
            if not token:
                raise RestError(401, 0, _NO_LINK)
        if not isinstance(token, str):
            raise RestError(422, 9200, "token is missing", source="#/token")
        token = token.strip().removeprefix("SLURM_JWT=")
        check_fits(token)
        proof = identify([(b"x-slurm-user-token", token.encode("utf-8", "replace"))], None).proof
        await self._check(proof)
        key = secrets.token_bytes(KEY_BYTES)
        content: dict[str, object] = {"user": self._claimed_user(token), "cluster": self._cluster, "key": to_text(key)}
        return self._with_cookie(request, seal(token, key, cookie_name(request)), content)

    async def _by_password(self, given: Mapping[object, object], address: str) -> str:
        """The token of a user's name and password. Raises RestError."""
        if self._passwords is None:
            raise RestError(422, 9200, "there is no login by password here: log in with a token", source="#/password")
        name, password = given.get("user"), given["password"]
        if not isinstance(name, str) or not isinstance(password, str):
            raise RestError(422, 9200, "user and password must be texts", source="#/user")
        return await self._passwords.token(name, password, address)

    async def _check(self, proof: "Proof | None") -> None:
        """Asks the controller whether it accepts the proof. Raises RestError."""
        try:
            await self._client.call("Ping", PingRequest(), CALL_TIMEOUT_S, proof=proof)
        except NotProven as error:
            raise RestError(401, 0, "the controller does not accept this token: it may be too old") from error
        except PenstockError as error:
            raise error_of(error, "slurm") from error

    def _link(self, request: Request) -> Response:
        peer = request.scope.get("client")
        if not isinstance(peer, UnixPeer):
            raise RestError(401, 0, "Authentication failure", is_plain=True)
        identify((), peer)  # the daemon's user or root, by the kernel's word
        proof = identify(request.headers.raw, peer).proof
        token = dict(proof or ()).get(USER_TOKEN_KEY, "")
        if not token:
            raise RestError(422, 9200, "X-SLURM-USER-TOKEN is missing")
        content = {"secret": self._links.make(str(token), ""), "life_s": int(LINK_LIFE_S)}
        return whole(content, 200, JSON_TYPE, NEVER_KEPT)

    def _with_cookie(self, request: Request, value: str, content: dict[str, object]) -> Response:
        response = whole(content, 200, JSON_TYPE, NEVER_KEPT)
        is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
        response.set_cookie(
            cookie_name(request), value, max_age=None if value else 0, path="/",
            secure=is_secure, httponly=True, samesite="strict",
        )  # fmt: skip
        return response


def refusal(error: RestError) -> Response:
    """The answer to a request that is refused before the API sees it."""
    if error.is_plain:
        return Response(error.text, error.status, NEVER_KEPT, "text/plain")
    headers = NEVER_KEPT | ({"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {})
    return whole({"errors": error.errors, "warnings": []}, error.status, JSON_TYPE, headers)


def check_fits(token: str) -> None:
    """Raises RestError for a text that is no token, or too long for a cookie."""
    if len(token) > TOKEN_CHARS_MAX or any(one in token for one in ';,"\\'):
        raise RestError(401, 0, f"this is no token of at most {TOKEN_CHARS_MAX} characters: scontrol token prints one")


def cookie_name(request: Request) -> str:
    """The cookie's name. Browsers send cookies to all ports of a host: the clusters of one machine have one each."""
    port = request.headers.get("host", "").rpartition("]")[2].rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() and len(port) < 6 else COOKIE


def seal(token: str, key: bytes, name: str) -> str:
    """The cookie's value: the token, encrypted and bound to the cookie's name."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return to_text(nonce + AESGCM(key).encrypt(nonce, token.encode(), name.encode()))


def session_token(request: Request) -> str:
    """The token in the cookie; "" without one, or if the page's key does not open it."""
    name = cookie_name(request)
    value, key = cookie_of(request, name), request.headers.get(PAGE_HEADER, "")
    if not value or len(value) > COOKIE_CHARS_MAX:
        return ""
    try:
        data = to_bytes(value)
        token = AESGCM(to_bytes(key)).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], name.encode()).decode()
    except (ValueError, InvalidTag):  # no base64, keys and nonces of other lengths
        return ""
    return token if token.isascii() and token.isprintable() and " " not in token else ""  # anybody may seal anything


def with_proof(scope: Scope, request: Request) -> Scope:
    """The request with the cookie's token as a header, where no header proves the caller. Raises RestError."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(name in (b"x-slurm-user-token", b"authorization") for name, _ in headers):
        return scope
    if not cookie_of(request, cookie_name(request)):
        return scope
    check_origin(request)
    token = session_token(request)
    if not token:
        return scope
    kept = [(name, value) for name, value in headers if name != b"x-slurm-user-name"]
    return {**scope, "headers": [*kept, (b"x-slurm-user-token", token.encode("latin-1"))]}


def check_origin(request: Request) -> None:
    """Raises RestError with 403 for a request that does not come from the page."""
    headers = request.headers
    origin = headers.get("origin")
    is_other = origin is not None and origin.partition("://")[2] != headers.get("host")
    is_other = is_other or headers.get("sec-fetch-site", "none") not in _OWN_SITE
    if is_other or PAGE_HEADER not in headers:
        raise RestError(403, 0, "this request does not come from Penstock's own page")


def claimed_user(token: str, names: Sequence[str] = USER_CLAIMS) -> str:
    """The user whom the token names in the first of these claims, unverified: to be shown."""
    claims = claims_of(token)
    found = next((claims[name] for name in names if claims.get(name)), "")
    return found if isinstance(found, str) else ""
