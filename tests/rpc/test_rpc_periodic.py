"""Crontabs and triggers over the wire: whose they are, who may read and change them."""

import asyncio
import pwd
from typing import Any

import grpc
import pytest

from penstock.v1 import controller_pb2 as c
from penstock.v1 import periodic_pb2 as p
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of

SCRON = "ScronParameters=enable\nPenstockOperators=daemon\n"
DAEMON, NOBODY = pwd.getpwnam("daemon").pw_uid, pwd.getpwnam("nobody").pw_uid
OTHER = 54_322


def entry(cron: str = "0 5 * * *", **job: Any) -> p.CrontabEntry:
    return p.CrontabEntry(
        job=JobRequest(name="tick", **job), spec=JobSpec(script=b"#!/bin/sh\n"), cron=cron,
        lines=p.LineRange(first=1, last=2),
    )  # fmt: skip


async def refused(call) -> Code:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return code_of(caught.value)


def test_a_crontab_is_its_owners(tmp_path):
    site = Site(tmp_path, extra=SCRON)

    async def story():
        async with site.controller():
            update = p.UpdateCrontabRequest(text="0 5 * * * x\n", entries=[entry()])
            reply = await site.call_as(NOBODY, "UpdateCrontab", update)
            (job_id,) = reply.job_ids
            (page,) = await site.call_as(OTHER, "ListJobs", c.ListJobsRequest())
            (job,) = page.jobs
            assert (job.job_id, job.user_id, job.user_name, job.cron) == (job_id, NOBODY, "nobody", "0 5 * * *")
            assert job.request.begin_at_us == job.eligible_at_us > 0

            assert (await site.call_as(NOBODY, "GetCrontab", p.GetCrontabRequest())).text == "0 5 * * * x\n"
            assert not (await site.call_as(OTHER, "GetCrontab", p.GetCrontabRequest())).found
            of_nobody = p.GetCrontabRequest(user="nobody")
            assert await refused(site.call_as(OTHER, "GetCrontab", of_nobody)) is Code.ACCESS_DENIED
            assert await refused(site.call_as(DAEMON, "GetCrontab", of_nobody)) is Code.ACCESS_DENIED  # as scripts
            assert (await site.call_as(0, "GetCrontab", of_nobody)).found

            update.user = "nobody"
            assert await refused(site.call_as(OTHER, "UpdateCrontab", update)) is Code.ACCESS_DENIED
            assert await refused(site.call_as(DAEMON, "UpdateCrontab", update)) is Code.ACCESS_DENIED
            reply = await site.call_as(0, "UpdateCrontab", update)
            pages = await site.call_as(
                0, "ListJobs", c.ListJobsRequest(filter=c.JobFilter(ids=[str(reply.job_ids[0])]))
            )
            assert [job.user_name for page in pages for job in page.jobs] == ["nobody"]
            for user in ("no such user", "4000000000"):
                wrong = p.UpdateCrontabRequest(user=user, text="", entries=[])
                assert await refused(site.call_as(0, "UpdateCrontab", wrong)) is Code.INVALID_USER

    asyncio.run(story())


def test_refusals_come_with_their_lines_and_limits_hold(tmp_path):
    site = Site(tmp_path, extra=SCRON)

    async def story():
        async with site.controller():
            bad = entry("0 5 * * *", partitions=["nowhere"])
            reply = await site.call_as(
                NOBODY, "UpdateCrontab", p.UpdateCrontabRequest(text="x", entries=[entry(), bad])
            )
            assert (reply.code, reply.failed_lines.first, reply.failed_lines.last) == (Code.INVALID_PARTITION, 1, 2)
            assert not (await site.call_as(NOBODY, "GetCrontab", p.GetCrontabRequest())).found
            reply = await site.call_as(NOBODY, "UpdateCrontab", p.UpdateCrontabRequest(entries=[entry("nonsense")]))
            assert reply.code == Code.INVALID_TIME_VALUE
            for wrong in (
                p.UpdateCrontabRequest(text="x" * 300_000),
                p.UpdateCrontabRequest(text="\n" * 20_000),
                p.UpdateCrontabRequest(text="a\0b"),
                p.UpdateCrontabRequest(entries=[entry()] * 501),
                p.UpdateCrontabRequest(entries=[entry()] * 10_001),
            ):
                assert await refused(site.call_as(NOBODY, "UpdateCrontab", wrong)) is Code.INVALID_VALUE
            none = p.UpdateCrontabRequest(remove=True)
            assert await refused(site.call_as(NOBODY, "UpdateCrontab", none)) is Code.NO_CRONTAB
            site.write(extra="")
            await site.call_as(0, "Reconfigure", c.ReconfigureRequest())
            assert await refused(site.call_as(NOBODY, "GetCrontab", p.GetCrontabRequest())) is Code.CRON_DISABLED

    asyncio.run(story())


def test_triggers_are_the_administrators(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller():
            wish = p.SetTriggerRequest(kinds=1, program="/bin/true", nodes="n1")
            assert await refused(site.call_as(NOBODY, "SetTrigger", wish)) is Code.ACCESS_DENIED
            assert (await site.call_as(0, "SetTrigger", wish)).trigger_id == 1
            for wrong in (
                p.SetTriggerRequest(kinds=1, program="/bin/true", nodes="n[1-"),
                p.SetTriggerRequest(kinds=1, program="/bin/true", nodes="n99"),
                p.SetTriggerRequest(kinds=0, program="/bin/true"),
                p.SetTriggerRequest(kinds=1 << 20, program="/bin/true"),
                p.SetTriggerRequest(kinds=1, program="/bin/" + "x" * 5000),
                p.SetTriggerRequest(kinds=1, program="/bin/tr\nue"),
                p.SetTriggerRequest(kinds=512, program="/bin/true", what="not a word"),
                p.SetTriggerRequest(kinds=64, program="/bin/true", job_id=9),
            ):
                code = await refused(site.call_as(0, "SetTrigger", wrong))
                assert code in (Code.INVALID_NODE_NAME, Code.INVALID_VALUE, Code.INVALID_JOB_ID), wrong
            (one,) = (await site.call_as(NOBODY, "ListTriggers", p.ListTriggersRequest())).triggers
            assert (one.trigger_id, one.words, one.nodes, one.user_id, one.due) == (1, "down", "n1", 0, False)
            clear = p.ClearTriggersRequest(trigger_id=1)
            assert await refused(site.call_as(NOBODY, "ClearTriggers", clear)) is Code.ACCESS_DENIED
            assert list((await site.call_as(0, "ClearTriggers", clear)).trigger_ids) == [1]

    asyncio.run(story())
