"""Reading by the ids of an array's tasks: each id looks at its own row, ids that are repeated cost nothing, and others are
served in between."""

import asyncio
from typing import Any

import pytest

from ctld.core.records.effects import Batch
from ctld.core.records.job import JobRow
from ctld.core.records.request import JobRequest
from ctld.rpc.control import controller
from ctld.rpc.control import parts as parts_module
from ctld.rpc.control.parts import PART_IDS, looks_for, partition, parts
from ctld.rpc.gate.scans import Scans
from ctld.rpc.gate.services import Services
from ctld.rpc.jobs import listing
from ctld.rpc.jobs.listing import NamedRows, has_some, named_rows
from ctld.runtime.errors import BadRequest
from ctld.runtime.snapshot import Snapshot
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2, steps_pb2
from penstock.values.jobid import format_sluid
from penstock.values.refusals import TEXT, Code
from penstock.values.states import Hold, JobState, Reason
from penstock.values.taskset import TaskSet
from tests.rpc.clusterkit import AutoNode, Site, submit, wait_for

TASKS = 300
HOLD, RELEASE, TOP = (getattr(controller_pb2.ControlJobsRequest, name) for name in ("HOLD", "RELEASE", "TOP"))
FIRST = 1_000


def row(job_id: int, task_id: int | None = None, tasks: str = "") -> JobRow:
    fields: dict[str, Any] = dict.fromkeys(JobRow._fields, 0) | {
        "job_id": job_id, "array_job_id": 1, "array_task_id": task_id, "request": JobRequest(name="j"),
        "array_tasks": TaskSet.parse(tasks) if tasks else None, "state": JobState.PENDING,
        "reason": Reason.NONE, "hold": Hold.NO, "alloc": (), "end_state": None,
    }  # fmt: skip
    return JobRow(**fields)


def batch(*jobs: JobRow, purged: tuple[int, ...] = ()) -> Batch:
    return Batch(1, list(jobs), [], [], [], [], [], [], 1, 1, [], list(purged))


def make_snapshot() -> Snapshot:
    """An array of which the first tasks are rows of their own."""
    snapshot = Snapshot()
    snapshot.apply(batch(row(1, tasks=f"0-{10 * TASKS}")))
    split = [row(FIRST + i, i) for i in range(TASKS)]
    snapshot.apply(batch(row(1, tasks=f"{TASKS + 20}-{10 * TASKS}"), *split, row(5_000, tasks=f"{TASKS}-{TASKS + 19}")))
    return snapshot


def named(snapshot: Snapshot, *ids: str) -> list[int]:
    return [found.job_id for found in asyncio.run(named_rows(snapshot, ids, Scans().pace(0)))]


def test_a_sluid_selects_one_row_of_its_time() -> None:
    snapshot = make_snapshot()
    snapshot.apply(batch(row(9_000)._replace(submit_at_us=5_700_000)))
    assert named(snapshot, format_sluid(5_000_000, 9_000)) == [9_000]
    assert named(snapshot, format_sluid(6_000_000, 9_000), format_sluid(0, 8_999)) == []
    assert named(snapshot, format_sluid(0, 1), format_sluid(0, FIRST)) == [1, FIRST]  # not the whole array


@pytest.mark.parametrize("is_union", [True, False])
def test_the_id_of_an_array_selects_all_its_rows(is_union: bool) -> None:
    snapshot = make_snapshot()
    found = asyncio.run(NamedRows(snapshot, is_union, Scans().pace(0)).of("1"))
    assert [one.job_id for one in found] == [1, *range(FIRST, FIRST + TASKS), 5_000]


def test_each_id_looks_at_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(listing, "has_some", lambda job, wanted: (looks.append(job.job_id), has_some(job, wanted))[1])
    snapshot = make_snapshot()
    ids = [f"1_{number}" for number in range(TASKS)]
    assert named(snapshot, *ids, *ids, *reversed(ids)) == [FIRST + number for number in range(TASKS)]
    assert looks == [FIRST + number for number in range(TASKS)]
    looks.clear()
    assert named(snapshot, f"1_{TASKS}", f"1_{TASKS + 1}", f"1_{TASKS + 20}", "1_99999", "2_1", "7") == [5_000, 1]
    assert set(looks) <= {1, 5_000}, "only rows of several tasks are gone through"


