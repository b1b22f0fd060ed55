"""The epoch is raised by the leader alone, in a transaction of its own leadership (issue 14, 16)."""

from typing import Any

import psycopg
import pytest

from ctld.store.committer import LEASE_US, Store
from ctld.store.errors import Deposed
from ctld.store.sidewriter import SideWriter
from tests.store.making import NOW_US, all_jobs, leading, make_job, submitted


def test_16_a_batch_raises_the_epoch_and_all_go_on_under_it(any_store: str) -> None:
    store = leading(any_store)
    side = SideWriter(any_store, store.leads)
    batch = submitted(1, [make_job(1)])
    batch.epoch = 50
    store.commit(batch)
    assert store.epoch == 50 and store.leads(50) and not store.leads(1)
    store.renew_lease(NOW_US)
    with side.begin():
        pass
    side.close()
    store.commit(submitted(2, [make_job(2)]))
    store.close()
    store = leading(any_store)
    assert store.epoch == 51 and len(all_jobs(store)) == 2
    store.close()


def test_16_a_deposed_controller_raises_nothing(any_store: str) -> None:
    """Its nodes have seen the epoch of who has taken over: that is no reason to take the lead back."""
    old = leading(any_store)
    new = Store.open(any_store, "other")
    new.acquire_lease(NOW_US + 2 * LEASE_US)
    batch = submitted(1, [make_job(1)])
    batch.epoch = new.epoch + 1
    with pytest.raises(Deposed):
        old.commit(batch)
    new.commit(submitted(1, [make_job(1)]))
    assert new.epoch == 2
    old.close()
    new.close()


@pytest.mark.parametrize("before", [True, False])
def test_16_a_lost_answer_to_the_commit_that_raises_it(postgresql, before: bool) -> None:
    store = leading(postgresql.new_database(migrated=True))
    raw: Any = store.raw

    class Wire:
        def __getattr__(self, name: str) -> Any:
            return getattr(raw, name)

        def commit(self) -> None:
            if not before:
                raw.commit()
            raw.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    store.raw = Wire()
    batch = submitted(1, [make_job(1)])
    batch.epoch = 9
    store.commit(batch)
    store.commit(submitted(2, [make_job(2)]))
    assert store.epoch == 9 and len(all_jobs(store)) == 2
    store.close()
