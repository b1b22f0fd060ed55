"""What the core does with a node that has seen more than the database: rules and bounds (issue 14, 16)."""

from collections.abc import Sequence

# Any: fields of a record, by their names
from typing import Any

import pytest

from ctld.core.controller import Core
from ctld.core.jobs import holds
from ctld.core.lifecycle import restored
from ctld.core.nodes.life import SLICE_STEPS
from ctld.core.records.effects import AdmitNode, Batch, LaunchStep, TerminateStep, Warn
from ctld.core.records.events import (
    Actor,
    HeldStep,
    JobSubmission,
    NodeDisconnected,
    NodeRegistered,
    Role,
    StepExited,
    SubmitJob,
)
from ctld.core.records.gap import CLOSED, OpenGap
from ctld.core.records.job import JobRow, SpecRow
from ctld.core.records.waiting_row import whole
from ctld.core.recover import LoadedState
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import Hold, JobState, NodeFlag
from tests.core.world import START_US, make_config

US = 1_000_000
ACTOR = Actor(0, 0, "root", "root", (), Role.ADMINISTRATOR)


class Site:
    """A core over a database that had come to job 100, in the term of epoch 5."""

    def __init__(self, accepted: bool = False, nodes: int = 2, jobs: Sequence[JobRow] = (), **loads: Any) -> None:
        """`loads`: fields of what is loaded."""
        self.now_us = START_US
        loaded = LoadedState(
            5, 100, 50, list(jobs), [], [], [], [], [], first_unknown_id=100, loss_accepted=accepted
        )._replace(**loads)
        self.core = Core(make_config(nodes), loaded, self.now_us)
        self.state = self.core.state
        self.links = 0
        self.keys = 0
        self.batches: list[Batch] = []

    def do(self, event) -> list:
        self.now_us += 1000
        self.core.step(self.now_us, event)
        effects = []
        while (batch := self.core.seal()) is not None:
            self.batches.append(batch)
            effects += batch.effects
        self.core.check()
        return effects

    def register(self, node: str = "n1", *held: HeldStep, epoch: int = 4, job_id: int = 0) -> list:
        self.links += 1
        return self.do(
            NodeRegistered(
                node, self.links, "boot", f"spool-{node}", "1", 4, 1, 4, 1, 4000, 0, (), held,
                epoch_seen=epoch, job_id_seen=job_id,
            )
        )  # fmt: skip

    def leave(self, node: str = "n1") -> None:
        self.do(NodeDisconnected(node, self.state.nodes[node].link_id))

    def submit(self, **job) -> int:
        self.keys += 1
        wanted = JobSubmission(name="j", work_dir=b"/", **job)
        before = self.state.next_job_id
        self.do(SubmitJob(ACTOR, f"{self.keys:032x}", self.now_us, wanted, SpecRow(bytes(32), b"#!/bin/sh", (), ())))
        return before


def held(job_id: int, state: str = "RUNNING", attempt: int = 0, epoch: int = 7, **more) -> HeldStep:
    return HeldStep(job_id, attempt, BATCH_STEP, state, epoch, start_at_us=START_US - 60 * US, **more)


def of(effects, kind) -> list:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_16_the_epoch_rises_in_the_batch_that_admits() -> None:
    site = Site()
    effects = site.register(epoch=9, job_id=250)
    assert [e.refusal for e in of(effects, AdmitNode)] == [""] and len(of(effects, Warn)) == 3
    (batch,) = [b for b in site.batches if b.epoch]
    assert (batch.epoch, batch.next_job_id) == (10, 251) and batch.is_durable()
    assert any(isinstance(e, AdmitNode) for e in batch.effects)
    site.register("n2", epoch=9)
    assert len([b for b in site.batches if b.epoch]) == 1  # once is enough
    assert site.submit() == 251


def test_16_nothing_changes_where_nothing_is_missing() -> None:
    site = Site()
    effects = site.register(epoch=4, job_id=99)
    assert not of(effects, Warn) and site.state.epoch == 5 and site.state.next_job_id == 100
    assert not site.state.gap.claims and not site.state.gap.wait_until_us


def test_16_a_node_that_comes_back_to_the_same_process_proves_nothing() -> None:
    """It has learnt the epoch from its first registration."""
    site = Site()
    site.register("n1", epoch=4)
    for _ in range(2):
        site.leave("n1")
        effects = site.register("n1", epoch=5)
        assert not of(effects, Warn) and site.state.epoch == 5
    effects = site.register("n2", epoch=3)  # it was away for a term
    assert not of(effects, Warn) and site.state.epoch == 5 and not site.state.gap.claims


