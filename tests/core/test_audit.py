"""The audit log in the core: which requests leave a record, what it says, and that the chain holds."""

import json
from typing import Any

import pytest

from ctld.core.accounts import audit_diff
from ctld.core.dispatch import HANDLERS
from ctld.core.records.audit import GENESIS, OBJECTS_MAX, AuditHead, Trail, canonical, chained, date_text
from ctld.core.records.events import (
    AccountAction,
    Actor,
    CancelJobs,
    ChangeAccounts,
    ChangeMany,
    ChangeQos,
    ControlAction,
    ControlJobs,
    CreateReservation,
    DeleteReservation,
    JobFilter,
    JobSubmission,
    LoadConfig,
    QosAction,
    RecordAct,
    ReservationSettings,
    Role,
    SubmitJob,
    UpdateJobs,
    UpdateNodes,
    UpdatePartition,
    UpdateReservation,
)
from tests.core.world import SPEC, START_US, US, World, make_config

A = AccountAction
ROOT = Actor(0, 0, "root", "root", ("root",), Role.ADMINISTRATOR, "socket", "ctl")
ANN = Actor(1001, 1001, "ann", "ann", ("ann",), Role.USER, "socket", "ctl")


def make() -> World:
    world = World(make_config(nodes=2))
    for name in ("n1", "n2"):
        world.register(name)
    return world


def submit(world: World, actor: Actor = ANN, **job: Any) -> int:
    world.do(SubmitJob(actor, f"k{world.reply_to()}", world.now_us, JobSubmission(**{"name": "x", **job}), SPEC))
    return world.counters[0] - 1


def records(world: World) -> list[dict]:
    return [json.loads(row.record) for row in world.audit]


def last(world: World, *fields: str) -> tuple:
    return tuple(records(world)[-1].get(field) for field in fields)


def test_who_and_how_and_from_where() -> None:
    world = make()
    world.do(ChangeAccounts(ROOT, A.ADD, "account", ("physics", "bio"), {"fairshare": "10"}))
    assert [(r["id"], r["action"], r["objects"]) for r in records(world)] == [
        (1, "add account", ["account physics"]),
        (2, "add account", ["account bio"]),
        (3, "add association", ["association physics", "association bio"]),
    ]
    assert last(world, "uid", "user", "role", "auth", "from", "result") == (
        0, "root", "administrator", "socket", "ctl", "done",
    )  # fmt: skip
    assert last(world, "time", "before", "after") == (date_text(START_US), None, {"parent": "root", "shares": 10})
    assert [(t.action, t.whom, t.info, t.accounts, t.users) for t in world.txns][2:] == [
        ("Add Associations", "physics,bio", "parent='root',shares='10'", "physics,bio", "")
    ]


def test_before_and_after_of_an_association() -> None:
    world = make()
    world.do(ChangeAccounts(ROOT, A.ADD, "account", ("physics",), {}))
    world.do(ChangeAccounts(ROOT, A.ADD, "user", ("ann",), {"fairshare": "3"}, ("physics",)))
    world.restart()
    world.do(ChangeAccounts(ROOT, A.MODIFY, "user", ("ann",), {"fairshare": "5"}, ("physics",)))
    assert last(world, "action", "objects", "before", "after") == (
        "modify association", ["association physics/ann"], {"shares": 3}, {"shares": 5},
    )  # fmt: skip
    assert world.txns[-1][2:] == ("Modify Associations", "root", "physics/ann", "shares='5'", "physics", "ann")
    world.do(ChangeAccounts(ROOT, A.REMOVE, "user", ("ann",), {}))
    assert ("remove association", ["association physics/ann"]) in [(r["action"], r["objects"]) for r in records(world)]
    assert "Remove Associations" in [txn.action for txn in world.txns]


def test_a_question_and_a_refusal_change_nothing_and_are_not_changes() -> None:
    world = make()
    world.do(ChangeAccounts(ROOT, A.ADD, "account", ("physics",), {}, check_only=True))
    world.do(ChangeAccounts(ROOT, A.ADD, "account", ("no such thing",), {}))
    world.do(ChangeAccounts(ANN, A.ADD, "account", ("mine",), {}))
    assert world.audit == [] and world.txns == []


def test_two_changes_of_one_batch() -> None:
    """The second is compared with what the first has left, not with what was committed."""
    world = make()
    world.do(ChangeAccounts(ROOT, A.ADD, "account", ("physics",), {"fairshare": "1"}))
    world.busy = True
    for shares in ("2", "3"):
        world.do(ChangeAccounts(ROOT, A.MODIFY, "account", ("physics",), {"fairshare": shares}))
    world.busy = False
    world.settle()
    found = [(r["before"], r["after"]) for r in records(world) if r["action"] == "modify association"]
    assert found == [({"shares": 1}, {"shares": 2}), ({"shares": 2}, {"shares": 3})]


def test_usage_that_is_taken_back() -> None:
    world = make()
    world.do(ChangeAccounts(ROOT, A.ADD, "account", ("physics",), {}))
    world.do(ChangeAccounts(ROOT, A.MODIFY, "account", ("physics",), {"rawusage": "0"}))
    assert last(world, "action", "objects") == ("reset usage", ["physics"])


