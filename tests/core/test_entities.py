"""Entities of accounting in the core: limits, QOS lists, partitions, coordinators, levels, wckeys, licences; what is
deleted and comes again; what survives a restart."""

from typing import Any

import pytest

from ctld.core.queue.associations import qos_of
from ctld.core.queue.rights import coordinates, level_of
from ctld.core.queue.wckeys import note, wckey_allowed
from ctld.core.records.accounting_rows import UserRow
from ctld.core.records.events import ChangeQos, JobSubmission, QosAction, Role
from penstock.values.limits import texts
from tests.core.bookkeeping import ADD, MODIFY, REMOVE, actor, books, change, lasting, make, many, qos, wish
from tests.core.world import World

JOB = JobSubmission(name="j", work_dir=b"/tmp", ntasks=2)


def planted(**extra: Any) -> World:
    world = make(**extra)
    assert change(world, ADD, "account", "physics", "bio", fairshare=30) == "physics bio"
    assert change(world, ADD, "account", "optics", parent="physics") == "optics"
    assert change(world, ADD, "user", "ann", "bob", accounts=("optics", "bio"), defaultaccount="optics") == "ann bob"
    assert change(world, ADD, "user", "cy", accounts=("physics",)) == "cy"
    assert qos(world, QosAction.ADD, "gold", "silver") == "done"
    return world


def limits(world: World, account: str, user: str = "", partition: str = "") -> dict[str, str]:
    tree = world.core.state.shares
    return texts((tree.find(account, user, partition) if user else tree.accounts[account]).limits)


def again(world: World) -> None:
    """A restart changes nothing."""
    before = lasting(world)
    world.restart()
    assert lasting(world) == before


def test_limits_are_set_changed_and_cleared() -> None:
    world = planted()
    assert (
        change(world, MODIFY, "account", "physics", grptres="cpu=64,gres/gpu=8", maxjobs=20, maxwall="1-00")
        == "physics"
    )
    assert change(world, MODIFY, "account", "physics", grptres="cpu=32", maxsubmit=100) == "physics"
    expected = {
        "grptres": "cpu=32,gres/gpu=8",
        "maxjobs": "20",
        "maxsubmitjobs": "100",
        "maxwalldurationperjob": "1440",
    }
    assert limits(world, "physics") == expected
    assert change(world, MODIFY, "account", "physics", grptres="gres/gpu=-1", maxjobs=-1, maxwall=-1) == "physics"
    assert limits(world, "physics") == {"grptres": "cpu=32", "maxsubmitjobs": "100"}
    assert change(world, MODIFY, "user", "ann", accounts=("bio",), maxjobs=3, borrow="cpu=2") == "ann"
    assert (limits(world, "bio", "ann"), limits(world, "optics", "ann")) == ({"maxjobs": "3", "borrow": "cpu=2"}, {})
    assert change(world, MODIFY, "cluster", "cluster", grpjobs=1000, fairshare=5) == "cluster"
    assert limits(world, "root") == {"grpjobs": "1000"}
    again(world)
    assert limits(world, "root") == {"grpjobs": "1000"}
    assert change(world, MODIFY, "account", "bio", budget="1000gpu-hours/month") == "bio"
    assert world.core.state.shares.accounts["bio"].budget == "1000gpu-hours/month"
    assert change(world, MODIFY, "account", "bio", budget="none") == "bio"
    assert "Invalid budget '5 cows'" in change(world, MODIFY, "account", "bio", budget="5 cows")


def test_an_account_where_a_user_is_named_is_that_users_association() -> None:
    world = planted()
    assert change(world, MODIFY, "account", "bio", users=("ann",), maxjobs=3) == "ann"
    assert (limits(world, "bio"), limits(world, "bio", "ann"), limits(world, "bio", "bob")) == (
        {},
        {"maxjobs": "3"},
        {},
    )
    assert limits(world, "optics", "ann") == {}
    refused = change(world, MODIFY, "account", "bio", users=("ann",), description="x", parent="physics")
    assert "description, parent of an account cannot be set where users are named" in refused
    assert change(world, REMOVE, "account", "bio", users=("ann",)) == "ann"
    tree = world.core.state.shares
    assert tree.find("bio", "ann", "") is None and tree.find("bio", "bob", "") is not None
    assert tree.find("optics", "ann", "") is not None
    again(world)


