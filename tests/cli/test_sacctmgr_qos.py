"""sacctmgr's part for QOS: what is sent, what is shown, what is refused."""

import io
from typing import Any

import pytest

from cli import confirm, sacctmgr_qos
from cli.run import CommandError
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from tests.cli.fake_controller import FakeClient

Action = pb.ChangeQosRequest.Action
NORMAL = pb.Qos(name="normal", description="Normal QOS default", preempt_exempt_time_s=-1, usage_factor_ppm=1_000_000)
GOLD = pb.Qos(
    name="gold", priority=1000, preempt=["low", "normal"], preempt_mode=["CANCEL", "WITHIN"], grace_time_s=90,
    preempt_exempt_time_s=600, flags=["NoDecay"], usage_factor_ppm=1_500_000,
)  # fmt: skip


def run(verb: str, *words: str, **options: Any) -> int:
    return sacctmgr_qos.run_qos(verb, list(words), {"immediate": True, **options})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    answers = {"ChangeQos": pb.Empty(), "ListQos": pb.ListQosReply(qos=[NORMAL, GOLD])}
    return FakeClient(**answers).install(monkeypatch)


@pytest.mark.parametrize(
    ("verb", "words", "request_"),
    [
        (
            "add",
            ["Gold,silver", "Priority=10", "prio=11", "Preempt+=low", "PreemptM=requeue"],
            pb.ChangeQosRequest(
                action=Action.ADD,
                names=["gold", "silver"],
                changes={"priority": "11", "preempt+": "low", "preemptmode": "requeue"},
            ),
        ),
        (
            "modify",
            ["where", "name=gold", "set", "GraceTime=60", "flags-=NoDecay"],
            pb.ChangeQosRequest(action=Action.MODIFY, names=["gold"], changes={"gracetime": "60", "flags-": "NoDecay"}),
        ),
        ("remove", ["gold"], pb.ChangeQosRequest(action=Action.DELETE, names=["gold"])),
    ],
)
def test_what_is_sent(client: FakeClient, verb: str, words: list[str], request_: Any) -> None:
    assert run(verb, *words) == 0
    assert client.request == request_


def test_a_change_is_shown_and_asked_about(client: FakeClient, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(confirm.select, "select", lambda *_: ([1], [], []))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run("add", "gold", "priority=10", immediate=False) == 0
    assert capsys.readouterr().out == (
        " Added QOS(s)\n  gold\n Settings\n  priority            = 10\n"
        "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y):  Changes Discarded\n"
    )
    assert client.calls == []
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    run("add", "gold", immediate=False, quiet=True)
    assert client.request.names == ["gold"]
    monkeypatch.setattr(confirm.select, "select", lambda *_: ([], [], []))
    client.calls.clear()
    run("add", "gold", immediate=False, quiet=True)
    assert capsys.readouterr().out.endswith("(N/y): timeout\n Changes Discarded\n")
    assert client.calls == []


def test_the_table(client: FakeClient, capsys: Any) -> None:
    run("show", "format=name,prio,grace,preempt%12,preemptexempt,preemptm%14,flags%10,usagef")
    assert capsys.readouterr().out.splitlines() == [
        "      Name   Priority  GraceTime      Preempt   PreemptExemptTime    PreemptMode      Flags UsageFactor ",
        "---------- ---------- ---------- ------------ ------------------- -------------- ---------- ----------- ",
        "    normal          0   00:00:00                                         cluster               1.000000 ",
        "      gold       1000   00:01:30   low,normal            00:10:00  cancel,within    NoDecay    1.500000 ",
    ]
    run("show", "gold", "format=Name,Description,MaxWall", parsable2=True, noheader=True)
    assert capsys.readouterr().out == "normal|Normal QOS default|\ngold||\n"
    assert client.calls[-1][1].names == ["gold"]


@pytest.mark.parametrize(
    ("verb", "words", "text"),
    [
        ("add", ["priority=1"], "Need name of qos to add."),
        ("modify", ["gold"], "You didn't give me anything to set"),
        ("add", ["gold", "maxwall=3"], "maxwalldurationperjob= is not supported yet by Penstock"),
        ("add", ["gold", "prioritee=3"], " Unknown option: prioritee=3"),
        ("show", ["format=nonsense"], ' Unknown field "nonsense"'),
    ],
)
def test_mistakes(client: FakeClient, verb: str, words: list[str], text: str) -> None:
    with pytest.raises(CommandError) as error:
        run(verb, *words)
    assert str(error.value) == text and not client.calls


def test_a_refusal_in_its_own_words(monkeypatch: Any) -> None:
    FakeClient(ChangeQos=PenstockError(9010, "This QOS already exists: gold")).install(monkeypatch)
    with pytest.raises(CommandError, match="This QOS already exists: gold"):
        run("add", "gold", quiet=True)
    with pytest.raises(CommandError, match="readonly"):
        run("add", "gold", readonly=True)
