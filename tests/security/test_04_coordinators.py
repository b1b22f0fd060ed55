"""Issue 14, number 4: a coordinator has rights over accounts, never over people.

The attack: a coordinator adds somebody, root too, to an account of theirs; it becomes the person's default, the person's
next jobs are in it, and the coordinator cancels them. Its family: any change of associations that gives a hand in jobs which
their owner did not put into the coordinator's accounts, or in people who stand higher.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.queue.rights import level_of, may_touch
from ctld.core.records.events import JobSubmission, SubmitJob
from tests.core.bookkeeping import ADD, MODIFY, REMOVE, actor, ask, books, change, wish
from tests.core.test_entity_rights import changes, planted
from tests.core.world import SPEC, World

HIGHER = ("root", "admin", "opa", "opb", "adb")


def submit(world: World, who: str, account: str = "") -> int:
    """A job that waits; its id."""
    wanted = JobSubmission(name="j", work_dir=b"/tmp", account=account, begin_at_us=world.now_us * 2)
    world.do(SubmitJob(actor(world, who), f"k{world.reply_to()}", world.now_us, wanted, SPEC))
    return max(world.core.state.jobs)


def cora_may(world: World, job_id: int) -> bool:
    return may_touch(world.core.state, actor(world, "cora"), world.core.state.jobs[job_id])


@pytest.mark.parametrize("person", HIGHER)
@pytest.mark.parametrize("enforce", [(), ("associations",)], ids=["free", "enforced"])
def test_who_stands_higher_is_not_added(person: str, enforce: tuple[str, ...]) -> None:
    world = planted(enforce=frozenset(enforce))
    before = books(world)
    for more in ({}, {"defaultaccount": "optics"}, {"partitions": ("debug",)}, {"maxsubmitjobs": 0}):
        said = change(world, ADD, "user", person, accounts=("optics", "physics"), user="cora", **more)
        assert "Access/permission denied" in said, said
    assert books(world) == before


def test_one_who_stands_higher_among_many_stops_all_of_them() -> None:
    world = planted()
    before = books(world)
    assert "root has the level administrator" in change(
        world, ADD, "user", "new", "root", accounts=("optics",), user="cora"
    )
    assert books(world) == before


def test_an_operator_does_not_add_an_administrator() -> None:
    world = planted()
    said = change(world, ADD, "user", "admin", accounts=("bio",), user="opa")
    assert "admin has the level administrator" in said
    assert change(world, ADD, "user", "admin", accounts=("bio",), user="root") == "admin"


@pytest.mark.parametrize("event", [
    wish(ADD, "coordinator", "optics", users=("root",)),
    wish(ADD, "coordinator", "optics", users=("adb",)),
    wish(REMOVE, "coordinator", "lasers"),
    wish(REMOVE, "account", "optics"),
    wish(MODIFY, "user", "opb", maxsubmitjobs=0, accounts=("optics",)),
    wish(REMOVE, "user", "opb", accounts=("optics",)),
], ids=str)  # fmt: skip
def test_nothing_is_done_to_who_stands_higher(event: Any) -> None:
    world = planted()
    change(world, ADD, "user", "opb", accounts=("bio",))  # a place elsewhere, so that opb would not be forgotten
    change(world, ADD, "user", "root", accounts=("bio",))
    change(world, ADD, "coordinator", "lasers", users=("opb",))
    before = books(world)
    assert "Access/permission denied" in ask(world, event, "cora")
    assert books(world) == before


def test_wckeys_of_an_administrator_are_no_operators_matter() -> None:
    world = planted()
    assert "adb has the level administrator" in change(world, ADD, "wckey", "x", users=("adb",), user="opa")
    assert change(world, ADD, "wckey", "x", users=("adb",), user="root") == "x"
    assert "adb has the level administrator" in change(world, REMOVE, "wckey", "x", user="opa")


def test_a_default_stays_with_its_person() -> None:
    world = planted()
    assert change(world, ADD, "user", "zed", accounts=("physics",), user="cora", defaultaccount="physics") == "zed"
    assert world.core.state.shares.default_accounts["zed"] == "bio"
    assert not cora_may(world, submit(world, "zed"))
    assert cora_may(world, submit(world, "zed", "physics"))  # put there by zed


def test_who_has_been_seen_goes_on_without_an_account() -> None:
    """Where jobs need no account, an addition moves nobody's jobs."""
    world = planted()
    before = submit(world, "guest")
    assert change(world, ADD, "user", "guest", accounts=("physics",), user="cora") == "guest"
    assert not cora_may(world, before)
    assert not cora_may(world, submit(world, "guest"))
    assert cora_may(world, submit(world, "guest", "physics"))
    assert change(world, MODIFY, "user", "guest", defaultaccount="physics", user="guest") == "guest"
    assert cora_may(world, submit(world, "guest"))  # guest's own choice


