"""Which jobs of an update the site's submit filter sees: those that the core would change, each with its own answer."""

import asyncio
import pwd
from pathlib import Path

import pytest

from ctld.rpc.jobs import filtering
from penstock.v1 import common_pb2, periodic_pb2
from penstock.v1 import controller_pb2 as c
from penstock.v1.explain_pb2 import DiagnosticsRequest
from penstock.values.refusals import TEXT, Code
from tests.rpc.clusterkit import Site, submission
from tests.rpc.test_submit_filter import NOBODY, OTHER, refused, site_with

BIN = pwd.getpwnam("bin").pw_uid
SEES_ALL = """
def job_modify(job, changes, submitter):
    if job.name == "fixed" or (job.comment or "").startswith("fixed"):
        raise Refuse(f"{job.job_id} is fixed")
    if "comment" in changes:
        changes["comment"] += f" {job.job_id}"
    log_user(f"saw {job.job_id}")
"""


async def calls(site: Site) -> int:
    async with site.client() as client:
        return int((await client.call("Diagnostics", DiagnosticsRequest())).filter_calls)


async def submit(site: Site, uid: int, **job) -> int:
    return int((await site.call_as(uid, "SubmitJob", submission(hold=True, **job))).job_id)


async def update(site: Site, uid: int, **request) -> tuple[list[tuple[str, int]], list[str]]:
    """The results, and the lines of the filter."""
    message = c.UpdateJobsRequest(**{"changes": {"comment": "new"}, **request})
    reply = await site.call_as(uid, "UpdateJobs", message)
    return [(one.id, one.code) for one in reply.results], list(reply.user_messages)


@pytest.mark.parametrize("private", ["", "PrivateData=jobs\n"])
def test_a_job_that_the_user_may_not_change_is_refused_first(tmp_path: Path, private: str):
    site = site_with(tmp_path, SEES_ALL, private)

    async def story():
        async with site.controller() as controller:
            theirs = await submit(site, NOBODY, name="x")
            reply = await site.call_as(
                BIN, "UpdateJobs", c.UpdateJobsRequest(ids=[str(theirs), "999"], changes={"comment": "new"})
            )
            hidden, unknown = ((one.code, one.text) for one in reply.results)
            assert unknown == (Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
            assert hidden == (unknown if private else (Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED]))
            assert not reply.user_messages and await calls(site) == 0
            by_name = c.UpdateJobsRequest(job_name="x", changes={"comment": "new"})
            assert (await refused(site.call_as(BIN, "UpdateJobs", by_name)))[0] is Code.INVALID_JOB_ID
            assert await calls(site) == 0
            assert controller.runtime.core.state.jobs[theirs].request.comment == ""

    asyncio.run(story())


