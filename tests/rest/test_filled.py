"""Members of answers that are only filled in: Penstock's documents lack them, and the answer has their unset value.

By record and for the newest version. A member that a document gains must leave its list, so that nobody takes one of these
for a fact. Beside them, documents have members that are always unset: `_absent()` in cli/listings/jsonout.py and jsonnode.py.
"""

import asyncio

import pytest
from fakerest import FakeClient

from penstock.v1.accounting_pb2 import JobRecord, ListRecordsReply, StepRecord
from penstock.v1.common_pb2 import NodeAllocation
from penstock.v1.controller_pb2 import (
    JobInfo,
    LicenseInfo,
    ListJobsReply,
    ListLicensesReply,
    ListNodesReply,
    ListPartitionsReply,
    ListQosReply,
    ListReservationsReply,
    NodeInfo,
    PartitionInfo,
    PingReply,
    Qos,
    ReservationInfo,
)
from penstock.v1.explain_pb2 import DiagnosticsReply
from penstock.v1.governance_pb2 import (
    ListClustersReply,
    ListTresReply,
    ListWckeysReply,
    TresInfo,
    WckeyInfo,
)
from penstock.v1.shares_pb2 import AccountInfo, Association, ListAssociationsReply, UserInfo
from rest.calling import RestCall
from rest.contract.conform import missing
from rest.contract.facts import load
from rest.handlers import HANDLERS

REPLIES = {
    "Ping": PingReply(),
    "Diagnostics": DiagnosticsReply(by_type=[{"name": "x"}], by_user=[{"name": "x"}]),
    "ListJobs": ListJobsReply(
        jobs=[
            JobInfo(
                job_id=1, node_list="n1", cron="0 * * * *",
                allocation=[NodeAllocation(node="n1", cpus=1, cpu_ids=b"\1")],
            )
        ]
    ),
    "ListNodes": ListNodesReply(nodes=[NodeInfo(name="n1")]),
    "ListPartitions": ListPartitionsReply(partitions=[PartitionInfo(name="main")]),
    "ListReservations": ListReservationsReply(reservations=[ReservationInfo(name="r")]),
    "ListLicenses": ListLicensesReply(licenses=[LicenseInfo(name="l")]),
    "ListRecords": ListRecordsReply(records=[JobRecord(job_id=1, tres_alloc="cpu=1", steps=[StepRecord(tres_alloc="cpu=1")])]),
    "ListAssociations": ListAssociationsReply(
        associations=[Association(account="root"), Association(account="root", user="u", parent="root")],
        accounts=[AccountInfo(name="root", coordinators=["u"])],
        users=[UserInfo(name="u", coordinator_of=["root"])],
    ),
    "ListQos": ListQosReply(qos=[Qos(name="q")]),
    "ListClusters": ListClustersReply(),
    "ListTres": ListTresReply(tres=[TresInfo(type="cpu")]),
    "ListWckeys": ListWckeysReply(wckeys=[WckeyInfo(name="w")]),
}  # fmt: skip


ONLY_FILLED: dict[str, set[str]] = {
    "slurm/{v}/ping": set(),
    "slurm/{v}/diag": {"statistics.bf_exit", "statistics.bf_table_size_sum", "statistics.schedule_exit"},
    "slurm/{v}/jobs": {"jobs.memory_update_delay", "jobs.memory_update_margin", "jobs.runtime"},
    "slurm/{v}/nodes": {"nodes.suspend_time"},
    "slurm/{v}/partitions": {
        "partitions.flags", "partitions.preempt_mode",
    },
    "slurm/{v}/reservations": set(),
    "slurm/{v}/licenses": set(),
    "slurm/{v}/shares": set(),
    "slurmdb/{v}/jobs": {
        "jobs.original_sluid", "jobs.steps.step.stderr",
        "jobs.steps.step.stderr_expanded", "jobs.steps.step.stdin", "jobs.steps.step.stdin_expanded",
        "jobs.steps.step.stdout", "jobs.steps.step.stdout_expanded", "jobs.steps.time.limit",
    },
    "slurmdb/{v}/accounts": set(),
    "slurmdb/{v}/users": set(),
    "slurmdb/{v}/associations": set(),
    "slurmdb/{v}/qos": set(),
    "slurmdb/{v}/tres": set(),
    "slurmdb/{v}/clusters": set(),
    "slurmdb/{v}/wckeys": set(),
}  # fmt: skip


def lacking(path: str, query: dict[str, str]) -> set[str]:
    """The members that the document of a path lacks."""
    operation = next(
        methods["get"]
        for one, methods in load().versions["v0.0.46"].operations.items()
        if one.rstrip("/") == f"/{path}"
    )
    call = RestCall(operation, {}, query, None, "c", 10**15, 10**15, FakeClient(REPLIES), None)

    async def made() -> object:
        return await HANDLERS["get", f"/{path}"](call)

    return set(missing(asyncio.run(made()), operation.answer)) - {"meta", "errors", "warnings"}


@pytest.mark.parametrize("path", ONLY_FILLED)
def test_the_members_that_are_only_filled(path: str) -> None:
    query = {"with_assocs": "1", "with_coords": "1", "WithAssociations": "1", "WithCoordinators": "1"}
    assert lacking(path, query) == ONLY_FILLED[path]
