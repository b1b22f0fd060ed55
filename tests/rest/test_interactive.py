"""Sessions on a real cluster: a terminal and a program of ours are started, entered, used and stopped; and attacks: other
users, tickets, cookies, heads, pages from elsewhere, programs that answer what they like."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from liverest import PREFIX, LiveRest
from livesessions import OWN, USER, enter, live_sessions, origin_of, queue, sessions, start, ticket
from sessionclient import SessionClient, connect, exchange, read_all


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    """A cluster whose REST daemon has an origin for sessions."""
    with live_sessions() as rest:
        yield rest


def test_a_terminal_from_its_start_to_its_end(rest: LiveRest) -> None:
    job = start(rest, minutes=30)
    session = enter(rest, job)
    with session.websocket("ws") as wire:
        wire.send_text('{"rows": 40, "columns": 120}')
        wire.send(b"stty size; echo job $SLURM_JOB_ID-; ls -ld ${PENSTOCK_SESSION_SOCKET%/*}; echo $((6*7))-\n")
        seen = wire.until(b"42-")
        assert b"40 120" in seen and b"job %d-" % job in seen and b"drwx------" in seen
        with session.websocket("ws") as again:  # a page that is loaded again
            again.until(b"42-")
        found = sessions(rest)[job]
        assert (found["kind"], found["state"], found["connections"]) == ("shell", "RUNNING", 1)
        assert (found["time_limit_s"], found["node"], found["message"]) == (1800, "n1", "")
        with rest.as_user(USER) as client:  # shorter, as Slurm allows; longer is refused with its words
            limit = f"{PREFIX}/job/{job}"
            shorter = {"time_limit": {"set": True, "number": 20}}
            assert client.post(limit, json=shorter).json()["errors"] == []
            if USER:
                longer = client.post(limit, json={"time_limit": {"set": True, "number": 999}})
                assert "Access/permission denied" in longer.text
        assert sessions(rest)[job]["time_limit_s"] == 1200
        wire.send(b"exit\n")
        wire.until_closed()
    rest.cluster.wait_state(job, "COMPLETED")
    gone = session.get("")
    assert (gone.status, "no longer" in gone.text or "not run" in gone.text) == (gone.status, True) and gone.status in (
        403,
        404,
        503,
    ), gone.raw
    missing, idle = queue(rest, "missing"), queue(rest, "program", idle_s=1)
    for other, message in (
        (missing, "its program is not installed on this node"),
        (idle, "nobody has used it for its idle time"),
    ):
        rest.cluster.wait_state(other, "FAILED")
        assert sessions(rest)[other]["message"] == message
    with rest.as_user(USER) as client:  # by the form
        asked = {
            "kind": "missing",
            "work_dir": str(rest.cluster.work),
            "time_minutes": 7,
            "cpus": 1,
            "memory_mb": 64,
            "partition": "main",
        }
        made = client.post(f"{OWN}/sessions", json=asked)
        assert made.status_code == 200, made.text
    rest.cluster.wait_state(made.json()["job_id"], "FAILED")
    found = sessions(rest)[made.json()["job_id"]]
    assert (found["time_limit_s"], found["kind"], found["partition"]) == (420, "missing", "main") and found["message"]


def test_requests_pass_and_what_is_penstocks_does_not(rest: LiveRest) -> None:
    job = start(rest, "program")
    session = enter(rest, job)
    head = session.get("echo?x=1", "Cookie: penstock_6820=login; theirs=1", "Authorization: Bearer T", "Connection: x-hop",
                       "X-Hop: 1", "X-Forwarded-For: 1.2.3.4", "X-Penstock-Web: key").text  # fmt: skip
    assert head.startswith(f"GET /session/{job}/echo?x=1 HTTP/1.1") and "theirs=1" in head
    for word in ("penstock", "authorization", "bearer", "x-hop", "1.2.3.4", "login"):
        assert word not in head.lower(), head
    assert session.request("POST", "body", "Content-Length: 300000", body=b"b" * 300_000).text == "300000 bytes"
    chunked = session.request("POST", "echo", "Transfer-Encoding: chunked", body=b"1\r\na\r\n0\r\n\r\n").text
    assert "transfer-encoding: chunked" in chunked.lower() and "content-length" not in chunked.lower()
    cookies = session.get("cookies")
    assert cookies.all("set-cookie") == [
        f"a=1; Path=/session/{job}/; SameSite=Lax", f"b=2; HttpOnly; Path=/session/{job}/deep/; SameSite=Lax",
    ]  # fmt: skip
    assert cookies.all("service-worker-allowed") == cookies.all("clear-site-data") == []
    assert "3\r\nabc\r\n0\r\n" in session.get("chunks").text
    assert len(session.get("big").body) > 400 * 65536
    assert session.request("HEAD", "echo").body == b""
    for word in ("garbage", "endless"):
        assert session.get(word).status == 502, word
    assert session.get("many").raw.count(b"103") <= 8
    assert session.get("short").text.endswith("half")  # and no end that looks like one: the length says 100
    with session.websocket("upgrade") as wire:
        assert b"from the start " in wire.first + wire.until_raw(b"start ")
        wire.send_raw(b"typed")
        wire.until_raw(b"TYPED")
        silent = connect(session.origin)
        silent.sendall(
            f"GET {session.base}silent HTTP/1.1\r\nHost: {session.host}\r\nCookie: {session.cookie}\r\n\r\n".encode()
        )
        rest.cluster.wait(lambda: sessions(rest)[job]["connections"] == 2, "both connections")
        rest.cluster.run("scancel", str(job)).ok()  # ended while connected
        assert wire.until_end() and b"200" not in read_all(silent)
    rest.cluster.wait_state(job, "CANCELLED")
    stripped = enter(rest, start(rest, "stripped"))
    assert stripped.get("echo?y").text.startswith("GET /echo?y HTTP/1.1")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_only_the_owner_enters(rest: LiveRest) -> None:
    """Neither another user, nor an operator, nor root; by no way."""
    rest.cluster.run("sacctmgr", "-i", "add", "user", "sys", "account=root", "adminlevel=operator")
    job, other = start(rest, "program"), start(rest, "program", "daemon")
    mine, theirs = enter(rest, job), enter(rest, other, "daemon")
    for user in ("daemon", "sys", ""):
        with rest.as_user(user) as client:
            refused = client.post(f"{OWN}/sessions/{job}/enter")
            assert refused.status_code == 403 and "no session of yours" in refused.text, (user, refused.text)
            assert job not in sessions(rest, user)
    # The cookie of one session for another: renamed, and with the other's name beside it.
    stolen = mine.cookie.partition("=")[2]
    for cookie in (
        mine.cookie,
        f"penstock_session_{other}={stolen}",
        f"{mine.cookie}; {theirs.cookie.replace(str(other), '9')}",
    ):
        assert (
            exchange(
                mine.origin, f"GET {theirs.base}echo HTTP/1.1\r\nHost: {mine.host}\r\nCookie: {cookie}\r\n\r\n".encode()
            ).status
            == 403
        )
    # A session's token is no login, a login's token is no cookie of a session.
    token = stolen.partition(".")[2]
    with rest.as_user(token=token) as client:
        for path in (f"{PREFIX}/jobs", f"{PREFIX}/ping", f"{OWN}/sessions", f"{OWN}/jobs/{job}/script"):
            answer = client.get(path)
            assert answer.status_code >= 400 or "another" in answer.text or "reaches nothing else" in answer.text, path
        assert client.post(f"{OWN}/sessions/{job}/enter").status_code >= 400
        assert client.delete(f"{PREFIX}/job/{job}").status_code >= 400
        named = client.get(f"{PREFIX}/jobs", headers={"X-SLURM-USER-NAME": "root"})
        assert named.status_code >= 400
    login = f"penstock_session_{job}=program.{rest.token(USER)}"
    assert (
        exchange(
            mine.origin, f"GET {mine.base}echo HTTP/1.1\r\nHost: {mine.host}\r\nCookie: {login}\r\n\r\n".encode()
        ).status
        == 403
    )
    # Files: the socket's folder is the user's own, and other users cannot connect.
    folders = [one for one in Path("/tmp").glob(f"penstock-session-{job}-*") if one.stat().st_uid == 65534]
    assert [stat.S_IMODE(one.stat().st_mode) for one in folders] == [0o700]
    # A link in place of the socket leads where the user may go, and no further: the socket of root is not reached.
    secret = socket.socket(socket.AF_UNIX)
    place = rest.cluster.home / "parts/secret.sock"
    secret.bind(str(place))
    place.chmod(0o600)
    secret.listen()
    secret.setblocking(False)
    assert mine.get("link").text == "done"
    assert mine.get("echo").status == 502
    with pytest.raises(BlockingIOError):
        secret.accept()
    secret.close()
    # The token ends with all others of its user.
    with rest.as_user("daemon"):
        assert theirs.get("echo").status == 200
        rest.cluster.run("scontrol", "token", "revoke", "username=daemon").ok()
        rest.cluster.wait(lambda: theirs.get("echo").status == 403, "the revoked token is refused")


def test_tickets_heads_and_pages_from_elsewhere(rest: LiveRest) -> None:
    job = start(rest, "program")
    origin = origin_of(rest)
    slow = connect(origin)
    slow.sendall(b"GET /")
    url = ticket(rest, job)
    session = SessionClient.enter(origin, url)
    host = session.host

    def ask(*lines: str, body: bytes = b"") -> int:
        return exchange(origin, "\r\n".join([*lines, "", ""]).encode("latin-1") + body).status

    def get(*lines: str) -> int:
        return ask(f"GET {session.base}echo HTTP/1.1", f"Host: {host}", f"Cookie: {session.cookie}", *lines)

    assert get() == 200
    for again in (
        url,
        url[:-1],
        f"{origin}/-/enter?ticket=x",
        f"{origin}/-/enter",
        f"{origin}/-/enter?ticket=a&ticket=b",
    ):
        assert ask(f"GET {again.removeprefix(origin)} HTTP/1.1", f"Host: {host}") == 403, again
    assert ask("POST /-/enter?ticket=x HTTP/1.1", f"Host: {host}", "Content-Length: 0") == 405
    assert ask(f"GET {session.base}echo HTTP/1.1", f"Host: {host}") == 403
    assert ask(f"GET {session.base}echo HTTP/1.1", "Host: evil.example", f"Cookie: {session.cookie}") == 421
    for line in (
        "Origin: http://evil.example",
        "Origin: null",
        f"Origin: {rest.url}",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: cross-site",
    ):
        assert get(line) == 403, line
    assert get("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate") == 200
    for page in ("http://evil.example", rest.url, "null", ""):
        assert not session.websocket("upgrade", page).is_accepted, page
    smuggled = {
        "two lengths": (400, ("Content-Length: 3", "Transfer-Encoding: chunked")),
        "a length twice": (400, ("Content-Length: 3", "Content-Length: 3")),
        "a length with a sign": (400, ("Content-Length: +3",)),
        "two codings": (400, ("Transfer-Encoding: chunked", "Transfer-Encoding: identity")),
        "a coding that is none": (400, ("Transfer-Encoding: xchunked",)),
        "a line that goes on": (400, ("X-A: 1", " folded: 2")),
        "space before the colon": (400, ("Content-Length : 3",)),
        "a bare line feed": (400, ("X-A: 1\nX-B: 2",)),
        "a zero": (400, ("X-A: \0",)),
        "two hosts": (400, (f"Host: {host}",)),
        "too many lines": (431, tuple(f"X-{n}: 1" for n in range(200))),
        "too long": (431, ("X-A: " + "x" * 70_000,)),
    }
    for name, (status, lines) in smuggled.items():
        assert get(*lines) == status, name
    for line in (
        "GET http://evil.example/ HTTP/1.1",
        "CONNECT evil.example:443 HTTP/1.1",
        "GET / HTTP/1.0",
        "GET  / HTTP/1.1",
        "\x16\x03\x01",
    ):
        assert ask(line, f"Host: {host}") in (400, 0), line
    for path in (
        "/session/x/",
        "/session/0x1/",
        f"/session/0{job}/",
        f"/session/{job}",
        "/etc/passwd",
        "/assets/../../etc/passwd",
    ):
        assert ask(f"GET {path} HTTP/1.1", f"Host: {host}", f"Cookie: {session.cookie}") == 404, path
    # A second request in the same bytes is not looked at.
    first = f"GET {session.base}echo HTTP/1.1\r\nHost: {host}\r\nCookie: {session.cookie}\r\n\r\n".encode()
    assert exchange(origin, first * 2).raw.count(b"HTTP/1.1 200") == 1
    assert read_all(slow) == b""  # closed after HEAD_TIMEOUT_S
    bad = (
        {"kind": "nothing"},
        {"kind": "shell", "cpus": 0},
        {"kind": "shell", "time_minutes": -1},
        {"kind": "shell", "cpus": "x"},
    )
    with rest.as_user(USER) as client:
        for body in bad:
            assert client.post(f"{OWN}/sessions", json=body | {"work_dir": "/tmp"}).status_code == 422, body
        assert client.post(f"{OWN}/sessions/999999/enter").status_code == 404
        plain = rest.cluster.sbatch("--wrap", "sleep 600")
        assert client.post(f"{OWN}/sessions/{plain}/enter").status_code == 404


def test_what_is_open_outlives_the_daemons_beside_it(rest: LiveRest) -> None:
    """stepd and the proxy carry the bytes: neither noded nor the controller is needed for what is open."""
    job = start(rest)
    session = enter(rest, job)
    with session.websocket("ws") as wire:
        rest.cluster.kill("n1")
        wire.send(b"echo a$((1+1))b\n")
        wire.until(b"a2b")
        rest.cluster.wait(lambda: session.get("").status == 503, "a new connection says why not")
        rest.cluster.start_node("n1")
        rest.cluster.wait(lambda: session.get("").status == 400, "the terminal says again that it speaks WebSocket")
        wire.send(b"echo c$((2+2))d\n")
        wire.until(b"c4d")
