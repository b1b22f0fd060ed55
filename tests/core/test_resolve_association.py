"""Association, QOS and wckey of a job: what is chosen, what AccountingStorageEnforce refuses, what an update changes."""

from typing import Any

import pytest

from ctld.core.queue import priority
from ctld.core.records.events import (
    AccountAction,
    ChangeAccounts,
    ChangeQos,
    ControlAction,
    ControlJobs,
    JobSubmission,
    LoadConfig,
    QosAction,
    UpdateJobs,
)
from ctld.core.records.qos import Qos
from penstock.values.config import PartitionConfig
from penstock.values.limits import NO_LIMITS
from penstock.values.states import Reason
from tests.core.world import World, make_config

ALL = ("associations", "limits", "qos", "safe", "wckeys")
NO_ACCOUNT = "refused: Invalid account or account/partition combination specified"
NO_QOS = "refused: Invalid qos specification"
FLAGS = {
    "free": ("PartitionMaxNodes", "PartitionTimeLimit", "PartitionMinNodes"),
    "inside": ("RequiresReservation",),
    "over": ("OverPartQOS",),
    "meek": ("NoReserve",),
}


def cluster(enforce: tuple[str, ...] = ALL, main: dict[str, Any] | None = None, **extra: Any) -> World:
    """Partitions `main` and `side`; accounts lab with ann and bob below it, and guest with nobody."""
    names = ("n1", "n2", "n3")
    partitions = (PartitionConfig("main", names, is_default=True, **main or {}), PartitionConfig("side", names))
    world = World(make_config(nodes=3, partitions=partitions, enforce=enforce, **extra))
    for name in names:
        world.register(name)
    account(world, "account", "lab", "guest")
    account(world, "user", "ann", "bob", accounts=("lab",))
    for number, name in enumerate(("high", "low", *FLAGS), 2):
        world.core.state.qos[name] = Qos(name, flags=FLAGS.get(name, ()), qos_id=number)
    return world


def account(world: World, entity: str, *names: str, accounts: tuple[str, ...] = (), **changes: str) -> None:
    event = ChangeAccounts(world.actor("root"), AccountAction.ADD, entity, names, changes, accounts, (), False, 0)
    world.do(event)


def submit(world: World, user: str = "ann", **wanted: Any) -> str:
    """The first line of the answer."""
    job = JobSubmission(
        name="j", work_dir=b"/", partitions=tuple(wanted.pop("partitions", "main").split(",")), **wanted
    )
    return world.submit(job, user)[0]


def update(world: World, job_id: int, user: str = "ann", **changes: str) -> str:
    return world.do(UpdateJobs(world.actor(user), (str(job_id),), changes, {}, world.reply_to()))[0]


def of_lab(world: World, user: str = "") -> Any:
    shares = world.core.state.shares
    return shares.users["lab", user] if user else shares.accounts["lab"]


def test_the_default_account_or_the_one_that_is_named() -> None:
    world = cluster()
    assert submit(world) == "submitted 1"
    assert submit(world, account="LAB") == "submitted 2"
    jobs = world.core.state.jobs
    assert [jobs[i].request.account for i in (1, 2)] == ["lab", "lab"]
    assert {jobs[i].assoc_id for i in (1, 2)} == {of_lab(world, "ann").assoc_id}
    assert world.jobs[1, 0].assoc_id == jobs[1].assoc_id
    world.restart()
    assert world.core.state.jobs[1].assoc_id == jobs[1].assoc_id


def test_without_an_association_nothing_is_accepted() -> None:
    world = cluster()
    assert submit(world, account="guest") == f"{NO_ACCOUNT}: user ann, account guest, partition main"
    assert submit(world, account="nosuch").startswith(NO_ACCOUNT)
    assert submit(world, "opa") == f"{NO_ACCOUNT}: user opa has no default account"
    assert submit(world, "root") == "submitted 1"  # as in Slurm, which gives root the account root
    assert world.core.state.jobs[1].request.account == "root"
    assert not world.core.state.shares.accounts.keys() - {"root", "lab", "guest"}


def test_without_enforcement_everybody_may_submit() -> None:
    world = cluster(())
    assert submit(world, account="nosuch") == "submitted 1"
    assert submit(world, "opa") == "submitted 2"
    assert world.core.state.jobs[1].request.account == "nosuch"


