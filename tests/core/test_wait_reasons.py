"""What a pass over a long queue costs the loop: reasons in slices, one timer for the pause, rows in order at hand."""

from hypothesis import given
from hypothesis import strategies as st

from _fastsched import contract
from bench.incore import CoreCluster, make_config
from ctld.core.passes import schedule, wait_reasons
from ctld.core.passes.wait_reasons import PLANNED, REASONS_PER_BATCH
from ctld.core.records.events import LoadConfig, Tick
from ctld.core.state.pending import PendingColumns, Shape, Terms
from ctld.core.state.state import ClusterState
from penstock.values.config import Config
from penstock.values.reasons import NODES_NOT_FREE
from penstock.values.states import JobState, Reason

JOBS = 2 * REASONS_PER_BATCH + 500
#: Whom a quick pass of the same batch may tell.
QUICK = 128


def waiting(state: ClusterState) -> list[Reason]:
    return [job.reason for job in state.jobs.values() if job.state is JobState.PENDING]


def without_nodes() -> tuple[CoreCluster, Config]:
    config = make_config(2, 4)
    cluster = CoreCluster(config, register=False)
    for _ in range(JOBS):
        cluster.submit()
    cluster.seal()
    return cluster, config


def tell_all(cluster: CoreCluster) -> list[int]:
    """Seal as the loop does, when there is something or the core asks for it; how many rows each batch had."""
    sizes = []
    while (batch := cluster.core.seal()) is not None or cluster.core.state.scheduling.reason_backlog is not None:
        sizes.append(len(batch.jobs) if batch is not None else 0)
        if cluster.core.state.scheduling.reason_backlog is not None:
            due_us = cluster.core.next_deadline()
            assert due_us is not None and due_us <= cluster.now_us(), "nobody would ask for the next slice"
            cluster.core.step(cluster.now_us(), Tick())
    return sizes


def test_reasons_of_a_long_queue_are_told_in_slices() -> None:
    cluster, config = without_nodes()
    state = cluster.core.state
    assert cluster.run_plan() > 0
    sizes = tell_all(cluster)
    assert set(waiting(state)) == {Reason.REQ_NODE_NOT_AVAIL}
    assert {job.reason_detail for job in state.jobs.values()} == {f"{NODES_NOT_FREE} (UnavailableNodes:n[1-2])"}
    assert max(sizes) <= REASONS_PER_BATCH + QUICK and len(sizes) >= JOBS // REASONS_PER_BATCH
    cluster.register(config)  # all but 8 are merely behind others now, and all but the first of these have to be told
    cluster.wait_for_full_pass()
    assert cluster.run_plan() > 0
    sizes = tell_all(cluster)
    assert max(sizes) <= REASONS_PER_BATCH + QUICK
    assert waiting(state).count(Reason.REQ_NODE_NOT_AVAIL) == 0
    assert waiting(state).count(Reason.PRIORITY) >= JOBS - 8 - QUICK
    cluster.core.check()


def test_what_a_later_pass_said_is_not_overwritten() -> None:
    cluster, _ = without_nodes()
    state, now_us = cluster.core.state, cluster.now_us()
    ids = list(state.jobs)
    wait_reasons.apply_reasons(state, now_us, [(job_id, contract.RESOURCES) for job_id in ids], None)
    assert state.scheduling.reason_backlog is not None and state.jobs[ids[-1]].reason is not PLANNED[contract.RESOURCES]
    wait_reasons.apply_reasons(state, now_us, [(ids[-2], contract.LICENSES)], ids[-2:])
    while state.scheduling.reason_backlog is not None:
        wait_reasons.write_more_reasons(state, now_us)
    assert [state.jobs[job_id].reason for job_id in ids[-3:]] == [Reason.RESOURCES, Reason.LICENSES, Reason.PRIORITY]


def test_a_job_that_ended_meanwhile_is_left_alone() -> None:
    cluster, _ = without_nodes()
    state, now_us = cluster.core.state, cluster.now_us()
    ids = list(state.jobs)
    wait_reasons.apply_reasons(state, now_us, [(job_id, contract.RESOURCES) for job_id in ids], None)
    before = state.jobs[ids[-1]].reason
    state.pending.remove(ids[-1])
    while state.scheduling.reason_backlog is not None:
        wait_reasons.write_more_reasons(state, now_us)
    assert state.jobs[ids[-1]].reason is before and ids[-1] not in state.scheduling.flagged


def test_the_pause_between_full_passes_is_one_timer_and_follows_the_configuration() -> None:
    config = make_config(2, 4, 64_000)
    cluster = CoreCluster(config)
    state, now_us = cluster.core.state, cluster.now_us()
    state.scheduling.full_pass_not_before_us = now_us + 3600 * 1_000_000
    before = len(state.timers)
    for _ in range(20):
        state.changed()
        schedule.want_full_pass(state, now_us)
    assert len(state.timers) == before + 1
    cluster.core.step(cluster.now_us(), LoadConfig(config))
    assert state.scheduling.full_pass_not_before_us <= cluster.now_us() + state.scheduling.policy.interval_us


SHAPE = Shape(0, 1, 1, 1, 1, 0, 0, -1, (), 0)


@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["ready", "wait", "remove", "rerank"]), st.integers(0, 3)))
)
def test_rows_in_order_are_those_of_the_keys(moves: list[tuple[int, str, int]]) -> None:
    pending = PendingColumns(0)
    held: dict[int, None] = {}
    for job_id, move, rank in moves:
        if job_id not in held:
            pending.add(job_id, [(0, SHAPE)], Terms(0, 60, 60))
            held[job_id] = None
        if move == "ready":
            pending.set_ready(job_id, [rank], 1)
        elif move == "wait":
            pending.set_waiting(job_id)
        elif move == "remove":
            pending.remove(job_id)
            del held[job_id]
        else:
            pending.rerank((pending.table.job.astype("int64") * (rank + 1)) % 5)
        assert pending.first(100).tolist() == list(pending.ready)
        assert pending.first(2).tolist() == list(pending.ready[:2])
        keys = [(-(pending.rank_of_row(row) or 0), int(pending.table.job[row])) for row in pending.ready]
        assert keys == sorted(keys)
        assert [pending.place_of(-below, job_id) for below, job_id in keys] == list(range(len(keys)))
