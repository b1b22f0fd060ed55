"""Login by an identity provider, in process: the flow, and what a browser or a provider may do wrong."""

import base64
import hashlib
import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from fakerest import FakeRest

from penstock.errors import NotProven
from penstock.v1.controller_pb2 import PingReply
from rest import oidc
from rest.oidc import ANSWER_BYTES_MAX, DISCOVERY_LIFE_S, OidcLogin, OidcSettings, ProviderFailed, why_no_provider
from rest.pages import load
from rest.sessions import TOKEN_CHARS_MAX

ISSUER = "https://id.example.org/realm"
CALLBACK = "/web/oidc/callback"


def token_of(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


class Provider:
    """A provider that checks what RFC 7636 says; `claims` are added to its tokens."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": "https://id.example.org/authorize",
            "token_endpoint": "https://id.example.org/token",
        }
        self.claims: dict[str, Any] = {"preferred_username": "ann", "aud": "test"}
        self.asked: list[str] = []
        self.headers: Mapping[str, str] = {}
        self.codes: dict[str, Mapping[str, str]] = {}
        self.answer: bytes | None = None

    def agree(self, location: str) -> str:
        """What the user does at the provider; returns the address to which the browser is sent."""
        wanted = dict(parse_qsl(urlsplit(location).query))
        assert wanted["response_type"] == "code" and "openid" in wanted["scope"].split()
        assert wanted["code_challenge_method"] == "S256"
        code = f"code{len(self.codes)}"
        self.codes[code] = wanted
        return f"{wanted['redirect_uri']}?code={code}&state={wanted['state']}"

    def fetch(self, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> bytes:
        self.asked.append(url)
        if form is None:
            assert url == f"{ISSUER}/.well-known/openid-configuration"
            return json.dumps(self.document).encode()
        self.headers = headers
        if self.answer is not None:
            return self.answer
        wanted = self.codes.pop(form["code"], None)
        if wanted is None:
            raise ProviderFailed("it answers 400: invalid_grant")
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        )
        assert challenge == wanted["code_challenge"] and form["redirect_uri"] == wanted["redirect_uri"]
        return json.dumps({"id_token": token_of(nonce=wanted["nonce"], **self.claims)}).encode()


class Browser:
    """One browser at the daemon, with its cookies."""

    def __init__(self, rest: FakeRest) -> None:
        self.rest = rest
        self.cookies: dict[str, str] = {}
        self.set_cookie = ""

    def get(self, where: str) -> httpx.Response:
        parts = urlsplit(where)
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        reply = self.rest.get(f"{parts.path}?{parts.query}", headers={"Cookie": cookie} if cookie else {})
        self.set_cookie = reply.headers.get("set-cookie", "")
        for name, value in reply.cookies.items():
            self.cookies[name] = value
        return reply

    def login(self, secret: str) -> httpx.Response:
        """What the page does with the secret in its address."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"X-Penstock-Web": "none", "Origin": "http://rest"} | ({"Cookie": cookie} if cookie else {})
        return self.rest.post("/web/login", {"secret": secret}, headers=headers)


class World:
    """A daemon, its provider, and a clock."""

    def __init__(self, folder: Path, ping: object = PingReply(cluster_name="test"), **settings: str) -> None:
        static = folder / "static"
        static.mkdir()
        (static / "index.html").write_text("<!doctype html>page")
        self.provider = Provider()
        self.now_s = 1000.0
        login = OidcLogin(OidcSettings(ISSUER, "test", **settings), self.provider.fetch, lambda: self.now_s)
        self.rest = FakeRest({"Ping": ping}, files=load(static), oidc=login)

    def begin(self, browser: Browser) -> str:
        """Returns the address that the provider sends the browser to."""
        reply = browser.get("/web/oidc/start")
        assert reply.status_code == 303, reply.text
        return self.provider.agree(reply.headers["location"])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_flow_ends_in_a_session_of_the_users_token(world: World) -> None:
    browser = Browser(world.rest)
    reply = browser.get(world.begin(browser))
    assert reply.status_code == 303 and reply.headers["cache-control"] == "no-store"
    where, _, secret = reply.headers["location"].partition("#login=")
    assert where == "/" and secret
    assert 'penstock_oidc="";' in browser.set_cookie  # dropped
    assert "HttpOnly; Max-Age=300; Path=/web/login; SameSite=strict" in browser.set_cookie
    login = browser.login(secret)
    assert login.json()["user"] == "ann"
    pings = [dict(proof) for method, _, proof in world.rest.calls if method == "Ping"]
    tokens = {one["penstock-user-token"] if "penstock-user-token" in one else next(iter(one.values())) for one in pings}
    assert len(tokens) == 1 and next(iter(tokens)).startswith("e30.")
    assert browser.login(secret).status_code == 401


def test_the_page_is_told_of_the_provider(world: World) -> None:
    said = world.rest.get("/web/session", headers={"X-Penstock-Web": "none", "Origin": "http://rest"}).json()
    assert said["provider"] == "id.example.org"


def test_the_cookie_is_for_this_login_alone(world: World) -> None:
    browser = Browser(world.rest)
    world.begin(browser)
    words = [word.strip() for word in browser.set_cookie.split(";")]
    assert "HttpOnly" in words and "SameSite=lax" in words and "Path=/web/oidc/" in words and "Secure" not in words
    asked = world.rest.get("/web/oidc/start", headers={})
    assert asked.headers["location"] != world.rest.get("/web/oidc/start", headers={}).headers["location"]


def test_behind_a_proxy_the_address_is_the_one_that_is_named(tmp_path: Path) -> None:
    world = World(tmp_path, public_url="https://portal.example.org/", client_secret="s & s")
    browser = Browser(world.rest)
    back = world.begin(browser)
    assert back.startswith(f"https://portal.example.org{CALLBACK}?") and "Secure" in browser.set_cookie
    assert browser.get(back).status_code == 303
    kind, _, value = world.provider.headers["Authorization"].partition(" ")
    assert kind == "Basic" and base64.b64decode(value) == b"test:s%20%26%20s"


def test_who_did_not_begin_does_not_end(world: World) -> None:
    """Another browser, none, another state; a code that was used; a login twice."""
    browser, other = Browser(world.rest), Browser(world.rest)
    back = world.begin(browser)
    assert other.get(back).status_code == 401
    world.begin(other)
    assert other.get(back).status_code == 401
    state = parse_qs(urlsplit(back).query)["state"][0]
    for query in (
        "",
        "code=x",
        f"code=x&state={state}x",
        "code=x&state=",
        f"state={state}",
        f"code={'x' * 5000}&state={state}",
    ):
        reply = browser.get(f"{CALLBACK}?{query}")
        assert reply.status_code == 401 and "begin the login again" in reply.text
    assert browser.get(back).status_code == 303
    browser.cookies["penstock_oidc"] = ".".join([state, "v" * 43, "n"])
    reply = browser.get(back)
    assert reply.status_code == 502 and "invalid_grant" in reply.text


def test_nobody_logs_another_browser_in_as_their_own_user(world: World) -> None:
    """Found: the address at the end of a login was valid in any browser. Who opened a link to it was the attacker's user from
    then on, and handed scripts to jobs of the attacker."""
    attacker, victim = Browser(world.rest), Browser(world.rest)
    secret = attacker.get(world.begin(attacker)).headers["location"].partition("#login=")[2]
    assert victim.login(secret).status_code == 401
    victim.get(world.begin(victim))  # one who has a login of their own under way
    secret = attacker.get(world.begin(attacker)).headers["location"].partition("#login=")[2]
    reply = victim.login(secret)
    assert reply.status_code == 401 and "set-cookie" not in reply.headers
    assert attacker.login(secret).status_code == 401  # used up


@pytest.mark.parametrize("cookie", ["", ".", "..", "a.b", "a.b.c.d", "x" * 5000])
def test_odd_cookies(world: World, cookie: str) -> None:
    browser = Browser(world.rest)
    browser.cookies["penstock_oidc"] = cookie
    assert browser.get(f"{CALLBACK}?code=x&state=").status_code == 401


def test_the_token_of_another_login_is_not_taken(world: World) -> None:
    browser = Browser(world.rest)
    for claims in ({"nonce": "other"}, {"nonce": 7}, {}):
        back = world.begin(browser)
        world.provider.answer = json.dumps({"id_token": token_of(**claims)}).encode()
        reply = browser.get(back)
        assert reply.status_code == 401 and "made for another login" in reply.text


def test_a_refusal_is_said_in_few_printable_words(world: World) -> None:
    browser = Browser(world.rest)
    back = world.begin(browser)
    state = parse_qs(urlsplit(back).query)["state"][0]
    reply = browser.get(f"{CALLBACK}?error=access_denied%1b[2J{'x' * 3000}&state={state}")
    assert reply.status_code == 401 and "id.example.org refuses the login: access_denied?" in reply.text
    assert reply.headers["content-type"].startswith("text/plain") and "\x1b" not in reply.text and len(reply.text) < 300


def test_what_the_controller_does_not_accept_is_no_login(tmp_path: Path) -> None:
    world = World(tmp_path, NotProven(1007, "no"))
    browser = Browser(world.rest)
    reply = browser.get(world.begin(browser))
    assert reply.status_code == 401 and "does not accept" in reply.text


def test_a_token_that_fits_no_cookie(world: World) -> None:
    world.provider.claims["groups"] = "x" * TOKEN_CHARS_MAX
    browser = Browser(world.rest)
    reply = browser.get(world.begin(browser))
    assert reply.status_code == 401 and str(TOKEN_CHARS_MAX) in reply.text


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"id_token": 7}', b"\xff", b"[" * 5000])
def test_answers_of_the_token_endpoint_that_are_none(world: World, answer: bytes) -> None:
    browser = Browser(world.rest)
    back = world.begin(browser)
    world.provider.answer = answer
    assert browser.get(back).status_code == 502


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://evil.example.org"},
        {"token_endpoint": "http://id.example.org/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": None},
    ],
)
def test_what_a_provider_must_not_say_of_itself(world: World, wrong: dict[str, Any]) -> None:
    world.provider.document |= wrong
    reply = world.rest.get("/web/oidc/start", headers={})
    assert reply.status_code == 502 and "location" not in reply.headers


