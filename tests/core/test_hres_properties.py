"""Hierarchical resources: jobs hold what the rules of their mode say, never more than there is, and the first job that
waits could not start on any set of nodes. Random layers, overlapping or not; random jobs, ends and restarts."""

from itertools import combinations
from typing import Any

from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st

from ctld.core.limits.ledger import allocated_tres
from ctld.core.records.events import JobSubmission
from penstock.values.hres import MODE_1, MODE_2, MODE_3, Hres, HresLayer, kind_of, parse_granted
from penstock.values.states import JobState
from tests.core.world import World, make_config

NODES = 6
NAMES = tuple(f"n{i}" for i in range(1, NODES + 1))
US = 1_000_000


@st.composite
def resources(draw: Any) -> tuple[Hres, ...]:
    sets = st.sets(st.sampled_from(NAMES), min_size=1).map(lambda names: tuple(sorted(names)))
    in_a_tree = (NAMES[:2], NAMES[2:4], NAMES[4:], NAMES[:4], NAMES)
    nodes = draw(st.one_of(st.lists(sets, min_size=1, max_size=5), st.just(in_a_tree), st.just(in_a_tree[:3])))
    counts = [draw(st.sampled_from((-1, 0, 1, 2, 3, 5, 9))) for _ in nodes]
    layers = [HresLayer(f"l{i}", names, n, n) for i, (names, n) in enumerate(zip(nodes, counts, strict=True))]
    mode = draw(st.sampled_from((MODE_1, MODE_2, MODE_3) if nodes == in_a_tree else (MODE_1, MODE_2)))
    return (Hres("r", mode, tuple(layers)),)


STEP = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.just("submit"), st.integers(1, 2), st.integers(1, 4)),
    st.tuples(st.just("end"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("restart"), st.just(0), st.just(0)),
)


def could_start(world: World, one: Hres, count: int, nodes: int, empty: bool = False) -> bool:
    """By the definition of the modes, for any set of nodes, with what is free now or with everything."""
    state = world.core.state
    kinds, free = (
        state.layout.license_kinds,
        list(state.layout.license_totals.values()) if empty else state.free_licenses,
    )
    enough = {
        layer.name: layer.count < 0 or int(free[kinds[kind_of(one.name, layer.name)]]) >= count for layer in one.layers
    }
    for chosen in combinations(NAMES, nodes):
        if any(all(name not in layer.nodes for layer in one.layers) for name in chosen):
            continue  # a node outside of all layers
        here = [layer for layer in one.layers if any(name in layer.nodes for name in chosen)]
        if one.mode == MODE_3 and all(
            layer.count < 0
            or int(free[kinds[kind_of(one.name, layer.name)]]) >= count * len(set(layer.nodes) & set(chosen))
            for layer in here
        ):
            return True
        if one.mode == MODE_2 and all(enough[layer.name] for layer in here):
            return True
        if one.mode == MODE_1:
            able = [layer for layer in here if enough[layer.name]]
            if all(any(name in layer.nodes for layer in able) for name in chosen):
                return True
    return False


def check_held(world: World, one: Hres) -> None:
    by_name = {layer.name: layer for layer in one.layers}
    for job in world.core.state.jobs.records():
        if job.state is not JobState.RUNNING:
            continue
        nodes = {part.node for part in job.alloc}
        held = parse_granted(job.licenses_alloc)
        granted, layers = held[0], [by_name[name] for one in held for name in one.layers]
        assert granted.name == "r" and all(nodes & set(layer.nodes) for layer in layers)
        if one.mode == MODE_1:
            assert len(layers) == 1
        elif one.mode == MODE_3:
            count = parse_granted(job.request.licenses)[0].amount
            assert dict(allocated_tres(world.core.state, job))["license/r"] == count * len(nodes)
            of_layer = {part.layers: part.amount for part in held}
            assert of_layer == {
                (layer.name,): count * len(nodes & set(layer.nodes)) for layer in one.layers if nodes & set(layer.nodes)
            }
        else:
            assert {layer.name for layer in layers} == {x.name for x in one.layers if nodes & set(x.nodes)}


#: A job on four nodes starts beside a layer that has nothing left, which no set of nodes known before would allow.
BESIDE = (
    Hres("r", MODE_2, tuple(HresLayer(f"l{i}", NAMES[2 * i : 2 * i + 2], n, n) for i, n in enumerate((1, 5, 5)))),
)


#: Four nodes of six: two of the first rack, of which only one has enough for two, and one of each other.
RACKS = (
    Hres("r", MODE_3, (
        HresLayer("a", NAMES[:2], 3, 3), HresLayer("b", NAMES[2:4], 5, 5), HresLayer("c", NAMES[4:], 2, 2),
        HresLayer("row", NAMES[:4], 7, 7), HresLayer("site", NAMES, 8, 8),
    )),
)  # fmt: skip


@examples(quick=30, full=1_500)
@example(RACKS, [("submit", 2, 4), ("submit", 2, 1), ("submit", 1, 3), ("end", 0, 0), ("submit", 2, 2)])
@example(BESIDE, [("submit", 1, 1), ("submit", 1, 4)])
@given(resources(), st.lists(STEP, max_size=14))
def test_what_is_held_and_who_waits(hres: tuple[Hres, ...], steps: list[tuple[str, int, int]]) -> None:
    world = World(make_config(nodes=NODES, cpus=64, hres=hres))
    for name in NAMES:
        world.register(name)
    wanted: dict[int, tuple[int, int]] = {}
    for action, a, b in steps:
        running = [job.job_id for job in world.core.state.jobs.records() if job.state is JobState.RUNNING]
        if action == "submit":
            more = {"nodes_min": b, "nodes_max": b, "ntasks": b, "time_limit_s": 60}
            lines = world.submit(JobSubmission(licenses=f"r:{a}", **more))  # type: ignore[arg-type]  # keywords of many types
            assert lines[0].startswith("submitted") == could_start(world, hres[0], a, b, empty=True), lines
            if lines[0].startswith("submitted"):
                wanted[int(lines[0].split()[1])] = a, b
        elif action == "end" and running:
            world.exited(running[a % len(running)])
        elif action == "restart":
            world.restart()
            for name in NAMES:
                world.register(name)
        assert (world.core.state.free_licenses >= 0).all()
        check_held(world, hres[0])
        waiting = [job.job_id for job in world.core.state.jobs.records() if job.state is JobState.PENDING]
        if waiting:
            assert not could_start(world, hres[0], *wanted[min(waiting)])