def test_16_a_node_is_believed_within_bounds() -> None:
    """A stolen node's claims use up neither epochs nor job ids, and `sinfo -R` says what it claims."""
    site = Site()
    effects = site.register(epoch=2**62, job_id=2**31 - 2)
    assert "not believed" in of(effects, AdmitNode)[0].refusal
    node = site.state.nodes["n1"]
    assert node.flags & NodeFlag.DRAIN and "not believed" in node.reason
    assert (site.state.epoch, site.state.next_job_id) == (5, 100)
    site.register("n2", epoch=5, job_id=2**31 - 2)
    node = site.state.nodes["n2"]
    assert node.flags & NodeFlag.DRAIN and "job 2147483646" in node.reason
    assert site.state.next_job_id == 100
    for _ in range(50):  # again and again: the bound is one for each start
        site.leave("n2")
        site.register("n2", epoch=5, job_id=100 + restored.JOB_IDS_MAX - 1)
    assert site.state.next_job_id == 100 + restored.JOB_IDS_MAX
    site.leave("n2")
    site.register("n2", epoch=5, job_id=100 + restored.JOB_IDS_MAX)
    assert site.state.next_job_id == 100 + restored.JOB_IDS_MAX


def test_16_an_id_that_was_given_twice_is_told_apart() -> None:
    """Job 100 was lost, and 100 was given out again before its node came."""
    site = Site()
    site.register("n1")
    assert site.submit(nodes_required="n2") == 100
    effects = site.register("n2", held(100), epoch=9)
    assert [e.job_id for e in of(effects, TerminateStep)] == [100] and not of(effects, LaunchStep)
    assert site.state.nodes["n2"].flags & NodeFlag.COMPLETING
    assert site.state.nodes["n2"].reason == restored.ENDS_UNKNOWN_STEPS
    assert [line.event for b in site.batches for line in b.history if line.job_id == 100][-1] == "restored"
    site.leave("n2")
    effects = site.register("n2", held(100), epoch=10)  # still the same one
    assert of(effects, TerminateStep) and not of(effects, LaunchStep)
    effects = site.do(StepExited("n2", 100, 0, BATCH_STEP, "spool-n2", 1, site.links, START_US, site.now_us, 0, 15))
    assert site.state.jobs[100].state is JobState.RUNNING  # the end was not its own
    assert not site.state.nodes["n2"].flags & NodeFlag.COMPLETING and site.state.nodes["n2"].reason == ""
    assert of(effects, LaunchStep)  # the node refuses it, as it knows the key, and it is queued as its next attempt


def test_16_after_an_accepted_loss_nothing_starts_before_all_nodes_are_here() -> None:
    site = Site(accepted=True)
    site.register("n1")
    job_id = site.submit()
    assert site.state.jobs[job_id].state is JobState.PENDING
    effects = site.register("n2")
    assert [e.job_id for e in of(effects, LaunchStep)] == [job_id]
    assert [e.text for e in of(effects, Warn)] == ["all nodes have reported their steps: jobs start again"]
    assert not of(site.register("n1"), Warn)


def test_16_a_node_that_stays_away_is_waited_for_until_slurmd_timeout() -> None:
    from ctld.core.records.events import Tick

    site = Site(accepted=True)
    site.register("n1")
    job_id = site.submit()
    assert site.state.jobs[job_id].state is JobState.PENDING
    site.now_us += (site.state.config.slurmd_timeout_s + 1) * US
    effects = site.do(Tick())
    assert site.state.jobs[job_id].state is not JobState.PENDING
    assert [e.text for e in of(effects, Warn)] == ["SlurmdTimeout is over: jobs start again"]


def pending(job_id: int = 50, **job) -> JobRow:
    """A job that waits in the database: the row of one that another core was given."""
    site = Site()
    made = site.submit(nodes_required="n2", **job)
    (row,) = (row for batch in site.batches for row in batch.jobs if row.job_id == made)
    return whole(row)._replace(job_id=job_id, submit_at_us=START_US - 3600 * US)


def test_16_the_epoch_of_this_process_at_a_first_registration_proves_a_restored_folder() -> None:
    """Each start takes a new epoch: a node that has seen it before heard it from another process, on data that were replaced."""
    site = Site(jobs=[pending()])
    effects = site.register("n1", epoch=5)
    assert next(e.text for e in of(effects, Warn)).startswith("node n1 has seen epoch 5 before it registered here")
    (batch,) = [b for b in site.batches if b.epoch]
    assert batch.epoch == 6 and any(isinstance(e, AdmitNode) for e in batch.effects)
    assert list(site.state.gap.claims) == ["n1"]  # `sinfo -R` shows it
    assert site.state.jobs[50].state is JobState.PENDING and site.state.gap.wait_until_us
    effects = site.register("n2", held(50, epoch=5), epoch=5)
    assert site.state.epoch == 6  # once is enough
    assert [(e.job_id, e.attempt) for e in of(effects, TerminateStep)] == [(50, 0)]
    job = site.state.jobs[50]
    assert (job.state, job.attempt) == (JobState.PENDING, 1) and job.eligible_at_us > site.now_us
    assert site.state.nodes["n2"].flags & NodeFlag.COMPLETING
    site.leave("n2")
    site.register("n2", held(50, "RUNNING", attempt=1), epoch=6)  # only what it says first counts
    assert site.state.jobs[50].attempt == 1