@pytest.mark.parametrize(("how", "answer"), [("NO", "submitted 1"), ("ANY", "submitted 1"), ("ALL", NO_ACCOUNT)])
def test_partitions_without_an_association_are_left_out_or_refuse(how: str, answer: str) -> None:
    world = cluster(enforce_part_limits=how)
    shares = world.core.state.shares
    only = shares.add("guest", "bob", shares.accounts["guest"], partition="side")
    assert submit(world, "bob", account="guest").startswith(NO_ACCOUNT)
    assert submit(world, "bob", account="guest", partitions="main,side").startswith(answer)
    if how != "ALL":
        job = world.core.state.jobs[1]
        assert job.request.partitions == ("side",) and job.assoc_id == only.assoc_id


def test_a_job_that_starts_in_another_partition_of_its_list_belongs_to_that_association() -> None:
    world = cluster()
    shares = world.core.state.shares
    in_side = shares.add("lab", "ann", shares.accounts["lab"], partition="side")
    world.core.state.partitions["main"].state = "DOWN"
    assert submit(world, partitions="main,side") == "submitted 1"
    assert world.jobs[1, 0].partition == "side" and world.jobs[1, 0].assoc_id == in_side.assoc_id


def test_the_list_of_qos_is_the_associations_or_that_of_the_account_above() -> None:
    world = cluster()
    assert submit(world) == "submitted 1"
    assert submit(world, qos="high") == f"{NO_QOS}: high: it is not among those of account lab"
    assert submit(world, qos="nosuch") == f"{NO_QOS}: nosuch"
    of_lab(world).qos = ("high", "low")
    world.core.state.rules_changed()
    assert submit(world, qos="HIGH") == "submitted 2"
    assert submit(world, qos="normal").startswith(NO_QOS)
    assert submit(world).startswith(NO_QOS)  # it would have `normal`
    of_lab(world, "ann").qos = ("low",)
    world.core.state.rules_changed()
    assert submit(world) == "submitted 3"  # the only one of the list
    assert [world.core.state.jobs[i].request.qos for i in (1, 2, 3)] == ["normal", "high", "low"]
    assert submit(world, qos="high").startswith(NO_QOS)


def test_the_default_qos() -> None:
    world = cluster()
    of_lab(world).qos, of_lab(world).default_qos = ("normal", "high", "low"), "high"
    assert submit(world) == "submitted 1"
    of_lab(world, "ann").default_qos = "low"
    world.core.state.rules_changed()
    assert submit(world) == "submitted 2"
    assert submit(world, qos="normal") == "submitted 3"
    assert [world.core.state.jobs[i].request.qos for i in (1, 2, 3)] == ["high", "low", "normal"]


def test_qos_are_not_looked_at_where_they_are_not_enforced() -> None:
    world = cluster(("associations",))
    assert submit(world, qos="high") == "submitted 1"
    assert submit(world, qos="inside") == f"{NO_QOS}: inside: it is for jobs in a reservation only"


def test_a_qos_may_go_beyond_its_partitions_limits() -> None:
    world = cluster(enforce_part_limits="ALL", main={"max_time_s": 3600, "max_nodes": 1})
    of_lab(world).qos = ("normal", "free")
    long: dict[str, Any] = {"time_limit_s": 7200}
    wide: dict[str, Any] = {"nodes_min": 2, "ntasks": 2}
    assert submit(world, **long).startswith("refused: Requested time limit")
    assert submit(world, **wide).startswith("refused: Node count")
    assert submit(world, **long, **wide, qos="free") == "submitted 1"
    assert world.jobs[1, 0].alloc and len(world.jobs[1, 0].alloc) == 2


def test_a_job_that_says_no_time_has_no_more_than_maxwall() -> None:
    world = cluster(main={"max_time_s": 7200, "qos": "high"})
    state, wall = world.core.state, lambda minutes: NO_LIMITS._replace(max_wall_min=minutes)
    of_lab(world).qos = ("normal", "over")
    limits: list[int] = []

    def next_limit(**wanted: Any) -> int:
        state.rules_changed()
        assert submit(world, **wanted) == f"submitted {len(limits) + 1}"
        limits.append(state.jobs[len(limits) + 1].time_limit_s)
        return limits[-1]

    assert next_limit() == 7200
    of_lab(world).limits = wall(60)
    assert next_limit() == 3600
    of_lab(world, "ann").limits = wall(90)
    assert next_limit() == 5400  # the user's own takes precedence over the account's
    state.qos["normal"] = state.qos["normal"]._replace(limits=wall(30))
    assert next_limit() == 1800
    state.qos["high"] = state.qos["high"]._replace(limits=wall(20))
    assert next_limit() == 1200  # the partition's goes before the job's
    state.qos["over"] = state.qos["over"]._replace(limits=wall(25))
    assert next_limit(qos="over") == 1500
    assert next_limit(time_limit_s=6000) == 6000


