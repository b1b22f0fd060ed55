"""QOS records in the database, and a database of the version before suspension and QOS."""

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from ctld.core.records.qos import Qos
from ctld.store import migrate
from ctld.store.committer import Store
from penstock.values.states import JobState, Suspend
from tests.store.making import NOW_US, leading, make_batch, make_job, start, submitted

FULL = Qos("gold", "for papers", 4_000_000_000, ("low", "normal"), ("CANCEL", "WITHIN"), 60, 0, ("NoDecay",), 1_500_000)


def test_qos_comes_back_is_changed_and_goes(any_store: str) -> None:
    store = leading(any_store)
    (normal,) = store.load(NOW_US, 0, 0).qos
    assert normal == Qos("normal", "Normal QOS default")
    store.commit(make_batch(1, qos=[FULL, Qos("low")]))
    assert list(store.load(NOW_US, 0, 0).qos) == [FULL, Qos("low"), normal]
    store.commit(make_batch(2, qos=[FULL._replace(preempt=())], qos_gone=["low"]))
    assert list(store.load(NOW_US, 0, 0).qos) == [FULL._replace(preempt=()), normal]
    store.close()


def test_a_database_of_the_version_before(tmp_path: Path) -> None:
    """Jobs that it holds were never suspended."""
    path = tmp_path / "penstock.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrate.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    other = tmp_path / "other.db"
    store = leading(other)
    store.commit(submitted(1, [start(make_job(1))]))
    store.close()
    with sqlite3.connect(path) as raw:
        raw.execute("ATTACH ? AS other", (str(other),))
        for table in ("job", "job_request", "job_spec"):
            names = ",".join(row[1] for row in raw.execute(f"PRAGMA main.table_info({table})"))
            raw.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM other.{table}")
    store = Store.open(path, "me")
    store.acquire_lease(NOW_US)
    found = store.load(NOW_US, 0, 0)
    assert [(job.state, job.suspended_by, job.suspended_us) for job in found.jobs] == [
        (JobState.RUNNING, Suspend.NO, 0)
    ]
    assert [qos.name for qos in found.qos] == ["normal"]
    store.close()
