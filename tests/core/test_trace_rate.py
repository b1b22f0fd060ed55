"""Which jobs have a trace: the rule of PenstockTraceOneIn and PenstockTracesPerSecond, and what jobs get by it."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import JobSubmission, LoadConfig
from ctld.core.state.trace_rate import BURST_S, USERS_MAX, TraceRate
from penstock.values.tracecontext import job_trace
from tests.core.world import US, World, make_config

#: (microseconds after the one before, number of tasks, the user)
SUBMISSIONS = st.lists(
    st.tuples(st.integers(0, 3 * US) | st.just(0), st.just(1) | st.integers(1, 5000), st.integers(0, 3)), max_size=80
)
COLLECTOR = "http://c/v1/traces"


def taken(submissions: Sequence[tuple[int, int, int]], one_in: int, per_s: int) -> list[tuple[int, int, int]]:
    """(time, tasks, one in how many) of each submission to one controller."""
    rate, at_us, found = TraceRate(), 10**15, []
    for after_us, number, uid in submissions:
        at_us += after_us
        found.append((at_us, number, rate.take(at_us, uid, number, one_in, per_s)))
    return found


@given(SUBMISSIONS, st.sampled_from((1, 2, 7, 100)), st.integers(1, 50))
def test_no_span_of_time_has_more_traces_than_its_share_and_one_burst(
    submissions: list[tuple[int, int, int]], one_in: int, per_s: int
) -> None:
    found = taken(submissions, one_in, per_s)
    assert found == taken(submissions, one_in, per_s)
    for begin, (since_us, _, _) in enumerate(found):
        traced = 0.0
        for at_us, number, share in found[begin:]:
            traced += number / share if share else 0
            assert traced <= per_s * (BURST_S + (at_us - since_us) / US) + 1e-3
    assert all(share == 0 or share >= one_in for _, _, share in found)


@given(st.lists(st.tuples(st.integers(US // 10, US), st.integers(0, 3)), max_size=300), st.sampled_from((1, 100)))
def test_a_cluster_with_no_more_jobs_than_that_has_a_trace_of_each(jobs: list[tuple[int, int]], one_in: int) -> None:
    assert {share for _, _, share in taken([(gap_us, 1, uid) for gap_us, uid in jobs], one_in, 10)} <= {one_in}


def test_the_first_jobs_of_a_users_burst_have_traces_and_then_ten_a_second() -> None:
    burst = [share for _, _, share in taken([(0, 1, 7)] * 500, 1, 10)]
    assert burst == [1] * 60 + [0] * 440
    stream = [share for _, _, share in taken([(1000, 1, 7)] * 20_000, 1, 10)]  # 1,000 a second for 20 s
    assert sum(stream) in range(245, 275) and sum(stream[-10_000:]) == 100


def test_a_user_with_thousands_of_jobs_leaves_traces_for_others() -> None:
    """Four others have ten at once, and later each one a second, while the first floods all the time."""
    burst = taken([(0, 1, 7)] * 500 + [(0, 1, uid) for uid in range(4) for _ in range(12)], 1, 10)
    assert [share for _, _, share in burst[500:]] == ([1] * 10 + [0] * 2) * 4
    flood = [(1000, 1, 7)] * 1000
    found = taken((flood + [(0, 1, uid) for uid in range(4)]) * 30, 1, 10)
    others = [found[at : at + 4] for at in range(1000, len(found), 1004)]
    assert {share for second in others for _, _, share in second} == {1}
    assert sum(share for _, _, share in found[-10_040:]) == 100


def test_an_array_has_so_many_traced_tasks_as_its_user_may_have() -> None:
    found = taken([(0, 120_000, 7), (0, 1, 7), (0, 50, 7), (0, 20, 8), (0, 1, 9), (US, 5, 7), (0, 100, 7)], 1, 10)
    assert [share for _, _, share in found] == [2000, 0, 0, 2, 1, 5, 0]


def test_no_more_users_are_remembered_than_a_site_has_at_a_time() -> None:
    """The one who has taken nothing for the longest time is forgotten first, and has all at once."""
    rate, now_us = TraceRate(), 10**15
    for uid in range(3 * USERS_MAX):
        assert rate.take(now_us, uid, 1, 1, 1000) == 1
        assert rate.take(now_us, uid, 10_000, 1, 1000)
        assert len(rate.until_us) <= USERS_MAX
        now_us += US
    for uid in range(2 * USERS_MAX):
        rate.take(now_us, uid, 1, 1, 1_000_000)
        rate.take(now_us, uid, 6_000_000, 1, 1_000_000)
        assert len(rate.until_us) <= USERS_MAX


def test_without_a_limit_and_with_a_clock_that_was_set_back() -> None:
    assert {share for _, _, share in taken([(0, 10_000, 7)] * 20, 3, 0)} == {3}
    assert [share for _, _, share in taken([(0, 60, 7), (-US, 1, 7), (US, 1, 7)], 1, 10)] == [1, 0, 1]


def shares(world: World) -> dict[int, int]:
    return {job_id: row.trace_one_in for (job_id, _), row in world.jobs.items()}


def test_jobs_keep_what_was_decided_at_their_submission() -> None:
    """Whatever a controller that starts again has, and for each task of an array."""
    world = World(make_config(traces_per_s=1, trace_url=COLLECTOR))
    for node in world.config.nodes:
        world.register(node.name)
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", array="1-100"))
    world.submit(JobSubmission(name="b", work_dir=b"/tmp"))
    caller = f"00-{'ab' * 16}-{'cd' * 8}-01"
    world.submit(JobSubmission(name="c", work_dir=b"/tmp", trace_parent=caller))
    before = shares(world)
    *_, untraced, called = sorted(before)
    assert before[untraced] == 0 and {before[job_id] for job_id in before if job_id < untraced} == {17}
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
    assert {after[job_id] for job_id in after.keys() - before.keys()} == {17}


def test_without_a_collector_no_job_is_traced_and_none_takes_a_token() -> None:
    """What comes after the collector's address has all of them."""
    world = World(make_config(traces_per_s=1))
    for number in range(20):
        world.submit(JobSubmission(name=str(number), work_dir=b"/tmp"))
    assert set(shares(world).values()) == {0}
    world.do(LoadConfig(replace(world.config, trace_url=COLLECTOR)))
    for number in range(5):
        world.submit(JobSubmission(name=str(number), work_dir=b"/tmp"))
    assert list(shares(world).values()) == [0] * 20 + [1] * 5


def test_of_an_array_about_the_burst_is_traced() -> None:
    """By the ids of the tasks, so that it is about as many."""
    traced = [job_trace("c", job_id, 10**15, 20, "") for job_id in range(2000)]
    assert sum(trace is not None for trace in traced) in range(60, 140)
    assert job_trace("c", 1, 10**15, 0) is None
    called = job_trace("c", 1, 10**15, 0, f"00-{'ab' * 16}-{'cd' * 8}-01")
    assert called is not None and called.trace_id == b"\xab" * 16
