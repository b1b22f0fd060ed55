"""What scontrol changes of the configuration by hand: in force at once, kept over a restart, given up to the file."""

import asyncio

import pytest

from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.values.refusals import Code
from tests.rpc.clusterkit import AutoNode, Site, submit, wait_for


def run(story):
    asyncio.run(story())


async def refusal(call) -> PenstockError:
    with pytest.raises(PenstockError) as refused:
        await call
    return refused.value


async def partition(client, name):
    found = (await client.call("ListPartitions", c.ListPartitionsRequest())).partitions
    return next((one for one in found if one.name == name), None)


async def node(client, name):
    found = (await client.call("ListNodes", c.ListNodesRequest())).nodes
    return next((one for one in found if one.name == name), None)


def change(name, **changes):
    return c.UpdatePartitionRequest(name=name, changes=changes)


def test_keys_of_a_partition_take_force_and_survive_a_restart(tmp_path):
    site = Site(tmp_path, nodes=3)

    async def story():
        async with site.controller(), site.client() as client:
            await client.call(
                "UpdatePartition", change("debug", maxtime="2:00:00", prioritytier="7", nodes="-n2", state="drain")
            )
            await client.call("UpdatePartition", change("debug", maxnodes="2"))
            found = await partition(client, "debug")
            assert (found.max_time_s, found.priority_tier, list(found.nodes)) == (7200, 7, ["n1", "n3"])
            assert (found.max_nodes, found.state) == (2, "DRAIN")
            error = await refusal(client.call("UpdatePartition", change("debug", maxtime="soon")))
            assert error.code == Code.INVALID_VALUE and "MaxTime" in error.text
            assert (
                await refusal(client.call("UpdatePartition", change("debug", colour="red")))
            ).code == Code.NOT_SUPPORTED
            assert (
                await refusal(client.call("UpdatePartition", change("nope", maxtime="1")))
            ).code == Code.INVALID_PARTITION
            assert (
                await refusal(client.call("UpdatePartition", change("debug", nodes="+n9")))
            ).code == Code.INVALID_VALUE
        async with site.controller(), site.client() as client:
            found = await partition(client, "debug")
            assert (found.max_time_s, found.max_nodes, found.state) == (7200, 2, "DRAIN")
            assert list(found.nodes) == ["n1", "n3"]
            await client.call("Reconfigure", c.ReconfigureRequest())
            found = await partition(client, "debug")
            assert (found.max_time_s, list(found.nodes)) == (-1, ["n1", "n2", "n3"])

    run(story)


