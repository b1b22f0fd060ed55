"""PenstockUserSpecBytesPerDay: new scripts and environments of a user in a day, whatever became of their jobs."""

import dataclasses
from typing import Any

from ctld.core.records.events import CancelJobs, JobFilter, JobSubmission, SubmitJob
from ctld.core.records.job import SpecRow
from tests.core.world import World, make_config

KB = 1000
DAY_S = 24 * 3600


def site(**limits: Any) -> World:
    return World(dataclasses.replace(make_config(), **limits))


def submit(world: World, number: int, user: str = "ann") -> str:
    """Submits a held job with a script of its own of 1,000 bytes, and cancels it; the answer."""
    spec = SpecRow(b"%d" % number, b"#!/bin/sh\n".ljust(KB, b"x"), (), ())
    wanted = JobSubmission(name="a", work_dir=b"/tmp", hold=True)
    key = f"{world.next_reply:032x}"
    [answer] = world.do(SubmitJob(world.actor(user), key, world.now_us, wanted, spec, False, world.reply_to()))
    if answer.startswith("submitted"):
        job_id = answer.split()[1]
        world.do(CancelJobs(world.actor(user), JobFilter(ids=(job_id,))))
        world.advance(world.config.min_job_age_s + 1)  # it is forgotten
        assert int(job_id) not in world.core.state.jobs
    return answer


def test_cancelled_jobs_count_for_a_day() -> None:
    world = site(user_spec_bytes_per_day=10 * KB, min_job_age_s=1)
    answers = [submit(world, n) for n in range(11)]
    assert all(answer.startswith("submitted") for answer in answers[:10])
    assert "PenstockUserSpecBytesPerDay=10000" in answers[10]
    assert submit(world, 10, "bob").startswith("submitted")  # of another user
    world.advance(DAY_S // 10)
    assert submit(world, 10).startswith("submitted")
    assert submit(world, 11).startswith("refused")
    world.advance(DAY_S)
    assert [submit(world, n)[:9] for n in range(20, 30)] == ["submitted"] * 10


def test_the_same_content_of_waiting_jobs_counts_once() -> None:
    world = site(user_spec_bytes_per_day=2 * KB)
    spec = SpecRow(b"same", b"#!/bin/sh\n".ljust(KB, b"x"), (), ())
    wanted = JobSubmission(name="a", work_dir=b"/tmp", hold=True)
    for n in range(5):
        submission = SubmitJob(world.actor("ann"), f"{n:032x}", world.now_us, wanted, spec, False, world.reply_to())
        assert world.do(submission)[0].startswith("submitted")


def test_no_limit() -> None:
    world = site(user_spec_bytes_per_day=0, user_spec_bytes_max=0, min_job_age_s=1)
    assert all(submit(world, n).startswith("submitted") for n in range(5))
