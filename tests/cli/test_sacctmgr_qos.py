"""sacctmgr's part for QOS: what is printed, what is sent, what is refused."""

from typing import Any

import pytest

from cli import sacctmgr
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from tests.cli.fake_controller import FakeClient, run_body
from tests.cli.treeworld import changes_of, out, world

Action = pb.ChangeQosRequest.Action


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    return world(monkeypatch)


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        (
            [
                "add",
                "qos",
                "Silver,gold,iron",
                "Priority=10",
                "prio=11",
                "Preempt+=normal",
                "Preempt+=gold",
                "PreemptM=requeue",
            ],
            pb.ChangeQosRequest(
                action=Action.ADD,
                names=["silver", "iron"],
                changes={"priority": "11", "preempt+": "normal,gold", "preemptmode": "requeue"},
            ),
        ),
        (
            [
                "modify",
                "qos",
                "where",
                "name=gold",
                "set",
                "GraceTime=60",
                "flags-=NoDecay",
                "MaxTRESPU=cpu=4",
                "maxjobs=3",
            ],
            pb.ChangeQosRequest(
                action=Action.MODIFY,
                names=["gold"],
                changes={"gracetime": "60", "flags-": "NoDecay", "maxtresperuser": "cpu=4", "maxjobsperuser": "3"},
            ),
        ),
        (
            ["modify", "qos", "set", "usagefactor=2.5"],
            pb.ChangeQosRequest(action=Action.MODIFY, names=["normal", "gold"], changes={"usagefactor": "2.5"}),
        ),
        (["delete", "qos", "where", "id=1"], pb.ChangeQosRequest(action=Action.DELETE, names=["normal"])),
    ],
)
def test_what_is_sent(client, capsys, words, request_):
    out(capsys, "-iQ", *words)
    assert changes_of(client) == [request_]
    assert [request.check_only for name, request in client.calls if name == "ChangeQos"] == [True, False]


def test_what_is_told(client, capsys):
    assert out(
        capsys,
        "-i",
        "add",
        "qos",
        "iron",
        "priority=10",
        "maxwall=90",
        "usagefactor=0.5",
        "grptres=cpu=4",
        "grpjobs=-1",
    ) == (
        " Adding QOS(s)\n  iron\n Settings\n  Description    = iron\n  GrpJobs                  = NONE\n"
        "  GrpTRES                  = cpu=4\n  MaxWall                  = 01:30:00\n  Priority                 = 10\n"
        "  UsageFactor              = 0.5000\n"
    )
    assert out(capsys, "-i", "modify", "qos", "gold", "set", "prio=3") == " Modified qos...\n  gold\n"
    assert out(capsys, "-i", "delete", "qos", "normal") == " Deleting QOS(s)...\n  normal\n"
    assert out(capsys, "-i", "add", "qos", "gold", status=1) == " Nothing new added.\n"
    assert out(capsys, "-i", "modify", "qos", "lead", "set", "prio=3", status=1) == " Nothing modified\n"
    assert out(capsys, "-i", "delete", "qos", "lead", status=1) == " Nothing deleted\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["add", "qos", "priority=1"], " Need name of qos to add."),
        (["modify", "qos", "gold"], " You didn't give me anything to set"),
        (["delete", "qos"], " No conditions given to remove, not executing."),
        (
            ["add", "qos", "iron", "prioritee=3"],
            " Unknown option: prioritee=3\n Use keyword 'where' to modify condition",
        ),
        (
            ["add", "qos", "iron", "prio+=3"],
            " Unknown option: priority+=3\n += is for lists: features, flags, preempt, qos",
        ),
        (
            ["add", "qos", "iron", "flags=NoDecay,Slow"],
            " Unknown QOS flag used in:\n  'NoDecay,Slow'\n Valid QOS flags are\n  'DenyOnLimit,EnforceUsageThreshold,NoDecay,"
            "NoReserve,OverPartQOS,PartitionMaxNodes,PartitionMinNodes,PartitionTimeLimit,Relative,RequiresReservation,UsageFactorSafe'",
        ),
    ],
)
def test_mistakes(client, capsys, words, text):
    assert out(capsys, "-i", *words, status=1, err=text + "\n") == ""
    assert not changes_of(client)


@pytest.mark.parametrize(
    ("setting", "line", "allowed"),
    [
        (
            "preemptmode=kill",
            " Bad Preempt Mode given: preemptmode=kill",
            "'KILL' is not one of CLUSTER, OFF, CANCEL, REQUEUE, SUSPEND",
        ),
        (
            "preemptmode=off,cancel",
            " Bad Preempt Mode given: preemptmode=off,cancel",
            "give one of OFF, CANCEL, REQUEUE, SUSPEND",
        ),
        ("preemptexempt=soon", " Bad PreemptExemptTime format: preemptexempt=soon", "(minutes, minutes:seconds"),
        (
            "gracetime=soon",
            "Invalid value for GraceTime (soon)",
            "'soon' is not a whole number (allowed: 0 to 31622400)",
        ),
        ("gracetime=-5", "Invalid value for GraceTime (-5)", "'-5' is out of range (allowed: 0 to 31622400)"),
        ("gracetime=400-0", "Invalid value for GraceTime (400-0)", "'400-0' is longer than 366 days"),
        (
            "usagefactor=1e9",
            "Invalid value for UsageFactor (1e9)",
            "'1e9' is no number such as 0.5 (allowed: 0 to 999999, ",
        ),
        ("usagefactor=1000000", "Invalid value for UsageFactor (1000000)", "out of range (allowed: 0 to 999999, "),
        ("limitfactor=-2", "Invalid value for LimitFactor (-2)", "(allowed: 0 to 999999, -1 = not set)"),
        ("usagethreshold=.", "Invalid value for UsageThreshold (.)", "(allowed: 0 to 999999, -1 = not set)"),
        ("maxwall=soon", " Bad MaxWall time format: maxwall=soon", "(minutes, minutes:seconds"),
        ("prio=-2", "Invalid value for Priority (-2)", "(allowed: -1 to 2147483647)"),
    ],
)
def test_values_that_are_none(client, capsys, setting, line, allowed):
    """Slurm's line names the option and its value; ours behind it says what is allowed."""
    status, shown, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, "-i", "add", "qos", "iron", setting)
    first, *more = wrong.splitlines()
    assert (status, shown, more) == (1, "", [])
    assert first.removeprefix("sacctmgr: error: ").startswith(f"{line}: Invalid ") and allowed in first
    assert not changes_of(client)


def test_a_refusal_in_its_own_words(monkeypatch: Any, capsys: Any) -> None:
    world(monkeypatch, ChangeQos=PenstockError(9011, "The QOS is in use: 2 job(s) have it"))
    wrong = " Error with request: The QOS is in use\nsacctmgr: 2 job(s) have it\n"
    out(capsys, "-i", "delete", "qos", "normal", status=1, err=wrong)


def test_the_default_of_an_association_is_not_deleted(client: FakeClient, capsys: Any) -> None:
    wrong = (
        " Associations listed below have these as their Default QOS.\n"
        "  DefQOS = gold       C = tiny       A = bio                  \n"
        " Please either remove the qos' listed above from list and resubmit,\n"
        " or change the default qos to remove the qos.\n Changes Discarded\n"
    )
    out(capsys, "-i", "delete", "qos", "normal,gold", status=1, err=wrong)
    assert changes_of(client) == []
