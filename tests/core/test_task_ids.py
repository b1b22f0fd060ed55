"""What ids of an array's tasks cost, counted in records that are looked at: each id its own, however many have been split
off."""

from typing import Any

import pytest

from ctld.core.jobs import select
from ctld.core.records.effects import Reply, Results
from ctld.core.records.events import (
    CancelJobs,
    ControlAction,
    ControlJobs,
    JobFilter,
    JobSubmission,
    SubmitJob,
    UpdateJobs,
)
from penstock.values import taskset
from penstock.values.taskset import TaskSet
from tests.core.world import SPEC, World, make_config

TASKS = 400


class Counted:
    """A function that counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        self.calls = 0
        self._call = getattr(module, name)
        monkeypatch.setattr(module, name, self)

    # Any: whatever the function takes and returns
    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self._call(*args)


def make_world() -> World:
    """An array with the job id 1, whose tasks all wait."""
    world = World(make_config())
    job = JobSubmission(name="array", work_dir=b"/tmp", time_limit_s=600, array=f"0-{TASKS - 1}", hold=True)
    world.do(SubmitJob(world.actor("ann"), "0" * 32, world.now_us, job, SPEC, reply_to=1))
    return world


def ask(world: World, event: ControlJobs | CancelJobs | UpdateJobs) -> list[tuple[str, int]]:
    """The id and the code of each result. The core checks itself once, by `World.do` afterwards."""
    world.core.step(world.now_us, event)
    batch = world.core.seal()
    assert batch is not None
    (body,) = [effect.body for effect in batch.effects if isinstance(effect, Reply)]
    assert isinstance(body, Results)
    return [(result.id, result.code) for result in body.results]


def test_each_id_looks_at_its_own_record(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    ann = world.actor("ann")
    ids = tuple(f"1_{number * 7 % TASKS}" for number in range(TASKS))
    looks = Counted(monkeypatch, select, "_part")
    differences = Counted(monkeypatch, taskset, "_difference")
    events: list[ControlJobs | CancelJobs | UpdateJobs] = [
        ControlJobs(ann, ids, ControlAction.HOLD, 2),
        ControlJobs(ann, ids[::-1], ControlAction.RELEASE, 3),
        UpdateJobs(ann, ids, {"comment": "x"}, {}, 4),
        CancelJobs(ann, JobFilter(ids=ids), 0, False, False, 5),
    ]
    for event in events:
        before = looks.calls
        named = event.which.ids if isinstance(event, CancelJobs) else event.ids
        assert ask(world, event) == [(text, 0) for text in named]
        assert looks.calls - before == TASKS
    assert differences.calls <= 1, "the tasks are taken off their record together"
    world.core.check()
    assert len(world.core.state.jobs) == TASKS


def test_an_id_again_has_its_own_result() -> None:
    world = make_world()
    event = ControlJobs(world.actor("ann"), ("1_5", "1_5", f"1_{TASKS}", "1_[3,5]", "1_5"), ControlAction.HOLD, 2)
    assert [(text, code != 0) for text, code in ask(world, event)] == [
        ("1_5", False), ("1_5", False), (f"1_{TASKS}", True), ("1_[3,5]", False), ("1_5", False),
    ]  # fmt: skip
    world.core.check()
    shown = [
        job.array_tasks.format() if job.array_tasks else job.array_task_id for job in world.core.state.jobs.values()
    ]
    assert shown == [f"0-2,4,6-{TASKS - 1}", 5, 3]


def test_a_range_selects_single_tasks_and_parts_in_the_order_of_their_jobs() -> None:
    world = make_world()
    ann = world.actor("ann")
    ask(world, ControlJobs(ann, ("1_8", "1_[4-6]", "1_2"), ControlAction.HOLD, 2))
    for text in ("1_[0-9]", f"1_[0-{TASKS - 1}]", "1_[2,8]", "1_[2,5,8]"):
        wanted = TaskSet.parse(text.strip("1_[]"))
        found = select.targets_of(world.core.state, text)
        assert [target.job.job_id for target in found] == sorted(target.job.job_id for target in found)
        tasks = [target.tasks or target.job.array_tasks or [target.job.array_task_id] for target in found]
        assert sorted(task for some in tasks for task in some) == list(wanted)
