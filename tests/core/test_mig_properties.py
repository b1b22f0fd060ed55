"""Whatever comes, fails and is lost: no GPU is given whole and in parts at once, none is divided under a job, and what
the core believes is there is there. `MigWorld.check` says so after every step, from what the nodes really have."""

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.values.mig import parse_layouts
from penstock.values.states import ALLOCATED_STATES, JobState
from tests.core.migworld import MigWorld, job, mig_config

LAYOUTS = [
    "whole|1g.18gb*7",
    "whole|1g.18gb*7|3g.71gb,2g.35gb,1g.18gb",
    "1g.18gb*7|3g.71gb*2|7g.141gb",
    "whole|4g.71gb,2g.35gb|2g.35gb*3,1g.18gb",
]
KINDS = st.sampled_from(
    ["h200", "2*h200", "1g.18gb", "3*1g.18gb", "2g.35gb", "3g.71gb", "2*3g.71gb", "", "2*", "7g.141gb", "4g.71gb"]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"), st.lists(KINDS, min_size=1, max_size=2, unique=True), st.sampled_from([60, 600, 6000])
        ),
        st.tuples(st.just("nodes"), KINDS, st.integers(1, 2)),
        st.tuples(st.just("array"), KINDS, st.integers(2, 9)),
        st.tuples(st.just("exit"), st.integers(0, 20)),
        st.tuples(st.just("finish"), st.integers(0, 4)),
        st.tuples(st.just("fail"), st.integers(0, 4)),
        st.tuples(st.just("degrade"), st.sampled_from(["2g.35gb", "1g.18gb*3", "whole"])),
        st.tuples(st.just("advance"), st.sampled_from([1, 60, 300, 4000])),
        st.tuples(st.just("restart")),
        st.tuples(st.just("lose"), st.integers(1, 2)),
        st.tuples(st.just("back"), st.integers(1, 2)),
    ),
    max_size=40,
)


def submit(world: MigWorld, kinds: list[str], **more: object) -> None:
    known = {kind for node in world.core.state.nodes.values() for kind in node.inside.kinds}
    if all(("gpu", kind.rpartition("*")[2]) in known for kind in kinds):
        world.submit(job(*kinds, **more))  # type: ignore[arg-type]  # keywords of many types


def do(world: MigWorld, step: tuple[object, ...]) -> None:
    match step:
        case ("submit", list() as kinds, int(limit_s)):
            submit(world, kinds, limit_s=limit_s)
        case ("nodes", str(kind), int(count)):
            submit(world, [kind], nodes_min=count, nodes_max=count)
        case ("array", str(kind), int(count)):
            submit(world, [kind], array=f"0-{count - 1}")
        case ("exit", int(number)):
            running = [key for name, steps in world.running.items() if name in world.links for key in steps]
            if running:
                world.exited(running[number % len(running)][0])
        case ("finish" | "fail" as how, int(number)):
            if world.orders:
                work_id = list(world.orders)[number % len(world.orders)]
                world.finish(ok=how == "finish", work_id=work_id)
        case ("degrade", str(layout)):
            if world.orders:
                world.finish(ok=False, becomes=parse_layouts(layout)[0])
        case ("advance", int(seconds)):
            world.advance(seconds)
        case ("restart",):
            world.restart()
            for name in list(world.cards):
                world.register(name)
        case ("lose", int(number)):
            if f"n{number}" in world.links:
                world.disconnect(f"n{number}")
        case ("back", int(number)):
            world.register(f"n{number}")


@examples(quick=30, full=600)
@given(st.sampled_from(LAYOUTS), st.integers(1, 2), st.integers(0, 1), STEPS)
def test_never_whole_and_in_parts(layouts: str, count: int, plain: int, steps: list[tuple[object, ...]]) -> None:
    world = MigWorld(mig_config(nodes=2, count=count, plain=plain, layouts=layouts))
    world.check()
    for step in steps:
        do(world, step)
        world.check()


@settings(max_examples=30)
@given(st.sampled_from(LAYOUTS), st.lists(KINDS, min_size=1, max_size=8))
def test_everybody_is_served_in_the_end(layouts: str, kinds: list[str]) -> None:
    """Nobody starves: when divisions work and jobs end, the queue runs empty."""
    world = MigWorld(mig_config(nodes=1, count=2, layouts=layouts))
    for kind in kinds:
        submit(world, [kind], limit_s=600)
    for _ in range(200):
        jobs = world.core.state.jobs.values()
        waiting = [j for j in jobs if j.state is JobState.PENDING]
        if not waiting:
            return
        if world.orders:
            world.finish()
        elif any(j.state in ALLOCATED_STATES for j in jobs):
            steps = next(steps for steps in world.running.values() if steps)
            world.exited(next(iter(steps))[0])
        else:
            world.advance(60)
        world.check()
    raise AssertionError([(j.request.gres_per_node, j.reason.name, j.reason_detail) for j in waiting])
