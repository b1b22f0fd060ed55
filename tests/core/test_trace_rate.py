"""Which jobs have a trace: the rule of PenstockTraceOneIn and PenstockTracesPerSecond, and what jobs get by it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import JobSubmission
from ctld.core.state.trace_rate import BURST_S, TraceRate
from penstock.values.tracecontext import job_trace
from tests.core.world import US, World, make_config

#: (microseconds after the one before, number of tasks)
SUBMISSIONS = st.lists(st.tuples(st.integers(0, 3 * US) | st.just(0), st.just(1) | st.integers(1, 5000)), max_size=80)


def taken(submissions: Sequence[tuple[int, int]], one_in: int, per_s: int) -> list[tuple[int, int, int]]:
    """(time, tasks, one in how many) of each submission to one controller."""
    rate, at_us, found = TraceRate(), 10**15, []
    for after_us, number in submissions:
        at_us += after_us
        found.append((at_us, number, rate.take(at_us, number, one_in, per_s)))
    return found


@given(SUBMISSIONS, st.sampled_from((1, 2, 7, 100)), st.integers(1, 50))
def test_no_span_of_time_has_more_traces_than_its_share_and_one_burst(
    submissions: list[tuple[int, int]], one_in: int, per_s: int
) -> None:
    found = taken(submissions, one_in, per_s)
    assert found == taken(submissions, one_in, per_s)
    for begin, (since_us, _, _) in enumerate(found):
        traced = 0.0
        for at_us, number, share in found[begin:]:
            traced += number / share if share else 0
            assert traced <= per_s * (BURST_S + (at_us - since_us) / US) + 1e-3
    assert all(share == 0 or share >= one_in for _, _, share in found)


@given(st.lists(st.integers(US // 10, US), max_size=300), st.sampled_from((1, 100)))
def test_a_cluster_with_no_more_jobs_than_that_has_a_trace_of_each(gaps_us: list[int], one_in: int) -> None:
    assert {share for _, _, share in taken([(gap_us, 1) for gap_us in gaps_us], one_in, 10)} <= {one_in}


def test_the_first_jobs_of_a_burst_have_traces_and_then_ten_a_second() -> None:
    burst = [share for _, _, share in taken([(0, 1)] * 500, 1, 10)]
    assert burst == [1] * 100 + [0] * 400
    stream = [share for _, _, share in taken([(1000, 1)] * 20_000, 1, 10)]  # 1,000 a second for 20 s
    assert sum(stream) in range(298, 301) and sum(stream[-10_000:]) == 100


def test_an_array_has_so_many_traced_tasks_as_a_burst_and_the_next_job_none() -> None:
    found = taken([(0, 100_000), (0, 1), (0, 50), (US, 5), (0, 100)], 1, 10)
    assert [share for _, _, share in found] == [1000, 0, 0, 1, 20]


def test_without_a_limit_and_with_a_clock_that_was_set_back() -> None:
    assert {share for _, _, share in taken([(0, 10_000)] * 20, 3, 0)} == {3}
    assert [share for _, _, share in taken([(0, 100), (-US, 1), (US // 2, 1)], 1, 10)] == [1, 0, 1]


def shares(world: World) -> dict[int, int]:
    return {job_id: row.trace_one_in for (job_id, _), row in world.jobs.items()}


def test_jobs_keep_what_was_decided_at_their_submission() -> None:
    """Whatever a controller that starts again has, and for each task of an array."""
    world = World(make_config(traces_per_s=1))
    for node in world.config.nodes:
        world.register(node.name)
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", array="1-100"))
    world.submit(JobSubmission(name="b", work_dir=b"/tmp"))
    caller = f"00-{'ab' * 16}-{'cd' * 8}-01"
    world.submit(JobSubmission(name="c", work_dir=b"/tmp", trace_parent=caller))
    before = shares(world)
    *_, untraced, called = sorted(before)
    assert before[untraced] == 0 and {before[job_id] for job_id in before if job_id < untraced} == {10}
    row = world.jobs[called, 0]
    trace = job_trace("c", called, row.submit_at_us, row.trace_one_in, row.request.trace_parent)
    assert trace is not None and trace.trace_id == b"\xab" * 16
    world.restart()
    for node in world.config.nodes:
        world.register(node.name)
    first = min(job_id for steps in world.running.values() for job_id, _ in steps)
    world.started(first)
    world.exited(first)
    after = shares(world)
    assert after.items() >= before.items() and len(after) > len(before)
    assert {after[job_id] for job_id in after.keys() - before.keys()} == {10}


def test_of_an_array_about_the_burst_is_traced() -> None:
    """By the ids of the tasks, so that it is about as many."""
    traced = [job_trace("c", job_id, 10**15, 20, "") for job_id in range(2000)]
    assert sum(trace is not None for trace in traced) in range(60, 140)
    assert job_trace("c", 1, 10**15, 0) is None
    called = job_trace("c", 1, 10**15, 0, f"00-{'ab' * 16}-{'cd' * 8}-01")
    assert called is not None and called.trace_id == b"\xab" * 16
