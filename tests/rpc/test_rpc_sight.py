"""PrivateData: each of its words, each listing, each role; and scripts. One table, written by hand.

ann is a user of physics, sam another one, oda a user of bio. cora coordinates physics. A cell says of whom a listing speaks:
s = sam, o = oda; of what is nobody's y or n. The words are tried one at a time; what a row does not list is as without any.
"""

import asyncio
import pwd

import grpc
import pytest
from sqlalchemy import create_engine, insert

from accounting.schema import STEP, STEP_PROFILE
from penstock.v1 import accounting_pb2 as a
from penstock.v1 import controller_pb2 as c
from penstock.v1 import explain_pb2 as e
from penstock.v1 import governance_pb2 as g
from penstock.v1 import periodic_pb2 as p
from penstock.v1 import shares_pb2 as s
from penstock.values.refusals import Code
from penstock.values.states import JobState
from tests.rpc.clusterkit import Site, code_of, submission

ANN, SAM, ODA, CORA = 54_321, 54_322, 54_323, 54_324  # nobody's uids here: their names are their numbers
DAEMON = pwd.getpwnam("daemon").pw_uid
CALLERS = {"user": ANN, "coordinator": CORA, "operator": DAEMON, "root": 0}
EXTRA = "PenstockOperators=daemon\nScronParameters=enable\nSlurmctldParameters=allow_user_triggers\n"


def letters(users) -> str:
    """Of whom it speaks."""
    found = set(map(str, users))
    return "".join(letter for letter, uid in (("s", SAM), ("o", ODA)) if str(uid) in found) or "-"


class Cluster:
    """One controller with jobs and accounts of several."""

    def __init__(self, folder, private: str, more: str = "") -> None:
        self.site = Site(folder, extra=EXTRA + more + (f"PrivateData={private}\n" if private else ""))
        self.jobs: dict[int, int] = {}

    async def fill(self) -> None:
        async def root(method, request):
            return await self.site.call_as(0, method, request)

        for account, users in {"physics": (ANN, SAM, CORA), "bio": (ODA,)}.items():
            await root("ChangeAccounts", s.ChangeAccountsRequest(action="ADD", entity="account", names=[account]))
            names = [str(uid) for uid in users]
            add = s.ChangeAccountsRequest(action="ADD", entity="user", names=names, accounts=[account])
            await root("ChangeAccounts", add)
        add = s.ChangeAccountsRequest(action="ADD", entity="coordinator", names=["physics"], users=[str(CORA)])
        await root("ChangeAccounts", add)
        for uid, account in ((SAM, "physics"), (ODA, "bio")):
            reply = await self.site.call_as(uid, "SubmitJob", submission(account=account))
            self.jobs[uid] = reply.job_id
            trigger = p.SetTriggerRequest(kinds=32 | 64, program="/bin/true", job_id=reply.job_id)
            await self.site.call_as(uid, "SetTrigger", trigger)
        wish = {"starttime": "now+1day", "duration": "60", "users": "root", "nodes": "ALL"}
        await root("CreateReservation", c.CreateReservationRequest(name="maint", changes=wish))

    async def per_job(self, uid: int, method: str, make) -> str:
        """Whose jobs are known to it."""
        found = []
        for owner, job_id in self.jobs.items():
            code = await self.code(uid, method, make(job_id))
            assert code in (0, Code.INVALID_JOB_ID), method  # what is not seen is not there
            found += [] if code else [owner]
        return letters(found)

    async def code(self, uid: int, method: str, request) -> int:
        """The number of the refusal, 0 = there is an answer."""
        try:
            await self.site.call_as(uid, method, request)
        except grpc.aio.AioRpcError as error:
            return int(code_of(error))
        return 0

    async def seen(self, uid: int) -> dict[str, str]:
        """By listing."""
        call = self.site.call_as
        jobs = [j.user_id for page in await call(uid, "ListJobs", c.ListJobsRequest()) for j in page.jobs]
        records = await call(uid, "ListRecords", a.ListRecordsRequest())
        found = await call(uid, "ListAssociations", s.ListAssociationsRequest())
        priorities = await call(uid, "ListPriorities", s.ListPrioritiesRequest())
        diagnostics = await call(uid, "Diagnostics", e.DiagnosticsRequest())
        accounts = {row.name for page in found for row in page.accounts}
        in_accounts = {row.account for page in found for row in page.associations}
        assert accounts == in_accounts
        nodes = await call(uid, "ListNodes", c.ListNodesRequest())
        partitions = await call(uid, "ListPartitions", c.ListPartitionsRequest())
        reservations = await call(uid, "ListReservations", c.ListReservationsRequest())
        return {
            "squeue": letters(jobs),
            "squeue -j": await self.named(uid),
            "sacct": letters(r.user_id for page in records for r in page.records),
            "sprio": letters(j.user_name for page in priorities for j in page.jobs),
            "why": await self.per_job(uid, "WhyJob", lambda job_id: e.WhyJobRequest(id=str(job_id))),
            "story": await self.per_job(uid, "Story", lambda job_id: c.StoryRequest(job_id=job_id)),
            "ping": str((await call(uid, "Ping", c.PingRequest())).jobs_pending),
            "sdiag": str(diagnostics.jobs_pending),
            "sdiag users": letters(row.uid for row in diagnostics.by_user),
            "strigger": letters(t.user_id for t in (await call(uid, "ListTriggers", p.ListTriggersRequest())).triggers),
            "associations": letters(row.user for page in found for row in page.associations),
            "users": letters(row.name for page in found for row in page.users),
            "accounts": "".join(word[0] for word in sorted(accounts)),
            "sinfo": "y" if nodes.nodes else "n",
            "partitions": "y" if partitions.partitions else "n",
            "reservations": "y" if reservations.reservations else "n",
        }

    async def named(self, uid: int) -> str:
        which = c.JobFilter(ids=[str(job_id) for job_id in self.jobs.values()])
        pages = await self.site.call_as(uid, "ListJobs", c.ListJobsRequest(filter=which, all_states=True))
        return letters(job.user_id for page in pages for job in page.jobs)


