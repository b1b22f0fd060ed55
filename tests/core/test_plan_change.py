"""`penstock plan`: what is said of the loss of a node, or of a job that comes, is what the planner says once it has happened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.diagnose.plan_change import (
    ELSEWHERE,
    ENDS,
    LATER,
    NEVER,
    REQUEUED,
    SOONER,
    PlanChange,
    inquire_arrival,
    inquire_loss,
    plan_change,
)
from ctld.core.diagnose.why import explain, inquire
from ctld.core.records.events import JobSubmission, SubmitJob, UpdateNodes
from penstock.values.states import JobState
from tests.core.test_why import FAST, HOUR_S, MINUTE_S, job, world
from tests.core.world import SPEC, World

#: Before all jobs of priority/basic.
FIRST = 4_294_950_000


def without(made: World, *names: str, jobs_run_on: bool = False) -> PlanChange:
    state, digest = made.core.state, made.core.digest()
    found = plan_change(inquire_loss(state, made.now_us, names, jobs_run_on))
    assert made.core.digest() == digest
    made.core.check()
    return found


def with_job(made: World, wanted: JobSubmission) -> PlanChange:
    state, digest = made.core.state, made.core.digest()
    event = SubmitJob(made.actor("root"), "f" * 32, made.now_us, wanted, SPEC, True, made.reply_to())
    found = plan_change(inquire_arrival(state, made.now_us, event))
    assert made.core.digest() == digest
    return found


def told(found: PlanChange) -> dict[int, tuple[str, int, int]]:
    """By job, in the order of the answer: the change, and the starts in seconds from now, rounded down to
    minutes; -1 = none."""
    starts = {one.job_id: (one.before_s, one.after_s) for one in found.jobs()}
    since = {
        key: tuple((at_s - found.now_s) // MINUTE_S * MINUTE_S if at_s >= 0 else -1 for at_s in pair)
        for key, pair in starts.items()
    }
    return {one.job_id: (one.change, *since[one.job_id]) for one in found.jobs()}  # type: ignore[misc]  # each has two starts


def planned(made: World) -> dict[int, int]:
    """The planned start of each waiting job in seconds since 1970, as `penstock why` says; -1 = none."""
    state = made.core.state
    waiting = [one for one in state.jobs.values() if one.state is JobState.PENDING]
    found = {one.job_id: explain(inquire(state, made.now_us, one, made.actor("root"))).planned for one in waiting}
    return {job_id: plan.start_s if plan is not None else -1 for job_id, plan in found.items()}


def planned_nodes(made: World, job_id: int) -> tuple[str, ...]:
    state = made.core.state
    plan = explain(inquire(state, made.now_us, state.jobs[job_id], made.actor("root"))).planned
    return plan.nodes if plan is not None else ()


def test_a_node_goes_with_its_jobs() -> None:
    made = world(
        job(exclusive=True, nodes_required="n1", time_limit_s=2 * HOUR_S),  # is requeued
        job(exclusive=True, nodes_required="n2", requeue=False),  # runs on n2
        job(exclusive=True, nodes_required="n1", time_limit_s=30 * MINUTE_S),  # only there: never
        job(exclusive=True),  # either
        **FAST,
    )
    found = without(made, "n1")
    said = told(found)
    assert said[3][0] == NEVER and next(iter(said)) == 3
    assert said[1] == (REQUEUED, -1, -1)  # it wants n1
    assert 4 not in said and 2 not in said and found.compared == 2
    said = told(without(made, "n2"))
    assert said[2] == (ENDS, -1, -1)
    assert said[4][0] == LATER and said[4][2] == 2 * HOUR_S + 30 * MINUTE_S, said
    everything = told(without(made, "n1", "n2"))
    assert [change for change, *_ in everything.values()] == [NEVER, NEVER, ENDS, REQUEUED]


def test_a_drained_node_keeps_its_jobs() -> None:
    queue = [job(exclusive=True, time_limit_s=hours * HOUR_S) for hours in (1, 2)]
    made = world(*queue, job(exclusive=True), job(exclusive=True), **FAST)
    first = made.core.state.jobs[1].alloc[0].node
    assert told(without(made, first, jobs_run_on=True)) == {
        3: (LATER, HOUR_S, 2 * HOUR_S), 4: (LATER, 2 * HOUR_S, 3 * HOUR_S),
    }  # fmt: skip


def test_a_start_that_only_changes_its_nodes_is_told() -> None:
    running = [job(exclusive=True, time_limit_s=hours * HOUR_S) for hours in (1, 2, 2)]
    made = world(*running, job(exclusive=True, time_limit_s=4 * HOUR_S), job(exclusive=True), **(FAST | {"nodes": 3}))
    (where,) = (one for one in planned_nodes(made, 5))
    assert told(without(made, where, jobs_run_on=True)) == {5: (ELSEWHERE, 2 * HOUR_S, 2 * HOUR_S)}


def test_a_requeued_job_is_planned_again_at_its_rank() -> None:
    made = world(
        job(exclusive=True, time_limit_s=HOUR_S),
        job(exclusive=True, time_limit_s=4 * HOUR_S),
        job(exclusive=True),
        **FAST,
    )
    node = made.core.state.jobs[1].alloc[0].node
    said = told(without(made, node))
    assert said[1] == (REQUEUED, -1, 4 * HOUR_S)  # before job 3, which came after it
    assert said[3] == (LATER, HOUR_S, 5 * HOUR_S)


def test_a_job_that_comes_delays_those_behind_it_only() -> None:
    made = world(job(exclusive=True), job(exclusive=True), job(exclusive=True), job(exclusive=True), **FAST)
    last = with_job(made, job(exclusive=True))
    assert told(last) == {} and last.own is not None and (last.own.start_s - last.now_s) // HOUR_S == 2
    first = with_job(made, job(nodes_min=2, exclusive=True, priority=FIRST))
    assert first.own is not None and ((first.own.start_s - first.now_s) // HOUR_S, first.own.nodes) == (1, ("n1", "n2"))
    assert told(first) == {3: (LATER, HOUR_S, 2 * HOUR_S), 4: (LATER, HOUR_S, 2 * HOUR_S)}
    array = with_job(made, job(exclusive=True, priority=FIRST, array="0-3"))
    assert {one.change for one in array.jobs()} == {LATER}


SIZES = st.tuples(
    st.integers(1, 8), st.integers(0, 4), st.integers(1, 6), st.booleans(), st.sampled_from(["", "n1", "n2"])
)


def sized(cpus: int, gpus: int, hours: int, exclusive: bool, node: str) -> JobSubmission:
    gres = (("gpu", "", gpus),) if gpus else ()
    return job(
        cpus_per_task=cpus, gres_per_node=gres, time_limit_s=hours * HOUR_S, exclusive=exclusive, nodes_required=node
    )


@given(st.lists(SIZES, min_size=3, max_size=9), SIZES)
def test_what_is_said_of_a_job_is_so_when_it_is_there(
    queue: list[tuple[int, int, int, bool, str]], more: tuple[int, int, int, bool, str]
) -> None:
    made = world(*(sized(*one) for one in queue), **FAST)
    before, found = planned(made), with_job(made, sized(*more))
    said = {one.job_id: one for one in found.jobs()}
    assert all(one.before_s == before[one.job_id] for one in said.values())
    made.submit(sized(*more))
    new = len(queue) + 1
    after = planned(made)
    start_s = after.pop(new, found.now_s)
    assert found.own is not None and found.own.start_s == start_s
    assert after == {job_id: said[job_id].after_s if job_id in said else at_s for job_id, at_s in before.items()}


@given(st.lists(SIZES, min_size=3, max_size=9))
def test_what_is_said_of_a_drain_is_so_afterwards(queue: list[tuple[int, int, int, bool, str]]) -> None:
    made = world(*(sized(*one) for one in queue), **FAST)
    before = planned(made)
    said = {one.job_id: one.after_s for one in without(made, "n1", jobs_run_on=True).jobs()}
    made.do(UpdateNodes(made.actor("root"), ("n1",), {"state": "DRAIN", "reason": "fan"}, made.reply_to()))
    assert planned(made) == {job_id: said.get(job_id, at_s) for job_id, at_s in before.items()}


@pytest.mark.parametrize("run_on", [False, True])
def test_an_empty_queue_has_nothing_to_move(run_on: bool) -> None:
    found = without(world(**FAST), "n1", "n2", jobs_run_on=run_on)
    assert (list(found.jobs()), found.compared, found.not_asked) == ([], 0, 0)
    assert SOONER not in told(found)
