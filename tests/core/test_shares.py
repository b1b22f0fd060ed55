"""Parts of GPUs: no device is given beyond what it has, whatever comes and goes, and the planner's columns stay true.

The core counts all of it a second way after every step (`invariants.py`), so a property here is mostly that it runs.
"""

from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.invariants import Violation
from ctld.core.records.events import JobSubmission
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import GpuShare
from ctld.core.state.devices import layout_of
from ctld.core.state.shares import MILLI, conflict, milli_wanted, room
from ctld.store.encodings import alloc_from, alloc_values
from penstock.values.config import NodeConfig
from penstock.values.gres import Gres
from penstock.values.states import ALLOCATED_STATES, JobState
from tests.core.world import World, make_config


def wanted(gres: tuple[tuple[str, str, int], ...], limit_s: int = 600, **more: object) -> JobSubmission:
    """A small job."""
    return JobSubmission(name="j", work_dir=b"/tmp", gres_per_node=gres, time_limit_s=limit_s, **more)  # type: ignore[arg-type]  # keywords of many types


def given_out(world: World) -> dict[tuple[str, int], list[tuple[str, int, int]]]:
    """By node and GPU: who has what of it, from the committed rows alone; a whole GPU is (gpu, 1, 1)."""
    found: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
    for job in world.core.state.jobs.values():
        row = world.jobs[job.job_id, job.attempt]
        for part in row.alloc if row.state in ALLOCATED_STATES else ():
            for name, _, mask in part.gres:
                for gpu in range(8):
                    if mask >> gpu & 1:
                        found.setdefault((part.node, gpu), []).append((name, 1, 1))
            for share in part.shares:
                found.setdefault((part.node, share.gpu), []).append((share.name, share.units, share.of))
    return found


def users_of(world: World, place: tuple[str, int]) -> list[int]:
    """Whose jobs have a part of that GPU."""
    rows = [world.jobs[job.job_id, job.attempt] for job in world.core.state.jobs.values()]
    holding = [row for row in rows if row.state in ALLOCATED_STATES]
    return sorted({
        row.user_id for row in holding for part in row.alloc for share in part.shares if (part.node, share.gpu) == place
    })  # fmt: skip


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"),
            st.sampled_from(["gpu", "gpu:a100", "shard", "shard", "shard", "mps"]),
            st.integers(1, 5),
            st.sampled_from([60, 600, 3600]),
            st.integers(1, 2),
            st.sampled_from(["ann", "bob"]),
        ),
        st.tuples(st.just("exit"), st.integers(0, 9)),
        st.tuples(st.just("advance"), st.integers(1, 900)),
        st.tuples(st.just("restart")),
    ),
    max_size=30,
)


@examples(quick=30, full=600)
@given(STEPS, st.sampled_from([(), ("PENSTOCK_BEST_FIT",), ("PENSTOCK_FGD",), ("PENSTOCK_STEER",)]))
def test_no_gpu_is_given_beyond_what_it_has(steps: list[tuple[object, ...]], words: tuple[str, ...]) -> None:
    """Whole GPUs, shards and mps exclude each other on a device; sums stay within it; restarts change nothing.

    MPS is among the jobs of one user.
    """
    chosen = ("CR_CORE_MEMORY", *words)
    world = World(
        make_config(nodes=2, cpus=64, mem_mb=64000, gpus=3, shards=12, mps=300, select_type_parameters=chosen)
    )
    for node in ("n1", "n2"):
        world.register(node)
    for step in steps:
        match step:
            case ("submit", str(kind), int(count), int(limit_s), int(nodes), str(user)):
                name, _, type_ = kind.partition(":")
                count = min(count, 3) if name == "gpu" else count * 25 if name == "mps" else count
                world.submit(wanted(((name, type_, count),), limit_s, nodes_min=nodes), user)
            case ("exit", int(which)):
                running = [job_id for job_id, _ in world.running["n1"]] + [job_id for job_id, _ in world.running["n2"]]
                if running:
                    world.exited(running[which % len(running)])
            case ("advance", int(seconds)):
                world.now_us += seconds * 1_000_000
            case _:
                before = given_out(world)
                world.restart()
                assert given_out(world) == before
                for node in ("n1", "n2"):
                    world.register(node)
        for place, parts in given_out(world).items():
            assert len({name for name, _, _ in parts}) == 1, place
            assert sum(units for _, units, _ in parts) <= parts[0][2], place
            assert parts[0][0] != "mps" or len(users_of(world, place)) == 1, place