def test_a_condition_on_the_account_above_holds_for_users_too() -> None:
    world = planted()
    assert change(world, MODIFY, "user", "ann", parents=("optics",), maxjobs=3) == "ann"
    assert (limits(world, "optics", "ann"), limits(world, "bio", "ann")) == ({"maxjobs": "3"}, {})


def test_several_changes_of_a_list_are_made_in_their_order() -> None:
    world = planted()
    assert change(world, MODIFY, "user", "ann", accounts=("bio",), qos_plus="gold,silver", qos_minus="normal") == "ann"
    assert world.core.state.shares.users["bio", "ann"].qos == ("gold", "silver")


@pytest.mark.parametrize("name", ["a-b", "x.y", "q@1", "a+b"])
def test_names_of_a_qos_may_have_signs_inside(name: str) -> None:
    world = planted()
    assert qos(world, QosAction.ADD, name) == "done"
    assert change(world, MODIFY, "user", "ann", qos_plus=name) == "ann"


def test_users_have_an_association_for_each_partition() -> None:
    world = planted()
    assert change(world, ADD, "user", "dan", accounts=("bio",), partitions=("debug",), maxjobs=2) == "dan"
    tree = world.core.state.shares
    assert ("bio", "dan") not in tree.users
    assert tree.find("bio", "dan", "debug").partition == "debug"
    assert tree.find("bio", "dan", "other") is None
    assert change(world, ADD, "user", "dan", accounts=("bio",)) == "dan"  # and one for all others
    assert change(world, MODIFY, "user", "dan", partitions=("debug",), maxjobs=7) == "dan"
    assert (limits(world, "bio", "dan", "debug"), limits(world, "bio", "dan")) == ({"maxjobs": "7"}, {})
    assert "Invalid partition name specified: nowhere" in change(
        world, ADD, "user", "x", accounts=("bio",), partitions=("nowhere",)
    )
    again(world)
    assert change(world, REMOVE, "user", "dan", partitions=("debug",)) == "dan"
    assert world.core.state.shares.find("bio", "dan", "debug").partition == ""


def test_lists_of_qos_are_inherited() -> None:
    world = planted()
    tree = world.core.state.shares
    ann = tree.users["optics", "ann"]
    assert qos_of(ann) == ("normal",)
    assert change(world, MODIFY, "account", "physics", qos="normal,gold", defaultqos="gold") == "physics"
    assert (qos_of(ann), qos_of(tree.users["bio", "ann"])) == (("normal", "gold"), ("normal",))
    assert change(world, MODIFY, "user", "ann", accounts=("optics",), qos_plus="silver") == "ann"
    assert qos_of(ann) == ("normal", "gold", "silver")
    assert change(world, MODIFY, "account", "physics", qos_minus="normal") == "physics"
    assert (tree.accounts["physics"].qos, qos_of(ann)) == (("gold",), ("normal", "gold", "silver"))
    assert change(world, MODIFY, "user", "ann", accounts=("optics",), qos="") == "ann"
    assert qos_of(ann) == ("gold",)
    again(world)


def test_the_default_qos_is_in_the_list() -> None:
    world = planted()
    words = "would make it so some associations would not have access to their default qos"
    assert "gold is not among the QOS" in change(world, MODIFY, "account", "physics", defaultqos="gold")
    assert change(world, MODIFY, "account", "physics", qos="normal,gold") == "physics"
    assert change(world, MODIFY, "user", "ann", accounts=("optics",), defaultqos="gold") == "ann"
    before = books(world)
    for text in ("normal", "silver"):
        refused = change(world, MODIFY, "account", "physics", qos=text)
        assert words in refused and "ann in account optics has gold" in refused
    assert "gold is not among" not in change(world, MODIFY, "account", "physics", qos_minus="gold")
    assert books(world)["assocs"] == before["assocs"]
    assert change(world, MODIFY, "user", "ann", accounts=("optics",), defaultqos="-1") == "ann"
    assert change(world, MODIFY, "account", "physics", qos_minus="gold") == "physics"