def test_an_update_changes_what_the_job_belongs_to() -> None:
    world = cluster()
    of_lab(world).qos = ("normal", "high")
    account(world, "user", "ann", accounts=("guest",))
    assert submit(world, hold=True) == "submitted 1"
    assert update(world, 1, qos="high") == "1: ok"
    assert update(world, 1, account="guest").startswith("1: Invalid qos specification")  # guest has normal alone
    assert update(world, 1, account="guest", qos="") == "1: ok"
    guest = world.core.state.shares.users["guest", "ann"]
    job = world.core.state.jobs[1]
    assert (job.request.account, job.request.qos, job.assoc_id) == ("guest", "normal", guest.assoc_id)
    assert world.jobs[1, 0].assoc_id == guest.assoc_id
    assert update(world, 1, account="nosuch").startswith("1: Invalid account or account/partition")
    assert update(world, 1, qos="low").startswith("1: Invalid qos specification")
    assert update(world, 1, "root", qos="low") == "1: ok"
    assert update(world, 1, account="", qos="normal") == "1: ok"
    job = world.core.state.jobs[1]
    assert (job.request.account, job.assoc_id) == ("lab", of_lab(world, "ann").assoc_id)


def test_what_was_accepted_before_waits_with_its_reason() -> None:
    world = cluster(())
    assert submit(world, "opa", account="nosuch", hold=True) == "submitted 1"
    world.do(LoadConfig(make_config(nodes=3, partitions=world.config.partitions, enforce=ALL), 0))
    world.do(ControlJobs(world.actor("opa"), ("1",), ControlAction.RELEASE, reply_to=world.reply_to()))
    assert world.core.state.jobs[1].reason is Reason.INVALID_ACCOUNT


def test_wckeys() -> None:
    world = cluster(track_wckey=True)
    world.do(ChangeAccounts(world.actor("root"), AccountAction.ADD, "wckey", ("paper", "book"), {}, users=("ann",)))
    assert submit(world, wckey="book") == "submitted 1"
    wrong = "refused: Invalid wckey specification: user ann, wckey "
    assert submit(world, wckey="nosuch") == wrong + "nosuch"
    assert submit(world) == "submitted 2"  # the first one is the default
    assert [world.core.state.jobs[i].request.wckey for i in (1, 2)] == ["book", "*paper"]
    people = world.core.state.shares.people
    people["ann"] = people["ann"]._replace(default_wckey="")
    world.core.state.rules_changed()
    assert submit(world) == wrong + "none"


def test_wckeys_that_are_not_enforced_make_themselves() -> None:
    world = cluster((), track_wckey=True)
    assert submit(world, wckey="new") == "submitted 1"
    assert ("new", "ann") in world.core.state.shares.wckeys


def test_the_priority_of_its_qos_counts_and_a_change_of_it_too() -> None:
    world = cluster((), priority_type="priority/multifactor", priority_weight_qos=1000)

    def modify(name: str, **changes: str) -> None:
        world.do(ChangeQos(world.actor("root"), QosAction.MODIFY, (name,), changes, world.reply_to()))

    modify("high", priority="20")
    modify("low", priority="5")
    for qos in ("high", "low", ""):
        submit(world, qos=qos, hold=True)
    world.do(ControlJobs(world.actor("root"), ("1", "2", "3"), ControlAction.RELEASE, world.reply_to()))
    jobs = world.core.state.jobs
    assert [priority.current(world.core.state, jobs[i]) for i in (1, 2, 3)] == [1000, 250, 1]
    submit(world, qos="low", nodes_min=3, ntasks=3, exclusive=True)
    modify("low", priority="20")
    world.advance(2)
    assert priority.current(world.core.state, jobs[4]) == 1000


def test_no_start_is_planned_for_a_job_with_no_reserve() -> None:
    for qos, later in (("normal", Reason.PRIORITY), ("meek", None)):
        world = cluster(("associations",))
        of_lab(world).qos = ("normal", "meek")
        submit(world, nodes_min=2, ntasks=2, exclusive=True, time_limit_s=3600)
        submit(world, nodes_min=3, ntasks=3, exclusive=True, time_limit_s=3600, qos=qos)
        submit(world, time_limit_s=7200, exclusive=True)
        job = world.core.state.jobs[3]  # it would take the third node for longer than the big one is to wait
        assert (job.reason is Reason.PRIORITY) == (later is Reason.PRIORITY), (qos, job.reason, job.state)
