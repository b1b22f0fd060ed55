"""The audit log over the wire: what leaves a record, how its maker is named, what is denied, and reading it back."""

import asyncio
import json

import pytest
from patience import ANSWER_S

from ctld.core.records.audit import GENESIS, chained
from ctld.core.records.events import Actor, RecordAct
from ctld.rpc.gate.auth import Peer
from ctld.rpc.gate.context import address_of
from ctld.rpc.gate.denials import CALLERS_MAX, Denials
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.v1 import governance_pb2 as g
from penstock.v1 import shares_pb2 as s
from tests.rpc.clusterkit import OWN, Site, submission, submit
from tests.rpc.test_rpc_services import OTHER, USER, denial


async def audit(client, **asked) -> tuple[list[dict], g.ListAuditReply]:
    pages = [page async for page in client.stream("ListAudit", g.ListAuditRequest(**asked))]
    return [json.loads(info.record) for page in pages for info in page.records], pages[-1]


def test_changes_and_denials_are_recorded_and_read_back(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client:
            await client.call(
                "ChangeAccounts", s.ChangeAccountsRequest(action="ADD", entity="account", names=["physics"])
            )
            await client.call("UpdatePartition", c.UpdatePartitionRequest(name="debug", changes={"maxtime": "60"}))
            await client.call("CreateNodeToken", c.CreateNodeTokenRequest(node_name="n1"))
            await client.call("SetController", c.SetControllerRequest(debug_level="debug"))
            await client.call("Reconfigure", c.ReconfigureRequest())
            job = await submit(client)
            for method, request in (
                ("UpdateNodes", c.UpdateNodesRequest(names="n1", changes={"state": "DOWN"})),  # by the gate
                ("GetBatchScript", c.GetBatchScriptRequest(job_id=job)),  # by its method
                (
                    "ChangeAccounts",
                    s.ChangeAccountsRequest(action="ADD", entity="account", names=["mine"]),
                ),  # by the core
            ):
                await denial(site.call_as(USER, method, request))
            await site.call_as(OTHER, "CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job)])))
            controller.services.denials.flush()
            # Its answer leaves after the commit of what came before it, and one's own job leaves no record.
            await client.call("ControlJobs", c.ControlJobsRequest(ids=[str(job)], action="HOLD"))
            return await audit(client)

    records, end = asyncio.run(story())
    told = [(r["action"], r["objects"]) for r in records]
    assert told == [
        ("add account", ["account physics"]), ("add association", ["association physics"]),
        ("update partition", ["debug"]), ("create join token", ["node n1"]), ("set controller", []),
        ("reconfigure", []), ("call UpdateNodes", []), ("call CancelJobs", []), ("call", []),
    ]  # fmt: skip
    assert all((r["uid"], r["auth"], r["from"]) == (OWN.pw_uid, "socket", "localhost") for r in records[:6])
    assert records[2]["asked"] == {"maxtime": "60"} and "MaxTime" in " ".join(records[2]["after"]["changes"])
    assert (records[6]["uid"], records[6]["result"]) == (USER, "denied: only an administrator may do this")
    assert records[7]["uid"] == OTHER and records[7]["result"].startswith("denied: Access/permission denied: job ")
    assert records[8]["methods"] == {"ChangeAccounts": 1, "GetBatchScript": 1} and records[8]["count"] == 2
    assert [r["id"] for r in records] == list(range(1, 10)) and end.head_id == 9


def test_the_chain_and_its_end(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            for name in ("physics", "bio"):
                request = s.ChangeAccountsRequest(action="ADD", entity="account", names=[name])
                await client.call("ChangeAccounts", request)
        async with site.controller(), site.client() as client:
            pages = [page async for page in client.stream("ListAudit", g.ListAuditRequest())]
            part = [page async for page in client.stream("ListAudit", g.ListAuditRequest(from_id=3))]
            some = await audit(client, users=[OWN.pw_name], records_max=1)
            txns = [page async for page in client.stream("ListTransactions", g.ListTransactionsRequest())]
            return pages, part, some, txns

    pages, part, some, txns = asyncio.run(story())
    infos = [info for page in pages for info in page.records]
    before = GENESIS
    for info in infos:
        assert info.hash == chained(before, info.record)
        before = info.hash
    assert (pages[0].previous_hash, pages[-1].head_id, pages[-1].head_hash) == (GENESIS, 4, before)
    assert part[0].previous_hash == infos[1].hash and [i.id for i in part[0].records] == [3, 4]
    assert len(some[0]) == 1
    assert [(t.action, list(t.accounts)) for page in txns for t in page.transactions] == [
        ("Add Accounts", ["physics"]), ("Add Associations", ["physics"]), ("Add Accounts", ["bio"]),
        ("Add Associations", ["bio"]),
    ]  # fmt: skip


def test_only_administrators_read_it(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller():
            await denial(site.call_as(USER, "ListAudit", g.ListAuditRequest()))

    asyncio.run(story())


def test_a_submission_for_somebody_else(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            request = submission()
            request.job.run_as_uid = 65534
            try:
                job = (await client.call("SubmitJob", request)).job_id
            except PenstockError as error:
                pytest.skip(f"nobody has no name here: {error}")
            return job, (await audit(client))[0]

    job, records = asyncio.run(story())
    assert [(r["action"], r["user"], r["as"], r["objects"]) for r in records] == [
        ("submit job", OWN.pw_name, "nobody", [f"job {job} of nobody"])
    ]


# ---- a flood -------------------------------------------------------------------------------------------------------


def peer(uid: int) -> Peer:
    return Peer(actor=Actor(uid, uid, f"u{uid}", "g"))


def test_a_flood_is_two_records_and_a_count():
    async def story():
        posted: list[RecordAct] = []
        denials = Denials(posted.append)
        for _ in range(10_000):
            denials.note(peer(1), "/penstock.v1.Controller/UpdateNodes", "no", "unix:")
        denials.note(peer(1), "/penstock.v1.Controller/Shutdown", "no", "unix:")
        denials.note(peer(2), "/penstock.v1.Controller/Shutdown", "no", "unix:")
        denials.flush()
        return posted

    posted = asyncio.run(story())
    assert [(act.actor.uid, act.more["count"], act.more["methods"]) for act in posted] == [
        (1, 1, {"UpdateNodes": 1}), (2, 1, {"Shutdown": 1}), (1, 10_000, {"Shutdown": 1, "UpdateNodes": 9_999}),
    ]  # fmt: skip


def test_a_flood_is_two_lines_of_the_log(caplog):
    async def story():
        posted: list[RecordAct] = []
        denials = Denials(posted.append)
        for _ in range(10_000):
            denials.note(peer(1), "/penstock.v1.Controller/UpdateNodes", "no", "unix:")
            denials.note(Peer(passing=True), "/penstock.v1.Controller/Ping", "again", "ipv4:10.0.0.1:4711")
        denials.flush()
        return posted

    posted = asyncio.run(story())
    assert [act.more["count"] for act in posted] == [1, 9_999]  # a temporary reason is no matter of the audit log
    assert sorted(record.getMessage() for record in caplog.records if record.name == "penstock.audit") == [
        "denied method=Ping caller=unauthenticated from=10.0.0.1 calls=1: again",
        "denied method=Ping caller=unauthenticated from=10.0.0.1 calls=9999: again",
        "denied method=UpdateNodes caller=u1(1) from=unix calls=1: no",
        "denied method=UpdateNodes caller=u1(1) from=unix calls=9999: no",
    ]


def test_callers_without_end_share_one_count():
    async def story():
        posted: list[RecordAct] = []
        denials = Denials(posted.append)
        for number in range(CALLERS_MAX + 500):
            denials.note(Peer(), "/x/Ping", "nobody", f"ipv4:10.0.{number // 250}.{number % 250}:4711")
        denials.flush()
        return posted

    posted = asyncio.run(story())
    assert len(posted) == CALLERS_MAX + 2 and posted[-1].more["count"] == 499
    assert posted[0].more["from"] == "10.0.0.0" and posted[-1].more["from"] == "others"


def test_a_window_ends(monkeypatch):
    monkeypatch.setattr("ctld.rpc.gate.denials.WINDOW_S", 0.0)

    async def story():
        posted: list[RecordAct] = []
        denials = Denials(posted.append)
        for _ in range(3):
            denials.note(peer(1), "/x/Ping", "no", "unix:")
        async with asyncio.timeout(ANSWER_S):
            while len(posted) < 2:
                await asyncio.sleep(0)
            ended = asyncio.Event()
            asyncio.get_running_loop().call_later(0.001, ended.set)  # behind the timer of the second window
            await ended.wait()
            denials.note(peer(1), "/x/Ping", "no", "unix:")  # written at once: no window is open
        return posted

    assert [act.more["count"] for act in asyncio.run(story())] == [1, 2, 1]


@pytest.mark.parametrize(
    ("told", "address"),
    [("ipv4:10.0.0.1:4711", "10.0.0.1"), ("ipv6:%5B::1%5D:4711", "[::1]"), ("unix:", "unix"), ("unix:/a/b", "unix")],
)
def test_addresses(told, address):
    assert address_of(told) == address
