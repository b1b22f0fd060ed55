"""An error before anything was applied refuses one request (core/lifecycle/unexpected_errors.py). On every scenario: each request fails first,
where its handler says `applying`; it is refused, nothing is changed, and the same request then does what it always does.

So a handler that changes something before it says so is found here, as is one that never says so.
"""

from typing import Any

import pytest

from ctld.core.controller import Core
from ctld.core.records.effects import Reply, Results
from ctld.core.records.events import CancelJobs, CreateStep, JobFilter, JobSubmission, Quarantine, Tick
from ctld.core.records.step import StepRequest
from ctld.core.state.state import ClusterState
from penstock.values.refusals import Code
from penstock.values.states import Hold, Reason
from tests.core.test_scripts import SCRIPTS, run_script
from tests.core.world import SPEC, World, make_config


class Mistake(Exception):
    """Of ours."""


@pytest.fixture
def failing_first(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Each request is stepped twice, the first time with a mistake; how often, by the name of the event."""
    whole = Core.step
    seen: dict[str, int] = {}

    def step(core: Core, now_us: int, event: Any) -> None:
        state = core.state
        if not hasattr(event, "reply_to"):
            return whole(core, now_us, event)
        whole(core, now_us, Tick())  # what is due anyway comes first
        before, effects = core.digest(), list(state.outputs.effects)
        state.applying = _mistaken  # type: ignore[method-assign]  # of one state, and taken back
        try:
            whole(core, now_us, event)
        finally:
            del state.applying
        name = type(event).__name__
        if not state.handling.unexpected:  # refused, or there was nothing to do
            assert core.digest() == before, f"{name} changes something and never says applying()"
            return None
        assert all(isinstance(error, Mistake) for error in state.handling.unexpected)
        assert core.digest() == before, f"{name} changes something before it says applying()"
        state.handling.unexpected.clear()
        _take_back_refusal(state, effects, event.reply_to)
        seen[name] = seen.get(name, 0) + 1
        return whole(core, now_us, event)

    monkeypatch.setattr(Core, "step", step)
    return seen


def _mistaken() -> None:
    raise Mistake


def _take_back_refusal(state: ClusterState, before: list[Any], reply_to: int) -> None:
    new = [effect for effect in state.outputs.effects if not any(effect is old for old in before)]
    for effect in new:
        if (
            isinstance(effect, Reply)
            and effect.reply_to == reply_to
            and getattr(effect.body, "code", None) == Code.INTERNAL
        ):
            state.outputs.effects.remove(effect)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_a_mistake_before_applying_changes_nothing(path: Any, failing_first: dict[str, int]) -> None:
    assert run_script(path.read_text()) == path.read_text()


def test_a_mistake_with_one_job_of_many_is_that_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(make_config())
    world.submit(JobSubmission())
    world.submit(JobSubmission())
    first = True

    def once(state: ClusterState) -> None:
        nonlocal first
        first, was = False, first
        if was:
            raise Mistake
        state.handling.is_applied = True

    monkeypatch.setattr(ClusterState, "applying", once)
    world.core.step(world.now_us, CancelJobs(world.actor("ann"), JobFilter(ids=("1", "2")), reply_to=7))
    (body,) = [one.body for one in world.core.state.outputs.effects if isinstance(one, Reply)]
    assert isinstance(body, Results) and [result.code for result in body.results] == [Code.INTERNAL, 0]
    assert [type(error) for error in world.core.state.handling.unexpected] == [Mistake]
    world.settle()


def test_a_mistake_after_applying_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(make_config())
    monkeypatch.setattr("ctld.core.requests.submit.refresh", lambda *_: _mistaken())
    with pytest.raises(Mistake):
        world.submit(JobSubmission())


def test_a_step_without_a_node_is_refused() -> None:
    """srun -x $SLURM_JOB_NODELIST in a job of one node: the list of its nodes is empty."""
    world = World(make_config())
    for name in ("n1", "n2"):
        world.register(name)
    world.submit(JobSubmission())
    world.started(1)
    node = world.core.state.jobs[1].alloc[0].node
    ann = world.actor("ann")
    for request in (
        StepRequest(nodes_excluded=(node,)),
        StepRequest(nodes_excluded=(node,), ntasks=1),
        StepRequest(nodes_excluded=(node,), distribution="arbitrary"),
        StepRequest(nodes_excluded=(node,), overcommit=True, no_gres=True, whole=True),
        StepRequest(nodes_required=(node,), nodes_excluded=(node,)),
    ):
        said = world.do(CreateStep(ann, 1, "k", request, SPEC, True, world.reply_to()))
        assert "Requested node configuration is not available" in "".join(said), said
    assert not world.core.state.handling.unexpected


def test_what_ended_a_process_is_held_and_left_out() -> None:
    world = World(make_config())
    world.submit(JobSubmission(hold=True))
    state = world.core.state
    world.do(Quarantine((1, 99), (("BEGIN_TIME", 1),)))
    assert state.jobs[1].hold is Hold.ADMIN
    assert state.handling.quarantined == {("BEGIN_TIME", 1)}
    world.submit(JobSubmission())
    world.do(Quarantine((2,), ()))
    assert state.jobs[2].reason is Reason.JOB_HELD_ADMIN
