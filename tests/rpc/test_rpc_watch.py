"""Watch: changes in the order of their commits, to those who may see them; nothing is lost silently."""

import asyncio
from collections.abc import Sequence

import grpc
import grpc.aio
import pytest
from patience import ANSWER_S

from ctld.rpc.watch import feed as feeds
from ctld.rpc.watch import service
from penstock.v1 import controller_pb2 as c
from penstock.v1 import shares_pb2 as s
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of, submission
from tests.rpc.watchkit import Watcher, watching

ANN, SAM = 54_321, 54_322  # nobody's uids here


def told(changes) -> list[tuple[str, str, str]]:
    return [(one.kind, one.id, one.state) for one in changes]


def test_changes_come_in_order_and_are_not_lost_between_two_streams(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), watching(site) as watch:
            watcher = watch(ANN)
            first = await watcher.reply()
            assert not first.changes and not first.missed and first.last > 0
            one = (await site.call_as(ANN, "SubmitJob", submission())).job_id
            await site.call_as(
                0, "UpdateNodes", c.UpdateNodesRequest(names="n1", changes={"state": "drain", "reason": "fan"})
            )
            job, node = await watcher.changes(2)
            assert (job.kind, job.job_id, job.state, job.user_id, job.name) == ("JOB", one, "PENDING", ANN, "sbatch")
            assert (node.kind, node.id, node.reason) == ("NODE", "n1", "fan") and "DRAIN" in node.flags
            watcher.call.cancel()
            two = (await site.call_as(ANN, "SubmitJob", submission())).job_id
            await site.call_as(ANN, "CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(one)])))
            again = watch(ANN, after=watcher.last)
            assert told(await again.changes(2)) == [("JOB", str(two), "PENDING"), ("JOB", str(one), "CANCELLED")]
            wish = {"starttime": "now+1day", "duration": "60", "users": "root", "nodes": "ALL"}
            await site.call_as(0, "CreateReservation", c.CreateReservationRequest(name="maint", changes=wish))
            await site.call_as(0, "DeleteReservation", c.DeleteReservationRequest(name="maint"))
            made, gone = await again.changes(2)
            assert (made.id, made.node_list, made.is_gone, gone.is_gone) == ("maint", "n1", False, True)

    asyncio.run(story())


def test_what_is_not_kept_any_more_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(feeds, "KEPT_MAX", 2)
    site = Site(tmp_path)

    async def story():
        async with site.controller(), watching(site) as watch:
            watcher = watch(ANN)
            start = (await watcher.reply()).last
            for _ in range(2):
                for _ in range(2):
                    await site.call_as(ANN, "SubmitJob", submission())
                last = (await watcher.changes(2))[-1].sequence
            late = await watch(ANN, after=start).reply()
            assert late.missed and late.last == start + 4
            assert not (await watch(ANN, after=last).reply()).missed
            assert (await watch(ANN, after=last + 1000).reply()).missed, "of nobody's future"
        async with site.controller(), watching(site) as watch:
            reply = await watch(ANN, after=last).reply()
            assert reply.missed and reply.last > last, "another start of the controller"

    asyncio.run(story())


def test_only_what_one_may_see_and_wants_to_see(tmp_path):
    site = Site(tmp_path, extra="PrivateData=jobs,nodes,reservations\n")

    async def story():
        async with site.controller(), watching(site) as watch:
            ann, root = watch(ANN), watch(0)
            jobs, of_sam = watch(0, kinds=["job"]), watch(0, kinds=["JOB"], users=[str(SAM)])
            watchers = (ann, root, jobs, of_sam)
            for watcher in watchers:
                await watcher.reply()
            theirs = str((await site.call_as(SAM, "SubmitJob", submission())).job_id)
            await site.call_as(
                0, "UpdateNodes", c.UpdateNodesRequest(names="n1", changes={"state": "drain", "reason": "fan"})
            )
            wish = {"starttime": "now+1day", "duration": "60", "users": "root", "nodes": "ALL"}
            await site.call_as(0, "CreateReservation", c.CreateReservationRequest(name="maint", changes=wish))
            mine = str((await site.call_as(ANN, "SubmitJob", submission())).job_id)
            assert told(await ann.changes(1)) == [("JOB", mine, "PENDING")]
            assert [one.id for one in await root.changes(4)] == [theirs, "n1", "maint", mine]
            assert [one.id for one in await jobs.changes(2)] == [theirs, mine]
            assert [one.id for one in await of_sam.changes(1)] == [theirs]

    asyncio.run(story())


def test_changes_of_limits(tmp_path):
    """Of associations those that one may see; a job's own association, which has no limits, is none."""
    site = Site(tmp_path, extra="PrivateData=users,accounts\n")

    async def story():
        async with site.controller(), watching(site) as watch:

            async def change(action: str, entity: str, names: list[str], accounts: Sequence[str] = (), **changes: str):
                request = s.ChangeAccountsRequest(
                    action=action, entity=entity, names=names, accounts=accounts, changes=changes
                )
                await site.call_as(0, "ChangeAccounts", request)

            root, ann, limits = watch(0), watch(ANN), watch(0, kinds=["limit"])
            for watcher in (root, ann, limits):
                await watcher.reply()
            await change("ADD", "account", ["lab"])
            await change("ADD", "user", ["root"], ["lab"])
            job_id = str((await site.call_as(ANN, "SubmitJob", submission())).job_id)
            await change("MODIFY", "user", ["root"], ["lab"], maxjobs="3")
            await change("MODIFY", "user", ["root"], ["lab"], fairshare="7")  # no limit
            await site.call_as(
                0, "ChangeQos", c.ChangeQosRequest(action="ADD", names=["long"], changes={"maxwall": "60"})
            )
            await change("REMOVE", "account", ["lab"])
            found = await limits.changes(6)
            assert [(one.kind, one.id, one.is_gone) for one in found][:4] == [
                ("LIMIT", "account=lab", False), ("LIMIT", "account=lab user=root", False),
                ("LIMIT", "account=lab user=root", False), ("LIMIT", "qos=long", False),
            ]  # fmt: skip
            assert sorted((one.id, one.is_gone) for one in found[4:]) == [
                ("account=lab", True), ("account=lab user=root", True)
            ]  # fmt: skip
            assert (found[1].account, found[1].user_name, found[3].name) == ("lab", "root", "long")
            assert told(await ann.changes(2)) == [("JOB", job_id, "PENDING"), ("LIMIT", "qos=long", "")]
            assert [one.kind for one in await root.changes(7)].count("LIMIT") == 6

    asyncio.run(story())


def test_wishes_are_checked_and_streams_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "WATCHES_OF_USER_MAX", 2)
    monkeypatch.setattr(service, "HEARTBEAT_S", 0.05)
    site = Site(tmp_path)

    async def refused(watcher: Watcher) -> Code:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watcher.reply()
        return code_of(caught.value)

    async def story():
        async with site.controller(), watching(site) as watch:
            assert await refused(watch(ANN, kinds=["moon"])) is Code.INVALID_VALUE
            assert await refused(watch(ANN, users=["no such user"])) is Code.INVALID_USER
            open_ones = [watch(ANN), watch(ANN)]
            for watcher in open_ones:
                for _ in range(3):  # heartbeats
                    assert not (await watcher.reply()).changes
            assert await refused(watch(ANN)) is Code.RATE_LIMITED
            assert not (await watch(SAM).reply()).changes
            open_ones[0].call.cancel()
            (served,) = WATCHES
            await until(lambda: served.watches_of(ANN) == 1)
            assert not (await watch(ANN).reply()).changes

    asyncio.run(story())


async def until(holds) -> None:
    """Gives the loop its turns until this holds."""
    async with asyncio.timeout(ANSWER_S):
        while not holds():
            await asyncio.sleep(0.01)


WATCHES: list[service.WatchService] = []


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    """Each service that a test's controller makes."""
    WATCHES.clear()
    made = service.WatchService.__init__

    def init(self, *parts) -> None:
        made(self, *parts)
        WATCHES.append(self)

    monkeypatch.setattr(service.WatchService, "__init__", init)
