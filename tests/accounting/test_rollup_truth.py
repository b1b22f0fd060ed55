"""A month of random jobs: what is rolled up equals what was used, to the microsecond, whatever stops the roll-up."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from postgres import Server
from sqlalchemy import Engine, create_engine, select

from accounting.database import database_url
from accounting.rolling import Roller
from accounting.rollup import HOUR_US, Calendar
from accounting.schema import METADATA, TRES
from accounting.tables import CLUSTER_HOUR, USAGE_DAY, USAGE_HOUR, USAGE_KEY, USAGE_MONTH
from accounting.usage import UsageQuery, usage
from ctld.store.committer import Store
from ctld.store.dialect import write_engine
from ctld.store.schema import META
from penstock.values.tres import parse_tres
from tests.accounting.pastmaker import START_US, US, World, last_hour, roll_up

assert META is not None  # its tables belong to the same metadata
OFFSET_S = 5 * 3600 + 1800  # a zone whose days begin in the middle of an hour
ZONE = timezone(timedelta(seconds=OFFSET_S))


#: In make test PostgreSQL has those of `any_store` and `any_database`.
@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def new_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes empty databases."""
    if request.param == "sqlite":
        return lambda: str(tmp_path_factory.mktemp("db") / "penstock.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database


def make(place: str) -> Engine:
    engine = create_engine(database_url(place))
    METADATA.create_all(engine)
    return engine


def by_brute_force(used: list[Any], start_of: Any, next_of: Any) -> dict[tuple[Any, ...], int]:
    """Each time cut at each border of a period, one by one."""
    found: dict[tuple[Any, ...], int] = {}
    for (account, user, partition, wckey, qos), tres, from_us, until_us in used:
        owner = (account or "root", user, partition, wckey, qos or "normal")
        amounts = parse_tres(tres)
        at_us = from_us
        while at_us < until_us:
            start_us = start_of(at_us)
            next_us = min(next_of(start_us), until_us)
            for name, amount in amounts.items():
                key = (start_us, name, owner)
                found[key] = found.get(key, 0) + amount * (next_us - at_us)
            at_us = next_us
    return found


def local(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us // US, ZONE)


def us_of(when: datetime) -> int:
    return int(when.timestamp()) * US


def day(at_us: int) -> int:
    return us_of(local(at_us).replace(hour=0, minute=0, second=0))


def month(at_us: int) -> int:
    return us_of(local(at_us).replace(day=1, hour=0, minute=0, second=0))


BORDERS = (
    (USAGE_HOUR, lambda at: at - at % HOUR_US, lambda start: start + HOUR_US),
    (USAGE_DAY, day, lambda start: day(start + 86_400 * US)),
    (USAGE_MONTH, month, lambda start: month(start + 32 * 86_400 * US)),
)


def in_books(engine: Engine, table: Any) -> dict[tuple[Any, ...], int]:
    with engine.connect() as connection:
        names = {number: name for number, name in connection.execute(select(TRES))}
        names |= {1: "cpu", 2: "mem", 4: "node", 5: "billing"}
        owners = {
            r.key_id: (r.account, r.user_name, r.partition, r.wckey, r.qos)
            for r in connection.execute(select(USAGE_KEY))
        }
        rows = connection.execute(select(table)).all()
    assert all(0 <= row.micros < 1_000_000 for row in rows)
    found = {
        (row.start_at_us, names[row.tres_id], owners[row.key_id]): row.seconds * 1_000_000 + row.micros for row in rows
    }
    return {key: amount for key, amount in found.items() if amount}


def check(world: World, cursor_us: int) -> None:
    used = world.used_until(cursor_us)
    by_hour, by_day, by_month = (by_brute_force(used, start_of, next_of) for _, start_of, next_of in BORDERS)
    for (table, *_), expected in zip(BORDERS, (by_hour, by_day, by_month), strict=True):
        assert in_books(world.engine, table) == expected
    hours: dict[tuple[int, str], int] = {}
    for (start_us, name, _), amount in by_hour.items():
        hours[start_us, name] = hours.get((start_us, name), 0) + amount
    with world.engine.connect() as connection:
        names = {number: name for number, name in connection.execute(select(TRES))}
        names |= {1: "cpu", 2: "mem", 4: "node", 5: "billing"}
        given = {
            (r.start_at_us, names[r.tres_id]): r.alloc_seconds * 1_000_000 + r.alloc_micros
            for r in connection.execute(select(CLUSTER_HOUR))
        }
    assert {key: amount for key, amount in given.items() if amount} == hours


def roll(world: World, stop_after: int, page: int) -> Roller:
    """In the zone of these tests."""
    return roll_up(world, stop_after, page, Calendar(((0, OFFSET_S),)))


@settings(
    deadline=None, max_examples=settings().max_examples // 15, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
@given(seed=st.integers(0, 2**32), page=st.sampled_from((1, 3, 50)), length=st.sampled_from((60, 150)))
def test_books_equal_the_truth(new_place: Callable[[], str], seed: int, page: int, length: int) -> None:
    rng = random.Random(seed)
    world = World(make(new_place()), rng)
    for _ in range(length):
        world.advance(1, 42 * 86_400 * US // length)  # three weeks, and the end of a month
        if rng.random() < 0.2:
            roll(world, rng.choice((-1, 0, 1, 2, 5, 9)), page)
    # Those whose nodes are out of reach to the end have not been told: tell them, then all is known.
    for one in [one for one in world.running.values() if one.ended_us]:
        world.tell(one)
    world.now_us += HOUR_US
    roller = roll(world, -1, page)
    assert roller.marks.cursor_us == last_hour(world.now_us)
    check(world, roller.marks.cursor_us)
    assert not roller.advance(last_hour(world.now_us), world.now_us)
    world.engine.dispose()


def test_a_history_is_counted_at_once_as_it_is_step_by_step(any_database: str) -> None:
    rng = random.Random(7)
    world = World(make(any_database), rng)
    for _ in range(300):
        world.advance(1, 4 * 3600 * US)  # 25 days, and the end of a month
    for one in [one for one in world.running.values() if one.ended_us]:
        world.tell(one)
    world.now_us += HOUR_US
    roller = roll(world, -1, 50)
    assert START_US < roller.marks.cursor_us == last_hour(world.now_us)
    check(world, roller.marks.cursor_us)
    world.engine.dispose()


@pytest.mark.parametrize("seed", [3, pytest.param(9, marks=pytest.mark.slow)])
def test_books_equal_the_truth_on_each_database(any_store: str, seed: int) -> None:
    rng = random.Random(seed)
    Store.open(any_store, "me").close()
    world = World(write_engine(any_store), rng)
    for _ in range(120):
        world.advance(1, 12 * HOUR_US)
        if rng.random() < 0.2:
            roll(world, rng.choice((-1, 0, 2, 5)), 20)
    for one in [one for one in world.running.values() if one.ended_us]:
        world.tell(one)
    world.now_us += HOUR_US
    roller = roll(world, -1, 20)
    check(world, roller.marks.cursor_us)
    window = UsageQuery(START_US - START_US % HOUR_US, roller.marks.cursor_us, ("account",), ("cpu", "mem"))
    with world.engine.connect() as connection:
        rows = usage(connection, Calendar(((0, OFFSET_S),)), window, lambda owner: True)
    truth: dict[tuple[str, str], int] = {}
    for (_, name, (account, *_rest)), amount in by_brute_force(
        world.used_until(roller.marks.cursor_us), *BORDERS[2][1:]
    ).items():
        truth[account, name] = truth.get((account, name), 0) + amount
    expected = {key: (amount + US // 2) // US for key, amount in truth.items() if key[1] in ("cpu", "mem")}
    assert {(row.keys[0], row.tres): row.values[0] for row in rows} == expected
    world.engine.dispose()
