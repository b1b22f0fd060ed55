"""Days and months of the cluster are the sums of their hours, whatever stops the roll-up; and they outlive the hours."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from effort import examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, insert, select

from accounting.clusterdays import day_shares, hour_shares
from accounting.purge import Access, count, cut_us, purge
from accounting.rolling import DONE, Roller
from accounting.rollup import HOUR_US, Calendar, Shares
from accounting.tables import CLUSTER_DAY, CLUSTER_HOUR, CLUSTER_MONTH, NODE_EVENT, ROLLUP_MARK
from accounting.upsert import put
from accounting.usage import UsageQuery, UsageRowValues, cluster
from ctld.store.committer import Store
from ctld.store.dialect import write_engine
from ctld.store.schema import JOB_HISTORY
from tests.accounting.pastmaker import START_US, World, last_hour, roll_up

DAY_US = 24 * HOUR_US
CALENDAR = Calendar(((0, -8 * 3600),))


def new_world(place: str, seed: int, tres: str = "cpu=90,mem=999G,node=3") -> World:
    """Of three nodes that fail now and then."""
    Store.open(place, "me").close()
    world = World(write_engine(place), random.Random(seed))
    event = {"state": "", "reason": "", "reason_uid": 0, "end_at_us": 0}
    world.write(insert(NODE_EVENT).values(event | {"node": "", "start_at_us": START_US, "tres": tres}))
    rng = random.Random(seed)
    for _ in range(20):
        start_us = START_US + rng.randrange(60 * DAY_US)
        times = {"start_at_us": start_us, "end_at_us": start_us + rng.randrange(3 * DAY_US), "state": "DOWN"}
        world.write(
            insert(NODE_EVENT).values(event | times | {"node": rng.choice("abc"), "tres": "cpu=30,mem=333G,node=1"})
        )
    return world


def roll(world: World, stop_after: int = -1, page: int = 20) -> Roller:
    """In the zone of these tests."""
    return roll_up(world, stop_after, page, CALENDAR)


def finish(world: World) -> Roller:
    """Everything hidden is reported and counted."""
    for one in [one for one in world.running.values() if one.ended_us]:
        world.tell(one)
    world.now_us += 2 * HOUR_US
    roll(world)
    return roll(world)


def kept(engine: Engine, table: Any) -> dict[tuple[int, int], tuple[Shares, int]]:
    with engine.connect() as connection:
        return {
            (row.start_at_us, row.tres_id): (day_shares(row), row._mapping["count"])
            for row in connection.execute(select(table))
        }


def summed(engine: Engine, start_of: Callable[[int], int]) -> dict[tuple[int, int], tuple[Shares, int]]:
    """The hours, added up one by one."""
    found: dict[tuple[int, int], tuple[Shares, int]] = {}
    with engine.connect() as connection:
        for row in connection.execute(select(CLUSTER_HOUR).order_by(CLUSTER_HOUR.c.start_at_us)):
            key = (start_of(row.start_at_us), row.tres_id)
            so_far = found.get(key, (Shares(0, 0, 0, 0, 0, 0, 0), 0))[0]
            parts = Shares(*(a + b for a, b in zip(so_far, hour_shares(row), strict=True)))
            found[key] = (parts, row._mapping["count"])
    return found


def check(world: World) -> None:
    day, month = (lambda at: CALENDAR.day_of(at)[0]), (lambda at: CALENDAR.month_of(at)[0])
    assert kept(world.engine, CLUSTER_DAY) == summed(world.engine, day)
    assert kept(world.engine, CLUSTER_MONTH) == summed(world.engine, month)


def reported(world: World, ask: UsageQuery) -> list[UsageRowValues]:
    with world.engine.connect() as connection:
        return cluster(connection, CALENDAR, ask)


@settings(examples(quick=2, full=10), phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 2**32), page=st.sampled_from((1, 5, 50)))
def test_days_are_the_sums_of_their_hours(tmp_path_factory: pytest.TempPathFactory, seed: int, page: int) -> None:
    the_days_are_right(str(tmp_path_factory.mktemp("db") / "penstock.db"), seed, page)


def test_days_on_each_database(any_store: str) -> None:
    the_days_are_right(any_store, 5, 20)


def the_days_are_right(place: str, seed: int, page: int) -> None:
    world = new_world(place, seed)
    for _ in range(50):  # 25 days, and the end of a month
        world.advance(1, DAY_US)
        if world.rng.random() < 0.2:
            roll(world, world.rng.choice((-1, 0, 1, 3, 7, 12)), page)
    roller = finish(world)
    assert roller.marks.phase == DONE
    assert roller.marks.folded_us == roller.marks.cursor_us == last_hour(world.now_us)
    check(world)
    for at, until in ((0, 60 * DAY_US), (17 * DAY_US, 21 * DAY_US), (3 * HOUR_US, 30 * DAY_US + HOUR_US)):
        ask = UsageQuery(last_hour(START_US) + at, last_hour(START_US) + until, tres=("all",))
        found = reported(world, ask)
        by_hour = [row._replace(keys=()) for row in reported(world, ask._replace(group_by=("hour",)))]
        assert {row.tres for row in found} == {row.tres for row in by_hour}
        for row in found:  # each hour is rounded by itself
            hours = [one.values for one in by_hour if one.tres == row.tres]
            for i, value in enumerate(row.values[:-1]):
                assert abs(value - sum(values[i] for values in hours)) <= len(hours)
        for word in ("day", "month"):
            assert sum(
                r.values[0] for r in reported(world, ask._replace(group_by=(word,), tres=("cpu",)))
            ) == pytest.approx(next(row.values[0] for row in found if row.tres == "cpu"), abs=60)
    world.engine.dispose()


def test_a_database_that_had_hours_only_is_filled_from_them(any_store: str) -> None:
    """As a migration leaves it: no days, no mark. Until that is done a report says the same from hours."""
    world = new_world(any_store, 11)
    for _ in range(30):
        world.advance(1, 2 * DAY_US)
    finish(world)
    ask = UsageQuery(CALENDAR.month_of(START_US)[0], last_hour(world.now_us), tres=("all",))
    before = reported(world, ask)
    with world.begin() as connection:
        connection.execute(delete(CLUSTER_DAY))
        connection.execute(delete(CLUSTER_MONTH))
        connection.execute(delete(ROLLUP_MARK).where(ROLLUP_MARK.c.name == "folded_us"))
    assert reported(world, ask) == before
    world.now_us += HOUR_US
    for left in (0, 5, 9, 11, 2, 12, 4):
        roll(world, left)
        assert reported(world, ask) == before
    roll(world)
    check(world)
    assert reported(world, ask) == before
    world.engine.dispose()


def test_months_outlive_their_hours(any_store: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One database is purged now and then, the other never: of the months that are kept they say the same use of the same
    time. What was taken back of purged hours counts as idle."""
    places = (any_store, str(tmp_path_factory.mktemp("db") / "penstock.db"))
    purged, whole = (
        new_world(place, 3, "cpu=90000,mem=99999999G,node=3000") for place in places
    )  # more than jobs can have
    for step in range(18):
        for world in (purged, whole):
            world.advance(1, 3 * DAY_US)
            if step % 3 == 0:
                roll(world)
        if step % 6 == 0:
            access = Access(purged.begin, purged.engine.connect, lambda: False, JOB_HISTORY, CALENDAR)
            before_us = cut_us(access, "usage", purged.now_us - 2 * DAY_US, purged.now_us)
            wanted = count(access, "usage", before_us)
            assert purge(access, "usage", before_us, None) == wanted
    for world in (purged, whole):
        finish(world)
    assert purged.now_us == whole.now_us
    start_us, end_us = CALENDAR.month_of(purged.now_us)
    hours = kept(purged.engine, CLUSTER_MONTH)
    assert {key[0] for key in hours} == {start_us}
    ask = UsageQuery(start_us, end_us, tres=("all",))
    ours, theirs = reported(purged, ask), reported(whole, ask)
    assert [(row.tres, row.values[0], row.values[7]) for row in ours] == [
        (row.tres, row.values[0], row.values[7]) for row in theirs
    ]
    with_count = [i for i, row in enumerate(theirs) if row.tres in ("cpu", "mem", "node")]
    assert with_count and [ours[i].values[5] for i in with_count] == [theirs[i].values[5] for i in with_count]
    for world in (purged, whole):
        world.engine.dispose()