def test_a_deleted_qos_leaves_the_lists_of_associations() -> None:
    world = planted()
    change(world, MODIFY, "user", "ann", accounts=("bio",), qos="gold,silver", defaultqos="gold")
    change(world, MODIFY, "account", "physics", qos="gold")
    before = books(world)
    refused = qos(world, QosAction.DELETE, "silver", "gold")
    assert "would not have access to their default qos" in refused and "ann in account bio has gold" in refused
    assert books(world) == before
    change(world, MODIFY, "user", "ann", accounts=("bio",), defaultqos="-1")
    assert qos(world, QosAction.DELETE, "gold") == "done"
    tree = world.core.state.shares
    ann = tree.users["bio", "ann"]
    assert (ann.qos, ann.default_qos, tree.accounts["physics"].qos) == (("silver",), "", ())
    assert qos_of(tree.accounts["physics"]) == ("normal",)
    again(world)
    assert qos(world, QosAction.ADD, "gold") == "done"
    assert qos_of(world.core.state.shares.users["bio", "ann"]) == ("silver",)


def test_a_qos_is_added_changed_and_deleted() -> None:
    world = planted()
    assert world.core.state.qos["gold"].qos_id == 2
    assert (
        qos(
            world,
            QosAction.MODIFY,
            "gold",
            grptres="cpu=4",
            maxjobspu=3,
            flags_plus="DenyOnLimit,NoDecay",
            limitfactor=1.5,
        )
        == "done"
    )
    assert qos(world, QosAction.MODIFY, "gold", flags_minus="nodecay", usagethreshold="0.25", maxwall="10") == "done"
    gold = world.core.state.qos["gold"]
    assert texts(gold.limits) == {"grptres": "cpu=4", "maxwalldurationperjob": "10", "maxjobsperuser": "3"}
    assert (gold.flags, gold.limit_factor_ppm, gold.usage_threshold_ppm) == (("DenyOnLimit",), 1_500_000, 250_000)
    assert qos(world, QosAction.DELETE, "gold") == "done"
    assert qos(world, QosAction.ADD, "bronze") == "done"
    again(world)
    assert qos(world, QosAction.ADD, "gold") == "done"
    ids = {name: record.qos_id for name, record in world.core.state.qos.items()}
    assert ids == {"normal": 1, "gold": 2, "silver": 3, "bronze": 4}
    assert texts(world.core.state.qos["gold"].limits) == {}


def test_what_is_deleted_comes_again_with_its_number_and_nothing_else() -> None:
    world = planted()
    tree = world.core.state.shares
    number = tree.users["bio", "ann"].assoc_id
    change(world, MODIFY, "user", "ann", adminlevel="Operator", maxjobs=1, defaultaccount="optics")
    change(world, ADD, "coordinator", "bio", users=("ann",))
    change(world, ADD, "wckey", "genome", users=("ann",))
    assert level_of(world.core.state, "ann") is Role.OPERATOR
    assert change(world, REMOVE, "user", "ann") == "ann"
    assert ("ann" in tree.people, tree.about["bio"].coordinators, level_of(world.core.state, "ann")) == (
        False,
        (),
        Role.USER,
    )
    assert tree.gone["bio", "ann", ""].deleted
    assert not wckey_allowed(world.core.state, "ann", "genome")
    again(world)
    tree = world.core.state.shares
    assert change(world, ADD, "user", "ann", accounts=("bio",)) == "ann"
    assert tree.users["bio", "ann"].assoc_id == number
    assert (tree.people["ann"].admin_level, limits(world, "bio", "ann"), tree.default_accounts["ann"]) == (0, {}, "bio")
    assert "ann" not in tree.gone_people and ("bio", "ann", "") not in tree.gone
    again(world)