def test_16_a_job_id_that_was_not_assigned_proves_it_too() -> None:
    site = Site(jobs=[pending()])
    site.register("n1")
    site.register("n2", held(50, "TOMBSTONE", end_acknowledged=True), epoch=4, job_id=100)
    assert site.state.epoch == 5 and site.state.next_job_id == 101
    assert site.state.jobs[50].attempt == 1


@pytest.mark.parametrize("state", ["RUNNING", "EXITED", "TOMBSTONE"])
@pytest.mark.parametrize("requeue", [True, False])
def test_16_a_proof_of_a_node_ends_no_job(state: str, requeue: bool) -> None:
    """A stolen node's word delays what waits, or holds it; its owner may release it."""
    site = Site(jobs=[pending(requeue=requeue)])
    site.register("n1")
    site.register("n2", held(50, state, attempt=restored.ATTEMPTS_MAX + 1), epoch=5)
    assert site.state.jobs[50].attempt == 0
    site = Site(jobs=[pending(requeue=requeue)])
    site.register("n1")
    site.register("n2", held(50, state), epoch=5)
    site.do(StepExited("n2", 50, 0, BATCH_STEP, "spool-n2", 1, site.links, START_US, site.now_us, 0, 0))
    job = site.state.jobs[50]
    assert (job.state, job.attempt) == (JobState.PENDING, 1)
    assert (job.hold is Hold.ADMIN) is not requeue and not holds.is_administrators(job)


#: As the database keeps it when the process of epoch 3 has ended while nodes were missing, at job 100.
LEFT_OPEN = OpenGap(gap_epoch=3, gap_first_unknown_id=100)


def kept(site: Site) -> list[OpenGap]:
    """What the batches have written about nodes that are waited for."""
    found = (dict(batch.counters) for batch in site.batches)
    return [OpenGap(**numbers) for numbers in found if "gap_epoch" in numbers]


def test_16_the_next_process_waits_for_nodes_too() -> None:
    """A crash does not make the nodes report that are still away."""
    site = Site(gap=LEFT_OPEN)
    assert site.state.gap.wait_until_us
    effects = site.register("n1")
    job_id = site.submit()
    assert "ended before all nodes had reported" in of(effects, Warn)[0].text
    assert site.state.jobs[job_id].state is JobState.PENDING and not kept(site)
    effects = site.register("n2")
    assert [e.job_id for e in of(effects, LaunchStep)] == [job_id]
    assert kept(site) == [CLOSED] and not site.state.gap.claims


def test_16_a_proof_is_kept_until_all_nodes_are_here() -> None:
    site = Site()
    site.register("n1", epoch=5)
    assert kept(site) == [OpenGap(5, 100)]
    site.register("n2")
    assert kept(site) == [OpenGap(5, 100), CLOSED]
    assert all(batch.is_durable() for batch in site.batches if batch.counters)


def test_16_the_next_process_judges_what_a_node_has_begun_unseen() -> None:
    """The epoch that proves it is that of the process before."""
    site = Site(jobs=[pending()], gap=LEFT_OPEN)
    effects = site.register("n2", held(50, epoch=3), epoch=4)
    assert [(e.job_id, e.attempt) for e in of(effects, TerminateStep)] == [(50, 0)]
    assert site.state.jobs[50].attempt == 1 and not site.state.gap.claims


def test_16_the_next_process_ends_steps_of_lost_ids_and_no_others() -> None:
    """Job 100 was assigned again by the process before, and runs on n1; n2 holds the one that was lost."""
    first = Site()
    first.register("n1")
    assert first.submit(nodes_required="n1") == 100
    rows = [row for batch in first.batches for row in batch.jobs if row.state is JobState.RUNNING]
    steps = [row for batch in first.batches for row in batch.steps]
    site = Site(jobs=rows, steps=steps, gap=LEFT_OPEN, next_job_id=101, first_unknown_id=101)
    assert not of(site.register("n1", held(100)), TerminateStep)
    assert not of(site.register("n2", held(100)), LaunchStep)
    assert list(site.state.gap.unknown_steps) == ["n2"]
    assert site.state.jobs[100].state is not JobState.PENDING and site.state.jobs[100].attempt == 0


def test_09_a_registration_of_very_many_steps_is_handled_in_slices() -> None:
    """Of each step that the database does not know the end is ordered, some in a turn of the loop."""
    site = Site()
    held = tuple(HeldStep(number, 0, BATCH_STEP, "RUNNING", 4) for number in range(100, 10_100))
    event = NodeRegistered("n1", 1, "boot", "spool-n1", "1", 4, 1, 4, 1, 4000, 0, (), held, epoch_seen=4)
    effects = site.state.outputs.effects
    site.core.begin(site.now_us, event)
    turns, most = 0, 0
    while site.core.in_progress:
        before = len(effects)
        site.core.resume()
        turns, most = turns + 1, max(most, len(effects) - before)
    assert turns > 8 and most <= SLICE_STEPS
    batch = site.core.seal()
    assert batch is not None and sum(type(effect) is TerminateStep for effect in batch.effects) == len(held)
    site.core.check()