def test_nobody_adds_themselves_with_their_own_record_as_a_reason() -> None:
    """Their own default is theirs to choose; a place in an account is not."""
    world = planted()
    for keys in ({"defaultaccount": "bio"}, {"defaultwckey": "key"}, {}):
        assert "Access/permission denied" in change(world, ADD, "user", "ann", accounts=("bio",), user="ann", **keys)


@pytest.mark.parametrize("enforce", [(), ("associations",)], ids=["free", "enforced"])
def test_somebody_new_gets_a_default_as_in_slurm(enforce: tuple[str, ...]) -> None:
    world = planted(enforce=frozenset(enforce))
    assert change(world, ADD, "user", "new", accounts=("physics",), user="cora") == "new"
    assert world.core.state.shares.default_accounts["new"] == "physics"


@pytest.mark.parametrize("name", ["default", "Default", "ghost", "bio"])
def test_accounts_that_jobs_are_in_are_not_a_coordinators_to_add(name: str) -> None:
    """That of all who name none, and one that made itself for a job."""
    for priority in ("priority/basic", "priority/multifactor"):
        world = planted(priority_type=priority)
        jobs = [submit(world, "zed"), submit(world, "guest"), submit(world, "guest", "ghost")]
        before = books(world)
        change(world, ADD, "account", name, parent="physics", user="cora")
        assert books(world) == before
        assert not any(cora_may(world, job_id) for job_id in jobs)


def test_a_deleted_account_comes_back_only_to_where_it_was() -> None:
    """With it come its number, its usage and its history."""
    world = planted()
    change(world, REMOVE, "account", "bio", "lasers")
    assert "account bio has been used" in change(world, ADD, "account", "bio", parent="physics", user="cora")
    assert change(world, ADD, "account", "lasers", parent="physics", user="cora") == "lasers"


def test_a_record_without_a_place_is_not_removed_beside_another() -> None:
    """Somebody with a level and no association, named together with a person who is the coordinator's."""
    world = planted()
    world.core.state.shares.people["lone"] = world.core.state.shares.people["ann"]._replace(name="lone")
    before = books(world)
    assert "Access/permission denied" in change(world, REMOVE, "user", "ann", "lone", user="cora")
    assert books(world) == before


def test_the_last_place_of_a_coordinator_of_elsewhere_is_kept() -> None:
    world = planted()
    change(world, ADD, "coordinator", "bio", users=("ann",))
    assert "ann is a coordinator of account bio" in change(world, REMOVE, "user", "ann", user="cora")
    assert world.core.state.shares.coordinator_of["ann"] == ("bio",)


ATTACKS = st.one_of(
    changes(),
    st.builds(
        lambda name, parent: wish(ADD, "account", name, parent=parent),
        st.sampled_from(("default", "ghost", "extra", "bio", "lasers")), st.sampled_from(("physics", "optics")),
    ),
    st.builds(
        lambda name, account: wish(ADD, "user", name, accounts=(account,), defaultaccount=account),
        st.sampled_from(("guest", "root", "zed", "opb")), st.sampled_from(("physics", "optics", "lasers")),
    ),
)  # fmt: skip


@settings(max_examples=80)
@given(st.lists(ATTACKS, max_size=20), st.booleans())
def test_no_change_of_a_coordinator_gives_a_hand_in_jobs_that_there_are(script: list[Any], basic: bool) -> None:
    """Nor in what those submit afterwards who have a default or have been seen, nor does anybody higher get a place."""
    world = planted(priority_type="priority/basic" if basic else "priority/multifactor")
    tree = world.core.state.shares
    for name, account in (("zed", ""), ("guest", ""), ("guest", "ghost"), ("root", ""), ("opb", "bio"), ("ann", "")):
        submit(world, name, account)
    jobs = list(world.core.state.jobs)
    out_of_reach = [job_id for job_id in jobs if not cora_may(world, job_id)]
    assert len(out_of_reach) == 5
    places = {name: [a.account for a in tree.by_user.get(name, ())] for name in HIGHER}
    defaults = dict(tree.default_accounts)
    for event in script:
        ask(world, event, "cora")
    assert [job_id for job_id in jobs if not cora_may(world, job_id)] == out_of_reach
    assert {name: [a.account for a in tree.by_user.get(name, ())] for name in HIGHER} == places
    for name in ("zed", "guest", "root"):
        assert tree.default_accounts.get(name) == defaults.get(name)
        assert not cora_may(world, submit(world, name))
    assert level_of(world.core.state, "cora") == 0
