"""Crontabs and triggers through a real database; a crontab's job whose last run has just ended."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import CronEntry, SetTrigger, UpdateCrontab
from ctld.core.records.periodic import CronJob, Crontab, Trigger, TriggerKind
from ctld.store import encodings
from ctld.store.committer import Store
from penstock.values.states import JobState
from tests.core.hetscript import wanted
from tests.core.world import SPEC, make_config
from tests.store.making import NOW_US, leading, make_batch
from tests.store.test_store_load import StoreWorld

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
numbers = st.integers(0, 2**40)
lines = st.tuples(st.integers(1, 99), st.integers(1, 99))
crontabs = st.builds(
    Crontab, uid=st.integers(0, 2**32), user_name=text, text=text,
    jobs=st.lists(st.builds(CronJob, numbers, numbers, numbers), max_size=3).map(tuple),
    disabled=st.lists(lines, max_size=3).map(tuple), changed_at_us=numbers,
)  # fmt: skip
names = st.lists(text, max_size=3).map(tuple)
triggers = st.builds(
    Trigger, trigger_id=st.integers(1, 9999), uid=numbers, gid=numbers, user_name=text, kinds=st.integers(0, 2047),
    what=text, nodes=names, job_id=numbers, offset_s=st.integers(-32000, 32000), program=text, permanent=st.booleans(),
    created_at_us=numbers, due_at_us=numbers, hit=names, running=st.none() | text,
)  # fmt: skip


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """One database for all examples: to make its tables takes longer than an example."""
    store = leading(":memory:")
    yield store
    store.close()


@given(st.lists(crontabs, max_size=3, unique_by=lambda c: c.uid))
def test_crontabs_come_back(store: Store, some: list[Crontab]) -> None:
    left = [c.uid for c in store.load(NOW_US, 0, 0).crontabs]
    store.commit(make_batch(store.sequence + 1, next_id=1, crontabs_gone=left))
    store.commit(make_batch(store.sequence + 1, next_id=1, crontabs=some))
    assert list(store.load(NOW_US, 0, 0).crontabs) == sorted(some, key=lambda c: c.uid)
    store.commit(make_batch(store.sequence + 1, next_id=1, crontabs_gone=[c.uid for c in some]))
    assert not store.load(NOW_US, 0, 0).crontabs


@given(st.lists(triggers, max_size=3, unique_by=lambda t: t.trigger_id))
def test_triggers_come_back(store: Store, some: list[Trigger]) -> None:
    left = [t.trigger_id for t in store.load(NOW_US, 0, 0).triggers]
    store.commit(make_batch(store.sequence + 1, next_id=1, triggers_gone=left))
    store.commit(make_batch(store.sequence + 1, next_id=1, triggers=some))
    assert list(store.load(NOW_US, 0, 0).triggers) == sorted(some, key=lambda t: t.trigger_id)
    changed = [t._replace(running=None, due_at_us=0) for t in some[1:]]
    gone = [t.trigger_id for t in some[:1]]
    store.commit(make_batch(store.sequence + 1, next_id=1, triggers=changed, triggers_gone=gone))
    assert list(store.load(NOW_US, 0, 0).triggers) == sorted(changed, key=lambda t: t.trigger_id)


@given(triggers)
def test_a_record_of_an_earlier_version_is_read(trigger: Trigger) -> None:
    """New fields have a default, so a record may lack those at its end."""
    record = encodings.encode_json(
        {k: v for k, v in trigger._asdict().items() if k not in ("due_at_us", "hit", "running")}
    )
    assert encodings.trigger_from(record) == trigger._replace(due_at_us=0, hit=(), running=None)


def test_a_restart_knows_the_job_that_waits_and_not_its_last_run() -> None:
    world = StoreWorld(make_config(scron_parameters=(("enable", ""),)))
    for node in world.config.nodes:
        world.register(node.name)
    ann = world.actor("ann")
    entry = CronEntry(wanted({}, "tick"), SPEC, "* * * * *", 1, 1)
    world.do(UpdateCrontab(ann, ann, "* * * * * tick\n", (entry,), world.reply_to()))
    root = world.actor("root")
    world.do(SetTrigger(root, int(TriggerKind.DOWN), "/bin/tell", reply_to=world.reply_to()))
    world.advance(60)
    world.started(1)
    world.exited(1, 3)
    world.restart()
    job = world.core.state.jobs[1]
    assert (job.state, job.attempt, job.request.cron) == (JobState.PENDING, 1, "* * * * *")
    assert job.eligible_at_us % 60_000_000 == 0 and job.eligible_at_us > world.now_us
    assert [tab.text for tab in world.core.state.periodic.crontabs.values()] == ["* * * * * tick\n"]
    assert list(world.core.state.periodic.triggers) == [1]
    assert world.jobs[1, 0].state is JobState.FAILED and world.jobs[1, 0].exit_code == 3
