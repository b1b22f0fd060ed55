"""A change that concerns many waiting jobs decides about them in slices: nothing starts by what was true before, and the
queue is the same in the end."""

# Any: fields of submissions by name
from typing import Any

import numpy as np
import pytest

from ctld.core.lifecycle import recheck
from ctld.core.passes import queue_recovery
from ctld.core.queue.planning import PlannedStart
from ctld.core.records.events import (
    CreateReservation,
    DeleteReservation,
    Event,
    JobSubmission,
    PlanReady,
    ReservationSettings,
    Tick,
    UpdatePartition,
)
from ctld.core.state.pending import PendingColumns, Shape, Terms
from penstock.values.config import Config
from penstock.values.reservations import ResvFlag
from penstock.values.states import JobState, Reason
from tests.core.limitscript import set_limits
from tests.core.test_queue_recovery import SITES, VARIED, line, order, site
from tests.core.world import US, World

ROOT = World.actor("root")
FULL: dict[str, Any] = {"nodes_min": 2, "nodes_max": 2, "exclusive": True, "time_limit_s": 1800}
HOUR = 3600 * US


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "AT_ONCE", 3)
    monkeypatch.setattr(queue_recovery, "SLICE", 2)


def waiting(config: Config, jobs: list[dict[str, Any]]) -> World:
    """A cluster whose nodes a job has, with these jobs waiting for them."""
    world = World(config)
    for name in ("n1", "n2"):
        world.register(name)
    for job in [FULL, *jobs]:
        found = world.submit(JobSubmission(**{"work_dir": b"/", "name": "true", **job}))
        assert found, job
    return world


def all_slices(world: World) -> int:
    """Goes on as the loop does until the whole queue stands; how often."""
    number, state = 0, world.core.state
    while state.pending.outside:
        due_us = world.core.next_deadline()
        assert due_us is not None and due_us <= world.now_us, "nobody would ask for the next slice"
        world.do(Tick())
        number += 1
    return number


def rows(world: World) -> dict[int, list[object]]:
    """As `line`; the time since when a row is ready, the last column, is left out where it is not."""
    found = line(world.core)
    for entry in found.values():
        columns, ready = entry[3:]
        assert isinstance(columns, list) and isinstance(ready, list)
        entry[3] = [row if is_ready else row[:-1] for row, is_ready in zip(columns, ready, strict=True)]
    return found


def partition(to: str, name: str = "main") -> Event:
    return UpdatePartition(ROOT, name, {"state": to})


def magnetic(world: World) -> Event:
    wanted = ReservationSettings(
        start_at_us=world.now_us + HOUR, duration_s=3600, nodes=(("", "n2"),), users=(("", "ann", 1001),),
        flags_on=int(ResvFlag.MAGNETIC),
    )  # fmt: skip
    return CreateReservation(ROOT, "r", wanted)


CHANGES = {
    "partition": lambda world: [partition("DOWN"), partition("UP", "short")],
    "partition and back": lambda world: [partition("INACTIVE"), partition("UP")],
    "reservation": lambda world: [magnetic(world)],
    "reservation and back": lambda world: [magnetic(world), DeleteReservation(ROOT, "r")],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [*SITES, "limits"])
