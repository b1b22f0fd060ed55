"""Item 9: scontrol top, by the size of its request and of the queue: order, totals, and the work that it takes."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.queue import priority
from ctld.core.records.events import ControlAction, ControlJobs, JobSubmission
from ctld.core.records.job import Job
from ctld.core.requests import top
from ctld.core.requests.submit import NICE_MAX
from penstock.values.states import JobState
from tests.core.world import World, make_config

FIRST = 2  # the first waiting job


def full_world(priority_type: str = "priority/basic") -> World:
    """One node, which is full."""
    world = World(make_config(nodes=1, priority_type=priority_type, priority_weight_job_size=100_000))
    world.register("n1")
    world.submit(JobSubmission(name="all", work_dir=b"/tmp", exclusive=True))
    return world


def submit(world: World, nice: int = 0, user: str = "ann", tasks: str = "") -> None:
    world.submit(JobSubmission(name="w", work_dir=b"/tmp", nice=nice, array=tasks), user)


def move(world: World, *ids: str) -> None:
    event = ControlJobs(world.actor("opa"), ids, ControlAction.TOP, world.reply_to())
    answers = world.do(event)
    assert not any(word in " ".join(answers) for word in ("disabled", "Invalid", "denied")), answers


def pending(world: World, user: str = "ann") -> list[Job]:
    uid = world.actor(user).uid
    return [job for job in world.core.state.jobs.values() if job.state is JobState.PENDING and job.user_id == uid]


def order(world: World) -> list[int]:
    """The ids of ann's waiting jobs, as they are served."""
    state = world.core.state
    return [job.job_id for job in sorted(pending(world), key=lambda job: (-priority.current(state, job), job.job_id))]


@given(
    niceness=st.lists(st.integers(0, 50), min_size=1, max_size=8),
    requests=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True), min_size=1, max_size=4),
    most=st.sampled_from([2, 3, 500]),
)
def test_09_named_jobs_come_first_and_the_others_keep_their_order(
    niceness: Sequence[int], requests: Sequence[Sequence[int]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top, "PAYERS_MAX", most)
        patch.setattr(top, "LOOKS_A_SLICE", 2)
        patch.setattr(top, "CHANGES_A_SLICE", 1)
        world = full_world()
        for nice in niceness:
            submit(world, nice)
        submit(world, 7, "bob")
        for request in requests:
            named = [FIRST + number for number in request if number < len(niceness)]
            before = order(world)
            if named:
                move(world, *map(str, named))
                assert order(world) == named + [job_id for job_id in before if job_id not in named]
            assert sum(job.request.nice for job in pending(world)) == sum(niceness)
            assert [job.request.nice for job in pending(world, "bob")] == [7]


@pytest.mark.parametrize("kind", ["priority/basic", "priority/multifactor"])
def test_09_an_array_comes_first_as_it_is(kind: str) -> None:
    world = full_world(kind)
    submit(world)
    submit(world, tasks="0-9")
    for task in range(0, 10, 2):
        for action in (ControlAction.HOLD, ControlAction.RELEASE):
            world.do(ControlJobs(world.actor("ann"), (f"3_{task}",), action, world.reply_to()))
    array = [job.job_id for job in pending(world) if job.array_job_id == 3]
    assert len(array) == 6
    move(world, "3")
    assert order(world) == [*sorted(array), 2]
    assert sum(job.request.nice for job in pending(world)) == 0
    move(world, "2")
    assert order(world) == [2, *sorted(array)]


def test_09_the_work_grows_with_the_queue_and_not_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job of the queue is looked at once for a request, however many jobs it names."""
    world = full_world()
    for number in range(60):
        submit(world, number)
    looked: list[int] = []
    current = priority.current

    def counted(state: object, job: Job) -> int:
        looked.append(job.job_id)
        return current(world.core.state, job)

    monkeypatch.setattr(priority, "current", counted)
    move(world, *(str(FIRST + number) for number in range(40)))
    assert len(looked) <= 60 + 4 * 40
    assert order(world)[:40] == [FIRST + number for number in range(40)]


def test_09_not_all_others_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with a nice value out of all measure: those that rank last pay for it, in a number that is bounded."""
    monkeypatch.setattr(top, "PAYERS_MAX", 5)
    world = full_world()
    for _ in range(20):
        submit(world)
    submit(world, NICE_MAX // 4)
    before = order(world)
    move(world, str(before[-1]))
    assert order(world) == [before[-1], *before[:-1]]
    paid = [job.job_id for job in pending(world) if job.request.nice > 0]
    assert len(paid) == 5 and paid == before[-6:-1]
    assert sum(job.request.nice for job in pending(world)) == NICE_MAX // 4
