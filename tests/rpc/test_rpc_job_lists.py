"""Listings over the wire: by columns, by index, shared by those who ask the same, and what is not for everybody."""

import asyncio
import os
import pwd
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import grpc
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.listings.jobtable import JobTable, reader
from ctld.core.records.compact_request import compact as compact_request
from ctld.core.records.events import JobFilter
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest
from ctld.core.records.waiting_row import compact
from ctld.core.state.layout import ClusterLayout
from ctld.rpc.jobs import jobcolumns
from ctld.rpc.jobs.alikejobs import AlikeJobs
from ctld.rpc.jobs.jobinfo import details, encoded_details, estimate, job_info, nodes_estimated
from ctld.rpc.jobs.listing import candidates
from ctld.runtime.snapshot import Snapshot
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1 import accounting_pb2, explain_pb2, shares_pb2, steps_pb2
from penstock.v1 import controller_pb2 as c
from penstock.values.jobcolumns import NAMES
from penstock.values.refusals import Code
from penstock.values.states import Hold, JobState, Reason, Suspend
from tests.rpc.clusterkit import Site, jobs_of, some_of_each, submission, submit

USER, OTHER = 54_321, 54_322
ME = pwd.getpwuid(os.getuid()).pw_name


def run(story):
    asyncio.run(story())


async def table(client, columns: Iterable[str], **options) -> JobTable:
    names = list(columns)
    found = JobTable(names)
    async for page in client.stream("ListJobs", c.ListJobsRequest(columns=names, **options)):
        assert not page.jobs
        found.take(page, names)
    return found


