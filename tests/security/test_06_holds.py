"""Issue 14, number 6: a hold is never made weaker but by a release, and an administrator's is released by operators alone.

The attack: the owner of a job that an administrator holds has it queued again and held, which made the hold the owner's, and
releases it. Its family: everything that sets a hold while there is one.
"""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.jobs.holds import HELD_BY_CONTROLLER, hold_as, hold_for, is_administrators
from ctld.core.records.events import (
    ControlAction,
    ControlJobs,
    CronEntry,
    JobSubmission,
    Quarantine,
    UpdateCrontab,
    UpdateJobs,
)
from ctld.core.records.job import Job
from penstock.values.states import Hold, JobState, Reason, stronger
from tests.core.world import SPEC, World, make_config

CA = ControlAction


def running(**config: Any) -> World:
    world = World(make_config(nodes=1, **config))
    world.register("n1")
    world.submit(JobSubmission(name="j", requeue=True))
    world.started(1)
    assert world.core.state.jobs[1].state is JobState.RUNNING
    return world


def act(world: World, action: CA, who: str, job: str = "1") -> bool:
    """True when it was done."""
    event = ControlJobs(world.actor(who), (job,), action, world.reply_to())
    world.do(event)
    return world.replies[event.reply_to].results[0].code == 0


def starts(world: World, job_id: int = 1) -> bool:
    """Whether it gets its nodes when time goes on."""
    for _ in range(3):
        world.advance(60)
    return world.core.state.jobs[job_id].state is not JobState.PENDING


#: What an owner can do to a held job that runs, or that waits.
OWNERS = (CA.REQUEUE_HOLD, CA.REQUEUE, CA.HOLD, CA.USER_HOLD, CA.RELEASE, CA.TOP)


@pytest.mark.parametrize("script", list(product(OWNERS, repeat=2)), ids=lambda s: "+".join(a.name for a in s))
def test_an_owner_gets_rid_of_no_administrators_hold(script: tuple[CA, ...]) -> None:
    world = running(slurmctld_parameters=())
    assert act(world, CA.HOLD, "root")
    for action in (CA.REQUEUE_HOLD, *script):
        act(world, action, "ann")
        if world.core.state.jobs[1].state is JobState.COMPLETING:
            world.exited(1, signal=15)
    job = world.core.state.jobs[1]
    assert job.hold is Hold.ADMIN
    assert not act(world, CA.RELEASE, "ann")
    assert not starts(world)
    assert act(world, CA.RELEASE, "root")
    assert starts(world)


#: What an owner can change of a job by scontrol update; keys that release or hold, and others that might.
CHANGES = (
    {"priority": "100"}, {"priority": "0"}, {"hold": "0"}, {"hold": "1"}, {"starttime": "now"}, {"nice": "0"}, {"requeue": "1"},
    {"dependency": ""}, {"comment": "x"}, {"timelimit": "1"}, {"partition": "debug"}, {"arraytaskthrottle": "1"},
)  # fmt: skip


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("array", ["", "0-2"])
def test_no_update_by_its_owner_does_either(changes: dict[str, str], array: str) -> None:
    """Of a job, of all tasks of an array and of one of them; before and after the owner's own hold."""
    world = World(make_config(nodes=1))
    world.register("n1")
    world.submit(JobSubmission(name="a", array=array, hold=True))
    job_id = min(world.core.state.jobs)
    assert act(world, CA.HOLD, "root", str(job_id))
    for which in (str(job_id), f"{job_id}_1", f"{job_id}_[0-1]")[: 3 if array else 1]:
        for action in (None, CA.USER_HOLD, CA.RELEASE):
            if action is not None:
                act(world, action, "ann", which)
            world.do(UpdateJobs(world.actor("ann"), (which,), changes, {}, world.reply_to()))
    assert {job.hold for job in world.core.state.jobs.values()} == {Hold.ADMIN}
    assert not any(starts(world, one) for one in list(world.core.state.jobs))


def test_an_exit_status_does_not_make_it_the_owners() -> None:
    """RequeueExitHold while an administrator holds the job: its owner chooses the status."""
    world = running(requeue_exit_hold=frozenset((42,)))
    act(world, CA.HOLD, "root")
    world.exited(1, 42)
    job = world.core.state.jobs[1]
    assert (job.state, job.hold) == (JobState.PENDING, Hold.ADMIN)
    assert not act(world, CA.RELEASE, "ann")


def test_a_cause_that_is_told_while_it_runs_makes_no_hold_the_owners() -> None:
    """Any text about the job took the hold for one of the controller's."""
    world = running()
    act(world, CA.HOLD, "root")
    world.core.state.jobs[1].reason_detail = "Node n1 is unreachable; the job may still run there."
    assert not act(world, CA.RELEASE, "ann")