def test_the_last_association_takes_the_user_along() -> None:
    world = planted()
    assert change(world, REMOVE, "user", "cy", accounts=("physics",)) == "cy"
    assert "cy" not in world.core.state.shares.people
    # an account that is the default of somebody who has others is not removed; with all of them it is
    refused = change(world, REMOVE, "account", "physics")
    assert refused == "refused: You can not remove the default account of a user: user ann, account optics"
    assert change(world, REMOVE, "account", "physics", "bio") == "physics bio"
    assert sorted(world.core.state.shares.people) == []
    again(world)


def test_running_jobs_keep_their_accounts() -> None:
    world = planted()
    world.submit(JOB, "ann")
    for refused in (
        change(world, REMOVE, "user", "ann"),
        change(world, REMOVE, "account", "optics"),
        many(world, wish(MODIFY, "user", "ann", newname="ann2")),
    ):
        assert "Job(s) active, cancel job(s) before remove: job 1 of ann" in refused
    # an association for the job's partition, made while it runs, does not free the one that it is charged to
    world.started(1)
    change(world, ADD, "user", "ann", accounts=("optics",), partitions=("debug",))
    assert "Job(s) active" in change(world, REMOVE, "user", "ann", accounts=("optics",))


def test_a_user_has_another_name() -> None:
    world = planted()
    change(world, ADD, "coordinator", "bio", users=("ann",))
    change(world, MODIFY, "user", "ann", defaultwckey="genome", maxjobs=4)
    assert "there is a user bob already" in change(world, MODIFY, "user", "ann", newname="bob")
    assert "only one user" in change(world, MODIFY, "user", "ann", "bob", newname="eve")
    assert change(world, MODIFY, "user", "ann", newname="eve") == "ann"
    tree = world.core.state.shares
    assert (tree.people["eve"].default_account, tree.about["bio"].coordinators) == ("optics", ("eve",))
    assert limits(world, "bio", "eve") == {"maxjobs": "4"}
    assert wckey_allowed(world.core.state, "eve", "genome") and not wckey_allowed(world.core.state, "ann", "genome")
    assert "ann" not in tree.people and "ann" not in tree.by_user
    again(world)


def test_coordinators_stand_below_accounts() -> None:
    world = planted()
    state = world.core.state
    assert "there is no user nobody" in change(world, ADD, "coordinator", "bio", users=("nobody",))
    assert change(world, ADD, "coordinator", "physics", users=("cy", "bob")) == "physics"
    assert change(world, ADD, "coordinator", "physics", users=("cy",)) == ""
    seen = [account for account in ("root", "physics", "optics", "bio", "nope") if coordinates(state, "cy", account)]
    assert seen == ["physics", "optics"]
    again(world)
    assert change(world, REMOVE, "coordinator", users=("bob",)) == "physics"
    assert world.core.state.shares.about["physics"].coordinators == ("cy",)
    assert change(world, REMOVE, "coordinator", "physics") == "physics"
    assert not coordinates(world.core.state, "cy", "physics")


def test_wckeys() -> None:
    world = planted(track_wckey=True)
    state = world.core.state
    assert change(world, ADD, "wckey", "genome", "light", users=("ann", "bob")) == "genome light"
    assert change(world, ADD, "wckey", "genome", users=("ann",)) == ""
    assert wckey_allowed(state, "ann", "genome") and not wckey_allowed(state, "cy", "genome")
    assert not wckey_allowed(state, "cy", "") and wckey_allowed(state, "ann", "*genome")  # the first one is the default
    assert change(world, MODIFY, "user", "ann", defaultwckey="light") == "ann"
    assert (
        wckey_allowed(state, "ann", "")
        and wckey_allowed(state, "ann", "*light")
        and not wckey_allowed(state, "ann", "*genome")
    )
    assert change(world, ADD, "wckey", "light", "genome", users=("new",)) == "light genome"
    assert state.shares.people["new"] == UserRow("new", "", default_wckey="light")
    note(state, "cy", "own")
    assert wckey_allowed(state, "cy", "own")
    world.settle()
    again(world)
    assert change(world, REMOVE, "wckey", "light") == "light"
    assert world.core.state.shares.people["ann"].default_wckey == ""
    numbers = sorted(row.wckey_id for row in world.core.state.shares.wckeys.values())
    assert numbers == [1, 2, 3, 4, 5, 6, 7]
    again(world)


