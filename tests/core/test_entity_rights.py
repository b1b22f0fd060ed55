"""Who may change what of accounting: a matrix of roles and changes, and properties over random changes by anybody."""

from typing import Any

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.queue.rights import level_of
from ctld.core.records.effects import Results
from ctld.core.records.events import (
    Actor,
    CancelJobs,
    ChangeAccounts,
    ChangeQos,
    ControlAction,
    ControlJobs,
    JobFilter,
    JobSubmission,
    QosAction,
    Role,
    UpdateJobs,
)
from penstock.values.limits import LIMITS, NO_LIMIT, OF_ASSOC, LimitKind, get
from tests.core.bookkeeping import ADD, MODIFY, REMOVE, actor, ask, books, change, make, many, qos, wish
from tests.core.world import World

#: admin and root administer, opa and opb operate, cora coordinates physics, ann is below it, zed is elsewhere.
WHO = ("root", "admin", "opa", "cora", "ann", "zed")


PLANTED: tuple[ChangeAccounts | ChangeQos, ...] = (
    *(
        wish(ADD, "account", account, parent=parent)
        for account, parent in (("physics", "root"), ("optics", "physics"), ("lasers", "optics"), ("bio", "root"))
    ),
    ChangeQos(Actor(-1, -1, "", ""), QosAction.ADD, ("gold",), {}),
    wish(MODIFY, "account", "physics", grptres="cpu=100", maxjobs=10, qos="normal,gold", minprio=5),
    wish(MODIFY, "account", "optics", maxwall=600),
    wish(ADD, "user", "cora", accounts=("physics",)),
    wish(ADD, "user", "ann", accounts=("optics", "physics")),
    wish(ADD, "user", "zed", accounts=("bio",)),
    wish(ADD, "user", "opb", accounts=("optics",), adminlevel="operator"),
    wish(ADD, "user", "adb", accounts=("optics",), adminlevel="administrator"),
    wish(ADD, "coordinator", "physics", users=("cora",)),
    wish(ADD, "wckey", "key", users=("ann",)),
)


def planted(**extra: object) -> World:
    world = make(penstock_operators=("opa",), penstock_administrators=("admin",), **extra)
    assert many(world, *PLANTED).startswith("physics; optics; lasers; bio; gold; ")
    return world


