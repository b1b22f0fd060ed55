"""The parts of sessions without a cluster: kinds from a file, tickets, heads, the scope of the token."""

import asyncio
import json
from contextlib import ExitStack

# Any: the answers of a stand-in are of several types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadSetup, PenstockError
from penstock.v1.controller_pb2 import IssueTokenReply
from penstock.v1.steps_pb2 import AttachStepReply
from penstock.values.base64url import to_text
from penstock.values.refusals import Code
from penstock.values.sessions import kind_of_extra
from rest.interactive.gate import KNOWN_S, PEER_CONNECTIONS_MAX, SESSION_CONNECTIONS_MAX, SessionGate, is_token
from rest.interactive.heads import ProxyRefusal, check_head, confined_cookie, for_browser, for_program
from rest.interactive.kinds import DEFAULT_KINDS, kinds_of, script_of
from rest.interactive.service import SessionPass, SessionService, Tickets, checked_url

GOOD = {"kind": "lab", "title": "Lab", "command": ["lab", "--socket", "{socket}"]}


def text(**changes: object) -> str:
    """A file of one kind; None leaves a member out."""
    entry = {name: value for name, value in (GOOD | changes).items() if value is not None}
    return json.dumps({"kinds": [entry]})


def test_kinds_of_a_file_and_what_is_wrong_with_it() -> None:
    (kind,) = kinds_of(text(idle_minutes=0, strips_base=True), "f")
    assert (kind.kind, kind.command, kind.idle_minutes, kind.strips_base, kind.time_minutes) == (
        "lab", ("lab", "--socket", "{socket}"), 0, True, 480,
    )  # fmt: skip
    wrong = {
        "f: kinds[0]: kind: expected small letters": text(kind="No Name"),
        "f: kinds[0]: title: expected a text, not 3": text(title=3),
        "f: kinds[0]: title: expected 1 to 60": text(title="\x1b[31m"),
        "f: kinds[0]: command is missing": text(command=None),
        "f: kinds[0]: command: expected a list of words": text(command="lab"),
        "f: kinds[0]: command: expected 1 to 64 words": text(command=["lab", 8080]),
        "f: kinds[0]: time_minutes: expected 1 to": text(time_minutes=0),
        "f: kinds[0]: idle_minutes: expected a whole number, not true": text(idle_minutes=True),
        "f: kinds[0]: user: there is no such member": text(user="root"),
        "f: kinds[0]: expected members": '{"kinds": ["lab"]}',
        "f: the kind lab is there twice": json.dumps({"kinds": [GOOD, GOOD]}),
        "f: expected `kinds:` and a list": "kinds: []",
        "f: other: there is no such member": json.dumps({"kinds": [GOOD], "other": 1}),
        "f: it is neither YAML nor JSON": "kinds: [",
    }
    for message, content in wrong.items():
        with pytest.raises(BadSetup) as caught:
            kinds_of(content, "f")
        assert message in str(caught.value), caught.value
    for kind in DEFAULT_KINDS:
        assert script_of(kind, 5).startswith("#!/bin/bash -l\n") and "--idle-s 300 --" in script_of(kind, 5)
    quoted = kinds_of(text(command=["a b", "$(id)", "'"]), "f")[0]
    assert script_of(quoted, 0).endswith("""-- 'a b' '$(id)' ''"'"''\n""")


def test_a_kind_in_extra() -> None:
    assert kind_of_extra("penstock-session=shell") == "shell"
    for other in (
        "",
        "shell",
        "penstock-session=",
        "penstock-session=A",
        "penstock-session=a\n",
        "penstock-session=" + "a" * 33,
    ):
        assert kind_of_extra(other) == ""


def test_tickets_are_for_one_use_and_a_minute() -> None:
    now = 0.0
    tickets = Tickets(lambda: now)
    passes = [SessionPass(job, "shell", f"t{job}") for job in range(20)]
    first = tickets.make(passes[1])
    assert tickets.take(first) == passes[1] and tickets.take(first) is None and tickets.take("") is None
    late = tickets.make(passes[2])
    now = 61.0
    assert tickets.take(late) is None
    of_one = [tickets.make(passes[3]) for _ in range(12)]
    assert [tickets.take(one) is not None for one in of_one] == [False] * 4 + [True] * 8
    service = SessionService(DEFAULT_KINDS, "https://s.example", tickets)
    assert service.enter_url(passes[5]).startswith("https://s.example/-/enter?ticket=")
    assert service.landing(passes[5]) == "/-/terminal?job=5"
    assert (
        service.landing(passes[5]._replace(kind="jupyter"))
        == service.landing(passes[5]._replace(kind="gone"))
        == "/session/5/"
    )
    assert checked_url("https://S.example:8443/") == "https://s.example:8443"
    for bad in ("s.example", "ftp://s", "https://s/path", "https://u@s", "https://s?x", "https://"):
        with pytest.raises(BadSetup):
            checked_url(bad)