def test_the_check_sees_a_gpu_given_twice() -> None:
    """The invariant can fail."""
    world = World(make_config(nodes=1, cpus=8, gpus=1, shards=4))
    world.register("n1")
    world.submit(wanted((("shard", "", 3),)))
    world.core.check()
    job = world.core.state.jobs[1]
    part = job.alloc[0]
    job.alloc = (part._replace(shares=(part.shares[0]._replace(units=5),)),)
    with pytest.raises(Violation, match="GPU 0 has 4 of shard, more are given"):
        world.core.check()
    job.alloc = (part._replace(gres=(("gpu", "a100", 1),)),)
    world.core.state.node_list[0].gres_used["gpu", "a100"] = 1
    with pytest.raises(Violation, match="given whole and shared"):
        world.core.check()


def test_the_queue_goes_on_behind_shares_that_do_not_fit() -> None:
    """Every GPU has 2 of 4 free, so a job for 3 waits; one for 2 behind it that ends in time starts, and all end."""
    world = World(make_config(nodes=1, cpus=8, gpus=2, shards=8))
    world.register("n1")
    for units, limit_s in ((2, 600), (3, 600), (2, 900), (3, 600), (1, 300)):
        world.submit(wanted((("shard", "", units),), limit_s))
    for _ in range(10):
        world.now_us += 60_000_000
        for job_id, _ in list(world.running["n1"]):
            world.exited(job_id)
    assert all(job.state is JobState.COMPLETED for job in world.core.state.jobs.values())


def test_expected_releases_are_by_device() -> None:
    """Two GPUs with 3 of 4 in use each: when the first job ends 4 are free on one device, not 1 + 3 + 3."""
    world = World(make_config(nodes=1, cpus=8, gpus=2, shards=8))
    world.register("n1")
    for limit_s in (600, 900):
        world.submit(wanted((("shard", "", 3),), limit_s))
    state = world.core.state
    state.settle_shares()
    kind, gpu = state.layout.gres_kinds["shard", ""], state.layout.gres_kinds["gpu", ""]
    assert [int(state.node_columns.free_gres[0, k]) for k in (kind, gpu)] == [1, 0]
    parts = [state.running.parts_of(job_id)[0] for job_id in (1, 2)]
    assert [int(state.running.table.part_gres[part, kind]) for part in parts] == [3, 0]
    assert [int(state.running.table.part_gres[part, gpu]) for part in parts] == [1, 1]


def test_shares_of_typed_gpus() -> None:
    """A typed share lies on GPUs of its type; thousandths are counted over all."""
    layout = layout_of(
        NodeConfig("n", "n", "n", 4, gres=(Gres("gpu", "a", 2), Gres("gpu", "b", 1), Gres("shard", "b", 5)))
    )
    assert layout.shares == {("shard", "b"): (0, 0, 5)}
    assert room(layout, 0, {}, 0) == {
        ("gpu", ""): 3, ("gpu", "a"): 2, ("gpu", "b"): 1, ("shard", "b"): 5, ("shard", ""): 5, MILLI: 3000,
    }  # fmt: skip
    assert room(layout, 0b001, {2: ("shard", 2)}, 0)[MILLI] == 1600
    assert milli_wanted((("shard", "", 2),), {"shard": 5}) == 400