NOBODY, OWN, COORD, OPER, ADMIN = (), ("ann",), ("cora",), ("opa",), ("root", "admin")
#: (who may beside those behind, change)
MATRIX: list[tuple[tuple[str, ...], Any]] = [
    # below the account that is coordinated
    (COORD + OPER + ADMIN, wish(ADD, "account", "new", parent="optics")),
    (COORD + OPER + ADMIN, wish(ADD, "account", "new", parent="physics", maxjobs=10)),
    (COORD + OPER + ADMIN, wish(MODIFY, "account", "optics", fairshare=3, description="x")),
    (COORD + OPER + ADMIN, wish(REMOVE, "account", "lasers")),
    (COORD + OPER + ADMIN, wish(ADD, "user", "new", accounts=("lasers",), maxjobs=3)),
    (COORD + OPER + ADMIN, wish(ADD, "user", "zed", accounts=("physics",))),
    (COORD + OPER + ADMIN, wish(MODIFY, "user", "ann", maxjobs=10, grptres="cpu=100", qos="gold")),
    (COORD + OPER + ADMIN, wish(MODIFY, "user", "cora", maxjobs=2)),
    (COORD + OPER + ADMIN, wish(REMOVE, "user", "ann")),
    (COORD + OPER + ADMIN, wish(ADD, "coordinator", "optics", users=("ann",))),
    (COORD + OPER + ADMIN, wish(REMOVE, "coordinator", "optics", users=("ann",))),
    # beyond what the account above has, or that is not a coordinator's to give
    (OPER + ADMIN, wish(ADD, "account", "new", parent="physics", maxjobs=11)),
    (OPER + ADMIN, wish(ADD, "account", "new", parent="optics", grptres="cpu=101")),
    (OPER + ADMIN, wish(MODIFY, "user", "ann", accounts=("optics",), maxwall=601)),
    (OPER + ADMIN, wish(MODIFY, "user", "ann", minprio=4)),
    (OPER + ADMIN, wish(MODIFY, "account", "optics", qos="normal,silver")),
    (OPER + ADMIN, wish(MODIFY, "user", "ann", priority=100)),
    (OPER + ADMIN, wish(MODIFY, "user", "ann", rawusage=0)),
    (OPER + ADMIN, wish(MODIFY, "account", "optics", budget="5gpu-hours/month")),
    (OPER + ADMIN, wish(MODIFY, "account", "lasers", parent="physics")),
    (OPER + ADMIN, wish(MODIFY, "user", "ann", newname="eve")),
    # the account itself, and what is elsewhere
    (OPER + ADMIN, wish(MODIFY, "account", "physics", fairshare=3)),
    (OPER + ADMIN, wish(REMOVE, "account", "bio")),
    (ADMIN, wish(REMOVE, "account", "physics")),  # an administrator has no other account
    (OPER + ADMIN, wish(ADD, "coordinator", "physics", users=("ann",))),
    (OPER + ADMIN, wish(REMOVE, "coordinator", "physics", users=("cora",))),
    (OPER + ADMIN, wish(ADD, "account", "new")),
    (OPER + ADMIN, wish(ADD, "account", "new", parent="bio")),
    (OPER + ADMIN, wish(MODIFY, "account", "bio", maxjobs=1)),
    (OPER + ADMIN, wish(MODIFY, "account", "optics", "bio", maxjobs=1)),
    (OPER + ADMIN, wish(ADD, "user", "new", accounts=("optics", "bio"))),
    (OPER + ADMIN, wish(MODIFY, "user", "zed", maxjobs=1)),
    (OPER + ADMIN, wish(MODIFY, "cluster", "cluster", grpjobs=1)),
    (OPER + ADMIN, wish(ADD, "cluster", "cluster")),
    (OPER + ADMIN, wish(ADD, "wckey", "x", users=("ann",))),
    (OPER + ADMIN, wish(REMOVE, "wckey", "key")),
    (OPER + ADMIN, wish(ADD, "resource", "matlab", count=3)),
    # one's own record
    (OWN + OPER + ADMIN, wish(MODIFY, "user", "ann", defaultaccount="physics")),
    (OWN + OPER + ADMIN, wish(MODIFY, "user", "ann", defaultwckey="key")),
    # levels
    (OPER + ADMIN, wish(MODIFY, "user", "ann", adminlevel="operator")),
    (OPER + ADMIN, wish(ADD, "user", "new", accounts=("optics",), adminlevel="operator")),
    (OPER + ADMIN, wish(MODIFY, "user", "opb", adminlevel="none")),
    (OPER + ADMIN, wish(REMOVE, "user", "opb")),
    (ADMIN, wish(MODIFY, "user", "ann", adminlevel="administrator")),
    (ADMIN, wish(ADD, "user", "new", accounts=("optics",), adminlevel="admin")),
    (ADMIN, wish(MODIFY, "user", "adb", adminlevel="none")),
    (ADMIN, wish(MODIFY, "user", "adb", maxjobs=1)),
    (ADMIN, wish(ADD, "user", "adb", accounts=("physics",))),
    (ADMIN, wish(ADD, "user", "root", accounts=("optics",))),
    (ADMIN, wish(ADD, "coordinator", "optics", users=("adb",))),
    (ADMIN, wish(ADD, "wckey", "x", users=("adb",))),
    (OPER + ADMIN, wish(ADD, "user", "opb", accounts=("lasers",))),
    (OPER + ADMIN, wish(ADD, "coordinator", "optics", users=("opb",))),
    (OPER + ADMIN, wish(ADD, "account", "default", parent="physics")),
    (ADMIN, wish(MODIFY, "user", "adb", newname="x")),
    (ADMIN, wish(MODIFY, "user", "ann", newname="admin")),
    (ADMIN, wish(REMOVE, "user", "adb")),
]  # fmt: skip


@pytest.mark.parametrize(("allowed", "event"), MATRIX, ids=lambda value: _title(value))
def test_the_matrix(allowed: tuple[str, ...], event: Any) -> None:
    untouched = with_silver()
    before = books(untouched)
    for who in WHO:
        said = ask(untouched if who not in allowed else with_silver(), event, who)
        assert said.startswith("refused: Access/permission denied") == (who not in allowed), (who, said)
        assert books(untouched) == before, (who, said)
        if said.startswith("refused"):
            assert "Access/permission denied" in said, (who, said)