def test_the_queue_is_that_of_a_change_at_once(name: str, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed() -> World:
        world = waiting(site(**{**SITES, "limits": {"enforce": ("limits",)}}[name]), VARIED)
        for event in CHANGES[change](world):
            world.core.step(world.now_us, event)
            world.core.check()
            world.settle()
            slices.append(all_slices(world))
        return world

    slices: list[int] = []
    gradually = changed()
    assert any(slices)
    monkeypatch.setattr(recheck, "AT_ONCE", 1000)
    at_once = changed()
    assert rows(gradually) == rows(at_once)
    assert order(gradually.core) == order(at_once.core)


LIMITS: dict[str, dict[str, str]] = {
    "room for two": {"grptres": "cpu=6"},
    "no room": {"grpjobs": "1"},
    "two that age": {"maxjobsaccruepu": "2", "maxjobspu": "4"},
    "nodes": {"grptres": "node=1"},
}


def limited(keys: dict[str, str]) -> World:
    """Jobs of a QOS whose limits are changed, with others under an account's limit."""
    config = site(enforce=("associations", "limits"), priority_type="priority/multifactor", priority_weight_age=1000)
    world = World(config)
    for account in ("a", "b"):
        set_limits(world, {"account": account}, {"grpjobs": "3"} if account == "b" else {})
        set_limits(world, {"account": account, "user": "ann"}, {"maxjobs": "100"})
    set_limits(world, {"qos": "normal"}, {"maxjobspu": "50"})
    world.do(Tick())
    for name in ("n1", "n2"):
        world.register(name)
    for number, job in enumerate([FULL, *VARIED]):
        world.submit(JobSubmission(**{"work_dir": b"/", "name": "true", "account": "ab"[number % 3 == 1], **job}))
    set_limits(world, {"qos": "normal"}, keys)
    world.do(Tick())
    return world


def waits(world: World) -> dict[int, list[object]]:
    """In which queues of limits the jobs wait, and who ages."""
    ledger = world.core.state.limits.ledger
    assert ledger is not None
    found: dict[int, list[object]] = {0: [sorted(ledger.accruing), sorted(ledger.aging)]}
    for job_id, entries in ledger.waiting.items():
        found[job_id] = [entry.need for entry in entries]
    return found


@pytest.mark.parametrize("name", LIMITS)
def test_the_queue_under_changed_limits_is_that_of_a_change_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gradually = limited(LIMITS[name])
    assert all_slices(gradually)
    monkeypatch.setattr(recheck, "AT_ONCE", 1000)
    at_once = limited(LIMITS[name])
    assert not at_once.core.state.pending.outside
    assert rows(gradually) == rows(at_once) and order(gradually.core) == order(at_once.core)
    assert waits(gradually) == waits(at_once)


@pytest.mark.parametrize("name", LIMITS)
def test_the_queue_under_limits_is_that_of_a_start_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "AT_ONCE", 1000)
    world = limited(LIMITS[name])
    monkeypatch.setattr(queue_recovery, "AT_ONCE", 3)
    world.restart()
    assert world.core.state.pending.outside
    all_slices(world)
    gradually = rows(world), order(world.core), waits(world)
    monkeypatch.setattr(queue_recovery, "AT_ONCE", 1000)
    world.restart()
    world.settle()
    assert (rows(world), order(world.core), waits(world)) == gradually


def test_no_job_starts_in_a_partition_that_was_closed() -> None:
    world = waiting(site(), [{} for _ in range(12)])
    state = world.core.state
    world.core.step(world.now_us, partition("DOWN"))
    world.exited(1)
    all_slices(world)
    waits = [job for job in state.jobs.values() if job.job_id > 1]
    assert {job.state for job in waits} == {JobState.PENDING}
    assert {job.reason for job in waits} == {Reason.PARTITION_DOWN}


def test_an_answer_to_a_full_pass_does_not_start_jobs_while_others_are_not_back() -> None:
    world = waiting(site(), [{"nice": 100 * (12 - number), "cpus_per_task": 4} for number in range(12)])
    state = world.core.state
    world.do(partition("DOWN"))
    all_slices(world)
    world.exited(1)
    world.core.step(world.now_us, partition("UP"))
    world.core.schedule()
    assert state.pending.is_ready(2) and state.pending.outside
    world.do(PlanReady(state.scheduling.revision, (PlannedStart(2, 0, 600, ((0, 4, 1, 400),)),), ()))
    all_slices(world)
    began = [job.job_id for job in state.jobs.values() if job.state is JobState.RUNNING]
    assert began == [12, 13], "those of the highest priority"


def test_an_event_and_a_slice_decide_about_so_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition with 100,000 waiting jobs stopped the controller for seconds when it was closed."""
    world = waiting(site(), [{} for _ in range(40)])
    core = world.core
    core.step(world.now_us, partition("DOWN"))
    batch = core.seal()
    assert batch is not None and len(batch.jobs) == 2
    sizes = []
    while core.state.pending.outside:
        core.step(world.now_us, Tick())
        batch = core.seal()
        sizes.append(len(batch.jobs) if batch is not None else 0)
    assert max(sizes) == 2 and sum(sizes) == 38


def test_rows_of_many_jobs_are_removed_as_one_by_one() -> None:
    def columns() -> PendingColumns:
        made = PendingColumns(1)
        for job_id in range(1, 30):
            ways = [(0, Shape(**shape)), (1, Shape(**shape))][: 1 + job_id % 2]
            made.add(job_id, ways, terms)
            if job_id % 3:
                made.set_ready(job_id, [job_id % 5] * len(ways), 1)
        return made

    shape: dict[str, Any] = {name: 0 for name in Shape._fields} | {"gres": (0,), "licenses": ()}
    terms = Terms(*[0] * len(Terms._fields))
    many, single = columns(), columns()
    gone = [2, 3, 7, 8, 20, 29, 50]
    many.remove_many(gone)
    for job_id in gone:
        single.remove(job_id)
    assert many.ready == single.ready and np.array_equal(many.table.job, single.table.job)
    assert np.array_equal(many.first(100), single.first(100))
    for made in (many, single):
        made.add(60, [(0, Shape(**shape))], terms)
        made.set_ready(60, [9], 1)
        assert made.table.job[made.first(1)] == [60] and made.rank_of(60) == 9