def test_what_the_core_refuses_whatever_the_values_is_refused_first(tmp_path: Path):
    site = site_with(tmp_path, SEES_ALL, "ScronParameters=enable\n")

    async def story():
        async with site.controller():
            ended = await submit(site, NOBODY)
            await site.call_as(NOBODY, "CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(ended)])))
            lines = periodic_pb2.LineRange(first=1, last=1)
            spec = common_pb2.JobSpec(script=b"#!/bin/sh\n")
            entry = periodic_pb2.CrontabEntry(
                job=common_pb2.JobRequest(name="tick"), spec=spec, cron="0 5 * * *", lines=lines
            )
            request = periodic_pb2.UpdateCrontabRequest(text="x\n", entries=[entry])
            (tick,) = (await site.call_as(NOBODY, "UpdateCrontab", request)).job_ids
            ids = [str(ended), str(tick), "999", "12.0", "no"]
            results, lines_said = await update(site, NOBODY, ids=ids)
            assert dict(results) == {
                str(ended): Code.JOB_FINISHED, str(tick): Code.CANNOT_MODIFY_CRON_JOB, "999": Code.INVALID_JOB_ID,
                "12.0": Code.INVALID_JOB_ID, "no": Code.INVALID_JOB_ID,
            }  # fmt: skip
            assert not lines_said and await calls(site) == 0

    asyncio.run(story())


def test_each_job_of_a_name_is_shown_with_its_own_answer(tmp_path: Path):
    site = site_with(tmp_path, SEES_ALL)

    async def story():
        async with site.controller() as controller:
            ids = [await submit(site, NOBODY, name="x", comment=comment) for comment in ("", "fixed", "")]
            theirs = await submit(site, OTHER, name="x")
            await submit(site, NOBODY, name="y")
            results, lines = await update(site, NOBODY, job_name="x")
            assert dict(results) == {str(ids[0]): 0, str(ids[1]): Code.FILTER_REFUSED, str(ids[2]): 0}
            assert lines == [f"saw {ids[0]}", f"saw {ids[2]}"]
            jobs = controller.runtime.core.state.jobs
            assert [jobs[job_id].request.comment for job_id in (*ids, theirs)] == [
                f"new {ids[0]}", "fixed", f"new {ids[2]}", ""
            ]  # fmt: skip

    asyncio.run(story())


@pytest.mark.parametrize("whole", [False, True])
def test_each_record_of_an_array_and_each_component_is_shown(tmp_path: Path, whole: bool):
    site = site_with(tmp_path, SEES_ALL, "SchedulerParameters=whole_hetjob\n" if whole else "")

    async def story():
        async with site.controller() as controller:
            jobs = controller.runtime.core.state.jobs
            array = await submit(site, NOBODY, array="1-4", name="a")
            results, _ = await update(site, NOBODY, ids=[f"{array}_2"], changes={"comment": "fixed"})
            assert results == [(f"{array}_2", 0)]
            (split,) = (job.job_id for job in jobs.values() if job.array_task_id == 2)
            results, lines = await update(site, NOBODY, ids=[str(array)])
            assert results == [(str(array), 0), (f"{array}_2", Code.FILTER_REFUSED)]
            assert lines == [f"saw {array}"] and jobs[split].request.comment == f"fixed {array}"
            assert jobs[array].request.comment == f"new {array}"
            assert (await update(site, NOBODY, ids=[f"{array}_3"]))[0] == [(f"{array}_3", 0)]
            comments = {job.array_task_id: job.request.comment for job in jobs.values() if job.array_job_id == array}
            assert comments == {None: f"new {array}", 2: f"fixed {array}", 3: f"new {array}"}

            request = submission(name="h", hold=True)
            request.components.append(common_pb2.JobRequest(name="fixed", work_dir=b"/tmp"))
            leader = (await site.call_as(NOBODY, "SubmitJob", request)).job_id
            results, lines = await update(site, NOBODY, ids=[str(leader)])
            assert results == [(str(leader), 0), (str(leader + 1), Code.FILTER_REFUSED)]
            assert lines == [f"saw {leader}"]
            assert [jobs[job_id].request.comment for job_id in (leader, leader + 1)] == [f"new {leader}", ""]
            results, lines = await update(site, NOBODY, ids=[f"{leader}+1"])
            refusal = (str(leader + 1), Code.FILTER_REFUSED)
            assert results == ([(f"{leader}+1", 0), refusal] if whole else [refusal])
            assert jobs[leader + 1].request.comment == ""

    asyncio.run(story())


def test_more_jobs_than_one_update_may_show_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    site = site_with(tmp_path, SEES_ALL)
    monkeypatch.setattr(filtering, "UPDATED_JOBS_MAX", 2)

    async def story():
        async with site.controller():
            ids = [str(await submit(site, NOBODY, name="x")) for _ in range(3)]
            for request in (c.UpdateJobsRequest(ids=ids), c.UpdateJobsRequest(job_name="x")):
                code, text = await refused(site.call_as(NOBODY, "UpdateJobs", request))
                assert code is Code.INVALID_VALUE
                assert text.endswith("one update can change 2 jobs where a submit filter sees each of them: name fewer")
            assert await calls(site) == 0
            assert len((await update(site, NOBODY, ids=[*ids[:2], "998", "999"]))[0]) == 4

    asyncio.run(story())


def test_jobs_with_the_same_changes_go_in_one_event(tmp_path: Path):
    site = site_with(tmp_path, "def job_modify(job, changes, submitter):\n    pass\n")

    async def story():
        async with site.controller() as controller:
            ids = [str(await submit(site, NOBODY, name="x")) for _ in range(3)]
            events: list[object] = []
            ask = controller.services.ask

            async def noted(event, context):
                events.append(event)
                return await ask(event, context)

            controller.services.ask = noted  # type: ignore[method-assign]  # a test double
            for request in ({"ids": ids}, {"job_name": "x"}):
                assert (await update(site, NOBODY, **request))[0] == [(one, 0) for one in ids]
            assert len(events) == 2

    asyncio.run(story())


@pytest.mark.parametrize("value", ["'x' * 100_000", "'\\udcff'", "'a\\x1b'"])
def test_a_changed_update_is_checked_as_one_that_arrives(tmp_path: Path, value: str):
    site = site_with(tmp_path, f"def job_modify(job, changes, submitter):\n    changes['comment'] = {value}\n")

    async def story():
        async with site.controller():
            job_id = await submit(site, NOBODY)
            assert (await update(site, NOBODY, ids=[str(job_id)]))[0] == [(str(job_id), Code.FILTER_FAILED)]

    asyncio.run(story())


def test_a_change_of_steps_is_not_shown(tmp_path: Path):
    site = site_with(tmp_path, SEES_ALL)

    async def story():
        async with site.controller():
            job_id = await submit(site, NOBODY)
            results, _ = await update(site, NOBODY, ids=[f"{job_id}.7"], changes={"steptimelimit": "5"})
            assert results == [(f"{job_id}.7", Code.INVALID_JOB_ID)] and await calls(site) == 0

    asyncio.run(story())


def test_entries_of_a_crontab_are_not_shown_as_another_users(tmp_path: Path):
    site = site_with(tmp_path, "def job_submit(job, submitter):\n    pass\n", "ScronParameters=enable\n")

    async def story():
        async with site.controller():
            lines = periodic_pb2.LineRange(first=1, last=1)
            entry = periodic_pb2.CrontabEntry(
                job=common_pb2.JobRequest(name="tick"), spec=common_pb2.JobSpec(script=b"#!/bin/sh\n"),
                cron="0 5 * * *", lines=lines,
            )  # fmt: skip
            request = periodic_pb2.UpdateCrontabRequest(user="root", text="x\n", entries=[entry])
            assert (await refused(site.call_as(NOBODY, "UpdateCrontab", request)))[0] is Code.ACCESS_DENIED
            assert await calls(site) == 0

    asyncio.run(story())


CHATTY = """
import penstock.submitfilter
def job_submit(job, submitter):
    penstock.submitfilter._messages.extend(["m" * 5000] * 1000)  # past log_user
    if job.name == "refused":
        raise Refuse("r\\n" * 100_000)

def job_modify(job, changes, submitter):
    for number in range(64):
        log_user("m")
    if job.name == "no":
        raise Refuse("\\x1b" * 100_000)
"""


def test_a_filters_lines_have_bounds_in_each_reply(tmp_path: Path):
    site = site_with(tmp_path, CHATTY, "ScronParameters=enable\n")

    async def story():
        async with site.controller():
            reply = await site.call_as(NOBODY, "SubmitJob", submission(hold=True))
            assert list(reply.user_messages) == ["m" * 1024] * 64
            code, text = await refused(site.call_as(NOBODY, "SubmitJob", submission(name="refused")))
            assert code is Code.FILTER_REFUSED and len(text) == 2048

            request = submission(name="h", hold=True)
            request.components.extend([common_pb2.JobRequest(name="c", work_dir=b"/tmp")] * 19)
            lines = periodic_pb2.LineRange(first=1, last=1)
            entry = periodic_pb2.CrontabEntry(
                job=common_pb2.JobRequest(name="tick"), spec=common_pb2.JobSpec(script=b"#!/bin/sh\n"),
                cron="0 5 * * *", lines=lines,
            )  # fmt: skip
            crontab = periodic_pb2.UpdateCrontabRequest(text="x\n", entries=[entry] * 20)
            ids = [str(await submit(site, NOBODY)) for _ in range(20)]
            change = c.UpdateJobsRequest(ids=ids, changes={"comment": "new"})
            for method, message in (("SubmitJob", request), ("UpdateCrontab", crontab), ("UpdateJobs", change)):
                said = list((await site.call_as(NOBODY, method, message)).user_messages)
                assert len(said) == 1001 and said[-1] == "further lines of the submit filter are not shown", method
            no = await submit(site, NOBODY, name="no")
            reply = await site.call_as(
                NOBODY, "UpdateJobs", c.UpdateJobsRequest(ids=[str(no)], changes={"comment": "x"})
            )
            assert reply.results[0].code == Code.FILTER_REFUSED and len(reply.results[0].text) <= 2048

    asyncio.run(story())


def test_a_refusal_reaches_the_user_in_any_language(tmp_path: Path):
    site = site_with(tmp_path, "def job_submit(job, submitter):\n    raise Refuse(('\\u5171' * 999 + '\\n') * 9)\n")

    async def story():
        async with site.controller():
            code, text = await refused(site.call_as(NOBODY, "SubmitJob", submission()))
            assert code is Code.FILTER_REFUSED and len(text.encode()) in range(2040, 2049)

    asyncio.run(story())