ALL = {
    "squeue": "so", "squeue -j": "so", "sacct": "so", "sprio": "so", "why": "so", "story": "so", "ping": "2",
    "sdiag": "2", "sdiag users": "so", "strigger": "so", "associations": "so", "users": "so", "accounts": "bpr",
    "sinfo": "y", "partitions": "y", "reservations": "y",
}  # fmt: skip
_JOBS = ("squeue", "squeue -j", "sacct", "sprio", "why", "story")
_COUNTS = ("ping", "sdiag")


def of(names: tuple[str, ...], cell: str) -> dict[str, str]:
    return dict.fromkeys(names, cell)


#: By word: what a user sees less, and a coordinator.
LESS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "": ({}, {}),
    "jobs": (
        of((*_JOBS, "sdiag users", "strigger"), "-") | of(_COUNTS, "0"),
        of(_JOBS, "s") | of(("sdiag users", "strigger"), "-") | of(_COUNTS, "1"),
    ),
    "users": (
        of(("associations", "users", "sdiag users", "strigger"), "-"),
        of(("associations", "users"), "s") | of(("sdiag users", "strigger"), "-"),
    ),
    "usage": (of(("associations",), "-"), of(("associations",), "s")),
    "accounts": (
        {"accounts": "pr", "associations": "s"},
        {"accounts": "pr", "associations": "s"},
    ),
    "nodes": ({"sinfo": "n"}, {"sinfo": "n"}),
    "partitions": ({"partitions": "n"}, {"partitions": "n"}),
    "reservations": ({"reservations": "n"}, {"reservations": "n"}),
    "cloud": ({}, {}),
}  # fmt: skip


@pytest.mark.parametrize("word", LESS)
def test_what_each_role_sees(tmp_path, word):
    cluster = Cluster(tmp_path, word)

    async def story():
        async with cluster.site.controller():
            await cluster.fill()
            return {name: await cluster.seen(uid) for name, uid in CALLERS.items()}

    found = asyncio.run(story())
    user, coordinator = LESS[word]
    assert found == {"user": ALL | user, "coordinator": ALL | coordinator, "operator": ALL, "root": ALL}


