"""The web interface's sessions and files, in process: login, its one-time links, the cookie's way to the API, who may use it."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakerest import FakeRest

from penstock.errors import NotProven, Unreachable
from penstock.v1.controller_pb2 import JobResult, JobResultsReply, ListNodesReply, PingReply
from penstock.values.base64url import to_text
from rest import sessions
from rest.pages import SECURITY, load
from rest.sessions import KEY_BYTES, LINK_LIFE_S, LINKS_MAX, LoginLinks, seal

KEY = bytes(range(KEY_BYTES))
PAGE = {"X-Penstock-Web": to_text(KEY), "Origin": "http://rest"}
CLAIMS = base64.urlsafe_b64encode(json.dumps({"sun": "ann", "exp": 1}).encode()).decode().rstrip("=")
TOKEN = f"e30.{CLAIMS}.c2ln"
COOKIE = {"Cookie": f"penstock={seal(TOKEN, KEY, 'penstock')}"}
REPLIES = {
    "Ping": PingReply(cluster_name="test"),
    "ListNodes": ListNodesReply(),
    "ControlJobs": JobResultsReply(results=[JobResult(id="7")]),
    "UpdateJobs": JobResultsReply(results=[JobResult(id="7")]),
}
NODES = "/slurm/v0.0.46/nodes"
JOB = "/slurm/v0.0.46/job/7"


@pytest.fixture
def files(tmp_path: Path):
    """A page with a script and what is not to be served."""
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html>page")
    (static / "assets/index-1a2b.js").write_text("code();" * 400)
    (static / "manifest.json").write_text("{}")
    (tmp_path / "secret.html").write_text("secret")
    return load(static)


@pytest.fixture
def rest(files: Any) -> FakeRest:
    return FakeRest(REPLIES, files=files)


def test_the_page_and_its_files(rest):
    page = rest.get("/", headers={})
    assert (page.status_code, page.text, page.headers["cache-control"]) == (200, "<!doctype html>page", "no-cache")
    assert page.headers["content-type"].startswith("text/html")
    script = rest.get("/assets/index-1a2b.js", headers={})
    assert script.text == "code();" * 400 and "immutable" in script.headers["cache-control"]
    assert script.headers["content-encoding"] == "gzip" and int(script.headers["content-length"]) < 200
    again = rest.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/manifest.json", "/../secret.html", "/assets/../../secret.html", "/%2e%2e/secret.html", "/assets/..%2f..%2fsecret.html",
        "/assets//index-1a2b.js", "/assets/", "//etc/passwd", "/assets/index-1a2b.js%00.html", "/index.html/", "/assets\\index-1a2b.js",
    ],
)  # fmt: skip
def test_nothing_else_is_served(rest, path):
    reply = rest.request("GET", httpx.URL(scheme="http", host="rest", raw_path=path.encode()), headers={})
    assert reply.status_code in (401, 404) and "secret" not in reply.text


def test_every_answer_has_the_security_headers(rest):
    """Pages, refusals and the API; scripts and styles of this daemon alone."""
    for path in ("/", "/assets/index-1a2b.js", "/none", "/web/session", "/web/none", NODES, "/openapi"):
        headers = rest.get(path, headers={}).headers
        assert {name: headers[name] for name in SECURITY} == SECURITY, path
    policy = SECURITY["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy


def test_without_the_option_there_are_no_pages():
    rest = FakeRest(REPLIES)
    assert rest.get("/", headers={}).status_code == 404
    assert rest.get("/web/session", headers=COOKIE).status_code == 404
    assert rest.get(NODES, headers=COOKIE).status_code == 401


def test_login_by_token_and_logout(rest):
    reply = rest.post("/web/login", {"token": f"SLURM_JWT={TOKEN} \n"}, headers=PAGE)
    said = reply.json()
    key = said.pop("key")
    assert said == {"user": "ann", "cluster": "test"} and reply.headers["cache-control"] == "no-store"
    value, *attributes = reply.headers["set-cookie"].split("; ")
    assert attributes == ["HttpOnly", "Path=/", "SameSite=strict"] and TOKEN not in reply.text + value
    assert list(dict(rest.calls[0][2]).values()) == [TOKEN]
    own = {"X-Penstock-Web": key, "Cookie": value}
    assert rest.get("/web/session", headers=own).json() == {
        "user": "ann",
        "cluster": "test",
        "provider": "",
        "passwords": False,
    }
    assert rest.get("/web/session", headers=PAGE).json() == {
        "user": "",
        "cluster": "",
        "provider": "",
        "passwords": False,
    }
    again = rest.post("/web/login", {"token": TOKEN}, headers=PAGE)
    assert again.json()["key"] != key and value not in again.headers["set-cookie"]
    out = rest.post("/web/logout", {}, headers=PAGE | COOKIE)
    assert (
        out.status_code == 200
        and 'penstock="";' in out.headers["set-cookie"]
        and "Max-Age=0" in out.headers["set-cookie"]
    )


def test_the_cookie_is_secure_behind_tls(files):
    rest = FakeRest(REPLIES, files=files)
    headers = PAGE | {"Origin": "https://rest"}
    assert "Secure" in rest.post("/web/login", {"token": TOKEN}, headers=headers).headers["set-cookie"]


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("x y", 401),
        ("", 401),
        ("é.b.c", 401),
        ("a.b.c; Path=/x", 401),
        ("a" * 5000, 401),
        ("a\r\nSet-Cookie: x=1", 401),
        (7, 422),
    ],
)
def test_hostile_tokens_make_no_session(rest, token, status):
    reply = rest.post("/web/login", {"token": token}, headers=PAGE)
    assert reply.status_code == status and "set-cookie" not in reply.headers and rest.calls == []


def test_what_the_controller_refuses_makes_no_session(files):
    for error, status in ((NotProven(1007, "no"), 401), (Unreachable(), 503)):
        rest = FakeRest({"Ping": error}, files=files)
        reply = rest.post("/web/login", {"token": TOKEN}, headers=PAGE)
        assert reply.status_code == status and "set-cookie" not in reply.headers


# ---- one-time links


def test_a_link_works_once(files):
    rest = FakeRest(REPLIES, files=files, peer_uid=os.geteuid())
    made = rest.post("/web/link", None, headers={"X-SLURM-USER-TOKEN": TOKEN}).json()
    assert made["life_s"] == LINK_LIFE_S and len(made["secret"]) > 40
    first = rest.post("/web/login", {"secret": made["secret"]}, headers=PAGE)
    assert first.json()["user"] == "ann" and "set-cookie" in first.headers
    second = rest.post("/web/login", {"secret": made["secret"]}, headers=PAGE)
    assert second.status_code == 401 and "penstock up --web" in second.text and "set-cookie" not in second.headers


def test_a_link_is_used_up_also_when_the_login_fails(files):
    rest = FakeRest({"Ping": NotProven(1007, "no")}, files=files, peer_uid=os.geteuid())
    secret = rest.post("/web/link", None, headers={"X-SLURM-USER-TOKEN": TOKEN}).json()["secret"]
    assert rest.post("/web/login", {"secret": secret}, headers=PAGE).status_code == 401
    rest.client.replies = REPLIES
    assert rest.post("/web/login", {"secret": secret}, headers=PAGE).status_code == 401


def test_links_end_and_are_few():
    now = [0.0]
    links = LoginLinks(lambda: now[0])
    early = links.make("a", "ann")
    now[0] = LINK_LIFE_S
    assert links.take(early) == ""
    first, *others = [links.make(str(number), "ann") for number in range(LINKS_MAX + 1)]
    assert links.take(first) == ""
    assert [links.take(one) for one in others] == [str(number) for number in range(1, LINKS_MAX + 1)]
    some = [links.make(str(number), "ann") for number in range(LINKS_MAX - 3)]
    bobs = links.make("b", "bob")
    for number in range(3 * LINKS_MAX):
        links.make(str(number), "ann")
    assert links.take(bobs) == "b" and [links.take(one) for one in some] == [""] * len(some)
    some = [links.make(str(number), "ann") for number in range(LINKS_MAX)]
    assert [links.take(one) for one in some] == [str(number) for number in range(LINKS_MAX)]
    assert links.take("") == links.take("\udcff") == ""


def test_links_are_made_for_the_daemons_user_alone(files):
    headers = {"X-SLURM-USER-TOKEN": TOKEN}
    assert FakeRest(REPLIES, files=files).post("/web/link", None, headers=headers).status_code == 401
    other = FakeRest(REPLIES, files=files, peer_uid=os.geteuid() + 1)
    assert other.post("/web/link", None, headers=headers).status_code == 401
    own = FakeRest(REPLIES, files=files, peer_uid=os.geteuid())
    assert own.post("/web/link", None, headers={}).status_code == 422


# ---- the cookie's way to the API


def test_the_cookie_proves_its_user(rest):
    assert rest.get(NODES, headers=COOKIE | PAGE).status_code == 200
    assert [list(dict(proof).values()) for *_, proof in rest.calls] == [[TOKEN]]
    reply = rest.post(JOB, {"hold": True}, headers=COOKIE | PAGE)
    assert reply.status_code == 200, reply.text


def test_a_cookie_names_no_other_user(rest):
    """As root's token may do in a header."""
    rest.get(NODES, headers=COOKIE | PAGE | {"X-SLURM-USER-NAME": "bob"})
    assert "bob" not in str(rest.calls[0][2])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://rest"},
        {**PAGE, "Origin": "http://evil.example"},
        {**PAGE, "Origin": "http://rest:8080"},
        {**PAGE, "Origin": "null"},
        {**PAGE, "Sec-Fetch-Site": "cross-site"},
        {**PAGE, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_page_changes_nothing(rest, headers):
    for method, path in (("POST", JOB), ("DELETE", JOB), ("GET", f"{JOB}/requeue"), ("GET", "/slurm/v0.0.46/reconfigure/"),
                         ("POST", "/web/login"), ("POST", "/web/logout")):  # fmt: skip
        reply = rest.request(method, path, json={"hold": True}, headers=COOKIE | headers)
        assert reply.status_code == 403, (method, path)
    assert rest.calls == []


def test_another_page_reads_nothing(rest):
    for headers in ({}, PAGE | {"Sec-Fetch-Site": "same-site"}, PAGE | {"Origin": "http://evil.example"}):
        assert rest.get(NODES, headers=COOKIE | headers).status_code == 403
        assert rest.get("/web/session", headers=COOKIE | headers).status_code == 403
    assert (
        rest.request("OPTIONS", JOB, headers={"Origin": "http://evil.example"}).headers.get(
            "access-control-allow-origin"
        )
        is None
    )


def test_a_cookie_without_its_key_proves_nobody(rest):
    """As a server on another port of the host has it: browsers send cookies to all ports."""
    other = PAGE | {"X-Penstock-Web": to_text(bytes(KEY_BYTES))}
    moved = {"Cookie": COOKIE["Cookie"].replace("penstock=", "penstock_8080="), "Host": "rest:8080"}
    for headers in (
        COOKIE | other,
        COOKIE | PAGE | {"X-Penstock-Web": "1"},
        moved | PAGE | {"Origin": "http://rest:8080"},
    ):
        assert rest.get(NODES, headers=headers).status_code == 401
        assert rest.get("/web/session", headers=headers).json()["user"] == ""
    assert rest.calls == []


@pytest.mark.parametrize("token", ["a b", "a\nb", "é.b.c", "\udc80".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_who_seals_a_cookie_sends_no_other_token_than_a_header_may(rest, token):
    cookie = {"Cookie": f"penstock={seal(token, KEY, 'penstock')}"}
    assert rest.get(NODES, headers=cookie | PAGE).status_code == 401 and rest.calls == []


@pytest.mark.parametrize(
    "cookie",
    [
        "penstock=", "penstock=a b", "penstock=é", f"penstock={'a' * 5000}", "penstock_8080=a.b.c", "penstock2=a.b.c", "=", ";;;=;",
        "penstock", 'penstock="a\\012b"',
    ],
)  # fmt: skip
def test_hostile_cookies_prove_nobody(rest, cookie):
    headers = {"Cookie": cookie.encode("latin-1"), "X-Penstock-Web": to_text(KEY).encode()}
    reply = rest.get(NODES, headers=headers)
    assert reply.status_code == 401 and rest.calls == []


def test_a_header_goes_before_the_cookie(rest):
    """Programs that send a token are no browsers: nothing else is asked of them."""
    assert rest.post(JOB, {"hold": True}, headers=COOKIE | {"X-SLURM-USER-TOKEN": "x.y.z"}).status_code == 200
    assert "x.y.z" in str(rest.calls[0][2])


@pytest.mark.parametrize(
    "claims", ["", "!", "W10", "MTI", "eyJzdW4iOiA3fQ", base64.urlsafe_b64encode(b"[" * 5000).decode()]
)
def test_odd_claims_name_nobody(claims):
    assert sessions.claimed_user(f"a.{claims}.c") == ""
