"""Item 9: dependencies of many terms on jobs of many records: what one turn examines, and that nothing is forgotten."""

import pytest

from ctld.core.jobs import arrays, waiters
from ctld.core.lifecycle import depends
from ctld.core.records.events import CancelJobs, ControlAction, ControlJobs, JobFilter, JobSubmission
from ctld.core.records.job import Job
from ctld.core.state.state import ClusterState
from penstock.values.dependency import Term
from penstock.values.states import JobState, Reason
from tests.core.world import World, make_config


@pytest.fixture
def world() -> World:
    """One node, which is full."""
    world = World(make_config(nodes=1))
    world.register("n1")
    world.submit(JobSubmission(name="all", work_dir=b"/tmp", exclusive=True))
    return world


def submit(world: World, dependency: str = "", array: str = "", held: bool = False, **more: object) -> int:
    """The id of the new job; 0 = it is refused."""
    before = max(world.core.state.jobs)
    asked = JobSubmission(name="w", work_dir=b"/tmp", dependency=dependency, array=array, hold=held, **more)  # type: ignore[arg-type]  # keywords of many types
    world.submit(asked)
    return max((job_id for job_id in world.core.state.jobs if job_id > before), default=0)


def cancel(world: World, *ids: str) -> None:
    world.do(CancelJobs(world.actor("ann"), JobFilter(ids=ids)))


def split(world: World, array: int, count: int) -> None:
    for task in range(count):
        for action in (ControlAction.HOLD, ControlAction.RELEASE):
            world.do(ControlJobs(world.actor("ann"), (f"{array}_{task}",), action, world.reply_to()))


def test_09_an_array_is_examined_by_its_counters(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not record by record, however often it is named and whenever one of its tasks ends."""
    array = submit(world, array="0-39")
    split(world, array, 30)
    looked: list[int] = []
    plain = arrays.records_of

    def counted(state: ClusterState, array_job_id: int) -> list[object]:
        looked.append(array_job_id)
        return list(plain(state, array_job_id))

    monkeypatch.setattr(arrays, "records_of", counted)
    kinds = ["afterany", "afterok", "afternotok", "aftercorr"]
    text = ",".join(f"{kind}:{array}" for kind in kinds for _ in range(50))
    text += "," + ",".join(f"after:{array}+{minutes}" for minutes in range(50))
    waiting = submit(world, dependency=text)
    assert len(looked) == 1, "whether the caller may see it"
    assert len(world.core.state.dependencies.waiting_for[waiting][1]) == len(kinds) + 50, "each once"
    for task in range(10):
        cancel(world, f"{array}_{task}")
    assert len(looked) == 1
    assert world.core.state.jobs[waiting].reason is Reason.DEPENDENCY_NEVER_SATISFIED


def test_09_many_dependents_are_evaluated_in_several_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all of them, before the job that they wait for is forgotten."""
    monkeypatch.setattr(depends, "TERMS_A_TURN", 10)
    turns: list[int] = []
    plain = depends.evaluate

    def counted(state: ClusterState, job: Job, now_us: int) -> None:
        turns.append(now_us)
        plain(state, job, now_us)

    monkeypatch.setattr(depends, "evaluate", counted)
    first, second = submit(world, held=True), submit(world, held=True)
    met = [submit(world, dependency=f"afterany:{first}", held=True) for _ in range(25)]
    unmet = [submit(world, dependency=f"afterany:{first}:{second}", held=True) for _ in range(25)]
    chain = submit(world, dependency=f"afterok:{first}", kill_on_invalid_dep=True)
    end = submit(world, dependency=f"afterany:{chain}", held=True)
    state = world.core.state
    turns.clear()
    cancel(world, str(first))
    assert len(turns) == 10 and state.dependencies.changed
    cancel(world, str(second))  # another event adds to them and does not evaluate more
    assert len(turns) == 10
    for _ in range(20):
        seen = len(turns)
        world.advance(0.001)
        assert len(turns) - seen <= 10
    world.advance(1)
    assert not state.dependencies.changed and not state.dependencies.due and not state.dependencies.waiting_for
    assert all(state.jobs[job_id].dependency == "" for job_id in [*met, *unmet, end])
    assert state.jobs[chain].state is JobState.CANCELLED
    assert not state.dependencies.terms_of


def test_09_a_restart_evaluates_those_that_are_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depends, "TERMS_A_TURN", 2)
    first = submit(world, held=True)
    waiting = [submit(world, dependency=f"afterany:{first}", held=True) for _ in range(9)]
    cancel(world, str(first))
    assert world.core.state.dependencies.changed
    world.restart()
    assert not world.core.state.dependencies.waiting_for
    assert all(world.core.state.jobs[job_id].dependency == "" for job_id in waiting)


def test_09_the_terms_of_a_user_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of tasks that are split off too: each record has all of them."""
    monkeypatch.setattr(waiters, "USER_TERMS_MAX", 10)
    jobs = [submit(world, held=True) for _ in range(4)]
    named = ":".join(map(str, jobs))
    array = submit(world, dependency=f"afterany:{named}", array="0-9")
    assert submit(world, dependency=f"afterany:{named}")
    assert not submit(world, dependency=f"afterany:{named}")
    state = world.core.state
    uid = world.actor("ann").uid
    assert state.dependencies.terms_of == {uid: 8}
    answers = world.do(ControlJobs(world.actor("ann"), (f"{array}_3",), ControlAction.HOLD, world.reply_to()))
    assert "the limit is 10" in " ".join(answers)
    cancel(world, f"{array}_3")  # what ends needs no terms
    assert state.dependencies.terms_of == {uid: 8}
    assert submit(world, dependency=f"afterany:{jobs[0]}:{jobs[0]}:{jobs[1]}")
    world.restart()
    assert world.core.state.dependencies.terms_of == {uid: 10}
    cancel(world, *map(str, jobs))
    world.advance(1)
    assert not world.core.state.dependencies.terms_of


def test_09_equal_terms_are_one(world: World) -> None:
    job_id = submit(world, held=True)
    waiting = submit(world, dependency=":".join(["afterok", *[str(job_id)] * 1_000]))
    assert world.core.state.dependencies.waiting_for[waiting] == (False, (Term("afterok", job_id),))
