"""Reservations through a real database: what is written comes back, in the order of creation; what is gone is gone."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import CreateReservation, DeleteReservation, JobSubmission, ReservationSettings
from ctld.core.records.reservation import Reservation, ReservationDemand, ReservedPart
from ctld.store import encodings, rows
from ctld.store.committer import Store
from penstock.values.reservations import ResvFlag
from tests.core.world import US, USERS, make_config
from tests.store.making import NOW_US, leading, make_batch
from tests.store.test_store_load import StoreWorld

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
numbers = st.integers(0, 2**40)
names = st.lists(text, max_size=3).map(tuple)
gres = st.lists(st.tuples(text, text, numbers), max_size=2).map(tuple)
asks = st.builds(
    ReservationDemand, nodes=names, all_nodes=st.booleans(), node_count=numbers, cpus=numbers, gres=gres,
    cpus_by_node=st.lists(numbers, max_size=2).map(tuple), gres_per_node=gres, partition=text, features=text,
)  # fmt: skip
reservations = st.builds(
    Reservation, name=text, resv_id=st.integers(1, 9999), start_at_us=numbers, end_at_us=numbers, anchor_at_us=numbers,
    previous_end_at_us=numbers, float_us=st.integers(-1, 2**40),
    flags=st.integers(0, sum(ResvFlag)).map(ResvFlag), purge_comp_s=numbers, idle_since_us=numbers, ask=asks,
    parts=st.lists(st.builds(ReservedPart, text, st.integers(-1, 99), numbers, gres), max_size=3).map(tuple),
    users=names, uids=st.lists(numbers, max_size=3).map(tuple), users_denied=st.booleans(), groups=names, accounts=names,
    accounts_denied=st.booleans(), licenses=st.lists(st.tuples(text, numbers), max_size=2).map(tuple), comment=text,
    created_at_us=numbers,
)  # fmt: skip


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """One database for all examples: to make its tables takes longer than an example."""
    store = leading(":memory:")
    yield store
    store.close()


@given(reservations)
def test_a_record_is_what_it_was(reservation: Reservation) -> None:
    values = rows.reservation_values(reservation)
    assert {type(value) for value in values} <= {int, str, bytes}
    record = values[-1]
    assert isinstance(record, bytes) and encodings.reservation_from(record) == reservation


@given(st.lists(reservations, max_size=4, unique_by=(lambda r: r.name, lambda r: r.resv_id)))
def test_all_come_back_in_their_order(store: Store, some: list[Reservation]) -> None:
    left = [r.name for r in store.load(NOW_US, 0, 0).reservations]
    store.commit(make_batch(store.sequence + 1, next_id=1, reservations_gone=left))
    store.commit(make_batch(store.sequence + 1, next_id=1, reservations=some))
    assert store.load(NOW_US, 0, 0).reservations == tuple(sorted(some, key=lambda r: r.resv_id))
    changed = [r._replace(comment="new") for r in some[1:]]
    gone = [r.name for r in some[:1]]
    store.commit(make_batch(store.sequence + 1, next_id=1, reservations=changed, reservations_gone=gone))
    assert store.load(NOW_US, 0, 0).reservations == tuple(sorted(changed, key=lambda r: r.resv_id))


def test_a_restart_knows_them() -> None:
    world = StoreWorld(make_config())
    for node in world.config.nodes:
        world.register(node.name)
    users = (("", "ann", USERS["ann"]),)
    for name, nodes in (("z", "n1"), ("a", "n2")):
        wish = ReservationSettings(start_at_us=world.now_us, duration_s=3600, nodes=(("", nodes),), users=users)
        world.do(CreateReservation(world.actor("root"), name, wish, world.reply_to()))
    wanted = JobSubmission(name="j", work_dir=b"/", ntasks=1, time_limit_s=60, reservation="a")
    assert world.submit(wanted)[-1] == "launch 1.0 on n2 [n2:1cpu/1task]"
    world.restart()
    assert list(world.core.state.reservations) == ["z", "a"]
    assert world.core.state.reserved.jobs == {"a": {1: None}}
    for node in world.config.nodes:
        world.register(node.name)
    assert world.do(DeleteReservation(world.actor("root"), "z", world.reply_to())) == ["done"]
    world.restart()
    assert list(world.core.state.reservations) == ["a"]
    world.now_us += 7200 * US
    world.restart()
    world.advance(0)
    assert [r.end_at_us < world.now_us for r in world.core.state.reservations.values()] == [True]  # its job runs yet


def test_a_number_is_never_given_again() -> None:
    """Its history stays, and is of one reservation: also when the last one is gone, and after a restart."""
    world = StoreWorld(make_config())
    for node in world.config.nodes:
        world.register(node.name)
    numbers = []
    for name in ("a", "b", "c"):
        wish = ReservationSettings(
            start_at_us=world.now_us, duration_s=3600, nodes=(("", "n1"),), users=(("", "ann", USERS["ann"]),)
        )
        world.do(CreateReservation(world.actor("root"), name, wish, world.reply_to()))
        numbers.append(world.core.state.reservations[name].resv_id)
        world.now_us += 60 * US
        assert world.do(DeleteReservation(world.actor("root"), name, world.reply_to())) == ["done"]
        if name != "a":
            world.restart()
    assert numbers == [1, 2, 3]


def test_a_maintenance_says_what_it_keeps_of_each_node() -> None:
    """Nodes of which as much is kept are one line; what is no maintenance says nothing of it."""
    world = StoreWorld(make_config(nodes=3))
    for node in world.config.nodes:
        world.register(node.name)
    for name, flags, nodes in (("fix", ResvFlag.MAINT, ("n1", "n2")), ("work", ResvFlag.NONE, ("n3",))):
        wish = ReservationSettings(
            start_at_us=world.now_us, duration_s=3600, nodes=tuple(("", one) for one in nodes), flags_on=int(flags),
            users=(("", "ann", USERS["ann"]),),
        )  # fmt: skip
        assert world.do(CreateReservation(world.actor("root"), name, wish, world.reply_to())) == [f"created {name}"]
    spans = {span.name: span for span in world.core.state.open_intervals.reservation_spans.values()}
    cpus = world.config.nodes[0].cpus
    (line,) = spans["fix"].node_tres.splitlines()
    assert line.startswith(f"n[1-2] cpu={cpus},") and line.endswith(",node=1")
    assert spans["fix"].tres.startswith(f"cpu={2 * cpus},") and spans["work"].node_tres == ""
    world.restart()
    assert world.core.state.open_intervals.reservation_spans["fix"] == spans["fix"]
