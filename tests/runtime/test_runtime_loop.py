"""The loop with the real store and a clock that a test sets: order, group commit, a full disk, the end."""

import asyncio
import threading
from pathlib import Path
from typing import cast

import msgspec
import pytest
from patience import ANSWER_S

from ctld.core.controller import Core
from ctld.core.records.effects import AdmitNode, LaunchStep, Refusal, Results, Submitted
from ctld.core.records.events import (
    AccountAction,
    Actor,
    AwaitJob,
    CancelJobs,
    ChangeAccounts,
    ChangeMany,
    JobFilter,
    JobSubmission,
    NodeRegistered,
    Role,
    SubmitJob,
)
from ctld.core.records.job import SpecRow
from ctld.core.requests.submit import SUBMIT_KEY_AGE_US
from ctld.runtime import inbox as inbox_module
from ctld.runtime import lease
from ctld.runtime import loop as loop_module
from ctld.runtime import storage as storage_module
from ctld.runtime.errors import NotTaken
from ctld.runtime.fatalcauses import FatalCauses
from ctld.runtime.loop import Runtime
from ctld.runtime.ports import StoreLike
from ctld.runtime.snapshot import Snapshot
from ctld.store.committer import Store
from ctld.store.errors import Deposed, StorageAway, StorageFull, StoreError
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.refusals import Code
from penstock.values.states import JobState

CONFIG = Config(
    nodes=(NodeConfig("n1", "n1", "n1", 4, real_memory_mb=100, state="IDLE"),),
    partitions=(PartitionConfig("p", ("n1",), is_default=True),),
)
START_US = 1_700_000_000_000_000
ACTOR = Actor(0, 0, "root", "root", (), Role.ADMINISTRATOR)