def put_profiles(cluster: Cluster) -> None:
    """As if each job had had a step with a profile."""
    engine = create_engine(f"sqlite:///{cluster.site.state / 'penstock.db'}")
    with engine.begin() as connection:
        for job_id in cluster.jobs.values():
            key = {"job_id": job_id, "attempt": 0, "step_id": 0}
            needed = [c for c in STEP.columns if not c.nullable and c.server_default is None and c.name not in key]
            values = {c.name: "" if c.type.python_type is str else 0 for c in needed} | {
                "state": int(JobState.COMPLETED)
            }
            connection.execute(insert(STEP).values(**key, **values))
            connection.execute(insert(STEP_PROFILE).values(**key, node="n1", profile=b"lines"))
    engine.dispose()


@pytest.mark.parametrize(("private", "user", "coordinator"), [("", "so", "so"), ("jobs", "-", "s")])
def test_profiles_are_seen_as_records_are(tmp_path, private, user, coordinator):
    cluster = Cluster(tmp_path, private)

    async def story():
        async with cluster.site.controller():
            await cluster.fill()
            put_profiles(cluster)
            owners = {job_id: uid for uid, job_id in cluster.jobs.items()}
            asked = a.ListProfilesRequest(ids=[str(job_id) for job_id in owners])
            found = {}
            for name, uid in (CALLERS | {"sam": SAM}).items():
                pages = await cluster.site.call_as(uid, "ListProfiles", asked)
                profiles = [one for page in pages for one in page.profiles]
                assert all((one.step_id, one.node, one.profile) == (0, "n1", b"lines") for one in profiles)
                found[name] = letters(owners[one.job_id] for one in profiles)
            refusals = [await cluster.code(0, "ListProfiles", a.ListProfilesRequest(ids=ids)) for ids in ((), ("x",))]
            return found, refusals

    found, refusals = asyncio.run(story())
    mine = "s" if private else "so"
    assert found == {"user": user, "coordinator": coordinator, "operator": "so", "root": "so", "sam": mine}
    assert refusals[0] == Code.INVALID_VALUE and refusals[1]


@pytest.mark.parametrize(
    ("more", "coordinator"), [("", "-"), ("PenstockCoordinatorsReadScripts=YES\n", "s")], ids=["default", "switch"]
)
def test_scripts_and_environments(tmp_path, more, coordinator):
    """Of others only administrators see them, operators not; coordinators where the site says so."""
    cluster = Cluster(tmp_path, "", more)

    async def story():
        async with cluster.site.controller():
            await cluster.fill()
            by_script, by_record = {}, {}
            for name, uid in (CALLERS | {"sam": SAM}).items():
                got = []
                for owner, job_id in cluster.jobs.items():
                    code = await cluster.code(uid, "GetBatchScript", c.GetBatchScriptRequest(job_id=job_id))
                    assert code in (0, Code.ACCESS_DENIED)
                    got += [] if code else [owner]
                by_script[name] = letters(got)
                asked = a.ListRecordsRequest(with_script=True, with_environment=True)
                pages = await cluster.site.call_as(uid, "ListRecords", asked)
                by_record[name] = letters(
                    r.user_id for page in pages for r in page.records if r.script or r.environment
                )
            return by_script, by_record

    expected = {"user": "-", "coordinator": coordinator, "operator": "-", "root": "so", "sam": "s"}
    assert asyncio.run(story()) == (expected, expected)


def test_transactions_are_for_operators_and_the_audit_log_for_administrators(tmp_path):
    cluster = Cluster(tmp_path, "")

    async def story():
        async with cluster.site.controller():
            found = {}
            for name, uid in CALLERS.items():
                for method, request in (
                    ("ListTransactions", g.ListTransactionsRequest()),
                    ("ListAudit", g.ListAuditRequest()),
                ):
                    try:
                        await cluster.site.call_as(uid, method, request)
                        found[name, method] = True
                    except grpc.aio.AioRpcError:
                        found[name, method] = False
            return found

    found = asyncio.run(story())
    assert [name for (name, method), ok in found.items() if ok and method == "ListTransactions"] == ["operator", "root"]
    assert [name for (name, method), ok in found.items() if ok and method == "ListAudit"] == ["root"]