def test_licences_of_a_server_join_those_of_the_cluster() -> None:
    world = planted(licenses=(("local", 4),))
    add: dict[str, Any] = {"server": "flex", "servertype": "flexlm", "type": "License", "percentallowed": 50}
    assert change(world, ADD, "resource", "matlab", count=5, **add) == "matlab"
    state = world.core.state
    assert state.layout.license_totals == {"local": 4, "matlab@flex": 2}
    assert list(state.registry.tres_ids)[-1] == "license/matlab@flex"
    world.submit(JobSubmission(name="j", work_dir=b"/tmp", licenses="matlab@flex:2"), "ann")
    assert int(state.free_licenses[state.layout.license_kinds["matlab@flex"]]) == 0
    assert "asks for matlab@flex" in change(world, REMOVE, "resource", "matlab")
    assert "more than 100%" in change(world, MODIFY, "resource", "matlab", percentallowed=101)
    assert change(world, MODIFY, "resource", "matlab", where={"server": "flex"}, percentallowed=100) == "matlab"
    assert int(state.free_licenses[state.layout.license_kinds["matlab@flex"]]) == 3
    again(world)
    world.register("n1")
    world.started(1)
    world.exited(1)
    ids = dict(world.core.state.registry.tres_ids)
    assert change(world, REMOVE, "resource", "matlab") == "matlab"
    assert world.core.state.layout.license_totals == {"local": 4}
    again(world)
    assert world.core.state.registry.tres_ids == ids  # a number stays


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((ADD, "user", "x"), "Need name of account"),
        ((ADD, "cluster", "other"), "accounting of cluster cluster alone"),
        ((MODIFY, "cluster", "cluster"), "nothing to change"),
        ((ADD, "association", "x"), "add association"),
        ((MODIFY, "wckey", "x"), "modify wckey"),
        ((ADD, "wckey", "a b"), "Invalid wckey"),
        ((ADD, "resource", "x"), "a name and a count"),
        ((REMOVE, "resource",), "no condition given"),
        ((REMOVE, "wckey",), "no condition given"),
        ((REMOVE, "coordinator",), "no condition given"),
    ],
)  # fmt: skip
def test_what_is_refused(words: tuple, text: str) -> None:
    world = make()
    change(world, ADD, "account", "a")
    change(world, ADD, "user", "ann", accounts=("a",))
    before = books(world)
    more: dict[str, Any] = {"users": ("ann",)} if words[1] == "wckey" and len(words) > 2 else {}
    assert text in change(world, *words, **more)
    assert books(world) == before


def test_conditions() -> None:
    world = planted()
    change(world, MODIFY, "user", "ann", adminlevel="operator")
    change(world, MODIFY, "user", "bob", accounts=("bio",), maxjobs=3, qos="gold")
    assert change(world, MODIFY, "user", where={"adminlevel": "Operator"}, fairshare=2) == "ann"
    assert change(world, MODIFY, "user", where={"maxjobs": "3"}, fairshare=2) == "bob"
    assert change(world, MODIFY, "user", where={"qoslevel": "silver,gold"}, fairshare=2) == "bob"
    assert change(world, MODIFY, "account", where={"organization": "physics"}, fairshare=2) == "optics physics"
    assert change(world, MODIFY, "account", "nope", fairshare=2) == ""
    assert "a condition on colour is not supported" in change(
        world, MODIFY, "user", where={"colour": "red"}, fairshare=2
    )


