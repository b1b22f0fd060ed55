"""Profiles that nodes report: rows of steps that run there, acknowledged in any case, kept nowhere."""

from typing import Any

import pytest

from ctld.core.records.effects import AckReports, Batch
from ctld.core.records.events import StepProfiled
from ctld.core.records.step import ProfileRow
from ctld.core.steps.profiles import PENDING_BYTES_MAX, PROFILE_BYTES_MAX
from penstock.values.profile import BYTES_MAX
from tests.core.test_node_clocks import running
from tests.core.world import BATCH, World, make_config


class _Watched:
    """What a world's core hands out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.batches: list[Batch] = []
        seal = world.core.seal

        def watched() -> Any:  # as the core's
            batch = seal()
            if batch is not None:
                self.batches.append(batch)
            return batch

        world.core.seal = watched  # type: ignore[method-assign]  # what it hands out is watched

    def report(self, key: tuple[int, int, int], profile: bytes, node: str = "n1") -> tuple[list[ProfileRow], bool]:
        """The rows of a report, and whether it is acknowledged."""
        world = self.world
        world.sequence += 1
        self.batches.clear()
        world.do(StepProfiled(node, *key, f"spool-{node}", world.sequence, world.links[node], profile))
        acks = [
            e for b in self.batches for e in b.effects if isinstance(e, AckReports) and e.sequence == world.sequence
        ]
        return [row for batch in self.batches for row in batch.profiles], bool(acks)


@pytest.fixture
def watched() -> _Watched:
    world = World(make_config(nodes=2, cpus=4))
    world.register("n1")
    world.register("n2")
    return _Watched(world)


def test_a_step_that_runs_there_gets_a_row_and_nothing_is_kept(watched: _Watched) -> None:
    job = running(watched.world)
    key = (job.job_id, 0, BATCH)
    node, other = job.alloc[0].node, "n2" if job.alloc[0].node == "n1" else "n1"
    assert watched.report(key, b"points", node) == ([ProfileRow(*key, node, b"points")], True)
    assert watched.report(key, b"again", node) == ([ProfileRow(*key, node, b"again")], True)
    assert not watched.world.core.state.outputs.profiles
    assert watched.report(key, b"points", other) == ([], True)
    assert watched.report((job.job_id, 1, BATCH), b"another attempt", node) == ([], True)
    assert watched.report((job.job_id, 0, 7), b"another step", node) == ([], True)
    assert watched.report((job.job_id + 1, 0, BATCH), b"another job", node) == ([], True)
    watched.world.exited(job.job_id)
    assert watched.report(key, b"late", node) == ([], True)


def test_bytes_of_a_profile(watched: _Watched) -> None:
    assert PROFILE_BYTES_MAX == BYTES_MAX
    job = running(watched.world)
    key, node = (job.job_id, 0, BATCH), job.alloc[0].node
    assert watched.report(key, b"x" * (BYTES_MAX + 1), node) == ([], True)
    assert watched.report(key, b"", node) == ([], True)
    assert watched.report(key, b"x" * BYTES_MAX, node)[0]


def test_profiles_of_one_batch_are_bounded(watched: _Watched) -> None:
    """As if the database took no writes: what comes on top is dropped, until the next batch."""
    job = running(watched.world)
    state, node = watched.world.core.state, job.alloc[0].node
    state.outputs.profile_bytes = PENDING_BYTES_MAX - 5
    assert watched.report((job.job_id, 0, BATCH), b"123456", node) == ([], True)
    assert watched.report((job.job_id, 0, BATCH), b"123456", node)[0]