def test_what_ended_long_ago_is_taken_back_from_purged_hours(any_store: str) -> None:
    """A job of 30 CPUs was counted for four days, and ended after two hours: its hours are purged, its month is not."""
    world = new_world(any_store, 1)
    world.write(delete(NODE_EVENT).where(NODE_EVENT.c.node != ""))
    world.submit()
    job_id = next(iter(world.waiting))
    attempt, owner, _, since_us = world.waiting[job_id]
    world.waiting[job_id] = (attempt, owner, "cpu=30,mem=1G,node=1", since_us)
    world.start()
    world.now_us += 2 * HOUR_US
    world.end_unseen()
    world.now_us += 4 * DAY_US
    roll(world)
    with world.begin() as connection:
        put(connection, ROLLUP_MARK, [{"name": "purged_us", "value": last_hour(world.now_us)}])
        connection.execute(delete(CLUSTER_HOUR))
        connection.execute(delete(CLUSTER_DAY))
    start_us, end_us = CALENDAR.month_of(START_US)
    ask = UsageQuery(start_us, end_us)
    (before,) = reported(world, ask)
    finish(world)
    (after,) = reported(world, ask)
    allocated, down, planned_down, idle, planned, *_ = after.values
    assert (allocated, down, planned_down, planned) == (30 * 2 * 3600, 0, 0, 0)
    assert before.values[0] > 30 * 4 * 86_400 - 30 * 3600
    assert idle == 90 * (last_hour(world.now_us) - START_US) // 10**6 - allocated
    world.engine.dispose()