def test_the_cluster_is_there_already() -> None:
    assert change(make(), ADD, "cluster", "Cluster") == ""


def test_usage_of_a_qos_is_taken_back() -> None:
    world = planted(enforce=("associations", "limits"))
    change(world, MODIFY, "cluster", "cluster", qos="normal,gold")
    assert qos(world, QosAction.MODIFY, "gold", grptresmins="cpu=10") == "done"
    world.submit(JobSubmission(name="j", work_dir=b"/tmp", ntasks=2, qos="gold", time_limit_s=240), "ann")
    world.started(1)
    world.advance(180)
    world.exited(1)
    world.settle()
    book = world.core.state.limits.ledger.books["qos", "gold"]
    assert book.spent.text() != ""
    before = book.spent.text()
    refused = many(world, qos_wish("gold", rawusage="0"), wish(ADD, "user", "x"))
    assert refused.startswith("refused") and book.spent.text() == before
    assert qos(world, QosAction.MODIFY, "gold", rawusage="1").startswith("refused: Invalid value specified")
    assert qos(world, QosAction.MODIFY, "gold", rawusage="0") == "done"
    assert book.spent.text() == ""
    world.restart()
    assert ("qos", "gold") not in world.core.state.limits.ledger.books or not world.core.state.limits.ledger.books[
        "qos", "gold"
    ].spent.amounts


def qos_wish(name: str, **changes: str) -> ChangeQos:
    return ChangeQos(actor(make(), "root"), QosAction.MODIFY, (name,), changes)


def test_a_deleted_account_takes_along_users_who_are_left_with_none() -> None:
    """With their level: a user who is added again has none. Users with another account keep theirs."""
    world = planted()
    assert change(world, MODIFY, "user", "cy", adminlevel="operator") == "cy"
    assert change(world, ADD, "coordinator", "bio", users=("cy",)) == "bio"
    assert change(world, ADD, "wckey", "heavy", users=("cy",)) == "heavy"
    assert change(world, MODIFY, "user", "ann", defaultaccount="bio", adminlevel="operator") == "ann"
    assert change(world, MODIFY, "user", "bob", defaultaccount="bio") == "bob"
    assert level_of(world.core.state, "cy") is Role.OPERATOR
    assert change(world, REMOVE, "account", "physics") == "physics"
    tree = world.core.state.shares
    assert sorted(tree.people) == ["ann", "bob"] and tree.about["bio"].coordinators == ()
    assert level_of(world.core.state, "cy") is Role.USER and level_of(world.core.state, "ann") is Role.OPERATOR
    assert [row.name for row in tree.wckeys.values() if row.user_name == "cy" and not row.deleted] == []
    again(world)
    assert change(world, ADD, "user", "cy", accounts=("bio",)) == "cy"
    assert level_of(world.core.state, "cy") is Role.USER


def test_who_may_not_delete_a_user_may_not_delete_his_last_account() -> None:
    world = planted()
    assert change(world, ADD, "coordinator", "physics", users=("bob",)) == "physics"
    assert change(world, ADD, "account", "lasers", "masers", parent="physics") == "lasers masers"
    assert change(world, ADD, "user", "dan", accounts=("lasers",), adminlevel="operator") == "dan"
    assert change(world, ADD, "user", "eve", accounts=("masers",)) == "eve"
    before = lasting(world)
    assert "dan has the level operator" in change(world, REMOVE, "account", "lasers", user="bob")
    assert lasting(world) == before
    assert change(world, REMOVE, "account", "masers", user="bob") == "masers"
    assert "eve" not in world.core.state.shares.people
    assert change(world, REMOVE, "account", "lasers") == "lasers"


def test_an_empty_list_is_neither_added_nor_taken_away() -> None:
    world = planted()
    for sign in "+-":
        assert f"qos{sign}= names none" in change(world, MODIFY, "account", "bio", **{f"qos{sign}": ""})
    assert world.core.state.shares.accounts["bio"].qos == ()
