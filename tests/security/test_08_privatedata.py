"""Issue 14, number 8: with PrivateData=jobs a job of somebody else does not exist, whatever it is asked with.

The attack: `sbatch -d afterok:ID` was refused for a job that is not there and accepted for one that is, and the fate of the
one that waited revealed how the other ended. Its family: everything else in which a job of somebody else is named.
"""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ctld.core.lifecycle.obstacles import obstacles
from ctld.core.records.effects import Refusal
from ctld.core.records.events import CronEntry, JobFilter, JobSubmission, SubmitJob, UpdateCrontab, UpdateJobs
from ctld.core.records.job import job_row
from ctld.rpc.explain.whyinfo import why_reply
from ctld.rpc.gate.visibility import ALL_JOBS, JobVisibility
from penstock.v1 import explain_pb2 as pb
from penstock.values.states import Reason
from tests.core.test_rights_matrix import OTHER, SAME, WHO, answer, job_of, make, without
from tests.core.world import SPEC, World

KINDS = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")
STATES = ("held", "held by root", "waits", "runs", "ended", "array", "task")


def private_job(world: World, owner, how: str) -> str:
    """A job of that user; how it is named in a dependency."""
    if how in ("array", "task"):
        account = "bio" if owner is OTHER else "physics"
        wanted = JobSubmission(name="x", account=account, array="0-1", time_limit_s=60)
        world.do(SubmitJob(owner, f"k{world.reply_to()}", world.now_us, wanted, SPEC))
        return f"{min(world.core.state.arrays)}{'_1' if how == 'task' else ''}"
    job_id = job_of(world, owner, "runs" if how == "ended" else how)
    if how == "ended":
        world.exited(job_id, 1)
    return str(job_id)


def submission(who, dependency: str) -> SubmitJob:
    return SubmitJob(
        who,
        "key",
        1_000_000_000_000,
        JobSubmission(name="x", account="physics", dependency=dependency),
        SPEC,
        reply_to=1,
    )