class GatedStore:
    """A store whose commits wait at a gate and may fail; says what it was asked."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path, "test")
        self.store.acquire_lease(START_US)
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()
        self.failures: list[Exception] = []
        self.refuse = "-"  # the name of a job whose row cannot be written
        self.committed: list[tuple[int, int]] = []  # (sequence, number of jobs)

    def commit(self, batch) -> None:
        self.at_gate.set()
        assert self.gate.wait(ANSWER_S)
        if self.failures:
            raise self.failures.pop(0)
        if any(row.request.name == self.refuse for row in batch.jobs):
            raise OverflowError("too large")
        self.store.commit(batch)
        self.committed.append((batch.sequence, len(batch.jobs)))

    def renew_lease(self, now_us: int) -> None:
        self.store.renew_lease(now_us)


class World:
    """A runtime; `fails` is what it said when it gave up."""

    def __init__(self, path: Path, words: Path | None = None) -> None:
        self.now_us = START_US
        self.store = GatedStore(path)
        self.fails: list[tuple[str, object]] = []
        loaded = self.store.store.load(self.now_us, 300_000_000, SUBMIT_KEY_AGE_US)
        core = Core(CONFIG, loaded, self.now_us)
        self.runtime = Runtime(
            core,
            cast(StoreLike, self.store),
            Snapshot(loaded.jobs, loaded.steps),
            lambda: self.now_us,
            lambda what, error: self.fails.append((what, error)),
            storage_full=StorageFull,
            storage_away=StorageAway,
            fatal_causes=FatalCauses(words, START_US),
        )
        self.effects: list[object] = []
        self.keys = 0

    def take_all(self, *kinds) -> None:
        for kind in kinds:
            self.runtime.handlers[kind] = self.effects.append

    def submission(self, **job) -> SubmitJob:
        self.keys += 1
        wanted = JobSubmission(name="j", work_dir=b"/", **job)
        spec = SpecRow(bytes(32), b"#!/bin/sh", (), ())
        number = self.runtime.new_reply_to()
        return SubmitJob(ACTOR, f"{self.keys:032x}", self.now_us, wanted, spec, reply_to=number)

    async def blocked(self) -> None:
        """Return when a commit stands at the closed gate."""
        await asyncio.to_thread(self.store.at_gate.wait, ANSWER_S)

    def close_gate(self) -> None:
        self.store.at_gate.clear()
        self.store.gate.clear()

    async def stop(self) -> None:
        await self.runtime.stop()
        self.store.store.close()


def run(tmp_path, story, stop=True):
    async def whole():
        world = World(tmp_path / "db")
        world.runtime.start()
        await story(world)
        if stop:
            await world.stop()
            assert world.fails == []

    asyncio.run(whole())


def test_no_answer_leaves_before_its_commit(tmp_path):
    async def story(world):
        world.close_gate()
        asked = asyncio.ensure_future(world.runtime.ask(world.submission()))
        await world.blocked()
        await asyncio.sleep(0)
        assert not asked.done() and not world.runtime.snapshot.jobs
        world.store.gate.set()
        assert await asked == Submitted(1)
        assert world.runtime.snapshot.jobs[1].state is JobState.PENDING
        assert [row.job_id for row in world.store.store.load(START_US, 0, 0).jobs] == [1]

    run(tmp_path, story)


def test_a_long_change_lets_the_loop_go_on_and_nobody_see_half_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(loop_module, "PUMP_S", 0.0)
    add = AccountAction.ADD
    good = [ChangeAccounts(ACTOR, add, "account", ("lab",), {})]
    good += [ChangeAccounts(ACTOR, add, "user", (f"u{i}",), {"maxjobs": "5"}, ("lab",)) for i in range(50)]
    good.append(ChangeAccounts(ACTOR, add, "user", tuple(f"v{i}" for i in range(950)), {}, ("lab",)))
    bad = ChangeAccounts(ACTOR, add, "user", ("last",), {}, ("nosuch",))

    async def ask(world, changes):
        """The answer, and what stood in the tree whenever the loop had a turn."""
        runtime, tree, seen = world.runtime, world.runtime.core.state.shares, []
        asked = asyncio.ensure_future(runtime.ask(ChangeMany(ACTOR, tuple(changes), False, runtime.new_reply_to())))
        behind = asyncio.ensure_future(runtime.ask(world.submission()))
        turns, before = 0, len(tree.users)  # root
        while not (asked.done() and behind.done()):
            await asyncio.sleep(0)
            turns += runtime.core.in_progress
            if (waiting := runtime.whole()) is not None and turns == 30:
                await waiting
            elif waiting is not None:
                waiting.close()
            if not runtime.core.in_progress:
                seen.append(len(tree.users) - before)
        assert turns >= 30 and isinstance(behind.result(), Submitted)
        return asked.result(), seen

    async def story(world):
        answer, seen = await ask(world, [*good, bad])
        assert isinstance(answer, Refusal) and "change 53: add user last" in answer.text
        assert dict.fromkeys(seen) == {0: None}
        answer, seen = await ask(world, good)
        assert len(answer.changes[-1].names) == len(answer.changes[-1].assocs) == 950
        assert dict.fromkeys(n for n in seen if n) == {1000: None}
        shares = world.store.store.load(START_US, 0, 0).shares
        assert sum(row.user_name not in ("", "root") for row in shares.assocs) == 1000

    run(tmp_path, story)


def test_an_answer_without_rows_waits_for_the_commits_before_it(tmp_path):
    """A refusal needs no commit, yet it may speak of what is not committed: it leaves in its turn."""

    async def story(world):
        world.close_gate()
        submitted = asyncio.ensure_future(world.runtime.ask(world.submission()))
        await world.blocked()
        nothing = CancelJobs(ACTOR, JobFilter(ids=("99",)), reply_to=world.runtime.new_reply_to())
        cancelled = asyncio.ensure_future(world.runtime.ask(nothing))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not cancelled.done()
        world.store.gate.set()
        assert isinstance(await cancelled, Results) and submitted.done()

    run(tmp_path, story)


def test_commits_grow_with_the_load(tmp_path):
    async def story(world):
        await world.runtime.idle()  # what the start has to write is written
        world.close_gate()
        first = asyncio.ensure_future(world.runtime.ask(world.submission()))
        await world.blocked()
        others = [asyncio.ensure_future(world.runtime.ask(world.submission())) for _ in range(50)]
        for _ in range(20):
            await asyncio.sleep(0)
        world.store.gate.set()
        bodies = await asyncio.gather(first, *others)
        assert [body.job_id for body in bodies] == list(range(1, 52))
        assert [number for _, number in world.store.committed if number] == [1, 50]

    run(tmp_path, story)


def test_20_a_full_disk_is_told_at_once_and_truthfully(tmp_path, monkeypatch):
    monkeypatch.setattr(loop_module, "STORAGE_RETRY_S", 0.02)

    async def code_of(answer):
        with pytest.raises(NotTaken) as refused:
            await answer
        return refused.value.code

    async def story(world):
        runtime = world.runtime
        world.store.failures = [StorageFull("no space")] * 40
        world.close_gate()
        submission = world.submission()
        first = asyncio.ensure_future(runtime.ask(submission))
        await world.blocked()
        behind = asyncio.ensure_future(runtime.ask(world.submission(hold=True)))  # stepped, in the next batch
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancel = CancelJobs(ACTOR, JobFilter(ids=("99",)), reply_to=runtime.new_reply_to())  # refused by the core
        refused = asyncio.ensure_future(runtime.ask(cancel))
        awaits = asyncio.ensure_future(runtime.ask(AwaitJob(ACTOR, 1, runtime.new_reply_to())))
        for _ in range(20):
            await asyncio.sleep(0)
        world.store.gate.set()
        assert await code_of(first) is Code.STORAGE_WAITS  # it will be done: not "failed"
        assert await code_of(behind) is Code.STORAGE_WAITS
        done = await asyncio.gather(refused, return_exceptions=True)
        assert isinstance(done[0], NotTaken) and done[0].code in (Code.STORAGE_FULL, Code.STORAGE_WAITS)
        assert runtime.storage.is_full
        assert await code_of(runtime.ask(world.submission())) is Code.STORAGE_FULL  # the core has not seen it
        cancel = CancelJobs(ACTOR, JobFilter(ids=("1",)), reply_to=runtime.new_reply_to())
        assert await code_of(runtime.ask(cancel)) is Code.STORAGE_FULL
        again = SubmitJob(ACTOR, submission.submit_key, submission.key_at_us, submission.job, submission.spec,
                          reply_to=runtime.new_reply_to())  # fmt: skip
        assert await code_of(runtime.ask(again)) is Code.STORAGE_WAITS  # it is known, and waits
        world.store.failures.clear()
        async with asyncio.timeout(ANSWER_S):
            while runtime.storage.is_full:
                await asyncio.sleep(0.001)
            while len(runtime.snapshot.jobs) < 2:
                await asyncio.sleep(0.001)
        assert sorted(runtime.snapshot.jobs) == [1, 2]  # both, and nothing else
        again = SubmitJob(ACTOR, submission.submit_key, submission.key_at_us, submission.job, submission.spec,
                          reply_to=runtime.new_reply_to())  # fmt: skip
        assert await runtime.ask(again) == Submitted(1)
        assert await runtime.ask(world.submission()) == Submitted(3)
        assert not awaits.done()
        awaits.cancel()

    run(tmp_path, story)


def test_20_renewals_without_room_are_one_line_in_the_log(tmp_path, caplog):
    async def story(world):
        for _ in range(3):
            renewal = asyncio.get_running_loop().create_future()
            renewal.set_exception(StorageFull("no space"))
            world.runtime.lease.renewed(renewal)
        assert [record.getMessage() for record in caplog.records if "no space" in record.getMessage()] == [
            "the database has no room: no space; changes are refused until it has"
        ]

    run(tmp_path, story)


def test_20_a_renewal_without_room_does_not_close_the_door_for_ever(tmp_path):
    async def story(world):
        world.runtime.storage.failed(StorageFull("no space"))
        assert world.runtime.storage.is_full
        world.runtime.storage.answered(is_idle=False)
        assert world.runtime.storage.is_full
        world.runtime.storage.answered(is_idle=True)
        assert await world.runtime.ask(world.submission()) == Submitted(1)

    run(tmp_path, story)

    run(tmp_path, story)


def test_a_server_that_is_away_lets_changes_wait_and_then_refuses_them(tmp_path, monkeypatch):
    monkeypatch.setattr(loop_module, "STORAGE_RETRY_S", 0.02)

    async def story(world):
        world.close_gate()
        world.store.failures = [StorageAway("no answer")] * 3
        first = asyncio.ensure_future(world.runtime.ask(world.submission()))
        await world.blocked()
        world.store.gate.set()
        async with asyncio.timeout(ANSWER_S):
            while not world.runtime.storage.is_away:
                await asyncio.sleep(0.001)
        waits = asyncio.ensure_future(world.runtime.ask(world.submission()))
        assert await first == Submitted(1)  # as soon as it answers
        assert await waits == Submitted(2)  # at the door until then
        assert not world.runtime.storage.is_away and world.runtime.metrics.storage_away == 3

        monkeypatch.setattr(storage_module, "STORAGE_AWAY_WAIT_S", 0.05)
        world.runtime.storage.failed(StorageAway("no answer"))
        with pytest.raises(NotTaken, match="does not answer; try again later") as refused:
            await world.runtime.ask(world.submission())
        assert refused.value.code is Code.STORAGE_AWAY
        world.runtime.storage.answered(is_idle=True)
        assert await world.runtime.ask(world.submission()) == Submitted(3)  # the refused one has changed nothing

    run(tmp_path, story)


@pytest.mark.parametrize("error", [Deposed("another leads"), StoreError("broken"), RuntimeError("a bug")])
def test_what_cannot_be_mended_ends_the_process_and_releases_nothing(tmp_path, error):
    async def story(world):
        world.store.failures = [error]
        asked = asyncio.ensure_future(world.runtime.ask(world.submission()))
        async with asyncio.timeout(ANSWER_S):
            while not world.fails:
                await asyncio.sleep(0.001)
        assert world.fails == [("the commit failed", error)]
        assert not asked.done() and not world.runtime.snapshot.jobs
        asked.cancel()
        await world.stop()

    run(tmp_path, story, stop=False)


async def failed(world):
    async with asyncio.timeout(ANSWER_S):
        while not world.fails:
            await asyncio.sleep(0.001)
    await world.stop()


def test_the_event_whose_batch_cannot_be_written_is_barred(tmp_path):
    """Of a batch of several events the cause is not known: the next process writes each in a batch of its own."""
    words = tmp_path / "lastwords.json"
    bad, good = [JobSubmission(name=name, work_dir=b"/") for name in ("bad", "good")]

    def event(world, wanted):
        return msgspec.structs.replace(world.submission(), job=wanted)

    async def first():
        world = World(tmp_path / "db", words)
        world.runtime.start()
        await world.runtime.idle()
        world.store.failures = [OverflowError("too large")]
        for wanted in (good, bad):
            world.runtime.post(event(world, wanted))
        await failed(world)
        after = FatalCauses(words, START_US)
        assert after.is_cause_unknown() and not after.bars(event(world, bad))

    async def second():
        world = World(tmp_path / "db", words)
        world.store.refuse = "bad"
        world.runtime.start()
        for wanted in (good, good, bad, good):
            world.runtime.post(event(world, wanted))
        await failed(world)
        assert [jobs for _, jobs in world.store.committed if jobs] == [1, 1]
        after = FatalCauses(words, START_US)
        assert after.bars(event(world, bad)) and not after.bars(event(world, good))
        assert not after.is_cause_unknown()

    async def third():
        world = World(tmp_path / "db", words)
        world.store.refuse = "bad"
        world.runtime.start()
        with pytest.raises(NotTaken, match="has ended over a request like this one"):
            await world.runtime.ask(event(world, bad))
        assert isinstance(await world.runtime.ask(event(world, good)), Submitted)
        await world.stop()
        assert world.fails == []

    for process in (first, second, third):
        asyncio.run(process())


@pytest.mark.parametrize("error", [Deposed("another leads"), StoreError("broken"), OSError("the disk")])
def test_no_event_is_blamed_for_a_fault_of_the_database(tmp_path, error):
    words = tmp_path / "lastwords.json"

    async def story():
        world = World(tmp_path / "db", words)
        world.runtime.start()
        world.store.failures = [error]
        world.runtime.post(world.submission())
        await failed(world)
        assert not words.exists()

    asyncio.run(story())


def test_a_bug_in_the_core_ends_the_process(tmp_path):
    async def story(world):
        world.runtime.post(object())  # an event that nobody knows
        async with asyncio.timeout(ANSWER_S):
            while not world.fails:
                await asyncio.sleep(0.001)
        assert world.fails[0][0] == "the core failed"
        await world.stop()

    run(tmp_path, story, stop=False)


def test_a_lost_lease_ends_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "LEASE_RENEW_S", 0.01)

    async def story(world):
        other = Store.open(tmp_path / "db", "another")
        other.acquire_lease(START_US + 3_600_000_000)
        async with asyncio.timeout(ANSWER_S):
            while not world.fails:
                await asyncio.sleep(0.001)
        assert isinstance(world.fails[0][1], Deposed)
        other.close()
        await world.stop()

    run(tmp_path, story, stop=False)


def test_time_passes_without_events(tmp_path):
    """A begin time comes, though nobody says anything."""

    async def story(world):
        world.take_all(AdmitNode, LaunchStep)
        world.runtime.post(NodeRegistered("n1", 1, "b", "s", "1", 4, 1, 4, 1, 100, 0, (), ()))
        await world.runtime.ask(world.submission(begin_at_us=START_US + 50_000))
        assert [type(effect) for effect in world.effects] == [AdmitNode]
        world.now_us += 60_000
        async with asyncio.timeout(ANSWER_S):
            while len(world.effects) < 2:
                await asyncio.sleep(0.001)
        assert world.effects[1].job_id == 1

    run(tmp_path, story)


def test_the_inbox_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(inbox_module, "INBOX_EVENTS_MAX", 3)

    async def story(world):
        asked = [asyncio.ensure_future(world.runtime.ask(world.submission())) for _ in range(5)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, NotTaken)]
        assert len(refused) == 2 and all(answer.code is Code.BUSY for answer in refused)
        assert [answer.job_id for answer in answers if isinstance(answer, Submitted)] == [1, 2, 3]
        assert await world.runtime.ask(world.submission()) == Submitted(4)

    run(tmp_path, story)


def test_stop_commits_what_was_taken_and_sends_waiters_away(tmp_path):
    async def story(world):
        world.close_gate()
        asked = asyncio.ensure_future(world.runtime.ask(world.submission()))
        await world.blocked()
        later = asyncio.ensure_future(world.runtime.ask(world.submission()))
        waiting = asyncio.ensure_future(world.runtime.ask(AwaitJob(ACTOR, 1, world.runtime.new_reply_to())))
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(world.runtime.stop())
        await asyncio.sleep(0)
        with pytest.raises(NotTaken):
            await world.runtime.ask(world.submission())
        world.store.gate.set()
        await stopping
        assert (await asked, await later) == (Submitted(1), Submitted(2))
        with pytest.raises(NotTaken) as sent_away:
            await waiting
        assert sent_away.value.passing
        assert [r.job_id for r in world.store.store.load(START_US, 0, 0).jobs] == [1, 2]
        world.store.store.close()
        assert world.fails == []

    run(tmp_path, story, stop=False)


def test_many_ready_jobs_are_planned_in_a_worker(tmp_path):
    async def story(world):
        await asyncio.gather(*(world.runtime.ask(world.submission()) for _ in range(300)))
        async with asyncio.timeout(ANSWER_S):
            while world.runtime.core.state.scheduling.full_pass_in_flight or not world.runtime.metrics.plans:
                await asyncio.sleep(0.01)
        assert world.runtime.snapshot.counts[JobState.PENDING] == 300

    run(tmp_path, story)