def test_tasks_of_a_held_array() -> None:
    world = World(make_config(nodes=1))
    world.register("n1")
    world.submit(JobSubmission(name="a", array="0-3", hold=True))
    assert act(world, CA.HOLD, "root")
    for action, task in product(OWNERS, ("1_2", "1_[0-1]", "1")):
        act(world, action, "ann", task)
    assert {job.hold for job in world.core.state.jobs.values()} == {Hold.ADMIN}


def test_a_priority_of_zero_is_an_administrators_too() -> None:
    world = running()
    act(world, CA.REQUEUE_HOLD, "ann")
    world.exited(1, signal=15)
    job = world.core.state.jobs[1]
    hold_for(job, Reason.JOB_HOLD_MAX_REQUEUE.value)
    world.do(UpdateJobs(world.actor("root"), ("1",), {"priority": "0"}, {}, world.reply_to()))
    assert is_administrators(job)
    assert not act(world, CA.RELEASE, "ann")


def test_the_controllers_hold_stays_the_owners_to_release() -> None:
    """Also after a hold of the owner's own, which made it one that nobody but an operator could release."""
    world = running()
    act(world, CA.REQUEUE_HOLD, "ann")
    world.exited(1, signal=15)
    job = world.core.state.jobs[1]
    hold_for(job, Reason.JOB_HOLD_MAX_REQUEUE.value)
    assert act(world, CA.HOLD, "ann")
    assert act(world, CA.RELEASE, "ann")


def test_a_hold_after_a_crash_is_not_the_owners_to_release() -> None:
    """The controller has ended over a job that it holds itself: an administrator checks it first."""
    world = running()
    act(world, CA.REQUEUE_HOLD, "ann")
    world.exited(1, signal=15)
    job = world.core.state.jobs[1]
    hold_for(job, Reason.JOB_HOLD_MAX_REQUEUE.value)
    assert not is_administrators(job)
    world.do(Quarantine((1,), ()))
    assert is_administrators(job) and not act(world, CA.RELEASE, "ann")
    assert act(world, CA.RELEASE, "root")


@pytest.mark.parametrize("kind", [Hold.USER, Hold.ADMIN, "controller"])
def test_a_hold_of_an_entry_of_a_crontab_stays_of_its_kind(kind: Hold | str) -> None:
    """Also that of the controller, which its owner may release: it became an administrator's."""
    world = cron_world()
    if kind == "controller":
        hold_for(world.core.state.jobs[1], Reason.LAUNCH_FAILED_REQUEUED_HELD.value)
    else:
        act(world, CA.HOLD, "root" if kind is Hold.ADMIN else "ann", "1")
    new = put(world, "0 * * * * one")[0]
    job = world.core.state.jobs[new]
    assert job.hold is not Hold.NO and is_administrators(job) == (kind is Hold.ADMIN)
    assert act(world, CA.RELEASE, "ann", str(new)) == (kind is not Hold.ADMIN)


def cron_world() -> World:
    world = World(make_config(nodes=1, scron_parameters=(("enable", ""),)))
    world.register("n1")
    put(world, "0 * * * * one\n0 * * * * two")
    return world


def put(world: World, text: str) -> list[int]:
    entries = tuple(
        CronEntry(JobSubmission(name=line.split()[-1]), SPEC, "0 * * * *", number, number)
        for number, line in enumerate(text.split("\n"), 1)
    )
    event = UpdateCrontab(world.actor("ann"), world.actor("ann"), text, entries, world.reply_to())
    world.do(event)
    return list(world.replies[event.reply_to].job_ids)


def test_an_entry_of_a_crontab_stays_held_while_its_lines_stay() -> None:
    world = cron_world()
    assert act(world, CA.HOLD, "root", "1")
    new = put(world, "0 * * * * zero\n0 * * * * one\n0 * * * * two")
    jobs = world.core.state.jobs
    assert [jobs[job_id].hold for job_id in new] == [Hold.NO, Hold.ADMIN, Hold.NO]
    world.advance(7200)
    assert jobs[new[1]].state is JobState.PENDING
    assert jobs[new[1]].reason is Reason.JOB_HELD_ADMIN


@settings(max_examples=200)
@given(st.lists(st.sampled_from((*Hold, *sorted(HELD_BY_CONTROLLER))), max_size=8), st.booleans())
def test_holds_only_grow(script: list[Hold | str], pending: bool) -> None:
    job = Job()
    job.hold, job.reason_detail, job.state = Hold.NO, "", JobState.PENDING if pending else JobState.RUNNING
    for what in script:
        before, strict = job.hold, is_administrators(job)
        hold_as(job, what) if isinstance(what, Hold) else hold_for(job, what)
        assert stronger(before, job.hold) is job.hold
        assert is_administrators(job) or not strict
        assert not isinstance(what, Hold) or what is not Hold.ADMIN or is_administrators(job)