@pytest.mark.parametrize("how", STATES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_dependency_on_a_job_that_one_may_not_see_is_on_an_unknown_one(kind: str, how: str) -> None:
    world = make(private_data=("jobs",))
    name = private_job(world, OTHER, how)
    base, _, task = name.partition("_")
    nobodys = f"999{'_' + task if task else ''}"
    for who, sees in (("user", False), ("coordinator", False), ("operator", True), ("root", True)):
        before = set(world.core.state.jobs)
        there = answer(world, submission(WHO[who], f"{kind}:{name}"))
        absent = answer(world, submission(WHO[who], f"{kind}:{nobodys}"))
        assert without(absent, 999) == str(absent).replace("999", "ID")
        if not sees:
            assert without(there, int(base)) == without(absent, 999)
            assert set(world.core.state.jobs) == before
        else:
            assert not (isinstance(there, tuple) and there[1].endswith("is not known (any more)"))
    own = private_job(world, WHO["user"], "held")
    world.do(UpdateJobs(WHO["user"], (own,), {"dependency": f"{kind}:{name}"}, {}, 7))
    assert isinstance(world.replies[7], Refusal)
    assert world.replies[7].text.endswith(f"job {base} is not known (any more)")


def test_a_dependency_on_what_one_may_see_is_as_it_was() -> None:
    for private in ((), ("jobs",)):
        world = make(private_data=private)
        own, same = private_job(world, WHO["user"], "held"), private_job(world, SAME, "held")
        assert not isinstance(answer(world, submission(WHO["user"], f"afterok:{own}")), tuple)
        coordinators = SubmitJob(
            WHO["coordinator"], "key2", world.now_us, JobSubmission(name="x", account="physics", dependency=f"afterok:{same}"), SPEC,
            reply_to=1,
        )  # fmt: skip
        assert not isinstance(answer(world, coordinators), tuple)


class Row:
    """What is committed of a job, as far as it is asked here."""

    def __init__(self, job_id: int, uid: int) -> None:
        self.job_id, self.user_id, self.user_name = job_id, uid, str(uid)
        self.array_job_id, self.array_task_id, self.array_tasks = 0, None, None
        self.request = JobSubmission(name="x")


def test_texts_name_no_job_that_is_not_seen() -> None:
    visibility = JobVisibility(7)
    jobs: dict[int, Any] = {1: Row(1, 7), 2: Row(2, 8)}
    text = "for job 1 (REQUEUE), job 2 (REQUEUE), job 3"
    assert visibility.redact(text, jobs) == "for job 1 (REQUEUE), another job (REQUEUE), another job"
    assert ALL_JOBS.redact(text, jobs) == text


def test_a_dependency_tells_no_state_of_a_job_that_is_not_seen() -> None:
    """One from before PrivateData, or that an operator has set: `penstock why` told whether the job ran."""
    world = make()
    hidden, own = private_job(world, OTHER, "runs"), private_job(world, WHO["user"], "held")
    more = private_job(world, WHO["user"], "held")
    changes = {"dependency": f"afterok:{hidden},after:{own}+5"}
    world.do(UpdateJobs(WHO["user"], (more,), changes, {}, 7))
    jobs = world.core.state.jobs
    found = obstacles(world.core.state, jobs[int(more)], world.now_us)
    (text,) = [one.text for one in found if one.reason is Reason.DEPENDENCY]
    told = f"afterok:{hidden} (RUNNING)"
    assert told in text and f"after:{own}+5 (PENDING)" in text
    rows: dict[int, Any] = {job_id: job_row(job) for job_id, job in jobs.items()}
    assert JobVisibility(WHO["user"].uid).redact(text, rows) == text.replace(told, "afterok another job")
    assert ALL_JOBS.redact(text, rows) == text


@pytest.mark.parametrize("how", STATES)
def test_no_other_way_to_depend_on_a_job_that_is_not_seen(how: str) -> None:
    """A component of a heterogeneous job, a test of a submission, an entry of a crontab, an update by the job's name."""
    world = make(private_data=("jobs",), scron_parameters=(("enable", ""),))
    name, user = private_job(world, OTHER, how), WHO["user"]
    own = private_job(world, user, "held")
    before = {job_id: job.dependency for job_id, job in world.core.state.jobs.items()}
    job = JobSubmission(name="x", account="physics")
    waits = msgspec.structs.replace(job, dependency=f"afterany:{name}")
    plain = submission(user, f"afterany:{name}")
    mine = JobFilter(uids=(user.uid,), names=(world.core.state.jobs[int(own)].request.name,))
    for number, event in enumerate(
        (
            msgspec.structs.replace(plain, job=job, components=(waits,)),
            msgspec.structs.replace(plain, test_only=True),
            UpdateCrontab(user, user, "0 * * * * x\n", (CronEntry(waits, SPEC, "0 * * * *", 1, 1),)),
            UpdateJobs(user, (), {"dependency": f"afterany:{name}"}, which=mine),
        ),
        100,
    ):
        world.do(msgspec.structs.replace(event, reply_to=number))
        assert f"job {name.partition('_')[0]} is not known (any more)" in str(world.replies[number])
    assert {job_id: job.dependency for job_id, job in world.core.state.jobs.items()} == before


def test_why_names_no_job_of_others() -> None:
    """Jobs in front and those on a leaf switch are counted, not named; nor is the one for which it was preempted, nor those it
    would preempt."""
    in_front = tuple(SimpleNamespace(job_id=n, nodes_wanted=1, start_s=0, nodes=("n1",)) for n in (1, 2, 3))
    obstacle = SimpleNamespace(reason=Reason.PRIORITY, text="it was preempted for job 2, which goes first", at_us=0)
    why: Any = SimpleNamespace(
        obstacles=(obstacle,), planned=None, needs=(), licenses=(), reservations=(), in_front=in_front, in_front_more=4,
        may_preempt=True, victims=(1, 2), hints=(),
        leaves=(SimpleNamespace(name="s1", nodes=2, jobs=(1, 2), more=1, is_owned=True),),
    )  # fmt: skip
    snapshot: Any = SimpleNamespace(jobs={1: Row(1, 7), 2: Row(2, 8)})
    mine = why_reply(pb.WhyJobReply(), why, snapshot, JobVisibility(7))
    assert [(one.job_id, one.user_name) for one in mine.in_front] == [(1, "7")]
    assert (mine.in_front_more, list(mine.victims)) == (6, [1])
    assert [(list(leaf.jobs), leaf.jobs_more) for leaf in mine.leaves] == [([1], 2)]
    assert mine.obstacles[0].text == "it was preempted for another job, which goes first"
    everybodys = why_reply(pb.WhyJobReply(), why, snapshot, ALL_JOBS)
    assert [one.job_id for one in everybodys.in_front] == [1, 2, 3]
    assert (everybodys.in_front_more, list(everybodys.victims)) == (4, [1, 2])
    assert [(list(leaf.jobs), leaf.jobs_more) for leaf in everybodys.leaves] == [([1, 2], 1)]