def test_ranges_and_whole_arrays_come_in_the_order_of_job_ids() -> None:
    snapshot = make_snapshot()
    assert named(snapshot, f"1_[{TASKS - 2}-{TASKS + 30}]") == [1, FIRST + TASKS - 2, FIRST + TASKS - 1, 5_000]
    assert named(snapshot, "1_3", "1_[2-4]") == [FIRST + 3, FIRST + 2, FIRST + 4]
    everything = [1, *range(FIRST, FIRST + TASKS), 5_000]
    assert named(snapshot, "1", "1_3", "1") == everything
    assert named(snapshot, f"1_[0-{10 * TASKS}]") == everything


def test_the_index_follows_the_rows() -> None:
    snapshot = make_snapshot()
    snapshot.apply(batch(row(5_000, TASKS), purged=(FIRST, FIRST + 1)))
    assert named(snapshot, "1_0", "1_1", "1_2", f"1_{TASKS}", f"1_{TASKS + 1}") == [FIRST + 2, 5_000]
    snapshot.apply(batch(purged=(1, 5_000, *range(FIRST, FIRST + TASKS))))
    assert named(snapshot, "1", "1_2") == [] and not snapshot.arrays


def test_one_array_under_many_names_is_too_much() -> None:
    """Each of these names all rows."""
    ids = [f"1_[0-{TASKS},{TASKS + 1 + number}]" for number in range(50_000)]
    with pytest.raises(BadRequest, match="names more than"):
        named(make_snapshot(), *ids)


def test_parts_of_a_request() -> None:
    snapshot = make_snapshot()
    ids = [f"1_{number}" for number in range(2 * PART_IDS + 1)]
    plain = list(parts(ids, lambda text: looks_for(snapshot, text)))
    assert [len(part) for part in plain] == [PART_IDS, PART_IDS, 1]
    assert [text for part in plain for text in part] == ids
    assert list(parts([])) == [()]
    assert looks_for(snapshot, "1") > parts_module.PART_LOOKS, "an array again and again: each an event of its own"
    assert [len(part) for part in parts(["1"] * 3, lambda text: looks_for(snapshot, text))] == [1, 1, 1]
    assert [looks_for(snapshot, text) for text in ("7", "x", "9" * 5_000, "1+0")] == [0, 0, 0, 0]


