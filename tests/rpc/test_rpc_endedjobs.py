"""sacctmgr modify job over the wire: records of jobs that ended long ago, and of those that the controller still has."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from postgres import rows

from accounting.schema import JOB, JOB_REQUEST
from penstock.v1 import controller_pb2 as c
from penstock.v1 import governance_pb2 as g
from penstock.v1.accounting_pb2 import ListRecordsRequest
from penstock.values.states import JobState
from tests.rpc.clusterkit import Site, submission, wait_for
from tests.rpc.test_rpc_repair import put, said
from tests.rpc.test_rpc_reports import HOUR, past_job

ANN, BOB = 4001, 4002
S = 1_000_000


def past(site: Site) -> None:
    """Job 1 of ann; 2 and 3 are tasks of bob's array 2, which share what was asked for."""
    one = past_job(1, "ann", ANN, "physics", 0, 600, "cpu=2") | {"request_id": 1}
    tasks = [
        past_job(i, "bob", BOB, "chem", 60 * i, 600, "cpu=1")
        | {"request_id": 2, "array_job_id": 2, "array_task_id": i - 2}
        for i in (2, 3)
    ]
    put(site, JOB, one | {"array_task_id": None}, *tasks)
    request = {"submit_key": "", "submitted_at_us": HOUR}
    put(
        site, JOB_REQUEST,
        request | {"request_id": 1, "job_id": 1, "request": b'{"name":"x"}'},
        request | {"request_id": 2, "job_id": 2, "request": b'{"name":"array","comment":"old"}'},
    )  # fmt: skip


async def modify(
    site: Site, uid: int, changes: dict[str, str], more: dict[str, Any] | None = None, **which: Any
) -> list[int]:
    request = g.ModifyRecordsRequest(which=ListRecordsRequest(**which), changes=changes, **(more or {}))
    return [one.job_id for one in (await site.call_as(uid, "ModifyRecords", request)).records]


async def record(site: Site, job_id: str) -> Any:
    (page,) = await site.call_as(0, "ListRecords", ListRecordsRequest(ids=[job_id]))
    (found,) = page.records
    return found


def test_of_jobs_that_ended_long_ago(tmp_path: Path) -> None:
    async def run() -> None:
        site = Site(tmp_path)
        async with site.controller():
            past(site)
            check = {"check_only": True}
            assert await modify(site, ANN, {"derivedexitcode": "3:9", "comment": "it failed"}, check, ids=["1"]) == [1]
            assert (await record(site, "1")).derived_exit.code == 0 and await said(site, "modify job") == []
            assert await modify(site, ANN, {"derivedexitcode": "3:9", "comment": "it failed"}, ids=["1"]) == [1]
            found = await record(site, "1")
            assert (found.derived_exit.code, found.derived_exit.signal, found.request.comment) == (3, 9, "it failed")
            (line,) = await said(site, "modify job")
            assert (line["user"] and line["objects"], line["asked"]["derivedexitcode"]) == (["job 1"], "3:9")
            assert line["before"] == {"1": {"derived_code": 0, "derived_signal": 0}}
            everything = {"admincomment": "a", "systemcomment": "s", "extra": "e", "newwckey": "w", "comment": "new"}
            assert await modify(site, 0, everything, ids=["2_1"]) == [3]
            found, other = await record(site, "2_1"), await record(site, "2_0")
            assert (found.admin_comment, found.system_comment, found.wckey, found.request.comment) == (
                "a",
                "s",
                "w",
                "new",
            )
            assert (other.admin_comment, other.wckey, other.request.comment, other.request.name) == (
                "",
                "",
                "old",
                "array",
            )
            assert await modify(site, 0, {"extra": "x"}, wckeys=["w"]) == [3]
            late = {"started_from_us": HOUR + 150 * S, "ended_until_us": HOUR + 601 * S}
            assert await modify(site, BOB, {"extra": "y"}, late, users=["4002"]) == [3]
            assert await modify(site, BOB, {"extra": "y"}, {"ended_until_us": HOUR + 600 * S}, users=["4002"]) == []
            assert await modify(site, BOB, {"extra": "y"}, ids=["77"]) == []
            for uid, changes, text in (
                (BOB, {"comment": "mine?"}, "denied"),
                (ANN, {"admincomment": "x"}, "denied"),
                (ANN, {"newwckey": "x"}, "denied"),
                (ANN, {"derivedexitcode": "300"}, "exit code"),
                (ANN, {"account": "chem"}, "not a field of records"),
                (ANN, {}, "nothing is to be changed"),
            ):
                with pytest.raises(grpc.aio.AioRpcError, match=text):
                    await modify(site, uid, changes, ids=["1"])
            txns = [
                t
                for page in await site.call_as(0, "ListTransactions", g.ListTransactionsRequest())
                for t in page.transactions
            ]
            assert [(t.action, t.where) for t in txns][:2] == [("Modify Job", "job 1"), ("Modify Job", "job 3")]
            assert txns[0].info == "comment='it failed' derivedexitcode='3:9'"
        async with site.controller():  # and so it stays
            assert (await record(site, "1")).derived_exit.code == 3
            assert (await record(site, "2_1")).request.comment == "new"

    asyncio.run(run())


def test_of_jobs_that_the_controller_still_has(tmp_path: Path) -> None:
    """One that was cancelled just now, and one that waits: its derived exit code is still to come."""

    async def run() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client:
            gone, waits = [(await client.call("SubmitJob", submission(name=name))).job_id for name in ("gone", "waits")]
            await client.call("CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(gone)])))
            await wait_for(client, gone, "CANCELLED")
            assert await modify(
                site, 0, {"derivedexitcode": "5", "newwckey": "w", "comment": "c"}, ids=[str(gone)]
            ) == [gone]
            job = controller.runtime.core.state.jobs[gone]
            assert (job.derived_code, job.request.wckey, job.request.comment) == (5, "w", "c")
            found = await record(site, str(gone))
            assert (found.derived_exit.code, found.wckey, found.request.comment) == (5, "w", "c")
            assert await modify(site, 0, {"comment": "soon"}, ids=[str(waits)]) == [waits]
            assert (await record(site, str(waits))).request.comment == "soon"
            with pytest.raises(grpc.aio.AioRpcError, match="has not ended"):
                await modify(site, 0, {"derivedexitcode": "5"}, ids=[str(waits)])
            assert json.loads(rows(site.state / "penstock.db", "SELECT record FROM audit ORDER BY audit_id")[0][0])
            (state,) = rows(
                site.state / "penstock.db", f"SELECT state, derived_code, wckey FROM job WHERE job_id = {gone}"
            )
            assert state == (int(JobState.CANCELLED), 5, "w")

    asyncio.run(run())