def test_qos_nodes_partitions_reservations() -> None:
    world = make()
    world.do(ChangeQos(ROOT, QosAction.ADD, ("high",), {"priority": "10"}))
    assert last(world, "action", "objects", "before") == ("add qos", ["qos high"], None)
    world.do(ChangeQos(ROOT, QosAction.MODIFY, ("high",), {"priority": "20"}))
    assert last(world, "before", "after") == ({"priority": 10}, {"priority": 20})
    assert [txn.action for txn in world.txns] == ["Add QOS", "Modify QOS"]
    world.do(UpdateNodes(ROOT, ("n1",), {"state": "DRAIN", "reason": "fan"}))
    assert last(world, "action", "objects") == ("modify node", ["node n1"])
    assert records(world)[-1]["after"]["flags"] == "DRAIN" and records(world)[-1]["after"]["reason"] == "fan"
    world.do(UpdatePartition(ROOT, "debug", {"state": "DOWN"}))
    assert last(world, "action", "before", "after") == ("modify partition", {"state": "UP"}, {"state": "DOWN"})
    wish = ReservationSettings(
        start_at_us=world.now_us + 60 * US, duration_s=600, all_nodes=True, users=(("", "ann", 1001),)
    )
    world.do(CreateReservation(ROOT, "maint", wish))
    assert last(world, "action", "objects") == ("add reservation", ["reservation maint"])
    after = records(world)[-1]["after"]
    assert after["all_nodes"] is True and "ask" not in after  # what it requests is fields, and no text of a class
    world.do(UpdateReservation(ROOT, "maint", ReservationSettings(nodes=(("", "n1"),))))
    after = records(world)[-1]["after"]
    assert (after["all_nodes"], after["nodes"]) == (False, ["n1"])
    world.do(DeleteReservation(ROOT, "maint"))
    assert last(world, "action", "after") == ("remove reservation", None)


def test_what_a_user_does_with_his_own_jobs_leaves_nothing() -> None:
    world = make()
    job_id = str(submit(world, hold=True))
    world.do(UpdateJobs(ANN, (job_id,), {"comment": "mine"}))
    world.do(ControlJobs(ANN, (job_id,), ControlAction.RELEASE))
    world.do(CancelJobs(ANN, JobFilter(ids=(job_id,))))
    world.do(CancelJobs(ANN, JobFilter(uids=(1001,))))
    assert world.audit == []


def test_jobs_of_others() -> None:
    world = make()
    ids = tuple(str(submit(world, hold=True)) for _ in range(3))
    world.do(UpdateJobs(ROOT, ids[:1], {"comment": "theirs"}))
    assert last(world, "action", "objects", "before", "after") == (
        "update job", [f"job {ids[0]} of ann"], {"comment": ""}, {"comment": "theirs"},
    )  # fmt: skip
    world.do(ControlJobs(ROOT, ids[:2], ControlAction.HOLD))
    assert last(world, "action", "objects") == ("hold job", [f"job {one} of ann" for one in ids[:2]])
    assert last(world, "before", "after") == ({"hold": "USER"}, {"hold": "ADMIN"})
    world.do(CancelJobs(ROOT, JobFilter(ids=ids)))
    assert last(world, "action", "before", "after") == ("cancel job", {"state": "PENDING"}, {"state": "CANCELLED"})
    assert records(world)[-1]["objects"] == [f"job {one} of ann" for one in ids]
    number = len(world.audit)
    world.do(CancelJobs(ROOT, JobFilter(ids=ids)))  # they have ended already
    assert len(world.audit) == number


def test_jobs_that_a_filter_finds() -> None:
    world = make()
    job_id = submit(world, hold=True)
    world.do(CancelJobs(ROOT, JobFilter(uids=(1001,))))
    assert last(world, "action", "objects") == ("cancel job", [f"job {job_id} of ann"])


def test_who_acts_as_somebody_else() -> None:
    world = make()
    as_ann = Actor(1001, 1001, "ann", "ann", ("ann",), Role.USER, by=ROOT)
    job_id = submit(world, as_ann, hold=True)
    assert last(world, "action", "objects", "user", "as") == ("submit job", [f"job {job_id} of ann"], "root", "ann")
    world.do(ControlJobs(as_ann, (str(job_id),), ControlAction.RELEASE))
    assert last(world, "action", "user", "as") == ("release job", "root", "ann")


def test_what_is_done_outside_of_the_core() -> None:
    world = make()
    reply_to = world.reply_to()
    world.do(RecordAct(ROOT, "shutdown", reply_to=reply_to))
    assert last(world, "action", "user") == ("shutdown", "root") and reply_to in world.replies
    act = RecordAct(ROOT, "reconfigure", after={"changes": ["a"]})
    world.do(LoadConfig(world.config, act=act))
    assert last(world, "action", "after") == ("reconfigure", {"changes": ["a"]})
    world.do(LoadConfig(world.config))  # by a signal
    assert len(world.audit) == 2
    world.do(RecordAct(None, "call UpdateNodes", result="denied: no", more={"count": 7, "from": "10.0.0.1"}))
    assert last(world, "uid", "user", "count", "from", "result") == (-1, "", 7, "10.0.0.1", "denied: no")