def with_silver() -> World:
    world = planted()
    qos(world, QosAction.ADD, "silver")
    return world


def _title(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(value)
    return " ".join([value.action.name, value.entity, *value.names, *(f"{k}={v}" for k, v in value.changes.items())])


def test_qos_are_an_operators_matter() -> None:
    for who in WHO:
        said = qos(planted(), QosAction.MODIFY, "gold", user=who, priority=5)
        assert (said == "done") == (who in OPER + ADMIN), (who, said)


def test_coordinators_have_a_hand_in_jobs_of_their_accounts() -> None:
    for who, may in (("cora", True), ("opa", True), ("root", True), ("ann", True), ("zed", False), ("opb", True)):
        world = planted()
        world.submit(
            JobSubmission(name="j", work_dir=b"/tmp", account="optics", hold=False, begin_at_us=world.now_us * 2), "ann"
        )
        job = world.core.state.jobs[1]
        world.core.state.submissions.stored.leave(job)
        job.user_id = actor(world, "ann").uid
        world.core.state.submissions.stored.enter(job, 0, 0, 0)
        for event in (
            ControlJobs(actor(world, who), ("1",), ControlAction.HOLD, world.reply_to()),
            CancelJobs(actor(world, who), JobFilter(ids=("1",)), 0, False, False, reply_to=world.reply_to()),
        ):
            world.do(event)
            body = world.replies[event.reply_to]
            assert isinstance(body, Results)
            assert (body.results[0].code == 0) == may, (who, event)


def test_coordinators_do_not_change_jobs_of_others() -> None:
    world = planted()
    world.submit(JobSubmission(name="j", work_dir=b"/tmp", account="optics", begin_at_us=world.now_us * 2), "ann")
    event = UpdateJobs(actor(world, "cora"), ("1",), {"jobname": "x"}, {}, world.reply_to())
    world.do(event)
    body = world.replies[event.reply_to]
    assert isinstance(body, Results) and body.results[0].code != 0


# ---- properties --------------------------------------------------------------------------------------------------

PEOPLE = ("root", "opa", "opb", "cora", "ann", "zed", "new")
ACCOUNTS = ("physics", "optics", "lasers", "bio", "extra")
LEVELS = ("none", "operator", "administrator")
person, account = st.sampled_from(PEOPLE), st.sampled_from(ACCOUNTS)
values = st.fixed_dictionaries(
    {},
    optional={
        "adminlevel": st.sampled_from(LEVELS), "maxjobs": st.sampled_from(("-1", "3", "10", "50")), "newname": person,
        "grptres": st.sampled_from(("cpu=5", "cpu=500", "gres/gpu=1", "cpu=-1")), "defaultaccount": account,
        "qos": st.sampled_from(("gold", "normal", "")), "parent": account, "defaultwckey": st.just("key"),
    },
)  # fmt: skip


@st.composite
def changes(draw: Any) -> Any:
    action = draw(st.sampled_from((ADD, MODIFY, REMOVE)))
    entity = draw(st.sampled_from(("account", "user", "user", "user", "coordinator", "wckey")))
    more = draw(values) if action is not REMOVE and entity in ("account", "user") else {}
    if action is ADD:
        more.pop("newname", None)
    if entity == "account":
        keep = {key: value for key, value in more.items() if key in ("maxjobs", "grptres", "qos", "parent")}
        return wish(action, "account", draw(account), **keep)
    if entity == "user":
        more.pop("parent", None)
        accounts = (draw(account),) if action is ADD or draw(st.booleans()) else ()
        return wish(action, "user", draw(person), accounts=accounts, **more)
    return wish(action if action is not MODIFY else ADD, entity, draw(account), users=(draw(person),))


@examples(quick=30, full=600)
@given(st.lists(st.tuples(person, changes()), max_size=25))
def test_nobody_rises_above_who_let_him(script: list[tuple[str, Any]]) -> None:
    """A level above a user's comes only from somebody who has it, and only administrators bring down administrators."""
    world = planted()
    state = world.core.state
    for who, event in script:
        before = {name: level_of(state, name) for name in (*PEOPLE, "adb", "admin")}
        by = before[who]
        ask(world, event, who)
        after = {name: level_of(state, name) for name in before}
        for name, level in after.items():
            if level > before[name]:
                assert level <= by and by >= Role.OPERATOR, (who, name, event)
            if level < before[name]:
                assert before[name] <= by or name == who, (who, name, event)


@examples(quick=30, full=600)
@given(st.lists(changes(), max_size=25))
def test_a_coordinator_stays_below_the_account(script: list[Any]) -> None:
    """After any of their changes, limits below are within those above, and other accounts are unchanged."""
    world = planted()
    for event in script:
        before = books(world)
        said = ask(world, event, "cora")
        if said.startswith("refused"):
            assert books(world) == before, said
    tree = world.core.state.shares
    physics = tree.accounts["physics"]
    assert get(physics.limits, OF_ASSOC["maxjobs"]) == 10
    assert {name for name in tree.accounts if name in ("bio", "physics")} == {"bio", "physics"}
    assert tree.users["bio", "zed"].limits == tree.root.limits
    for assoc in tree.by_id.values():
        if assoc.parent is not None and assoc.parent is not tree.root:
            assert get(assoc.limits, OF_ASSOC["maxjobs"]) <= 10
            assert dict(assoc.limits.grp_tres).get("cpu", 0) <= 100
    assert {level_of(world.core.state, name) for name in ("cora", "ann", "zed", "new")} == {Role.USER}


@examples(quick=30, full=1000)
@given(st.lists(changes(), max_size=8), st.lists(changes(), min_size=1, max_size=8), st.booleans())
def test_many_changes_are_all_made_or_none(first: list[Any], script: list[Any], check_only: bool) -> None:
    """One that fails leaves no trace; one that does not is what the changes one by one would have been."""
    together, apart = planted(), planted()
    for world in (together, apart):
        for event in first:
            ask(world, event, "root")
        world.core.check()
    before = books(together)
    said = many(together, *script, check_only=check_only)
    one_by_one = [ask(apart, event, "root") for event in script]
    refused = [number for number, text in enumerate(one_by_one, 1) if text.startswith("refused")]
    assert said.startswith("refused") == bool(refused)
    if refused:
        assert f"; change {refused[0]}: " in said or f": change {refused[0]}: " in said
        assert said.split("change ")[0].rstrip("; :") in one_by_one[refused[0] - 1]
    if refused or check_only:
        assert books(together) == before
    else:
        assert said == "; ".join(one_by_one)
        assert kept(together) == kept(apart)


def kept(world: World) -> Any:
    """Without what says which object it is."""
    found = books(world)
    found["assocs"] = [entry[:-1] for entry in found["assocs"]]
    return found


def test_the_last_of_very_many_is_refused() -> None:
    world = planted()
    before = books(world)
    script = [wish(ADD, "user", f"u{number}", accounts=("bio",), maxjobs=number) for number in range(2000)]
    said = many(world, *script, wish(MODIFY, "account", "bio", parent="bio"))
    assert said.endswith("bio is below bio; change 2001: modify account bio"), said
    assert books(world) == before
    assert many(world, *script, check_only=True).startswith("u0; u1; ")
    assert books(world) == before
    assert many(world, *script).startswith("u0; u1; ")
    assert len(world.core.state.shares.accounts["bio"].children) == 2001


def test_every_limit_has_a_bound_below_a_coordinator() -> None:
    """No kind of limit was forgotten."""
    for limit in LIMITS:
        if not limit.of_assoc:
            continue
        world = planted()
        text, more = ("cpu=7", "cpu=8") if limit.kind is LimitKind.TRES else ("7", "8")
        if limit.name == "minpriothreshold":
            more = "6"
        assert change(world, MODIFY, "account", "optics", **{limit.name: text}) == "optics"
        said = change(world, MODIFY, "user", "ann", accounts=("optics",), user="cora", **{limit.name: more})
        assert "is beyond what account optics has: 7" in said, (limit, said)
        assert change(world, MODIFY, "user", "ann", accounts=("optics",), user="cora", **{limit.name: text}) == "ann"
        assert get(world.core.state.shares.users["optics", "ann"].limits, limit) != NO_LIMIT


def test_levels_are_told_only_to_those_who_may_change_users() -> None:
    """PrivateData could not hide them else: a refusal would tell."""
    world = planted()
    event = wish(MODIFY, "user", "adb", fairshare=3)
    assert "changing a user needs the role operator" in ask(world, event, "ann")
    for who in ("cora", "opa"):
        assert ask(world, event, who).endswith("changing a user: adb has the level administrator")
