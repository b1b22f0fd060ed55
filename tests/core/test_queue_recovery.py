"""A long queue gets its rows in slices after a start: what is seen meanwhile, and that the order stays."""

from dataclasses import replace

# Any: fields of submissions and of a configuration by name
from typing import Any

import pytest

from _fastsched import contract
from bench.incore import ANN, START_US, CoreCluster, make_config
from ctld.core.controller import Core
from ctld.core.passes import queue_recovery
from ctld.core.records.effects import Batch
from ctld.core.records.events import CancelJobs, JobFilter, Tick
from ctld.core.records.job import JobRow
from ctld.core.records.waiting_row import compact, whole
from ctld.core.recover import LoadedState
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import Hold, JobState, Reason

JOBS = 20
US = 1_000_000


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_recovery, "AT_ONCE", 3)
    monkeypatch.setattr(queue_recovery, "SLICE", 2)


def queue() -> CoreCluster:
    """A controller that has started again with JOBS jobs, of different priorities, and no node yet."""
    jobs = [{"name": f"j{number}", "nice": number % 5, "cpus_per_task": 2} for number in range(JOBS)]
    config = make_config(2, 4)
    return started_again(config, stored(config, jobs))


def stored(config: Config, jobs: list[dict[str, Any]]) -> LoadedState:
    """What a controller has stored that accepted these jobs."""
    rows: dict[int, JobRow] = {}

    def commit(batch: Batch) -> None:
        rows.update({row.job_id: compact(whole(row)._replace(submit_key="")) for row in batch.jobs})  # of old ones

    before = CoreCluster(config, commit=commit, register=False)
    for job in jobs:
        before.submit(**job)
    before.seal()
    assert before.accepted() == len(jobs)
    state = before.core.state
    return LoadedState(2, state.next_job_id, state.next_request_id, list(rows.values()), [], [], [], [], [])


def started_again(config: Config, loaded: LoadedState) -> CoreCluster:
    """A controller that has started with these jobs, and no node yet."""
    return CoreCluster(config, START_US + 60 * US, loaded, register=False)


def slices(cluster: CoreCluster) -> int:
    """Go on as the loop does, until all have rows; how often."""
    number, core = 0, cluster.core
    while core.state.pending.outside:
        due_us = core.next_deadline()
        assert due_us is not None and due_us <= cluster.now_us(), "nobody would ask for the next slice"
        core.step(cluster.now_us(), Tick())
        core.check()
        cluster.seal()
        core.check()
        number += 1
        if core.state.pending.outside:
            assert not cluster.launches and cluster.plan is None, "a pass saw a part of them"
    return number


def order(core: Core) -> list[int]:
    pending = core.state.pending
    found: list[int] = pending.table.job[pending.first(JOBS + 10)].tolist()
    return found


def test_nothing_starts_before_all_stand_in_line() -> None:
    cluster = queue()
    assert len(cluster.core.state.pending.outside) == JOBS - 3
    cluster.register(make_config(2, 4))
    assert not cluster.launches
    assert slices(cluster) >= (JOBS - 3) // 2 - 2  # each registration was sealed, with a slice
    while cluster.seal():
        pass
    state = cluster.core.state
    by_rank = sorted(state.jobs.values(), key=lambda job: (-job.priority, job.job_id))
    began = sorted(launch.job_id for launch in cluster.launches)
    assert began == sorted(job.job_id for job in by_rank[:4])
    assert order(cluster.core) == [job.job_id for job in by_rank if job.state is JobState.PENDING]


def test_the_order_is_that_of_a_start_without_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    gradually = queue()
    slices(gradually)
    monkeypatch.setattr(queue_recovery, "AT_ONCE", JOBS)
    at_once = queue()
    assert not at_once.core.state.pending.outside
    assert order(gradually.core) == order(at_once.core)


def test_jobs_without_rows_can_be_changed() -> None:
    cluster = queue()
    core, last = cluster.core, JOBS
    assert last in core.state.pending.outside
    core.step(cluster.now_us(), CancelJobs(ANN, JobFilter(ids=(str(last),)), reply_to=7))
    cluster.submit(name="new")
    core.check()
    cluster.seal()
    slices(cluster)
    state = core.state
    assert state.jobs[last].state is JobState.CANCELLED
    assert sorted(order(core)) == [*range(1, last), last + 1]


