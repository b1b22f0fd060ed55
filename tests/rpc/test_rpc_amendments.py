"""What scontrol changes of the configuration by hand: in force at once, kept over a restart, given up to the file."""

import asyncio
import base64
import hmac
import json
import logging
import os
import pwd
import re

import grpc
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.config import load
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.values.refusals import Code
from tests.rpc.clusterkit import AutoNode, Site, submit, wait_for

ME = pwd.getpwuid(os.getuid()).pw_name


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
                ({"state": "POWER_DOWN"}, Code.INVALID_NODE_STATE), ({"state": "RESUME"}, Code.INVALID_NODE_STATE),
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


async def shown(client):
    return {line.key: line.value for line in (await client.call("ShowConfig", c.ShowConfigRequest())).lines}


def test_the_log_and_the_dampening_factor_change_until_the_next_reload(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            asked = c.SetControllerRequest(
                debug_level="debug2", debug_flags_on=["Gres", "Backfill"], fair_share_dampening_factor=4
            )
            await client.call("SetController", asked)
            await client.call("SetController", c.SetControllerRequest(debug_flags_off=["Gres"]))
            found = await shown(client)
            assert (found["SlurmctldDebug"], found["DebugFlags"], found["FairShareDampeningFactor"]) == (
                "debug2",
                "Backfill",
                "4",
            )
            assert logging.getLogger("penstock.ctld").getEffectiveLevel() == logging.DEBUG
            await client.call("SetController", c.SetControllerRequest(debug_level="quiet"))
            assert not logging.getLogger("penstock.ctld").isEnabledFor(logging.CRITICAL)
            assert logging.getLogger("penstock.audit").isEnabledFor(logging.WARNING)  # who was refused is always told
            for bad in (c.SetControllerRequest(debug_level="loud"), c.SetControllerRequest(debug_flags_on=["NoSuch"])):
                assert (await refusal(client.call("SetController", bad))).code == Code.INVALID_VALUE
            error = await refusal(client.call("SetController", c.SetControllerRequest(schedule_log=True)))
            assert error.code == Code.DISABLED_STATE
            await client.call("Reconfigure", c.ReconfigureRequest())
            found = await shown(client)
            assert found["FairShareDampeningFactor"] == "1" and found["DebugFlags"] == "(null)"
            assert logging.getLogger("penstock.ctld").isEnabledFor(logging.WARNING)

    run(story)


def test_show_config_has_what_tools_read(tmp_path):
    """Keys of slurm-surface.md sections 10 and 13."""
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            reply = await client.call("ShowConfig", c.ShowConfigRequest())
            found = {line.key: line.value for line in reply.lines}
            missing = [key for key in SHOWN.split() if key not in found]
            assert missing == []
            assert found["AccountingStorageType"] == "accounting_storage/slurmdbd"
            assert found["SelectType"] == "select/cons_tres" and found["SchedulerType"] == "sched/backfill"
            assert re.fullmatch(r"\S+\(\d+\)", found["SlurmUser"])
            sections = {line.section for line in reply.lines}
            assert sections == {"", "Cgroup Support Configuration"}
            plain = [line.key for line in reply.lines if not line.section]
            assert plain == sorted(plain, key=str.lower)

    run(story)


SHOWN = """
    AccountingStorageEnforce AccountingStorageHost AccountingStorageTRES AccountingStorageType AccountingStoreFlags AuthAltTypes
    AuthAltParameters AuthType BOOT_TIME BurstBufferType CliFilterPlugins ClusterName CommunicationParameters ConstrainCores
    ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace CpuFreqDef DebugFlags DefMemPerNode DependencyParameters EnforcePartLimits
    Epilog EpilogSlurmctld FairShareDampeningFactor FederationParameters FirstJobId GresTypes HealthCheckInterval
    HealthCheckNodeState HealthCheckProgram InactiveLimit InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams
    JobAcctGatherType JobCompType JobRequeue JobSubmitPlugins KillOnBadExit KillWait LaunchParameters Licenses MailProg MaxArraySize
    MaxBatchRequeue MaxJobCount MaxMemPerNode MaxStepCount MaxTasksPerNode MCSPlugin MessageTimeout MetricsType MinJobAge MpiDefault
    MULTIPLE_SLURMD NEXT_JOB_ID OverTimeLimit PluginDir PreemptExemptTime PreemptMode PreemptParameters PreemptType
    PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityType
    PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc PriorityWeightFairShare PriorityWeightJobSize
    PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog PrologFlags PrologSlurmctld
    PropagateResourceLimits RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram
    ResumeRate ResumeTimeout ResvEpilog ResvOverRun ResvProlog ReturnToService SchedulerParameters SchedulerTimeSlice
    SchedulerType ScronParameters SelectType SelectTypeParameters SlurmctldDebug SlurmctldHost[0] SlurmctldLogFile
    SlurmctldParameters SlurmctldPidFile SlurmctldPort SlurmctldTimeout SlurmdDebug SlurmdLogFile SlurmdParameters SlurmdPidFile
    SlurmdPort SlurmdSpoolDir SlurmdTimeout SlurmdUser SlurmUser SLURM_CONF SLURM_VERSION SrunPortRange StateSaveLocation
    SuspendExcNodes SuspendExcParts SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchType TaskEpilog TaskPlugin
    TaskPluginParam TaskProlog TLSType TmpFS TopologyParam TopologyPlugin TrackWCKey TreeWidth UnkillableStepProgram
    UnkillableStepTimeout WaitTime X11Parameters
"""


def test_what_is_in_force_is_written_without_the_databases_address(tmp_path):
    site = Site(tmp_path, extra=f"PenstockDatabaseUrl=sqlite:///{tmp_path}/other.db\n")

    async def story():
        async with site.controller(), site.client() as client:
            await client.call("UpdatePartition", change("debug", maxtime="33", state="down"))
            text = (await client.call("RenderConfig", c.RenderConfigRequest())).text
            assert "MaxTime=00:33:00" in text and "State=DOWN" in text and "PenstockDatabaseUrl" not in text
            (tmp_path / "again.conf").write_text(text)
            assert load(str(tmp_path / "again.conf")).config.partitions[0].max_time_s == 33 * 60

    run(story)


def claims_of(token):
    head, body, signature = (base64.urlsafe_b64decode(part + "==") for part in token.split("."))
    return json.loads(head), json.loads(body), signature


def test_tokens_for_auth_jwt(tmp_path):
    key = tmp_path / "jwt.key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    site = Site(tmp_path, extra=f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n")

    async def story():
        async with site.controller(), site.client() as client:
            token = (await client.call("IssueToken", c.IssueTokenRequest(lifespan_s=60))).token
            head, claims, signature = claims_of(token)
            assert (
                head == {"alg": "HS256", "typ": "JWT"} and claims["sun"] == ME and claims["exp"] - claims["iat"] == 60
            )
            signed = token.rpartition(".")[0].encode()
            assert signature == hmac.digest(key.read_bytes(), signed, "sha256")
            error = await refusal(client.call("IssueToken", c.IssueTokenRequest(for_user="no such user")))
            assert error.code == Code.INVALID_USER
            assert (
                await refusal(client.call("IssueToken", c.IssueTokenRequest(lifespan_s=-1)))
            ).code == Code.INVALID_VALUE
            with pytest.raises(grpc.aio.AioRpcError) as denied:
                await site.call_as(54_321, "IssueToken", c.IssueTokenRequest(for_user=ME))
            assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
            private = rsa.generate_private_key(65537, 2048)
            formats = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            key.write_bytes(private.private_bytes(*formats))
            assert not (await client.call("Reconfigure", c.ReconfigureRequest())).warnings
            token = (await client.call("IssueToken", c.IssueTokenRequest())).token
            head, claims, signature = claims_of(token)
            assert head["alg"] == "RS256" and claims["exp"] - claims["iat"] == 1800
            private.public_key().verify(
                signature, token.rpartition(".")[0].encode(), padding.PKCS1v15(), hashes.SHA256()
            )
            for bad in (b"", b"short", b"-----BEGIN PRIVATE KEY-----\nx", b"x" * 70_000):
                key.write_bytes(bad)
                [warning] = (await client.call("Reconfigure", c.ReconfigureRequest())).warnings
                assert str(key) in warning
            key.unlink()
            token = (await client.call("IssueToken", c.IssueTokenRequest())).token
            assert claims_of(token)[0]["alg"] == "RS256"  # by the key that was in force before
        async with site.controller(), site.client() as client:
            assert (await refusal(client.call("IssueToken", c.IssueTokenRequest()))).code == Code.NO_TOKEN

    run(story)


def test_no_tokens_without_auth_jwt(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            error = await refusal(client.call("IssueToken", c.IssueTokenRequest()))
            assert (error.code, error.text) == (
                Code.NO_TOKEN,
                "Unable to generate JWT: AuthAltTypes=auth/jwt is not set",
            )

    run(story)


def test_a_job_is_changed_with_somebodys_rights(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            job_id = await submit(client, hold=True)
            raise_it = c.UpdateJobsRequest(ids=[str(job_id)], changes={"nice": "-5"}, as_uid=54_321)
            (result,) = (await client.call("UpdateJobs", raise_it)).results
            assert result.code == Code.ACCESS_DENIED  # it is not that user's
            raise_it.ClearField("as_uid")
            (result,) = (await client.call("UpdateJobs", raise_it)).results
            assert result.code == 0
            raise_it.as_uid = os.getuid()
            with pytest.raises(grpc.aio.AioRpcError) as denied:
                await site.call_as(54_321, "UpdateJobs", raise_it)
            assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED

    run(story)
