"""Calls a REST daemon by the clients that openapi-python-client has made of its two documents, typed as they are.

    generated_client.py < {"url": ..., "token": ...}        in a folder with slurm_client and penstock_client

Prints `ok generated_client` last. Started by test_generated_client.py: it needs no commands on PATH.
"""
# requires: openapi

import json
import os
import sys
import time
import uuid

sys.path.insert(0, os.getcwd())

from penstock_client.api.penstock import (
    penstock_v1_config,
    penstock_v1_efficiency,
    penstock_v1_fits,
    penstock_v1_forecast,
    penstock_v1_gpus,
    penstock_v1_jobs,
    penstock_v1_script,
    penstock_v1_steps,
    penstock_v1_story,
    penstock_v1_test,
    penstock_v1_usage,
    penstock_v1_why,
)
from penstock_client.client import AuthenticatedClient as PenstockClient
from penstock_client.models import PenstockV1TestBody, Refusal
from slurm_client.api.slurm import (
    slurm_v0046_delete_job,
    slurm_v0046_get_diag,
    slurm_v0046_get_job,
    slurm_v0046_get_jobs,
    slurm_v0046_get_jobs_state,
    slurm_v0046_get_node,
    slurm_v0046_get_nodes,
    slurm_v0046_get_partition,
    slurm_v0046_get_partitions,
    slurm_v0046_get_ping,
    slurm_v0046_post_job,
    slurm_v0046_post_job_submit,
)
from slurm_client.api.slurmdb import (
    slurmdb_v0046_get_accounts,
    slurmdb_v0046_get_associations,
    slurmdb_v0046_get_job,
    slurmdb_v0046_get_qos,
    slurmdb_v0046_get_users,
    slurmdb_v0046_post_accounts,
    slurmdb_v0046_post_users_association,
)
from slurm_client.api.util import util_v0046_post_hostnames
from slurm_client.client import AuthenticatedClient as SlurmClient
from slurm_client.models import (
    V0046Account,
    V0046JobDescMsg,
    V0046JobSubmitReq,
    V0046OpenapiAccountsResp,
    V0046OpenapiHostlistReqResp,
    V0046OpenapiResp,
    V0046OpenapiUsersAddCondResp,
    V0046Uint32NoValStruct,
    V0046UsersAddCond,
    V0046UserShort,
)

LIMIT_S = float(os.environ["CASE_LIMIT_S"])
SCRIPT = "#!/bin/sh\nsleep 600\n"


def described(**more):
    return V0046JobDescMsg(
        name="typed",
        current_working_directory="/tmp",
        environment=["PATH=/usr/bin:/bin"],
        script=SCRIPT,
        time_limit=V0046Uint32NoValStruct(set_=True, number=5),
        standard_output="/dev/null",
        **more,
    )


def until(look, wanted):
    deadline = time.monotonic() + LIMIT_S
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, f"{found} instead of {wanted}"
        time.sleep(0.05)