def test_the_document_is_read_again_after_a_while(world: World) -> None:
    for _ in range(3):
        world.rest.get("/web/oidc/start", headers={})
    assert len(world.provider.asked) == 1
    world.now_s += DISCOVERY_LIFE_S
    world.rest.get("/web/oidc/start", headers={})
    assert len(world.provider.asked) == 2


def test_without_a_provider_there_are_no_such_paths(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("page")
    rest = FakeRest({}, files=load(tmp_path))
    assert rest.get("/web/oidc/start", headers={}).status_code == 404
    assert rest.get(CALLBACK, headers={}).status_code == 404


def test_addresses_of_providers() -> None:
    for good in (
        "https://id.example.org",
        "https://id.example.org:8443/realms/x",
        "http://127.0.0.1:9400",
        "http://localhost",
    ):
        assert why_no_provider(good) == ""
    for bad in (
        "http://id.example.org",
        "ftp://x",
        "id.example.org",
        "",
        "https://",
        "https://u:p@id.example.org",
        "file:///etc",
    ):
        assert why_no_provider(bad)


class _Odd(BaseHTTPRequestHandler):
    """A provider's server that misbehaves by path."""

    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
        elif self.path == "/long":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * (ANSWER_BYTES_MAX + 1))
        elif self.path == "/error":
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b'{"error": "invalid\\u001b_client"}')
        else:
            self.wfile.write(b"no http\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def odd_server():
    with HTTPServer(("127.0.0.1", 0), _Odd) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "said"),
    [("redirect", "answers 302"), ("long", "more than"), ("error", "400: invalid?_client"), ("raw", "asked")],
)
def test_servers_that_misbehave(odd_server: str, path: str, said: str) -> None:
    with pytest.raises(ProviderFailed, match=said.replace("?", r"\?")):
        oidc.ask_provider(f"{odd_server}/{path}", None, {})


def test_nobody_answers() -> None:
    with pytest.raises(ProviderFailed, match="cannot be asked"):
        oidc.ask_provider("http://127.0.0.1:1/", None, {})