#: Jobs that wait for many reasons, and in many ways; the first ones get their rows with the start.
VARIED: list[dict[str, Any]] = [
    {}, {}, {}, {"nice": 3}, {"array": "1-7%2"}, {"array": "3,5,9"}, {"begin_at_us": START_US + 3600 * US}, {"hold": True},
    {"partitions": ("main", "low")}, {"partitions": ("low",), "time_limit_s": 60}, {"partitions": ("short",), "nice": 2},
    {"dependency": "afterok:1"}, {"dependency": "singleton", "name": "one"}, {"licenses": "matlab:2"}, {"cpus_per_task": 3},
    {"deadline_at_us": START_US + 90_000 * US}, {"time_limit_s": 120, "time_min_s": 60},
    {"gres_per_node": (("gpu", "", 1),)}, {"gres_per_node": (("gpu", "h100", 2),), "mem_per_node_mb": 500},
    {"mem_per_cpu_mb": 200, "exclusive": True}, {"nodes_min": 1, "nodes_max": 2, "ntasks": 2}, {"switches_max": 1},
    {"nodes_required": "n2"}, {"name": "one"}, {"nice": 1}, {"nice": 5}, {"contiguous": True, "nodes_min": 2, "nodes_max": 2},
]  # fmt: skip
#: What decides about the order, and about the classes of preemption.
SITES: dict[str, dict[str, Any]] = {
    "basic": {},
    "multifactor": {"priority_type": "priority/multifactor", "priority_weight_job_size": 1000},
    "aged": {"penstock_backfill_order": "aged", "penstock_backfill_predictor": "history"},
    "preempt": {"preempt_type": "preempt/partition_prio", "preempt_mode": ("REQUEUE",)},
}


def site(**fields: Any) -> Config:
    plain = make_config(2, 4, gpus=2)
    names = tuple(node.name for node in plain.nodes)
    more = (
        PartitionConfig("low", names, priority_tier=0),
        PartitionConfig("short", names, max_time_s=600, state="DOWN"),
    )
    config = replace(plain, partitions=(*plain.partitions, *more), licenses=(("matlab", 4),))
    return replace(config, **fields)


def line(core: Core) -> dict[int, list[object]]:
    """The planner's rows of each job, whether they are ready, and the job's reason, priority and time."""
    pending = core.state.pending
    tables = [getattr(pending.table, name) for name in contract.Jobs._fields]
    tables += [pending.partition, pending.assoc, pending.expected_s, pending.eligible_s]
    found: dict[int, list[object]] = {}
    for job in core.state.jobs.records():
        rows = [[column[row].tolist() for column in tables] for row in pending.rows_of(job.job_id)]
        ready = [pending.rank_of_row(row) is not None for row in pending.rows_of(job.job_id)]
        found[job.job_id] = [job.reason, job.priority, job.eligible_at_us, rows, ready]
    return found


@pytest.mark.parametrize("name", SITES)
def test_each_job_stands_there_as_after_a_start_without_slices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_recovery, "SLICE", 9)
    config = site(**SITES[name])
    loaded = stored(config, VARIED)
    gradually = started_again(config, loaded)
    slices(gradually)
    monkeypatch.setattr(queue_recovery, "AT_ONCE", 1000)
    at_once = started_again(config, loaded)
    assert not at_once.core.state.pending.outside
    assert line(gradually.core) == line(at_once.core)
    assert order(gradually.core) == order(at_once.core)
    assert {reason for reason, *_ in line(gradually.core).values()} >= {
        Reason.BEGIN_TIME, Reason.JOB_HELD_USER, Reason.DEPENDENCY, Reason.PARTITION_DOWN
    }  # fmt: skip


def test_rows_of_jobs_that_are_gone_are_used_again() -> None:
    config = site()
    loaded = stored(config, VARIED)
    cluster, whole = started_again(config, loaded), started_again(config, loaded)
    core = cluster.core
    core.step(cluster.now_us(), CancelJobs(ANN, JobFilter(ids=("1", "2")), reply_to=7))
    cluster.seal()
    slices(cluster)
    slices(whole)
    found = line(core)
    assert [job_id for job_id in order(whole.core) if job_id > 2] == order(core)
    columns = {job_id: entry[3] for job_id, entry in line(whole.core).items() if job_id > 12}
    assert {job_id: entry[3] for job_id, entry in found.items() if job_id > 12} == columns


def test_a_job_whose_license_is_gone_is_held_in_a_later_slice_too() -> None:
    loaded = stored(site(), [*VARIED, {"licenses": "matlab:1"}])
    cluster = started_again(site(licenses=()), loaded)
    last = len(VARIED) + 1
    assert last in cluster.core.state.pending.outside
    slices(cluster)
    held = cluster.core.state.jobs[last]
    assert (held.hold, held.reason) == (Hold.ADMIN, Reason.JOB_HELD_ADMIN)
    assert last not in order(cluster.core)
