"""The roll-up adds numbers of any size, and a report reads them, on each database."""

from sqlalchemy import create_engine, insert, select

from accounting.database import database_url
from accounting.rollup import HOUR_US, Calendar
from accounting.schema import METADATA
from accounting.tables import USAGE_HOUR, USAGE_KEY
from accounting.upsert import MICROS, SECONDS_MAX, add, split
from accounting.usage import UsageQuery, usage

ENERGY = 3
OWNER = {
    "assoc_id": 1, "account": "lab", "user_name": "ann", "user_id": 1, "partition": "p", "wckey": "", "qos": "",
}  # fmt: skip


def test_sums_saturate_and_a_report_answers(any_database: str) -> None:
    engine = create_engine(database_url(any_database))
    METADATA.create_all(engine)
    with engine.begin() as connection:
        for key_id in range(1, 4):
            connection.execute(insert(USAGE_KEY).values(key_id=key_id, **OWNER | {"user_id": key_id}))
            key = {"start_at_us": HOUR_US, "tres_id": ENERGY, "key_id": key_id}
            for amount_us in (10**30, 10**30, 5 * MICROS):
                add(connection, USAGE_HOUR, [{**key, **split(amount_us)}])
        found = connection.execute(select(USAGE_HOUR.c.seconds)).scalars().all()
        assert found == [SECONDS_MAX] * 3
        ask = UsageQuery(HOUR_US, 2 * HOUR_US, ("account",), ("energy",))
        [row] = usage(connection, Calendar(((0, 0),)), ask, lambda owner: True)
        assert row.keys == ("lab",) and row.values[0] >= 3 * SECONDS_MAX
        for amount_us in (-(10**30), -(10**30)):
            add(connection, USAGE_HOUR, [{**key, **split(amount_us)}])
        assert connection.execute(select(USAGE_HOUR.c.seconds).where(USAGE_HOUR.c.key_id == 3)).scalar() == -SECONDS_MAX
    engine.dispose()


def test_a_sum_that_an_older_version_has_stored_can_be_added_to(any_database: str) -> None:
    engine = create_engine(database_url(any_database))
    METADATA.create_all(engine)
    key = {"start_at_us": HOUR_US, "tres_id": ENERGY, "key_id": 1}
    with engine.begin() as connection:
        connection.execute(insert(USAGE_HOUR).values(**key, seconds=(1 << 63) - 1, micros=999_999))
        add(connection, USAGE_HOUR, [{**key, **split(MICROS)}])
        assert connection.execute(select(USAGE_HOUR.c.seconds)).scalar() == SECONDS_MAX
    engine.dispose()
