"""Preemption and time slices under any order of events: no job is lost, no cpu runs two jobs, every gang gets its turn.

`World` runs the core's own check after each event, which counts units, memory and what runs at once on each node.
"""

from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.lifecycle.suspend import run_us
from ctld.core.records.events import ChangeQos, JobSubmission, QosAction
from penstock.values.config import PartitionConfig
from penstock.values.states import ACTIVE_STATES, END_STATES, JobState, Suspend
from penstock.values.topology import Switch, Topology
from tests.core import test_properties as stories
from tests.core.world import World, make_config

LEAVES = Topology("tree", (Switch("s1", 0, ("n1", "n2")), Switch("s2", 0, ("n3",))))

NODES = ("n1", "n2", "n3")
LOW = PartitionConfig("low", NODES, is_default=True, priority_tier=1)
HIGH = PartitionConfig("high", NODES, priority_tier=10)

#: By name: the configuration of each kind of preemption.
KINDS: dict[str, dict[str, Any]] = {
    "requeue": {"preempt_type": "preempt/partition_prio", "preempt_mode": ("REQUEUE",), "partitions": (LOW, HIGH)},
    "grace": {
        "preempt_type": "preempt/partition_prio",
        "preempt_mode": ("CANCEL",),
        "preempt_exempt_time_s": 5,
        "partitions": (PartitionConfig("low", NODES, is_default=True, grace_time_s=20), HIGH),
    },
    "suspend": {
        "preempt_type": "preempt/partition_prio",
        "preempt_mode": ("SUSPEND", "GANG"),
        "partitions": (
            PartitionConfig("low", NODES, is_default=True, priority_tier=1, over_subscribe="FORCE:2"),
            PartitionConfig("high", NODES, priority_tier=10, over_subscribe="FORCE:3"),
            PartitionConfig("top", NODES, priority_tier=20),
        ),
    },
    "qos": {"preempt_type": "preempt/qos", "preempt_mode": ("REQUEUE", "WITHIN"), "partitions": (LOW, HIGH)},
}


def submit_somewhere(world: World, a: int, b: int) -> None:
    names = [partition.name for partition in world.config.partitions]
    wanted = JobSubmission(
        name=f"job{b}", work_dir=b"/tmp", ntasks=a % 6 + 1, nodes_min=b % 3, nodes_max=b % 3, requeue=bool(b % 5),
        partitions=(names[(a + b) % len(names)],), qos=["", "big"][a % 2] if "big" in world.core.state.qos else "",
        time_limit_s=[None, 40, 500][a % 3], mem_per_cpu_mb=[None, 100, 700][b % 3], exclusive=a % 11 == 0, exclusive_topo=b % 7 == 3,
    )  # fmt: skip
    world.submit(wanted, ["ann", "bob"][a % 2])


OPERATIONS = (
    submit_somewhere, submit_somewhere, submit_somewhere, stories.start_one, stories.start_one, stories.exit_one,
    stories.exit_one, stories.cancel_one, stories.control_one, stories.lose_node, stories.find_node, stories.find_node,
    stories.pass_time, stories.restart,
)  # fmt: skip


def begin(kind: str) -> World:
    world = World(make_config(nodes=3, cpus=4, return_to_service=2, topology=LEAVES, **KINDS[kind]))
    for name in list(world.running):
        world.register(name)
    if kind == "qos":
        world.do(ChangeQos(world.actor("root"), QosAction.ADD, ("big",), {"preempt": "normal", "priority": "9"}))
    return world


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25 * stories.SCALE, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 60), st.integers(0, 60)),
        max_size=stories.STORY_MAX,
    )
)
def test_no_job_is_lost(kind: str, story: stories.Story) -> None:
    world = begin(kind)
    for operation, a, b in story:
        OPERATIONS[operation](world, a, b)
    stories.heal(world)
    for job_id in world.acknowledged:
        attempts = [row for (i, _), row in world.jobs.items() if i == job_id]
        assert attempts and attempts[-1].state in END_STATES
    state = world.core.state
    assert not state.preemption.suspended and not state.running.row_of
    for row in world.jobs.values():
        assert row.suspended_by is Suspend.NO or row.state is JobState.REQUEUED
        assert 0 <= row.suspended_us <= max(0, row.end_at_us - row.start_at_us) or row.state in ACTIVE_STATES
    for node in state.node_list:
        assert node.cpus_alloc == 0 and node.mem_alloc_mb == 0
        assert state.node_columns.free_cpus[node.index] == state.node_columns.total_cpus[node.index]


SLOT_S = 30
gangs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=6)


def time_sliced(shapes: list[tuple[int, int]]) -> World:
    """One job for each (nodes, cpus on each), all started; they never end."""
    partition = PartitionConfig("gang", NODES, is_default=True, over_subscribe="FORCE:6")
    world = World(
        make_config(nodes=3, cpus=4, preempt_mode=("GANG",), sched_time_slice_s=SLOT_S, partitions=(partition,))
    )
    for name in list(world.running):
        world.register(name)
    for nodes, cpus in shapes:
        world.submit(
            JobSubmission(work_dir=b"/tmp", nodes_min=nodes, nodes_max=nodes, ntasks=nodes, cpus_per_task=cpus)
        )
    return world


@settings(examples(quick=30 * stories.SCALE, full=600 * stories.SCALE), derandomize=True)
@given(gangs)
def test_every_gang_gets_a_turn_before_another_gets_its_second(shapes: list[tuple[int, int]]) -> None:
    world = time_sliced(shapes)
    jobs = world.core.state.jobs
    assert all(job.state is not JobState.PENDING for job in jobs.values())
    slots: list[set[int]] = []
    for _ in range(3 * len(shapes)):
        slots.append({job_id for job_id, job in jobs.items() if job.state is not JobState.SUSPENDED})
        world.advance(SLOT_S)
    for job_id in jobs:
        for first in range(len(slots) - len(shapes) + 1):
            window = slots[first : first + len(shapes)]
            assert any(job_id in slot for slot in window), f"job {job_id} does not run in {window}"


@settings(max_examples=20 * stories.SCALE, deadline=None, derandomize=True)
@given(st.integers(2, 6), st.integers(1, 4))
def test_equal_gangs_get_equal_shares(count: int, rounds: int) -> None:
    world = time_sliced([(3, 4)] * count)
    world.advance(SLOT_S * count * rounds)
    ran = [run_us(job, world.now_us) for job in world.core.state.jobs.values()]
    assert ran == [SLOT_S * 1_000_000 * rounds] * count


def test_the_turns_do_not_depend_on_a_restart_of_the_controller() -> None:
    """Who stands still is first afterwards, so that restarts starve nobody."""
    world = time_sliced([(3, 4)] * 3)
    ran: set[int] = set()
    for _ in range(3):
        ran |= {job.job_id for job in world.core.state.jobs.values() if job.state is not JobState.SUSPENDED}
        world.restart()
        for name in list(world.running):
            world.register(name)
        world.advance(SLOT_S)
    assert len(ran) >= 2