def test_the_chain_goes_on_after_a_restart() -> None:
    world = make()
    world.do(RecordAct(ROOT, "one"))
    world.restart()
    world.do(RecordAct(ROOT, "two"))  # World asserts ids without gaps, and every hash
    assert [row.audit_id for row in world.audit] == [1, 2]
    assert world.audit[0].hash == chained(GENESIS, world.audit[0].record)


def test_a_record_of_very_many_objects_is_several() -> None:
    trail = Trail()
    trail.note(1, ROOT, "cancel job", [f"job {i}" for i in range(OBJECTS_MAX * 2 + 1)])
    assert [len(json.loads(row.record)["objects"]) for row in trail.rows] == [OBJECTS_MAX, OBJECTS_MAX, 1]
    assert trail.head == AuditHead(3, trail.rows[-1].hash)


def test_texts_are_bounded_and_always_utf8() -> None:
    trail = Trail()
    trail.note(1, ANN, "update job", ["job 1"], {"comment": "x" * 10_000}, {"comment": "\udc80"})
    record = trail.rows[0].record
    assert len(record) < 6_000 and "10000 characters" in record and "\\\\udc80" in record
    assert canonical({"b": 1, "a": "\n"}) == '{"a":"\\n","b":1}'


@pytest.mark.parametrize(
    ("at_us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
        (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
        (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        (1_795_320_645_000_000, "2026-11-22T04:10:45.000000Z"),
    ],
)
def test_dates(at_us: int, text: str) -> None:
    assert date_text(at_us) == text


def test_every_request_with_an_actor_is_watched_or_known_to_leave_no_record() -> None:
    """Each new request states whether it changes what is not its caller's."""
    of_own_jobs = {
        "SubmitJob", "AwaitJob", "AwaitAllocation", "EndAllocation", "CreateStep", "AwaitStep",
        "NotifyJob", "CancelJobs", "ControlJobs", "UpdateJobs",  # OthersJobChanges
        "SetTrigger", "RecordAct", "RevokeTokens", "CreatePersonalToken", "RevokePersonalToken", "PersonalTokenUsed",
    }  # fmt: skip
    asked = {kind.__name__ for kind in HANDLERS if "actor" in getattr(kind, "__struct_fields__", ())}
    told = {"ChangeAccounts", "ChangeQos", "ChangeMany"}  # by their draft (watch.tell)
    known = of_own_jobs | told | {kind.__name__ for kind in audit_diff.AUDITED}
    what_to_do = (
        "a request with an actor is in audit_diff.AUDITED (its records are compared before and after), or its handler writes "
        "what it does to jobs of others (audit_diff.OthersJobChanges, state.audit.note) and its name stands in `of_own_jobs` here"
    )
    assert asked == known, f"{sorted(asked ^ known)}: {what_to_do}"


def test_many_changes_leave_what_each_of_them_would() -> None:
    """With the words of each; what is added and then changed in one request is added."""
    world = make()
    script = (
        ChangeAccounts(ROOT, A.ADD, "account", ("physics",), {}),
        ChangeQos(ROOT, QosAction.ADD, ("gold",), {"grptres": "cpu=4"}),
        ChangeAccounts(ROOT, A.ADD, "user", ("ann",), {"maxjobs": "3", "qos": "gold"}, ("physics",)),
        ChangeAccounts(ROOT, A.MODIFY, "account", ("physics",), {"grptres": "cpu=9"}),
        ChangeAccounts(ROOT, A.ADD, "wckey", ("genome",), {}, users=("ann",)),
    )
    world.do(ChangeMany(ROOT, (*script, script[0], script[1]), reply_to=world.reply_to()))  # the QOS exists already
    world.do(ChangeMany(ROOT, script, check_only=True))
    assert world.audit == []
    world.do(ChangeMany(ROOT, script))
    assert [(r["action"], r["objects"], r.get("asked", {}).get("changes", {})) for r in records(world)] == [
        ("add account", ["account physics"], {}),
        ("add association", ["association physics"], {}),
        ("add qos", ["qos gold"], {"grptres": "cpu=4"}),
        ("add user", ["user ann"], {"maxjobs": "3", "qos": "gold"}),
        ("add association", ["association physics/ann"], {"maxjobs": "3", "qos": "gold"}),
        ("modify association", ["association physics"], {"grptres": "cpu=9"}),
        ("modify user", ["user ann"], {}),  # the first wckey is the default
        ("add wckey", ["wckey genome/ann"], {}),
    ]
    assert [(r["before"], r["after"]) for r in records(world)[4:]] == [
        (None, {"maxjobs": "3", "parent": "physics", "qos": ["gold"], "shares": 1}),
        ({"grptres": None}, {"grptres": "cpu=9"}),
        ({"default_wckey": ""}, {"default_wckey": "genome"}),
        (None, {}),
    ]
    assert [txn.action for txn in world.txns[-3:]] == ["Modify Associations", "Modify Users", "Add WCKeys"]