def test_what_cannot_be_asked_for_together() -> None:
    """Whole GPUs and shares, or two kinds of share."""
    assert not conflict((("gpu", "", 1), ("fpga", "", 1)))
    assert not conflict((("shard", "", 2), ("fpga", "", 1)))
    assert conflict((("shard", "", 2), ("gpu", "a", 1))).startswith("shard and gpu:a")
    assert conflict((("shard", "", 2), ("mps", "", 1)))


def test_rows_of_allocations() -> None:
    """Shares are stored behind what was there before, and rows without them are read as ever."""
    plain = (NodeAlloc("n1", 1, 100, 1, (("gpu", "a100", 0b10),), 3),)
    assert alloc_values(plain)[0] == '[["n1",1,100,1,[["gpu","a100","2"]],"3"]]'
    assert alloc_from(alloc_values(plain)[0]) == plain
    shared = (replace_shares(plain[0], GpuShare("shard", "", 1, 3, 4)), plain[0])
    assert alloc_from(alloc_values(shared)[0]) == shared


def replace_shares(part: NodeAlloc, *shares: GpuShare) -> NodeAlloc:
    """The part with these."""
    return part._replace(shares=shares)


def test_a_reload_that_takes_shares_away_is_refused() -> None:
    """Jobs that hold them stand in the way."""
    world = World(make_config(nodes=1, cpus=8, gpus=1, shards=4))
    world.register("n1")
    world.submit(wanted((("shard", "", 3),)))
    world.config = make_config(nodes=1, cpus=8, gpus=1, shards=2)
    assert world.reload(["n1"]) == [
        "refused: Configuration is not valid, the old one stays in force: "
        "node n1: 3 of gres/shard on GPU 0, which jobs hold, are missing from the file"
    ]
    world.config = replace(make_config(nodes=1, cpus=8, gpus=1, shards=6))
    assert world.reload(["n1"]) == ["done"]


MPS_50 = (("mps", "", 50),)


def places(world: World) -> dict[int, tuple[str, int]]:
    """By running job: where its share is."""
    return {
        job.job_id: (part.node, share.gpu)
        for job in world.core.state.jobs.values()
        if job.state in ALLOCATED_STATES
        for part in job.alloc
        for share in part.shares
    }


def test_mps_is_shared_by_jobs_of_one_user() -> None:
    """Free shares of a GPU are not available to another user, who gets another GPU, another node, or waits."""
    world = World(make_config(nodes=2, cpus=8, gpus=1, mps=100))
    world.register("n1")
    world.register("n2")
    world.submit(wanted((("mps", "", 25),)), "ann")
    world.submit(wanted((("mps", "", 25),)), "bob")
    world.submit(wanted(MPS_50), "ann")
    assert places(world) == {1: ("n1", 0), 2: ("n2", 0), 3: ("n1", 0)}
    world.submit(wanted((("mps", "", 25),)), "opa")
    world.submit(wanted((("mps", "", 25),)), "bob")
    assert places(world) == {1: ("n1", 0), 2: ("n2", 0), 3: ("n1", 0), 5: ("n2", 0)}
    world.exited(1)
    assert 4 not in places(world)
    world.exited(3)
    assert places(world) == {2: ("n2", 0), 4: ("n1", 0), 5: ("n2", 0)}


def test_shards_are_anybodys() -> None:
    world = World(make_config(nodes=1, cpus=8, gpus=1, shards=4))
    world.register("n1")
    for user in ("ann", "bob"):
        world.submit(wanted((("shard", "", 2),)), user)
    assert places(world) == {1: ("n1", 0), 2: ("n1", 0)}


def test_another_users_mps_waits_without_a_pass_after_the_other() -> None:
    """What cannot start is not tried again and again while nothing has changed."""
    world = World(make_config(nodes=1, cpus=8, gpus=1, mps=100))
    world.register("n1")
    world.submit(wanted((("mps", "", 25),)), "ann")
    world.submit(wanted((("mps", "", 25),)), "bob")
    before = world.core.state.scheduling.revision
    for _ in range(5):
        world.advance(60)
    assert world.core.state.scheduling.revision - before <= 1 and places(world) == {1: ("n1", 0)}