def test_columns_say_what_messages_say(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            await some_of_each(site, client)
            jobs = await jobs_of(client)
            assert {job.state for job in jobs} >= {"COMPLETED", "RUNNING", "PENDING"}
            found = await table(client, sorted(NAMES), all_states=True)
            for name in sorted(NAMES):
                if not name.startswith(("planned", "last_sched")):
                    assert found.columns[name] == [reader(name)(job) for job in jobs], name
            planned = [job for job in await jobs_of(client, planned=True) if job.last_sched_at_us]
            names = ["job_id", "last_sched_at_us", "planned_start_at_us", "planned_node_list"]
            found = await table(client, names, all_states=True, planned=True)
            rows = list(zip(*found.columns.values(), strict=True))
            for job in planned:
                assert (job.job_id, job.last_sched_at_us, job.planned_start_at_us, job.planned_node_list) in rows

    run(story)


def test_pages_larger_than_a_first_frame_of_http2(tmp_path):
    """squeue of 4,000 jobs failed: the client's library took no frame above 16 KiB, whatever it had promised."""
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            await asyncio.gather(*(submit(client, name="x" * 200 + str(i), hold=True) for i in range(150)))

            def ask():
                with Client.open(cluster=site.cluster()) as plain:
                    return list(plain.stream("ListJobs", c.ListJobsRequest(detail=True)))

            pages = await asyncio.to_thread(ask)
            assert [len(page.jobs) for page in pages] == [150]
            assert pages[0].ByteSize() > 2 * 16384

    run(story)


def test_a_name_that_is_no_column(tmp_path):
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            with pytest.raises(PenstockError) as refused:
                await table(client, ["job_id", "script"])
            assert (refused.value.code, refused.value.text) == (Code.INVALID_VALUE, "jobs have no column 'script'")

    run(story)


def test_equal_questions_share_an_answer_until_something_changes(tmp_path, monkeypatch):
    site = Site(tmp_path)
    made = []
    page = jobcolumns.page
    monkeypatch.setattr("ctld.rpc.jobs.jobcolumns.page", lambda *args: made.append(1) or page(*args))

    async def story():
        async with site.controller(), site.client() as client:
            await submit(client, hold=True)
            names = ["job_id", "request.comment"]
            answers = await asyncio.gather(*(table(client, names) for _ in range(20)))
            assert [a.columns["job_id"] for a in answers] == [[1]] * 20
            assert len(made) == 1
            await table(client, ["job_id"])
            await table(client, names, filter=c.JobFilter(users=[ME]))
            assert len(made) == 3
            change = c.UpdateJobsRequest(ids=["1"], changes={"comment": "new"})
            await client.call("UpdateJobs", change)
            assert (await table(client, names)).columns["request.comment"] == ["new"]
            assert await submit(client, hold=True) == 2
            assert (await table(client, names)).columns["job_id"] == [1, 2]

    run(story)


def test_who_has_an_answer_is_told_that_it_is_the_same(tmp_path):
    """Of each question, and of what its caller may see: the moment of another user's answer is no answer."""
    site = Site(tmp_path, extra="PrivateData=jobs\n")

    async def story():
        async with site.controller():
            await site.call_as(USER, "SubmitJob", submission(name="a", hold=True))
            await site.call_as(OTHER, "SubmitJob", submission(name="b", hold=True))

            async def ask(uid, known=b"", **options):
                pages = await site.call_as(uid, "ListJobs", c.ListJobsRequest(known=known, **options))
                assert not pages[0].jobs and len(pages[0].moment) == 16
                return pages[0].moment, [job.request.name for page in pages for job in page.jobs], pages[0].unchanged

            own, other, root = [(await ask(uid))[0] for uid in (USER, OTHER, 0)]
            assert len({own, other, root}) == 3
            assert await ask(USER, own) == (own, [], True)
            assert await ask(USER, other) == (own, ["a"], False)
            assert await ask(OTHER, own) == (other, ["b"], False)
            assert await ask(OTHER, root) == (other, ["b"], False)
            assert (await ask(0, root))[2]
            for options in ({"all_states": True}, {"detail": True}, {"filter": c.JobFilter(names=["a"])}):
                moment, names, is_same = await ask(USER, own, **options)
                assert moment != own and names == ["a"] and not is_same, options
            table_pages = await site.call_as(USER, "ListJobs", c.ListJobsRequest(known=own, columns=["job_id"]))
            assert not any(page.moment or page.unchanged for page in table_pages)
            of_window: dict[str, Any] = {"window": c.JobWindow(count=1, order="-priority")}
            for asked, shown in (({"counts": True}, []), (of_window, ["a"])):
                moment, names, is_same = await ask(USER, own, **asked)
                assert moment != own and names == shown and not is_same, asked
                assert await ask(USER, moment, **asked) == (moment, [], True)
                assert (await ask(OTHER, moment, **asked))[2] is False
            elapsed: dict[str, Any] = {
                "window": c.JobWindow(count=1, order="elapsed")
            }  # which changes with the time alone
            assert not (await ask(USER, (await ask(USER, **elapsed))[0], **elapsed))[2]
            await site.call_as(USER, "UpdateJobs", c.UpdateJobsRequest(ids=["1"], changes={"jobname": "z"}))
            moment, names, is_same = await ask(USER, own)
            assert moment != own and names == ["z"] and not is_same
            own = moment
        async with site.controller():  # its counts begin again
            moment, names, is_same = await ask(USER, own)
            assert moment != own and names == ["z"] and not is_same

    run(story)


def test_private_jobs_and_hidden_partitions(tmp_path):
    site = Site(tmp_path, extra="PrivateData=jobs,nodes,partitions\n")
    with open(site.conf, "a") as conf:
        conf.write("PartitionName=secret Nodes=n1 Hidden=YES State=UP\n")

    async def story():
        async with site.controller():
            await site.call_as(USER, "SubmitJob", submission(name="a", hold=True))
            await site.call_as(OTHER, "SubmitJob", submission(name="b", hold=True))
            await site.call_as(OTHER, "SubmitJob", submission(name="c", hold=True, partitions=["secret"]))

            async def names(uid, *columns, **options):
                request = c.ListJobsRequest(columns=columns, **options)
                found = JobTable(["request.name"])
                for one in await site.call_as(uid, "ListJobs", request):
                    found.take(one, columns)
                return found.columns["request.name"]

            for columns in ((), ("request.name",)):
                assert await names(USER, *columns) == ["a"]
                assert await names(OTHER, *columns) == ["b", "c"]
                assert await names(OTHER, *columns, filter=c.JobFilter(users=[str(USER)])) == []
                assert await names(OTHER, *columns, filter=c.JobFilter(ids=["1"])) == []
                assert await names(0, *columns) == ["a", "b", "c"]
                assert await names(OTHER, *columns, hide_hidden=True) == ["b"]
                assert await names(0, *columns, hide_hidden=True) == ["a", "b", "c"]
            assert len((await site.call_as(0, "ListNodes", c.ListNodesRequest())).nodes) == 1
            assert not (await site.call_as(USER, "ListNodes", c.ListNodesRequest())).nodes
            assert not (await site.call_as(USER, "ListPartitions", c.ListPartitionsRequest())).partitions

    run(story)


def test_what_else_is_private(tmp_path):
    site = Site(
        tmp_path, extra="PrivateData=jobs,reservations,accounts,users,usage\nPriorityType=priority/multifactor\n"
    )

    async def story():
        async with site.controller():
            mine = (await site.call_as(USER, "SubmitJob", submission(account="a", hold=True))).job_id
            await site.call_as(OTHER, "SubmitJob", submission(account="b", hold=True))

            async def records(uid, **options):
                pages = await site.call_as(uid, "ListRecords", accounting_pb2.ListRecordsRequest(**options))
                return [record.job_id for page in pages for record in page.records]

            assert (await records(USER), await records(OTHER), await records(0)) == ([1], [2], [1, 2])
            assert await records(OTHER, users=[str(USER)]) == []

            async def is_told(uid, method, request):
                try:
                    await site.call_as(uid, method, request)
                except grpc.aio.AioRpcError as error:
                    return error.code()
                return None

            unknown = grpc.StatusCode.NOT_FOUND
            for method, request in (
                ("Story", c.StoryRequest(job_id=mine)), ("WhyJob", explain_pb2.WhyJobRequest(id=str(mine))),
            ):  # fmt: skip
                assert [await is_told(uid, method, request) for uid in (USER, OTHER, 0)] == [None, unknown, None], (
                    method
                )
            for name, user in (("for-all", "root"), ("mine", str(USER))):
                wish = {"starttime": "now+1hour", "duration": "60", "nodes": "n1", "users": user, "flags": "OVERLAP"}
                await site.call_as(0, "CreateReservation", c.CreateReservationRequest(name=name, changes=wish))

            async def reservations(uid):
                reply = await site.call_as(uid, "ListReservations", c.ListReservationsRequest())
                return [one.name for one in reply.reservations]

            assert (await reservations(USER), await reservations(0)) == (["mine"], ["for-all", "mine"])

            async def accounts(uid):
                pages = await site.call_as(uid, "ListAssociations", shares_pb2.ListAssociationsRequest())
                return sorted({(a.account, a.user) for page in pages for a in page.associations})

            assert {("a", str(USER)), ("b", str(OTHER))} <= set(await accounts(0))
            assert await accounts(USER) == [("a", ""), ("a", str(USER)), ("root", "")]
            steps = steps_pb2.ListStepsRequest(users=[str(USER)])
            assert not (await site.call_as(OTHER, "ListSteps", steps)).steps

    run(story)


def test_a_hidden_partition_is_left_out_of_a_listing(tmp_path):
    site = Site(tmp_path)
    with open(site.conf, "a") as conf:
        conf.write("PartitionName=secret Nodes=n1 Hidden=YES State=UP\n")
        conf.write("PartitionName=staff Nodes=n1 AllowGroups=no-such-group-here State=UP\n")

    async def story():
        async with site.controller():

            async def names(uid, hide):
                request = c.ListPartitionsRequest(hide_hidden=hide)
                return [p.name for p in (await site.call_as(uid, "ListPartitions", request)).partitions]

            assert await names(USER, True) == ["debug"]
            assert await names(USER, False) == await names(0, True) == ["debug", "secret", "staff"]

    run(story)


# ---- the snapshot's indexes ----------------------------------------------------------------------------------------


def row(job_id: int, **fields) -> JobRow:
    base: dict[str, Any] = dict.fromkeys(JobRow._fields, 0) | {
        "job_id": job_id, "array_task_id": None, "array_tasks": None, "request": JobRequest(partitions=("a", "b")),
        "user_id": 1, "partition": "a", "state": JobState.PENDING, "reason": Reason.NONE, "hold": Hold.NO, "alloc": (),
        "suspended_by": Suspend.NO,
    }  # fmt: skip
    return JobRow(**(base | fields))


def test_columns_of_rows_that_are_hard_to_make():
    some = {
        "request_id": 1,
        "user_name": "ann",
        "group_name": "users",
        "spec_hash": b"",
        "dependency": "",
        "tres_req": "",
    }
    some |= {
        name: ""
        for name in ("reason_detail", "batch_node", "admin_comment", "tres_alloc", "submit_key", "licenses_alloc")
    }
    base = JobRequest(partitions=("a", "b"))
    rows = [
        row(1, hold=Hold.SPECIAL_EXIT, priority=5, **some),
        row(2, request=msgspec.structs.replace(base, cron="0 * * * *", begin_at_us=5), eligible_at_us=9, **some),
        row(3, request=msgspec.structs.replace(base, reservation="r,s", reservation_run="s"), **some),
        row(4, state=JobState.RUNNING, request=msgspec.structs.replace(base, reservation_run="s"), **some),
        row(6, state=JobState.RUNNING, stopped=1, **some),
        row(7, state=JobState.COMPLETING, end_state=JobState.CANCELLED, stopped=1, **some),
        row(5, request=msgspec.structs.replace(base, het_job_id=4, het_offset=1, het_size=3, core_spec=0), **some),
    ]
    names = sorted(NAMES)
    state = SimpleNamespace(priorities=None, jobs={}, nodes={}, layout=ClusterLayout())
    page = jobcolumns.page(rows, names, cast(Any, state), None)
    found = JobTable(names)
    found.take(c.ListJobsReply.FromString(page), names)
    for name in names:
        assert found.columns[name] == [reader(name)(job_info(one, False)) for one in rows], name


def batch(jobs=(), purged=()) -> Any:
    """As much of a batch as a snapshot reads."""
    return SimpleNamespace(steps=(), jobs=jobs, purged=purged)


def test_indexes_follow_the_rows():
    snapshot = Snapshot()
    snapshot.apply(batch([row(1), row(2, user_id=2)]))

    def ids(name, *keys):
        index = snapshot.index(name)
        found = sorted(r.job_id for r in index.rows(keys))
        assert all(snapshot.jobs[r.job_id] is r for r in index.rows(keys))
        assert index.count(keys) >= len(found)
        return found

    assert (ids("uids", 1), ids("uids", 1, 2, 3), ids("uids", 3)) == ([1], [1, 2], [])
    assert (ids("partitions", "b"), ids("partitions", "a", "b")) == ([1, 2], [1, 2])
    assert ids("states", JobState.RUNNING) == []
    snapshot.apply(batch([row(1, state=JobState.RUNNING), row(3, request=JobRequest(partitions=("b", "b")))]))
    assert (ids("partitions", "b"), ids("partitions", "a")) == ([2, 3], [1, 2])
    assert (ids("states", 0), ids("states", JobState.RUNNING)) == ([2, 3], [1])
    snapshot.apply(batch([], [1, 3, 99]))
    assert (ids("states", 0, JobState.RUNNING), ids("uids", 1), ids("partitions", "a", "b")) == ([2], [], [2])


def test_states_that_most_rows_have_need_no_index(monkeypatch):
    """It would take as much memory as the table of rows; reading all takes as long."""
    asked, index = [], Snapshot.index
    monkeypatch.setattr(Snapshot, "index", lambda self, name: asked.append(name) or index(self, name))
    ended = [row(number, state=JobState.COMPLETED) for number in (1, 2)]
    snapshot = Snapshot([*ended, row(3), row(4, state=JobState.RUNNING)])

    def ids(**which):
        return sorted(one.job_id for one in candidates(snapshot, JobFilter(**which), all_states=False))

    every = [1, 2, 3, 4]
    assert (ids(), ids(states=(JobState.PENDING, JobState.RUNNING)), asked) == (every, every, [])
    snapshot.apply(batch([row(5, state=JobState.COMPLETED)]))
    assert (ids(), ids(states=(JobState.RUNNING, 99)), asked) == ([3, 4], [4], ["states"] * 2)
    snapshot.apply(batch([row(4, state=JobState.COMPLETED)], [1, 2, 5]))
    assert ids() == [3, 4]


def test_the_long_form_is_the_short_one_and_a_bit_more():
    """As bytes that stand side by side: protobuf merges the two requests."""
    request = JobRequest(partitions=("a",), ntasks=3, submit_line="sbatch x.sh", rlimits=(("NOFILE", 7),))
    pending = row(1, request=request)
    both = job_info(pending, False).SerializeToString() + details(pending, {}).SerializeToString()
    found = c.JobInfo.FromString(both)
    assert (found.request.ntasks, found.request.submit_line, dict(found.request.rlimits)) == (
        3,
        "sbatch x.sh",
        {"NOFILE": 7},
    )
    assert found == job_info(pending, True)


_WAITING = st.fixed_dictionaries(
    {
        "job_id": st.integers(1, 9),
        "array_job_id": st.integers(0, 2),
        "array_task_id": st.sampled_from([None, 0, 5]),
        "submit_at_us": st.integers(0, 2),
        "eligible_at_us": st.integers(0, 2),
        "priority": st.integers(0, 2),
        "hold": st.sampled_from([Hold.NO, Hold.USER]),
        "reason": st.sampled_from([Reason.NONE, Reason.PRIORITY]),
        "user_name": st.sampled_from(["ann", "bob"]),
        "time_limit_s": st.sampled_from([-1, 60]),
        "attempt": st.sampled_from([0, 0, 0, 1]),
    }
)
_ASKED = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["", "a", "b%"]),
        "work_dir": st.sampled_from([b"/", b"/w", b"/\xff"]),
        "std_out": st.sampled_from([b"", b"slurm-%j.out", b"/x/%x-%A_%a-%u.out", b"%N", b"o\\\\%j"]),
        "std_err": st.sampled_from([b"", b"/dev/null"]),
        "command": st.sampled_from(["", "(null)", "/bin/x"]),
        "submit_line": st.sampled_from(["", "sbatch x"]),
        "rlimits": st.sampled_from([(), (("NOFILE", 7),)]),
        "ntasks": st.sampled_from([1, 3]),
        "cron": st.sampled_from(["", "", "0 * * * *"]),
        "het_job_id": st.sampled_from([0, 0, 4]),
    }
)