def new_key():
    """A UUID of version 7."""
    return str(uuid.UUID(int=time.time_ns() // 10**6 << 80 | 7 << 76 | 2 << 62 | uuid.uuid4().int & ~(-1 << 62)))


def slurm(client):
    """Slurm's paths; returns the id of a job that has ended."""
    (ping,) = slurm_v0046_get_ping.sync(client=client).pings
    assert ping.responding and ping.primary
    key, body = new_key(), V0046JobSubmitReq(job=described())
    made = [slurm_v0046_post_job_submit.sync(client=client, body=body, idempotency_key=key) for _ in range(2)]
    assert made[0].errors == [] and made[0].job_id == made[1].job_id, made
    job_id = str(made[0].job_id)

    def one():
        (job,) = slurm_v0046_get_job.sync(job_id, client=client).jobs
        return job

    until(lambda: one().job_state, ["RUNNING"])
    job = one()
    assert (job.name, job.time_limit.number, job.user_name != "") == ("typed", 5, True)
    assert [node.name for node in job.job_resources.nodes.allocation] == [job.nodes]
    listed = slurm_v0046_get_jobs.sync(client=client)
    assert [found.job_id for found in listed.jobs] == [int(job_id)] and listed.last_update.set_
    assert [found.job_id for found in slurm_v0046_get_jobs_state.sync(client=client).jobs] == [job_id]
    assert slurm_v0046_delete_job.sync(job_id, client=client).errors == []
    until(lambda: one().job_state, ["CANCELLED"])
    nodes = {node.name: node.cpus for node in slurm_v0046_get_nodes.sync(client=client).nodes}
    assert nodes == {
        node.name: node.cpus for name in nodes for node in slurm_v0046_get_node.sync(name, client=client).nodes
    }
    assert [part.name for part in slurm_v0046_get_partitions.sync(client=client).partitions] == ["main"]
    (part,) = slurm_v0046_get_partition.sync("main", client=client).partitions
    assert part.nodes.total == len(nodes)
    assert slurm_v0046_get_diag.sync(client=client).statistics.jobs_submitted >= 1
    hosts = V0046OpenapiHostlistReqResp(hostlist="n[1-3]")
    assert util_v0046_post_hostnames.sync(client=client, body=hosts).hostnames == ["n1", "n2", "n3"]
    return job_id


def held(client):
    """A job that has not run: members that are null there; and a change of it."""
    made = slurm_v0046_post_job_submit.sync(client=client, body=V0046JobSubmitReq(job=described(hold=True)))
    job_id = str(made.job_id)
    changed = slurm_v0046_post_job.sync(job_id, client=client, body=V0046JobDescMsg(comment="changed"))
    assert changed.errors == []
    (job,) = slurm_v0046_get_job.sync(job_id, client=client).jobs
    assert (job.job_state, job.comment, job.job_resources) == (["PENDING"], "changed", None)
    return job_id


def slurmdb(client, job_id):
    (record,) = slurmdb_v0046_get_job.sync(job_id, client=client).jobs
    assert (record.name, record.state.current) == ("typed", ["CANCELLED"])
    account = V0046Account(name="physics", description="of matter", organization="science")
    added = slurmdb_v0046_post_accounts.sync(client=client, body=V0046OpenapiAccountsResp(accounts=[account]))
    assert added.errors == []
    there = {one.name: one.description for one in slurmdb_v0046_get_accounts.sync(client=client).accounts}
    assert there["physics"] == "of matter"
    associations = slurmdb_v0046_get_associations.sync(client=client).associations
    assert {one.account for one in associations} == set(there)
    assert "normal" in {one.name for one in slurmdb_v0046_get_qos.sync(client=client).qos}
    wanted = V0046UsersAddCond(accounts=["physics"], users=["nobody"])
    person = V0046OpenapiUsersAddCondResp(association_condition=wanted, user=V0046UserShort())
    assert "nobody" in slurmdb_v0046_post_users_association.sync(client=client, body=person).added_users
    found = slurmdb_v0046_get_users.sync(client=client, with_assocs="true").users
    assert ("nobody", ["physics"]) in [(one.name, [below.account for below in one.associations]) for one in found]


def refusals(client, own, url):
    """What is refused has its type, too."""
    unknown = slurm_v0046_get_job.sync_detailed("999999", client=client)
    assert (unknown.status_code, type(unknown.parsed)) == (404, V0046OpenapiResp)
    assert [one.error_number for one in unknown.parsed.errors] == [2017]
    wrong = slurm_v0046_post_job_submit.sync_detailed(client=client, body=V0046JobSubmitReq(job=V0046JobDescMsg()))
    assert (wrong.status_code, type(wrong.parsed)) == (422, V0046OpenapiResp)
    nobody = SlurmClient(url, "no token", raise_on_unexpected_status=True)
    assert slurm_v0046_get_ping.sync_detailed(client=nobody).status_code == 401
    missing = penstock_v1_story.sync_detailed("999999", client=own)
    assert (missing.status_code, type(missing.parsed)) == (404, Refusal)


def penstock(client, ended, pending):
    jobs = {one.job_id: one for one in penstock_v1_jobs.sync(client=client).jobs}
    assert jobs[int(ended)].state == "CANCELLED" and jobs[int(pending)].reason == "JobHeldUser"
    assert penstock_v1_jobs.sync(client=client, states="RUNNING").jobs == []
    story = penstock_v1_story.sync(ended, client=client).lines
    assert [line.event for line in story][:2] == ["submit", "start"] and story[0].at_us > 10**15
    why = penstock_v1_why.sync(pending, client=client).why
    assert "holds it" in why.sentence and why.planned.if_released, why
    assert penstock_v1_script.sync(pending, client=client).script == SCRIPT
    (batch,) = penstock_v1_steps.sync(ended, client=client).steps
    assert (batch.step, batch.state) == ("batch", "CANCELLED")
    assert penstock_v1_efficiency.sync(ended, client=client).state == "CANCELLED"
    assert [one.partition for one in penstock_v1_fits.sync(client=client).fits.partitions] == ["main"]
    assert [one.job_id for one in penstock_v1_forecast.sync(client=client).jobs] == [int(pending)]
    assert penstock_v1_gpus.sync(client=client).gpus[0].node == "n1"
    assert penstock_v1_usage.sync(client=client, group_by="account").errors == []
    assert "ClusterName" in {line.key for line in penstock_v1_config.sync(client=client).lines}
    body = PenstockV1TestBody.from_dict({"job": described().to_dict()})
    assert penstock_v1_test.sync(client=client, body=body).partition == "main"


def main():
    given = json.load(sys.stdin)
    client = SlurmClient(given["url"], given["token"], raise_on_unexpected_status=True)
    own = PenstockClient(given["url"], given["token"], raise_on_unexpected_status=True)
    ended = slurm(client)
    pending = held(client)
    slurmdb(client, ended)
    penstock(own, ended, pending)
    refusals(client, own, given["url"])
    print("ok generated_client")


if __name__ == "__main__":
    main()
