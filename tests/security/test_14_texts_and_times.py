"""Item 14: a job whose date or text is out of all measure breaks nobody's listing: refused in every way in, paged by bytes,
and what an old database holds is shown by what can be shown of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cli.base.listing import date_line
from ctld.core.records.compact_request import with_changes
from ctld.core.records.job import JobRow
from ctld.core.records.waiting_row import compact, whole
from penstock.errors import PenstockError
from penstock.v1 import common_pb2, controller_pb2, periodic_pb2
from penstock.values.dates import format_date
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, jobs_of, submission, submit

FAR = 1 << 62
LONG = "x" * 60_000


async def refusal(call: Any) -> PenstockError:
    with pytest.raises(PenstockError) as error:
        await call
    return error.value


def test_no_way_in_takes_such_a_date(tmp_path: Path) -> None:
    site = Site(tmp_path, extra="ScronParameters=enable\n")

    async def story() -> None:
        async with site.controller() as controller, site.client() as client:
            job_id = await submit(client)
            wrong: tuple[dict[str, Any], ...] = ({"begin_at_us": FAR}, {"deadline_at_us": FAR}, {"begin_at_us": -1})
            for fields in wrong:
                assert (await refusal(client.call("SubmitJob", submission(**fields)))).code == Code.INVALID_TIME_VALUE
            het = submission()
            het.components.add(begin_at_us=FAR)
            assert (await refusal(client.call("SubmitJob", het))).code == Code.INVALID_TIME_VALUE
            tab = periodic_pb2.UpdateCrontabRequest(text="@daily x\n")
            tab.entries.add(job=common_pb2.JobRequest(deadline_at_us=FAR), cron="@daily", spec=het.spec)
            assert (await refusal(client.call("UpdateCrontab", tab))).code == Code.INVALID_TIME_VALUE
            for key in ("starttime", "deadline"):
                update = controller_pb2.UpdateJobsRequest(ids=[str(job_id)], changes={key: "9998-01-01T00:00:00"})
                assert (await refusal(client.call("UpdateJobs", update))).code == Code.INVALID_TIME_VALUE
            wish = {"starttime": "9998-01-01", "duration": "60", "nodes": "ALL", "users": "root"}
            late = controller_pb2.CreateReservationRequest(name="r", changes=wish)
            assert "9998" in (await refusal(client.call("CreateReservation", late))).text
            assert len(await jobs_of(client)) == 1
            assert not controller.runtime.core.state.reservations

    asyncio.run(story())


def test_jobs_of_large_texts_come_in_pages_that_fit(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            for _ in range(40):
                await submit(client, submit_line=LONG, export_env=LONG, distribution="", hold=True, comment="y" * 1000)
            request = controller_pb2.ListJobsRequest(detail=True)
            pages = [page async for page in client.stream("ListJobs", request)]
            assert sum(len(page.jobs) for page in pages) == 40
            assert max(page.ByteSize() for page in pages) < 2 * 1024 * 1024
            assert len(pages) > 1
            assert {job.request.submit_line for page in pages for job in page.jobs} == {LONG}
            request = controller_pb2.ListJobsRequest(columns=["job_id", "state", "request.comment"])
            pages = [page async for page in client.stream("ListJobs", request)]
            assert sum(page.rows for page in pages) == 40

    asyncio.run(story())


def test_a_row_that_cannot_be_shown_is_shown_by_what_can_be(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller() as controller, site.client() as client:
            first, second, third = [await submit(client, hold=True) for _ in range(3)]
            snapshot = controller.runtime.snapshot
            for name, value in (("begin_at_us", 1 << 70), ("begin_at_us", FAR)):
                row = snapshot.jobs[second]
                changed = whole(row)._replace(request=with_changes(row.request, **{name: value}))
                snapshot.jobs[second] = compact(changed)
                assert not isinstance(snapshot.jobs[second], JobRow)  # as the controller keeps those that wait
                assert [job.job_id for job in await jobs_of(client)] == [first, second, third]
                request = controller_pb2.ListJobsRequest(
                    all_states=True, columns=["job_id", "request.begin_at_us", "state"]
                )
                pages = [page async for page in client.stream("ListJobs", request)]
                assert sum(page.rows for page in pages) == 3
                snapshot.jobs[second] = row
                snapshot.revision += 1

    asyncio.run(story())


def test_commands_show_a_date_that_no_calendar_has() -> None:
    for at_us in (FAR, -FAR, (1 << 63) - 1, -1):
        assert format_date(at_us) == date_line(at_us) == "Unknown"
        assert format_date(at_us, 1_795_257_000_000_000, "relative") == "Unknown"
