"""Repair and clearing out over the wire: runaway jobs, purges, archives; what is asked for them is in the audit log."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from postgres import rows
from sqlalchemy import create_engine, insert

from accounting.rollup import HOUR_US
from accounting.schema import JOB, JOB_REQUEST, STEP
from accounting.tables import NODE_EVENT
from penstock.v1 import governance_pb2 as g
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.values.states import JobState
from tests.rpc.clusterkit import FakeNode, Site, submit, wait_for
from tests.rpc.test_rpc_reports import HOUR, KINDS, past_job, report

S = 1_000_000
WINDOW = {"start_at_us": HOUR, "end_at_us": HOUR + 4 * HOUR_US}
OLD_US = HOUR - 62 * 24 * HOUR_US


def put(site: Site, table: Any, *values: dict[str, Any]) -> None:
    engine = create_engine(f"sqlite:///{site.state}/penstock.db")
    with engine.begin() as connection:
        connection.execute(insert(table), list(values))
    engine.dispose()


async def said(site: Site, action: str) -> list[dict[str, Any]]:
    pages = await site.call_as(0, "ListAudit", g.ListAuditRequest())
    found = [json.loads(one.record) for page in pages for one in page.records]
    return [one for one in found if one["action"] == action]


def test_runaway_jobs_get_an_end(tmp_path: Path) -> None:
    """A row that says RUNNING and that the controller does not know: counted until now, then back to where its step ended."""

    async def run() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client, FakeNode(site) as node:
            await node.register()
            real = await submit(client, name="real")
            await wait_for(client, real, "RUNNING")
            tres = "cpu=2,mem=1M,node=1"
            lost = past_job(900, "ann", 4001, "physics", 0, 0, tres) | {"state": int(JobState.RUNNING), "end_at_us": 0}
            waits = past_job(901, "bob", 4002, "chem", 0, 0, tres) | {
                "state": int(JobState.PENDING), "end_at_us": 0, "start_at_us": 0, "submit_at_us": HOUR,
            }  # fmt: skip
            put(site, JOB, lost, waits)
            blank = {
                column.name: ("" if column.type.python_type is str else 0)
                for column in STEP.columns if not column.nullable and column.server_default is None
            }  # fmt: skip
            done, opened = int(JobState.COMPLETED), int(JobState.RUNNING)
            put(
                site, STEP,
                blank | {"job_id": 900, "step_id": 0, "state": done, "start_at_us": HOUR, "end_at_us": HOUR + 600 * S},
                blank | {"job_id": 900, "step_id": 1, "state": opened, "start_at_us": HOUR + 60 * S},
            )  # fmt: skip
            await controller.rollups.catch_up()
            found, _ = await report(site, kind=KINDS.USAGE, group_by=["account"], **WINDOW)
            assert found == [(["physics"], "cpu", [2 * 4 * 3600])]
            listed = await site.call_as(0, "ListRunaway", g.ListRunawayRequest())
            assert [(job.job_id, job.state, job.user) for job in listed.jobs] == [
                (900, "RUNNING", "ann"), (901, "PENDING", "bob"),
            ]  # fmt: skip
            with pytest.raises(grpc.aio.AioRpcError):
                await site.call_as(4001, "FixRunaway", g.FixRunawayRequest())
            assert (await site.call_as(0, "FixRunaway", g.FixRunawayRequest(job_ids=[real, 900]))).fixed == 1
            assert rows(site.state / "penstock.db", "SELECT state, end_at_us FROM job WHERE job_id = 900") == [
                (int(JobState.FAILED), HOUR + 600 * S)
            ]
            assert rows(
                site.state / "penstock.db", "SELECT state, end_at_us FROM step WHERE job_id = 900 ORDER BY step_id"
            ) == [(done, HOUR + 600 * S), (int(JobState.FAILED), HOUR + 600 * S)]
            assert (await site.call_as(0, "FixRunaway", g.FixRunawayRequest())).fixed == 1
            assert not (await site.call_as(0, "ListRunaway", g.ListRunawayRequest())).jobs
            assert [one["objects"] for one in await said(site, "fix runaway jobs")] == [[f"job {real}", "job 900"], []]
            assert (await wait_for(client, real, "RUNNING")).job_id == real  # nothing has become of it

    asyncio.run(run())


def young_job(job_id: int) -> dict[str, Any]:
    """One that has ended just now, so that no purge means it."""
    now_us = time.time_ns() // 1000
    return past_job(job_id, "ann", 4001, "physics", 0, 60, "cpu=1") | {
        "start_at_us": now_us - 60 * S, "end_at_us": now_us, "submit_at_us": now_us - 60 * S,
    }  # fmt: skip


def test_purge_archive_and_back(tmp_path: Path) -> None:
    async def run() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller:
            old = past_job(1, "ann", 4001, "physics", 0, 60, "cpu=1") | {
                "start_at_us": OLD_US, "end_at_us": OLD_US + 60 * S, "submit_at_us": OLD_US,
            }  # fmt: skip
            put(site, JOB, old, young_job(2))
            event = {"node": "n1", "state": "DOWN", "reason": "x", "reason_uid": 0, "tres": "cpu=4"}
            put(site, NODE_EVENT, event | {"start_at_us": OLD_US, "end_at_us": OLD_US + S})
            await controller.rollups.catch_up()
            after = {"jobs": "30days", "events": "1months"}
            reply = await site.call_as(0, "Purge", g.PurgeRequest(after=after, check_only=True))
            assert dict(reply.records) == {"events": 1, "jobs": 1} and not reply.files
            assert await said(site, "purge") == []  # nothing was done
            folder = str(tmp_path / "archive")
            for wrong, text in (
                ({"after": {"shoes": "1months"}}, "shoes: known are events, jobs"),
                ({"after": {"jobs": "1years"}}, "write a number with hours, days or months"),
                ({"after": after, "archive_folder": "here"}, "give the whole path"),
            ):
                with pytest.raises(grpc.aio.AioRpcError, match=text):
                    await site.call_as(0, "Purge", g.PurgeRequest(**wrong))
            reply = await site.call_as(0, "Purge", g.PurgeRequest(after=after, archive_folder=folder))
            assert dict(reply.records) == {"events": 1, "jobs": 1}
            assert len(reply.files) == 2 and all(Path(one).parent == Path(folder) for one in reply.files)
            (record,) = await said(site, "purge")
            assert (record["objects"], record["asked"]) == (["events", "jobs"], after | {"archive_folder": folder})
            place = site.state / "penstock.db"
            assert rows(place, "SELECT job_id FROM job") == [(2,)]
            (jobs,) = [one for one in reply.files if "_jobs_" in one]
            assert (await site.call_as(0, "LoadArchive", g.LoadArchiveRequest(file=jobs))).records == 1
            assert rows(place, "SELECT job_id FROM job ORDER BY job_id") == [(1,), (2,)]
            assert [one["objects"] for one in await said(site, "load archive")] == [[jobs]]
            damaged = tmp_path / "damaged.gz"
            damaged.write_bytes(bytes(one ^ (0x55 if i > 20 else 0) for i, one in enumerate(Path(jobs).read_bytes())))
            for file in ("", "x.gz", str(tmp_path), str(tmp_path / "none.gz"), str(damaged)):
                with pytest.raises(grpc.aio.AioRpcError, match="the archive cannot be read in"):
                    await site.call_as(0, "LoadArchive", g.LoadArchiveRequest(file=file))
            for method, request in (
                ("Purge", g.PurgeRequest(after=after)),
                ("LoadArchive", g.LoadArchiveRequest(file=jobs)),
            ):
                with pytest.raises(grpc.aio.AioRpcError):
                    await site.call_as(4001, method, request)
            assert len(await said(site, "purge")) == 1
            # The usage of what was purged stays.
            window = {"start_at_us": OLD_US, "end_at_us": OLD_US + HOUR_US}
            found, _ = await report(site, kind=KINDS.USAGE, **window)
            assert found == [([], "cpu", [60])]

    asyncio.run(run())


def test_the_configuration_purges_once_an_hour(tmp_path: Path) -> None:
    async def run() -> None:
        site = Site(tmp_path)
        (tmp_path / "slurmdbd.conf").write_text("PurgeJobAfter=30days\nArchiveJobs=yes\nPurgeEventAfter=30days\n")
        old = past_job(1, "ann", 4001, "physics", 0, 60, "cpu=1") | {
            "start_at_us": OLD_US, "end_at_us": OLD_US + 60 * S, "submit_at_us": OLD_US,
        }  # fmt: skip
        event = {"node": "n1", "state": "DOWN", "reason": "x", "reason_uid": 0, "tres": "cpu=4"}
        async with site.controller() as controller:
            place = site.state / "penstock.db"
            put(site, JOB, old, young_job(2))
            put(
                site, NODE_EVENT,
                event | {"start_at_us": OLD_US, "end_at_us": OLD_US + S},
                event | {"start_at_us": OLD_US + 2 * S, "end_at_us": 0},
            )  # fmt: skip
            await controller.rollups.catch_up()
            assert rows(place, "SELECT job_id FROM job") == [(2,)]
            assert rows(place, "SELECT count(*) FROM node_event WHERE node = 'n1'") == [(1,)]  # the one that goes on
            (archive,) = (site.state / "archive").iterdir()  # of jobs; events go without
            assert archive.name.startswith("test_jobs_until_") and archive.stat().st_mode & 0o777 == 0o600
            put(site, JOB, old)  # as if it were read in again
            await controller.rollups.catch_up()
            hours = rows(place, "SELECT count(*) FROM job WHERE job_id = 1")
            assert hours in ([(1,)], [(0,)])  # it stays for this hour, unless another one has just begun

    asyncio.run(run())


def test_filters_that_a_report_cannot_answer_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        site = Site(tmp_path)
        async with site.controller():
            for kind, word in (("CLUSTER", "nodes"), ("CLUSTER", "accounts"), ("USAGE", "nodes"), ("USAGE", "job_ids")):
                with pytest.raises(grpc.aio.AioRpcError, match=f"report {kind} cannot be restricted by {word}"):
                    await report(site, kind=KINDS.Value(kind), **dict[str, Any]({word: ["1"]}), **WINDOW)
            for kind in ("JOB_SIZES", "WAITS", "EFFICIENCY", "RESERVATIONS"):
                assert (await report(site, kind=KINDS.Value(kind), nodes=["n1"], **WINDOW))[0] == []

    asyncio.run(run())


def test_without_steps_none_are_told_and_those_that_are_counted_go(tmp_path: Path) -> None:
    """AccountingStorageEnforce=nosteps. What a step measured is counted before its record goes: energy stays exact."""

    async def run() -> None:
        site = Site(tmp_path, extra="AccountingStorageEnforce=nosteps\n")
        old = past_job(1, "ann", 4001, "physics", 0, 60, "cpu=1") | {
            "start_at_us": HOUR, "end_at_us": HOUR + 60 * S, "submit_at_us": HOUR,
        }  # fmt: skip
        running = old | {"job_id": 2, "end_at_us": 0, "state": int(JobState.RUNNING)}
        request = {
            "request_id": old["request_id"], "job_id": 1, "submit_key": "", "submitted_at_us": HOUR, "request": b"{}",
        }  # fmt: skip
        blank = {
            column.name: ("" if column.type.python_type is str else 0)
            for column in STEP.columns if not column.nullable and column.server_default is None
        }  # fmt: skip
        done = blank | {"state": int(JobState.COMPLETED), "start_at_us": HOUR, "end_at_us": HOUR + 50 * S}
        async with site.controller() as controller:
            place = site.state / "penstock.db"
            put(site, JOB, old, running)
            put(site, JOB_REQUEST, request)
            usage = '{"9":[77,0,"",0,0,"",0]}'
            put(site, STEP, *(done | {"job_id": i, "step_id": 0, "usage": usage} for i in (1, 2)))
            pages = await site.call_as(0, "ListRecords", ListRecordsRequest(ids=["1"]))
            assert [(one.job_id, list(one.steps)) for page in pages for one in page.records] == [(1, [])]
            await controller.rollups.catch_up()
            assert rows(place, "SELECT job_id FROM step") == [(2,)]
            assert not (site.state / "archive").exists()
            window = {"start_at_us": HOUR, "end_at_us": HOUR + HOUR_US}
            found, _ = await report(site, kind=KINDS.USAGE, tres=["energy"], **window)
            assert found == [([], "energy", [77])]

    asyncio.run(run())