@given(st.lists(st.tuples(_WAITING, _ASKED), min_size=2, max_size=6))
def test_jobs_that_are_alike_are_encoded_as_each_alone(jobs):
    usual = dict.fromkeys(("group_name", "submit_key", "tres_req", "reason_detail"), "") | JobRow._field_defaults
    alike = AlikeJobs()
    for fields, asked in jobs:
        request = compact_request(JobRequest(partitions=("a",), **asked))
        one = compact(row(**(usual | {"spec_hash": b"", "request": request} | fields)))
        assert c.JobInfo.FromString(alike.encoded(one)) == job_info(one, False)
        assert c.JobInfo.FromString(alike.encoded(one) + encoded_details(one, {})) == job_info(one, True)


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"ntasks": 20}, 3),
        ({"ntasks": 3, "cpus_per_task": 4}, 2),
        ({"ntasks": 8, "nodes_min": 4}, 4),
        ({"ntasks": 20, "nodes_min": 1, "nodes_max": 2, "nodes_asked": True}, 2),
        ({"ntasks": 1}, 1),
    ],
)
def test_nodes_of_a_pending_job_are_estimated(fields, nodes):
    """As many as its CPUs fill of the largest node; the JobInfo and the column agree."""
    pending = row(1, request=msgspec.structs.replace(JobRequest(partitions=("a",)), **fields))
    assert nodes_estimated(pending, 8) == nodes
    found = c.JobInfo.FromString(job_info(pending, False).SerializeToString() + estimate(pending, 8))
    assert found.nodes == nodes
    assert nodes_estimated(pending, 0) == fields.get("nodes_min", 1)
    ended = row(1, state=JobState.CANCELLED, request=pending.request)
    assert (nodes_estimated(ended, 8), estimate(ended, 8)) == (fields.get("nodes_min", 1), b"")