@given(st.binary(max_size=200))
def test_a_head_that_is_taken_has_one_reading(data: bytes) -> None:
    head = b"GET / HTTP/1.1\r\nHost: s\r\n" + data.replace(b"\r\n\r\n", b"") + b"\r\n\r\n"
    try:
        check_head(head)
    except ProxyRefusal:
        return
    lines = head.split(b"\r\n")
    assert all(
        b":" in line and b"\n" not in line and b"\r" not in line and line[0] not in b" \t" for line in lines[1:-2]
    )


def test_what_neither_side_sees() -> None:
    headers = [
        (b"host", b"s"), (b"connection", b"Upgrade, x-a, Host, Cookie"), (b"upgrade", b"h2c"), (b"x-a", b"1"), (b"te", b"trailers"),
        (b"cookie", b"penstock=1; a=2;PENSTOCK_x=3"), (b"authorization", b"Bearer t"), (b"x-slurm-user-token", b"t"),
    ]  # fmt: skip
    assert for_program(headers) == [(b"host", b"s"), (b"cookie", b"a=2"), (b"connection", b"close")]
    answer = [
        (b"content-type", b"a"),
        (b"service-worker-allowed", b"/"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"penstock_1=2"),
    ]
    assert for_browser(answer, "/session/1/", False) == [
        (b"content-type", b"a"), (b"set-cookie", b"a=1; Path=/session/1/; SameSite=Lax"), (b"connection", b"close"),
    ]  # fmt: skip
    for given_, kept in (
        (b"a=1; path=/session/1/x; Domain=evil; SameSite=None", b"a=1; Path=/session/1/x; SameSite=Lax"),
        (b"a=1; Path=/session/12/", b"a=1; Path=/session/1/; SameSite=Lax"),
        (b" penstock_session_1=x", b""), (b"__Secure-a=1; Secure", b""), (b"=x", b""), (b"a", b""), (b"a=" + b"x" * 5000, b""),
    ):  # fmt: skip
        assert confined_cookie(given_, b"/session/1/") == kept, given_


class StandIn:
    """The controller, for a gate: what it was asked, and what it answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refusal: PenstockError | None = None

    async def call(self, method: str, request: object, timeout_s: float | None = None, *, proof: object = None) -> Any:
        self.asked.append(method)
        if self.refusal is not None:
            raise self.refusal
        return IssueTokenReply(token="next") if method == "IssueToken" else AttachStepReply(job_id=7, user_id=1000)


def token(**claims: object) -> str:
    """A token that nobody has signed."""
    return ".".join(to_text(json.dumps(part).encode()) for part in ({"alg": "none"}, claims, {}))


def test_the_gate_asks_seldom_and_renews_in_time() -> None:
    client, now_s = StandIn(), 0.0
    gate = SessionGate(client, lambda: now_s)
    mine = token(penstock_session=7, exp=3600)
    assert is_token(mine) and not is_token(token(sun="ann")) and not is_token("") and not is_token("x.y.z")

    async def story() -> None:
        nonlocal now_s
        for _ in range(3):
            await gate.attach(7, mine)
        assert client.asked == ["AttachStep"]
        now_s = KNOWN_S
        await gate.attach(7, mine)
        await gate.attach(7, mine, is_fresh=True)
        assert client.asked == ["AttachStep"] * 3
        assert await gate.renewed(7, mine, 1000.0) == "" and await gate.renewed(7, mine, 2000.0) == "next"
        assert client.asked[3:] == ["IssueToken"]
        for refusal, status in (
            (PenstockError(Code.ACCESS_DENIED, ""), 403), (PenstockError(Code.INVALID_STEP, ""), 404),
            (PenstockError(Code.CONFIG_INVALID, ""), 503),
        ):  # fmt: skip
            client.refusal = refusal
            with pytest.raises(ProxyRefusal) as caught:
                await gate.attach(7, mine, is_fresh=True)
            assert caught.value.status == status
            with pytest.raises(ProxyRefusal):  # nothing is kept of what was refused
                await gate.attach(7, mine)
        assert await gate.renewed(7, mine, 2000.0) == ""

    asyncio.run(story())
    attached = AttachStepReply(job_id=7, user_id=1000)
    with ExitStack() as held:
        for _ in range(SESSION_CONNECTIONS_MAX):
            held.enter_context(gate.use(attached))
        with pytest.raises(ProxyRefusal, match="too many"), gate.use(attached):
            pass
        with gate.use(AttachStepReply(job_id=8, user_id=1000)):
            pass
    with ExitStack() as held:
        for _ in range(PEER_CONNECTIONS_MAX):
            held.enter_context(gate.connection("10.0.0.1"))
        with pytest.raises(ProxyRefusal), gate.connection("10.0.0.1"):
            pass
        with gate.connection("10.0.0.2"), gate.use(attached):
            pass
