"""Properties of the core under any order of requests, reports, losses and restarts.

A list of small numbers is a story: each picks an operation and its arguments. `World` asserts after every one that
the core's invariants hold, that no (job, attempt) is started twice and that no end state is left again; here also:
acknowledged jobs end when faults stop, the books agree with what ran, and the same story gives the same digest.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.records.decay import USAGE_ONE
from ctld.core.records.events import CancelJobs, ControlAction, ControlJobs, JobFilter, JobSubmission, UpdateNodes
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import ACTIVE_STATES, END_STATES, JobState
from penstock.values.topology import Switch, Topology
from tests.core.world import World, make_config

#: PENSTOCK_SCALE multiplies the number of stories (make test-full).
SCALE = int(os.environ.get("PENSTOCK_SCALE", "1"))
STORY_MAX = 80
LEAVES = Topology("tree", (Switch("s1", 0, ("n1", "n2")), Switch("s2", 0, ("n3",))))

Story = list[tuple[int, int, int]]


def submit_plain(world: World, a: int, b: int) -> None:
    wanted = JobSubmission(
        name=f"job{b % 3}", work_dir=b"/tmp", ntasks=a % 4 + 1, nodes_min=b % 3, requeue=bool(a % 2),
        mem_per_cpu_mb=[None, 100, 900][b % 3], exclusive=a % 7 == 0, time_limit_s=[None, 5, 500][a % 3], exclusive_topo=b % 7 == 3,
        gres_per_node=(("gpu", ["", "a100"][b % 2], a % 3),) if a % 2 else (),
    )  # fmt: skip
    world.submit(wanted, ["ann", "bob"][a % 2])


def submit_array(world: World, a: int, b: int) -> None:
    limit = f"%{b % 3}" if b % 3 else ""
    world.submit(JobSubmission(name="array", work_dir=b"/tmp", array=f"0-{a % 9}{limit}", time_limit_s=50))


def submit_dependent(world: World, a: int, b: int) -> None:
    kind = ["afterok", "afterany", "afternotok", "after", "singleton"][a % 5]
    target = "" if kind == "singleton" else f":{b % max(1, world.counters[0]) or 1}"
    world.submit(JobSubmission(name="dep", work_dir=b"/tmp", dependency=kind + target, kill_on_invalid_dep=b % 2 == 0))


def running(world: World) -> list[tuple[str, int, int]]:
    return [(n, j, a) for n, steps in world.running.items() if n in world.links for j, a in steps]


def start_one(world: World, a: int, b: int) -> None:
    steps = running(world)
    if steps:
        world.started(steps[a % len(steps)][1])


def exit_one(world: World, a: int, b: int) -> None:
    steps = running(world)
    if steps:
        world.exited(steps[a % len(steps)][1], [0, 0, 1, 0][b % 4], [0, 0, 0, 9][b % 4], oom=b % 11 == 0)


def false_report(world: World, a: int, b: int) -> None:
    """A report of something that ended long ago, or of another attempt."""
    nodes = sorted(world.links)
    known = sorted(k for k in world.steps if (k[0], k[1]) not in {(j, at) for _, j, at in running(world)})
    done = [k for k in known if world.steps[k].state in END_STATES]
    if nodes and done:
        job_id, attempt, _ = done[a % len(done)]
        world.report_exit(nodes[b % len(nodes)], job_id, attempt)


def cancel_one(world: World, a: int, b: int) -> None:
    text = str(a % max(1, world.counters[0]) or 1) + (f"_[{b % 4}-{b % 4 + 2}]" if b % 3 == 0 else "")
    world.do(CancelJobs(world.actor("root"), JobFilter(ids=(text,)), reply_to=world.reply_to()))


def control_one(world: World, a: int, b: int) -> None:
    action = list(ControlAction)[b % len(ControlAction)]
    world.do(ControlJobs(world.actor("opa"), (str(a % max(1, world.counters[0]) or 1),), action, world.reply_to()))


def lose_node(world: World, a: int, b: int) -> None:
    names = sorted(world.links)
    if names:
        world.disconnect(names[a % len(names)])
        if b % 2:
            world.reboot(names[a % len(names)])


def find_node(world: World, a: int, b: int) -> None:
    names = sorted(set(world.running) - set(world.links))
    if names:
        world.register(names[a % len(names)])


def drain_node(world: World, a: int, b: int) -> None:
    name = sorted(world.running)[a % len(world.running)]
    changes = [{"state": "drain", "reason": "x"}, {"state": "resume"}, {"state": "down", "reason": "y"}][b % 3]
    if changes["state"] == "down" and name in world.links:
        return  # the administrator's word must be true: nothing runs there
    if changes["state"] == "down":
        world.reboot(name)
    world.do(UpdateNodes(world.actor("root"), (name,), changes, world.reply_to()))


def pass_time(world: World, a: int, b: int) -> None:
    world.advance([1, 10, 200, 400][a % 4])


def restart(world: World, a: int, b: int) -> None:
    world.restart()
    world.settle()


OPERATIONS: tuple[Callable[[World, int, int], None], ...] = (
    submit_plain, submit_plain, submit_array, submit_dependent, start_one, exit_one, exit_one, exit_one, false_report,
    cancel_one, control_one, lose_node, find_node, find_node, drain_node, pass_time, restart,
)  # fmt: skip

ORDERS: tuple[dict[str, Any], ...] = (
    {},
    {"penstock_backfill": "easy", "penstock_backfill_order": "aged", "penstock_backfill_predictor": "history"},
)
FORCED = PartitionConfig("debug", ("n1", "n2", "n3"), is_default=True, over_subscribe="FORCE:2")
SHARED: tuple[dict[str, Any], ...] = (
    {},
    {"partitions": (FORCED,)},
    {"partitions": (FORCED,), "preempt_mode": ("GANG", "SUSPEND"), "preempt_type": "preempt/partition_prio"},
)
stories = st.lists(
    st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 60), st.integers(0, 60)), max_size=STORY_MAX
)


def begun(**extra: Any) -> World:
    world = World(make_config(nodes=3, cpus=4, gpus=2, return_to_service=2, topology=LEAVES, **extra))
    for name in list(world.running):
        world.register(name)
    return world


def tell(story: Story, **extra: Any) -> World:
    world = begun(**extra)
    for operation, a, b in story:
        OPERATIONS[operation](world, a, b)
    return world


def heal(world: World) -> None:
    """Faults stop: nodes come back, holds are released, hopeless jobs are cancelled; everything must end."""
    for name in sorted(set(world.running) - set(world.links)):
        world.register(name)
    root = world.actor("root")
    for _ in range(300):
        active = [job for job in world.core.state.jobs.values() if job.state in ACTIVE_STATES]
        if not active:
            return
        for name in world.running:
            world.do(UpdateNodes(root, (name,), {"state": "resume"}, 0))
        ids = tuple(str(job.job_id) for job in active if job.hold)
        world.do(ControlJobs(root, ids, ControlAction.RELEASE, 0))
        hopeless = tuple(str(job.job_id) for job in active if job.reason.value == "DependencyNeverSatisfied")
        if hopeless:
            world.do(CancelJobs(root, JobFilter(ids=hopeless)))
        for _, job_id, _ in running(world):
            world.exited(job_id)
        for name in sorted(world.links):
            _answer_tombstones(world, name)
        world.advance(30)
    states = [(job.job_id, job.state.name, job.reason.value) for job in active]
    raise AssertionError(f"these do not end: {states}")


def _answer_tombstones(world: World, name: str) -> None:
    """A node says of a step that it will never start that it has ended; once more it says what it has, as after a cut."""
    for job_id, attempt in list(world.tombstones[name]):
        world.report_exit(name, job_id, attempt, failure="ended before it was started")
    world.tombstones[name].clear()
    world.disconnect(name)
    world.register(name)


@settings(examples(quick=30 * SCALE, full=600 * SCALE), derandomize=True)
@given(stories)
def test_usage_is_what_all_attempts_have_held(story: Story) -> None:
    """Whatever happens, restarts too: charged is each attempt's time times its CPUs, to a millisecond of each change."""
    world = tell(story, priority_type="priority/multifactor", priority_decay_half_life_s=0, priority_weight_age=100)
    held: dict[str, int] = {}
    for row in world.jobs.values():
        if row.start_at_us and row.alloc:
            end_us = row.end_at_us or world.now_us
            held[row.user_name] = held.get(row.user_name, 0) + (end_us - row.start_at_us) * sum(
                part.cpus for part in row.alloc
            )
    tree = world.core.state.shares
    charged = {user: tree.usage_at(assoc, world.now_us) for (_, user), assoc in tree.users.items()}
    for user, amount_us in held.items():
        assert abs(charged[user] - amount_us * USAGE_ONE // 1_000_000) <= len(story) + 10
    assert all(user in held or not usage for user, usage in charged.items())


@settings(examples(quick=30 * SCALE, full=600 * SCALE), derandomize=True)
@given(stories, st.sampled_from(ORDERS))
def test_every_acknowledged_job_ends(story: Story, order: dict[str, Any]) -> None:
    world = tell(story, **order)
    heal(world)
    for job_id in world.acknowledged:
        attempts = [row for (i, _), row in world.jobs.items() if i == job_id]
        assert attempts and attempts[-1].state in END_STATES


@settings(examples(quick=30 * SCALE, full=400 * SCALE), derandomize=True)
@given(stories)
def test_the_books_agree_with_what_ran(story: Story) -> None:
    world = tell(story)
    heal(world)
    assert len(set(world.launches)) == len(world.launches)
    for job_id, attempt in world.launches:
        row = world.jobs[job_id, attempt]
        assert row.state in END_STATES and row.start_at_us > 0 and row.end_at_us >= row.start_at_us and row.alloc
    ran = set(world.launches)
    for key, row in world.jobs.items():
        if row.state is JobState.COMPLETED:
            assert key in ran, f"{key} completed and never ran"
    for node in world.core.state.node_list:
        assert node.cpus_alloc == 0 and node.mem_alloc_mb == 0 and not any(node.gres_used.values())


@settings(max_examples=30 * SCALE, deadline=None, derandomize=True)
@given(stories, st.sampled_from(ORDERS))
def test_the_same_story_has_the_same_digest(story: Story, order: dict[str, Any]) -> None:
    assert tell(story, **order).core.digest() == tell(story, **order).core.digest()


def smaller(config: Config, a: int) -> Config:
    """What an administrator may make of the file while the controller is down."""
    nodes = tuple(
        replace(node, cpus=max(1, node.cpus >> (a & 3)), real_memory_mb=1 if a & 4 else 4000, gres=node.gres[: a & 1])
        for node in config.nodes[a % 3 :]
    )
    name = "other" if a & 8 else "debug"
    shared = ("NO", "FORCE:2", "EXCLUSIVE")[a % 3]
    partition = PartitionConfig(name, tuple(n.name for n in nodes), is_default=True, over_subscribe=shared)
    return replace(config, nodes=nodes, partitions=(partition,), licenses=())


@settings(examples(quick=30 * SCALE, full=400 * SCALE), derandomize=True)
@given(stories, st.integers(0, 63), st.sampled_from(SHARED))
def test_a_controller_starts_from_every_state_and_any_file(story: Story, a: int, shared: dict[str, Any]) -> None:
    """With the file as it was it finds the jobs as they were, and nothing is drained; with another one no running job
    is lost, and the invariants hold."""
    world = begun(**shared)
    for operation, first, second in story:
        OPERATIONS[operation](world, first, second)
        jobs = world.core.state.jobs.values()
        same = world.started_anew(world.config)
        assert not same.state.layout.kept and same.state.config == world.config
        other = world.started_anew(smaller(world.config, a))
        for job in jobs:
            for core in (same, other):
                if job.state in ACTIVE_STATES:
                    found = core.state.jobs[job.job_id]
                    assert (found.state, found.alloc) == (job.state, job.alloc)


@settings(max_examples=30 * SCALE, deadline=None, derandomize=True)
@given(stories, st.integers(0, 63), st.sampled_from(SHARED))
def test_all_jobs_end_after_a_start_with_another_file(story: Story, a: int, shared: dict[str, Any]) -> None:
    world = begun(**shared)
    for operation, first, second in story:
        OPERATIONS[operation](world, first, second)
    full = world.config
    world.config = smaller(world.config, a)
    world.restart()
    world.config = world.core.state.config
    world.settle()
    for name in sorted({node.name for node in world.config.nodes}):
        world.register(name)
    for _, job_id, _ in running(world):
        world.exited(job_id)
    world.config = full
    world.restart()
    world.settle()
    heal(world)


@settings(examples(quick=30 * SCALE, full=400 * SCALE), derandomize=True)
@given(stories)
def test_a_restart_loses_nothing(story: Story) -> None:
    """What is committed is all there is: a core built from the rows has the same jobs."""
    world = tell(story)
    before = {i: (j.state, j.attempt, j.alloc, j.hold, j.dependency) for i, j in world.core.state.jobs.items()}
    old_enough = world.now_us - world.config.min_job_age_s * 1_000_000
    before = {
        i: v for i, v in before.items() if v[0] in ACTIVE_STATES or world.core.state.jobs[i].end_at_us > old_enough
    }
    world.restart()
    after = {i: (j.state, j.attempt, j.alloc, j.hold, j.dependency) for i, j in world.core.state.jobs.items()}
    assert {i: v[:4] for i, v in after.items()} == {i: v[:4] for i, v in before.items()}