def test_an_array_of_many_records_is_partitioned() -> None:
    """Each task is in one set; those without records of their own come first."""
    snapshot = make_snapshot()
    sets = partition(snapshot, "1", 100)
    assert [len(some) for some in sets[1:]] == [100] * (TASKS // 100)
    assert sets[0] == TaskSet.parse(f"{TASKS}-{10 * TASKS}")
    assert sorted(task for some in sets for task in some) == list(range(10 * TASKS + 1))
    chosen = partition(snapshot, f"1_[7-{TASKS + 5}]", 100)
    assert sorted(task for some in chosen for task in some) == list(range(7, TASKS + 6)) and len(chosen) == 4
    odd = TaskSet.of([3 * n * n + 3_010 for n in range(20)])
    snapshot.apply(batch(row(6_000, tasks=odd.format())))
    assert partition(snapshot, "1", 100)[0] == odd, "sets of many ranges are not joined"
    for few in ("7", "1.5", "1_[0-99].0", "1_3", "1_[1,2]", "1+0", "1_[x]", "x", "1_[1-2"):
        assert partition(snapshot, few, 100) == [], few
    assert partition(snapshot, "1_[1-x]", 100) == [], "the core says why"


CHANGES: dict[str, Any] = {
    "CancelJobs": lambda text: controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(ids=[text])),
    "ControlJobs": lambda text: controller_pb2.ControlJobsRequest(ids=[text], action=HOLD),
    "top": lambda text: controller_pb2.ControlJobsRequest(ids=[text], action=TOP),
    "UpdateJobs": lambda text: controller_pb2.UpdateJobsRequest(ids=[text], changes={"timelimit": "+5"}),
    "by name": lambda text: controller_pb2.UpdateJobsRequest(job_name="j", changes={"timelimit": "+5"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_09_a_request_about_one_array_is_several_events(
    what: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event changes more records than a part has, each task is changed once, and the answer is one for each id."""
    monkeypatch.setattr(controller, "PART_RECORDS", 4)
    monkeypatch.setattr(parts_module, "PART_LOOKS", 4 * parts_module.CHANGE_LOOKS)

    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as running, site.client() as client:
            array = await submit(client, array="0-29", time_limit_s=600, name="j")
            for task in range(20):  # held one by one: records of their own
                for action in (HOLD, RELEASE):
                    one = controller_pb2.ControlJobsRequest(ids=[f"{array}_{task}"], action=action)
                    await client.call("ControlJobs", one)
            jobs = running.runtime.core.state.jobs
            assert len(jobs) == 21
            changed: list[int] = []
            plain_ask = Services.ask

            async def counted(services: Services, event: Any, *more: Any) -> Any:
                before = {job_id: (job.state, job.hold, job.request) for job_id, job in jobs.items()}
                answer = await plain_ask(services, event, *more)
                changed.append(sum((job.state, job.hold, job.request) != before[i] for i, job in jobs.items()))
                return answer

            monkeypatch.setattr(Services, "ask", counted)
            method = {"top": "ControlJobs", "by name": "UpdateJobs"}.get(what, what)
            reply = await client.call(method, CHANGES[what](str(array)))
            monkeypatch.undo()
            if what == "by name":
                assert len(reply.results) == 21 and not any(one.code for one in reply.results)
            else:
                assert [(one.id, one.code) for one in reply.results] == [(str(array), 0)]
            if what == "top":
                assert len(changed) == 6  # those of a part, and others that pay for them
                assert sum(job.request.nice for job in jobs.values()) == 0
                return
            assert max(changed) <= 4 and sum(changed) == 21
            if method == "UpdateJobs":
                assert {job.request.time_limit_s for job in jobs.values()} == {900}

    asyncio.run(story())


@pytest.mark.parametrize("method", ["ControlJobs", "UpdateJobs", "CancelJobs"])
def test_tasks_of_other_events_are_not_unknown_ones(
    method: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range of tasks that is several events: each knows only its own, and the answer is one."""
    monkeypatch.setattr(controller, "PART_RECORDS", 4)
    monkeypatch.setattr(parts_module, "PART_LOOKS", 4 * parts_module.CHANGE_LOOKS)

    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller(), site.client() as client:
            array = await submit(client, array="0-29", time_limit_s=600)
            for task in range(20):  # held one by one: records of their own
                for action in (HOLD, RELEASE):
                    one = controller_pb2.ControlJobsRequest(ids=[f"{array}_{task}"], action=action)
                    await client.call("ControlJobs", one)
            text = f"{array}_[0-25]"
            reply = await client.call(method, CHANGES[method](text))
            assert [(one.id, one.code) for one in reply.results] == [(text, 0)]

    asyncio.run(story())


@pytest.mark.parametrize("rows", [0, 3 * parts_module.PART_RECORDS])
def test_09_a_name_of_jobs_of_others_is_an_unknown_one(
    rows: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they are so many that the request is several events."""

    async def of_others(*_: object) -> list[JobRow]:
        return [row(900 + number) for number in range(rows)]

    monkeypatch.setattr(controller, "select_rows", of_others)

    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller(), site.client() as client:
            with pytest.raises(PenstockError) as caught:
                await client.call("UpdateJobs", CHANGES["by name"](""))
            assert (caught.value.code, caught.value.text) == (Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])

    asyncio.run(story())


def test_steps_by_ids_are_listed_once(tmp_path: Any) -> None:
    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller(), site.client() as client:
            node = AutoNode(site)
            node.code = None
            serving = asyncio.create_task(node.run())
            job_id = await submit(client, mem_per_node_mb=20)
            await wait_for(client, job_id, "RUNNING")
            for ids in ([f"{job_id}"] * 3, [f"{job_id}.batch"], [f"{job_id}.7", f"{job_id}.batch", f"{job_id}"]):
                reply = await client.call("ListSteps", steps_pb2.ListStepsRequest(ids=ids))
                assert [(step.job_id, step.step_id) for step in reply.steps] == [(job_id, -5)]
            assert not (await client.call("ListSteps", steps_pb2.ListStepsRequest(ids=[f"{job_id}.7"]))).steps
            cancel = controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(ids=[str(job_id)]))
            await client.call("CancelJobs", cancel)
            serving.cancel()

    asyncio.run(story())