def test_a_partition_is_created_and_deleted(tmp_path):
    site = Site(tmp_path, nodes=2)

    async def story():
        async with site.controller(), site.client() as client:
            made = c.CreatePartitionRequest(name="new", changes={"nodes": "n2", "default": "YES", "maxtime": "10"})
            await client.call("CreatePartition", made)
            assert (await partition(client, "new")).is_default and not (await partition(client, "debug")).is_default
            assert (await refusal(client.call("CreatePartition", made))).code == Code.PARTITION_EXISTS
            await client.call("UpdatePartition", change("debug", default="YES"))
            job_id = await submit(client, partitions=["new"])
            gone = c.DeletePartitionRequest(name="new")
            assert (await refusal(client.call("DeletePartition", gone))).code == Code.PARTITION_IN_USE
            await client.call("Reconfigure", c.ReconfigureRequest())
            assert (await partition(client, "new")).max_time_s == 600
        async with site.controller(), site.client() as client:
            assert (await partition(client, "debug")).is_default and not (await partition(client, "new")).is_default
            await client.call("CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job_id)])))
            await client.call("DeletePartition", gone)
            assert await partition(client, "new") is None
            await client.call("DeletePartition", c.DeletePartitionRequest(name="debug"))
        async with site.controller(), site.client() as client:
            assert await partition(client, "debug") is None
            await client.call("Reconfigure", c.ReconfigureRequest())
            assert await partition(client, "debug") is not None

    run(story)


@pytest.mark.parametrize("name", ["", "ALL", "a b", "a,b", "a[1-2]", "x" * 5000, "\x07"])
def test_names_that_no_partition_has(tmp_path, name):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            error = await refusal(client.call("CreatePartition", c.CreatePartitionRequest(name=name)))
            assert error.code in (Code.INVALID_PARTITION, Code.PARTITION_EXISTS)
            assert len((await client.call("ListPartitions", c.ListPartitionsRequest())).partitions) == 1

    run(story)


def test_a_dynamic_node_lives_over_restarts_and_goes_only_when_it_is_free(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            asked = c.CreateNodesRequest(
                names="d[1-2]", changes={"cpus": "2", "realmemory": "500", "nodeaddr": "a[1-2]"}
            )
            assert (await refusal(client.call("CreateNodes", asked))).code == Code.INVALID_NODE_STATE
            asked.changes["state"] = "FUTURE"
            await client.call("CreateNodes", asked)
            assert (await refusal(client.call("CreateNodes", asked))).code == Code.INVALID_NODE_NAME
            found = await node(client, "d2")
            assert (found.base_state, found.addr, found.cpus, found.dynamic) == ("FUTURE", "a2", 2, True)
            assert list(found.partitions) == ["debug"] and "DYNAMIC_NORM" in found.flags
        async with site.controller(), site.client() as client:
            assert (await node(client, "d1")).base_state == "FUTURE"
            daemon = asyncio.create_task(AutoNode(site, "d1", code=None).run())
            job_id = await submit(client, nodes_required="d1")
            await wait_for(client, job_id, "RUNNING")
            delete = c.DeleteNodesRequest(names="d[1-2]")
            assert (await refusal(client.call("DeleteNodes", delete))).code == Code.NODES_BUSY
            assert (await refusal(client.call("DeleteNodes", c.DeleteNodesRequest(names="n1")))).code == (
                Code.INVALID_NODE_STATE
            )
            await client.call("CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job_id)])))
            await wait_for(client, job_id, "CANCELLED")
            await client.call("DeleteNodes", delete)
            assert await node(client, "d1") is None
            daemon.cancel()
        async with site.controller(), site.client() as client:
            assert await node(client, "d2") is None

    run(story)


def test_keys_of_nodes_that_are_configuration(tmp_path):
    site = Site(tmp_path, nodes=2, extra="GresTypes=craynetwork\n")

    async def story():
        async with site.controller(), site.client() as client:
            changes = {
                "features": "fast,big",
                "weight": "9",
                "nodeaddr": "a[1-2]",
                "comment": "c",
                "extra": "e",
                "gres": "craynetwork:2",
            }
            await client.call("UpdateNodes", c.UpdateNodesRequest(names="n[1-2]", changes=changes))
            found = await node(client, "n2")
            assert (list(found.features), found.weight, found.addr) == (["fast", "big"], 9, "a2")
            assert (found.comment, found.extra, found.gres[0].count) == ("c", "e", 2)
            for bad, code in (
                ({"weight": "x"}, Code.INVALID_VALUE), ({"gres": "nope:1"}, Code.INVALID_VALUE),
                ({"nodeaddr": "a[1-3]"}, Code.INVALID_VALUE), ({"activefeatures": "slow"}, Code.FEATURES_NOT_AVAILABLE),
                ({"state": "POWER_DOWN"}, Code.DISABLED_STATE), ({"state": "RESUME"}, Code.INVALID_NODE_STATE),
                ({"resumeafter": "5"}, Code.INVALID_NODE_STATE), ({"cpus": "5"}, Code.NOT_SUPPORTED),
            ):  # fmt: skip
                error = await refusal(client.call("UpdateNodes", c.UpdateNodesRequest(names="n1", changes=bad)))
                assert error.code == code, (bad, error.text)
            drain = {"state": "DRAIN", "reason": "x", "resumeafter": "3600"}
            await client.call("UpdateNodes", c.UpdateNodesRequest(names="n1", changes=drain))
            later = (await node(client, "n1")).resume_after_us
            assert later
        async with site.controller(), site.client() as client:
            found = await node(client, "n1")
            assert (found.extra, found.weight, found.resume_after_us) == ("e", 9, later)
            await client.call("UpdateNodes", c.UpdateNodesRequest(names="n1", changes={"state": "RESUME"}))
            assert not (await node(client, "n1")).resume_after_us

    run(story)
