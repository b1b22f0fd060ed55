"""The services over the wire: what they answer, to whom, and how they refuse."""

import asyncio
import os
import pwd
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from patience import END_S

from ctld.rpc.gate import rights
from ctld.rpc.gate.refusals import STATUS
from penstock.clusterfile import read_cluster
from penstock.errors import PenstockError, Unreachable
from penstock.security.ca import load_credentials
from penstock.security.join import join
from penstock.v1 import accounting_pb2, controller_pb2
from penstock.v1 import explain_pb2 as e
from penstock.values.refusals import Code
from penstock.values.requestkey import new_request_key
from tests.rpc.clusterkit import AutoNode, FakeNode, Site, code_of, jobs_of, now_us, submission, submit, wait_for

USER, OTHER = 54_321, 54_322
#: Who runs the tests, and so asks without a token of somebody else's.
ME = pwd.getpwuid(os.getuid()).pw_name
c = controller_pb2


def run(story):
    asyncio.run(story())


async def refusal(call) -> PenstockError:
    with pytest.raises(PenstockError) as refused:
        await call
    return refused.value


async def denial(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value


def test_refusals_carry_their_number_and_words(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            error = await refusal(client.call("SubmitJob", submission(partitions=["nope"])))
            assert (error.code, error.text) == (Code.INVALID_PARTITION, "Invalid partition name specified: nope")
            error = await refusal(client.call("SubmitJob", submission(script=b"")))
            assert error.code == Code.JOB_SCRIPT_MISSING
            old = new_request_key(now_us() - 700_000_000, os.urandom(10))
            assert (await refusal(client.call("SubmitJob", submission(key=old)))).code == Code.STALE_REQUEST
            error = await refusal(client.call("UpdateJobs", c.UpdateJobsRequest(changes={"starttime": "soon"})))
            assert error.code == Code.INVALID_TIME_VALUE
            assert (await refusal(client.call("ControlJobs", c.ControlJobsRequest(action=cast(Any, 99))))).code == (
                Code.NOT_SUPPORTED
            )
            assert (await refusal(client.call("Story", c.StoryRequest(job_id=1)))).code == Code.INVALID_JOB_ID
            assert await jobs_of(client) == []

    run(story)


def test_a_flood_of_bytes_is_refused_by_the_transport(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            error = await refusal(client.call("SubmitJob", submission(script=b"#" * (17 * 1024 * 1024))))
            assert error.code == Code.BUSY  # RESOURCE_EXHAUSTED, before anything was read
            error = await refusal(client.call("SubmitJob", submission(script=b"#" * (5 * 1024 * 1024))))
            assert error.code == Code.SCRIPT_TOO_LARGE
            assert await submit(client) == 1

    run(story)


def test_a_user_sees_all_jobs_and_touches_his_own(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller():
            mine = (await site.call_as(USER, "SubmitJob", submission(script=b"#!mine"))).job_id
            pages = await site.call_as(OTHER, "ListJobs", c.ListJobsRequest())
            assert [(j.job_id, j.user_id) for p in pages for j in p.jobs] == [(mine, USER)]
            request = c.CancelJobsRequest(filter=c.JobFilter(ids=[str(mine)]))
            (result,) = (await site.call_as(OTHER, "CancelJobs", request)).results
            assert result.code == Code.ACCESS_DENIED
            script = c.GetBatchScriptRequest(job_id=mine)
            assert (await site.call_as(USER, "GetBatchScript", script)).script == b"#!mine"
            assert (await site.call_as(0, "GetBatchScript", script)).script == b"#!mine"
            environment = c.GetBatchScriptRequest(job_id=mine, environment=True)
            for uid in (USER, 0):
                reply = await site.call_as(uid, "GetBatchScript", environment)
                assert (list(reply.environment), reply.script) == ([b"A=1"], b"")
            for request_ in (script, environment):
                error = await denial(site.call_as(OTHER, "GetBatchScript", request_))
                assert code_of(error) is Code.ACCESS_DENIED
            query = accounting_pb2.ListRecordsRequest(with_script=True, with_environment=True)
            for uid, text in ((USER, b"#!mine"), (OTHER, b""), (0, b"#!mine")):
                (page,) = await site.call_as(uid, "ListRecords", query)
                assert (page.records[0].job_id, page.records[0].script) == (mine, text)
                assert list(page.records[0].environment) == ([b"A=1"] if text else [])
            (result,) = (await site.call_as(USER, "CancelJobs", request)).results
            assert result.code == 0

    run(story)


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("UpdateNodes", c.UpdateNodesRequest(names="n1", changes={"state": "RESUME"})),
        ("UpdatePartition", c.UpdatePartitionRequest(name="debug", changes={"state": "DOWN"})),
        ("Reconfigure", c.ReconfigureRequest()),
        ("Shutdown", c.ShutdownRequest()),
        ("CreateNodeToken", c.CreateNodeTokenRequest(node_name="n1")),
    ],
)
def test_a_user_is_no_administrator(tmp_path, method, request_):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller:
            stopping = asyncio.create_task(controller.until_stopped())
            error = await denial(site.call_as(USER, method, request_))
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED
            assert not stopping.done()
            stopping.cancel()

    run(story)


def test_every_method_has_an_entry_and_an_implementation(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), grpc.aio.insecure_channel(f"unix:{site.state}/ctld.sock") as channel:
            for path in rights.RIGHTS:
                call = channel.stream_stream(path, bytes, bytes)(iter([b""]))
                error = await denial(call.read())
                assert error.code() is not grpc.StatusCode.UNIMPLEMENTED, path

    run(story)


def test_listings_filter_and_page(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            array = await submit(client, name="a", array="0-9%2", hold=True)
            for i in range(250):
                await submit(client, name=f"b{i % 2}", hold=True)
            assert await submit(client, name="last", begin_at_us=now_us() + 10**10) == 252
            jobs = await jobs_of(client)
            assert [j.job_id for j in jobs] == list(range(1, 253))
            assert (jobs[0].array_tasks, jobs[0].array_throttle, jobs[0].reason) == ("0-9", 2, "JobHeldUser")
            pages = [p async for p in client.stream("ListJobs", c.ListJobsRequest())]
            assert [len(p.jobs) for p in pages] == [200, 52]

            async def ids(**options):
                return [j.job_id for j in await jobs_of(client, filter=c.JobFilter(**options))]

            assert await ids(names=["a", "last"]) == [1, 252]
            assert await ids(ids=["252", "1_3", "99999"]) == [1, 252]
            assert await ids(ids=["1_77"]) == []
            assert await ids(users=[ME], names=["a"]) == [1]
            assert await ids(users=["no-such-user"]) == []
            assert await ids(users=["12345"]) == []
            assert await ids(states=["RUNNING", "CG"]) == []
            assert await ids(states=["SUSPENDED"]) == []
            assert len(await ids(states=["PD"])) == 252
            for wrong in ({"ids": ["x"]}, {"states": ["SLEEPING"]}, {"nodes": ["n[1-"]}):
                assert (await refusal(ids(**wrong))).code in (Code.INVALID_JOB_ID, Code.INVALID_VALUE)
            cancel = c.CancelJobsRequest(filter=c.JobFilter(ids=[f"{array}_[0-4]"]))
            assert [r.code for r in (await client.call("CancelJobs", cancel)).results] == [0]
            mine = [j for j in await jobs_of(client) if j.array_job_id]
            assert sorted((j.state, j.array_tasks) for j in mine) == [("CANCELLED", "0-4"), ("PENDING", "5-9")]
            active = [j async for p in client.stream("ListJobs", c.ListJobsRequest()) for j in p.jobs]
            assert [j.array_tasks for j in active if j.array_job_id] == ["5-9"]

    run(story)


def test_a_listing_is_the_same_from_the_cache_and_after_a_change(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client:
            job_id = await submit(client, hold=True, std_out=b"out-%j-%N-%x-%u", name="n/../x")
            (first,) = await jobs_of(client)
            (again,) = await jobs_of(client)
            assert first == again
            assert first.std_out == f"/tmp/out-{job_id}-%N-n_.._x-{ME}".encode()
            change = c.UpdateJobsRequest(ids=[str(job_id)], changes={"comment": "hello"})
            assert [r.code for r in (await client.call("UpdateJobs", change)).results] == [0]
            (changed,) = await jobs_of(client)
            assert changed.request.comment == "hello"
            (detailed,) = await jobs_of(client, detail=True)
            detailed.request.submit_line = ""
            assert detailed == changed
            controller.runtime.core.check()

    run(story)


def test_nodes_and_partitions(tmp_path):
    site = Site(tmp_path, nodes=3)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node, FakeNode(site, "n2") as small:
            await node.register()
            await small.register(cpus=2)
            await submit(client)
            await node.command("launch")
            nodes = (await client.call("ListNodes", c.ListNodesRequest())).nodes
            assert [(n.name, n.base_state, n.cpus_alloc, list(n.flags)) for n in nodes] == [
                ("n1", "MIXED", 1, []),
                ("n2", "IDLE", 0, ["DRAIN", "INVAL"]),
                ("n3", "UNKNOWN", 0, []),
            ]
            assert nodes[1].reason == "Low CPUs (reported:2 < configured:4)" and nodes[1].reason_user == "root"
            assert [list(n.partitions) for n in nodes] == [["debug"]] * 3
            one = (await client.call("ListNodes", c.ListNodesRequest(names=["n[1,3]"]))).nodes
            assert [n.name for n in one] == ["n1", "n3"]
            (partition,) = (await client.call("ListPartitions", c.ListPartitionsRequest())).partitions
            assert (partition.name, partition.total_cpus, list(partition.nodes)) == ("debug", 12, ["n1", "n2", "n3"])
            assert partition.tres == "cpu=12,mem=12000M,node=3,billing=12"
            down = c.UpdateNodesRequest(names="n3", changes={"state": "DRAIN", "reason": "look"})
            await client.call("UpdateNodes", down)
            nodes = (await client.call("ListNodes", c.ListNodesRequest(names=["n3"]))).nodes
            assert (nodes[0].reason, list(nodes[0].flags)) == ("look", ["DRAIN"])

    run(story)


def test_ping_counts_and_config_is_shown(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as node:
            await node.register()
            await submit(client)
            await submit(client, array="1-7", hold=True)
            await node.command("launch")
            ping = await client.call("Ping", c.PingRequest())
            assert (ping.jobs_running, ping.jobs_pending, ping.epoch, ping.pid) == (1, 7, 1, os.getpid())
            lines = {line.key: line.value for line in (await client.call("ShowConfig", c.ShowConfigRequest())).lines}
            assert lines["ClusterName"] == "test"

    run(story)


def test_reconfigure_takes_all_or_nothing(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client:
            state = controller.runtime.core.state
            site.write(nodes=2, extra="KillWait=7\n")
            await client.call("Reconfigure", c.ReconfigureRequest())
            assert (len(state.nodes), state.config.kill_wait_s) == (2, 7)
            site.write(nodes=1, extra="KillWait=8\nNoSuchKey=1\n")
            error = await refusal(client.call("Reconfigure", c.ReconfigureRequest()))
            line = site.conf.read_text().splitlines().index("NoSuchKey=1") + 1
            assert error.code == Code.CONFIG_INVALID and f"{site.conf}:{line}: " in error.text
            assert (len(state.nodes), state.config.kill_wait_s) == (2, 7)
            site.ports[0] = max(site.ports) + 1  # neither of its own
            site.write(nodes=2)
            error = await refusal(client.call("Reconfigure", c.ReconfigureRequest()))
            assert "SlurmctldPort cannot change while the controller runs" in error.text

    run(story)


def test_a_node_joins_with_a_token(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            reply = await client.call("CreateNodeToken", c.CreateNodeTokenRequest(node_name="n1"))
            folder = tmp_path / "joined"
            await asyncio.to_thread(join, reply.token, "n1", folder, now_us())
            async with FakeNode(site) as node:
                await node.channel.close(None)
                node.credentials = load_credentials(folder, "node", now_us())
                async with node:
                    assert (await node.register()).refusal == ""
            again = await refusal(asyncio.to_thread(join, reply.token, "n1", tmp_path / "again", now_us()))
            assert "used before" in again.text
            error = await refusal(client.call("CreateNodeToken", c.CreateNodeTokenRequest(node_name="n9")))
            assert error.code == Code.INVALID_NODE_NAME

    run(story)


def test_accounting_has_the_end_with_its_steps(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            serving = asyncio.create_task(AutoNode(site, code=3).run())
            job_id = await submit(client, name="told", ntasks=2)
            await wait_for(client, job_id, "FAILED")
            query = accounting_pb2.ListRecordsRequest(ids=[str(job_id)])
            (page,) = [p async for p in client.stream("ListRecords", query)]
            (record,) = page.records
            assert (record.state, record.exit.code, record.tasks, record.cluster) == ("FAILED", 3, 2, "test")
            assert (record.request.name, record.node_list, record.cancelled_by_uid) == ("told", "n1", -1)
            assert record.std_out == b"/tmp/slurm-%d.out" % job_id
            (step,) = record.steps
            assert (step.step_id, step.name, step.state, step.exit.code) == (-5, "batch", "FAILED", 3)
            unknown = accounting_pb2.ListRecordsRequest(users=["no-such-user"])
            assert [p async for p in client.stream("ListRecords", unknown)] == []
            wrong = accounting_pb2.ListRecordsRequest(ids=["x"])
            with pytest.raises(PenstockError):
                assert [p async for p in client.stream("ListRecords", wrong)] == []
            serving.cancel()

    run(story)


def test_shutdown_stops_cleanly_and_the_port_is_gone(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client:
            await client.call("Shutdown", c.ShutdownRequest())
            await asyncio.wait_for(controller.until_stopped(), END_S)
        found = read_cluster(site.state / "cluster.json")
        assert (found.address, found.conf) == (f"127.0.0.1:{site.ports[0]}", str(site.conf))
        async with site.client() as client:
            with pytest.raises(Unreachable):
                await client.call("Ping", c.PingRequest())

    run(story)


def test_statuses_are_for_codes_that_exist():
    assert set(STATUS) <= set(Code)
    assert grpc.StatusCode.UNAVAILABLE not in STATUS.values()  # that is for what a client tries again by itself


def test_a_forecast_that_cannot_be_shown_ends_no_list(tmp_path, caplog):
    def broken(*_: object) -> None:
        raise IndexError("a row that is not there")

    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client:
            ids = [await submit(client, name=name) for name in "ab"]
            forecast: Any = SimpleNamespace(of_many=broken)
            controller.runtime.snapshot.forecast = forecast
            jobs = await jobs_of(client, planned=True)
            assert [(job.job_id, job.planned_start_at_us) for job in jobs] == [(one, 0) for one in ids]

    run(story)
    assert "the expected starts of 2 jobs cannot be shown" in caplog.text


def test_the_scheduler_explains_itself(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller() as controller, site.client() as client:
            serving = asyncio.create_task(AutoNode(site, code=None).run())
            first = await submit(client, nodes_min=1, exclusive=True, time_limit_s=3600, mem_per_node_mb=10)
            await wait_for(client, first, "RUNNING")
            second = await submit(client, name="b", time_limit_s=600)
            (_, waits) = await jobs_of(client)
            assert not waits.HasField("array_task_id") and (waits.planned_start_at_us, waits.last_sched_at_us) == (0, 0)
            (_, waits) = await jobs_of(client, planned=True)
            assert waits.planned_start_at_us > now_us() and waits.planned_node_list == "n1"
            assert (await jobs_of(client))[1].planned_start_at_us == 0  # the kept answer has no times of a plan
            why = await client.call("WhyJob", e.WhyJobRequest(id=str(second)))
            assert (why.job_id, why.reason, why.user_name, why.name) == (second, "Resources", ME, "b")
            assert (why.planned.start_at_us, why.planned.node_list) == (waits.planned_start_at_us, "n1")
            why = await client.call("WhyJob", e.WhyJobRequest(id=str(first)))
            assert why.state == "RUNNING" and why.last_event == "start n1" and not why.needs
            for wrong in ("99", "x"):
                assert (await refusal(client.call("WhyJob", e.WhyJobRequest(id=wrong)))).code == Code.INVALID_JOB_ID
            fits = await client.call("Fits", e.FitsRequest())
            assert [(p.partition, p.nodes_up, len(p.shapes)) for p in fits.partitions] == [("debug", 1, 0)]
            error = await refusal(client.call("Fits", e.FitsRequest(partitions=["x"])))
            assert error.code == Code.INVALID_PARTITION
            test = submission(time_limit_s=60)
            test.test_only = True
            said = await client.call("SubmitJob", test)
            assert said.start_at_us > waits.planned_start_at_us - 10**6 and said.node_list == "n1"
            test.job.exclusive = True
            test.job.priority = 4_294_950_000  # before those of priority/basic
            test.compare_plans = True
            said = await client.call("SubmitJob", test)
            (moved,) = said.plan_change.jobs
            assert (
                said.start_at_us == moved.before_at_us == waits.planned_start_at_us and said.plan_change.compared == 1
            )
            assert (moved.job_id, moved.change, moved.before_node_list) == (second, "later", "n1")
            assert moved.after_at_us >= moved.before_at_us + 60 * 10**6
            gone = await client.call("ShowPlanChange", e.ShowPlanChangeRequest(nodes=["n[1]"]))
            assert [(one.job_id, one.change) for one in gone.jobs] == [(second, "never"), (first, "requeued")]
            assert (gone.jobs[1].before_node_list, gone.jobs[1].after_at_us) == ("n1", 0)
            gone = await client.call("ShowPlanChange", e.ShowPlanChangeRequest(nodes=["n1"], jobs_run_on=True))
            assert [(one.job_id, one.change) for one in gone.jobs] == [(second, "never")]
            for nodes in ([], [""], ["n2"], ["n[1-"], ["n[1-99999999]"]):
                error = await refusal(client.call("ShowPlanChange", e.ShowPlanChangeRequest(nodes=nodes)))
                assert error.code == Code.INVALID_NODE_NAME, nodes
            said = await client.call("Diagnostics", e.DiagnosticsRequest())
            assert (said.jobs_submitted, said.jobs_started, said.jobs_pending, said.jobs_running) == (2, 1, 1, 1)
            assert {one.name: one.count for one in said.by_type}["WhyJob"] == 4 and said.agents == 1
            assert (ME, os.getuid()) in [(one.name, one.uid) for one in said.by_user]
            await client.call("ResetDiagnostics", e.ResetDiagnosticsRequest())
            said = await client.call("Diagnostics", e.DiagnosticsRequest())
            assert (said.jobs_submitted, said.main.cycles) == (0, 0)
            controller.runtime.core.check()
            serving.cancel()

    run(story)
