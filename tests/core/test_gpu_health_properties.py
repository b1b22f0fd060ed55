"""Properties of GPUs that fail, under any order of reports, works, losses, restarts and an administrator's words.

After each step `World` checks the core's invariants. Here also: when faults stop, every job ends; nothing is launched on
a GPU that is closed; no work is begun on a GPU that a job has, nor two at once on a node; what is thought of GPUs survives
a restart of the controller.
"""

import os
from collections.abc import Callable
from typing import Any

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.gpus import work as gpu_work
from ctld.core.records.effects import GpuWork
from ctld.core.records.events import (
    CancelJobs,
    ControlAction,
    ControlJobs,
    GpuIdle,
    GpuReported,
    GpuWorkDone,
    JobFilter,
    JobSubmission,
    UpdateNodes,
)
from ctld.core.records.gpu import GpuAction
from penstock.values.gpustates import GpuState
from penstock.values.states import ACTIVE_STATES
from tests.core.gpuscript import facts, opinion, uuid_of
from tests.core.world import World, make_config

SCALE = int(os.environ.get("PENSTOCK_SCALE", "1"))
GPUS = 3
Story = list[tuple[int, int, int]]


class Watched(World):
    """Looks at each order about a GPU."""

    def _gpu_order(self, effect: object) -> str:
        if isinstance(effect, GpuWork) and effect.work_id not in self.work_ids.values():
            node = self.core.state.nodes[effect.node]
            gpu = node.gpus[effect.uuid]
            assert gpu_work.is_idle(node, gpu), f"{effect.work_id} on a GPU in use"
            assert len(gpu_work.under_way(node)) <= 1, f"{node.name}: two works at once"
        return super()._gpu_order(effect)  # type: ignore[arg-type]  # the table of effects chose it


def node_of(world: World, a: int) -> str:
    names = sorted(world.links)
    return names[a % len(names)] if names else ""


def submit(world: World, a: int, b: int) -> None:
    wanted = JobSubmission(
        name="j", work_dir=b"/tmp", requeue=bool(a % 3), nodes_min=b % 2 + 1, array="0-2" if b % 7 == 0 else "",
        gres_per_node=(("gpu", "", a % GPUS + 1),), time_limit_s=None if a % 2 else 500,
    )  # fmt: skip
    world.submit(wanted, ["ann", "bob"][b % 2])


def in_reach(world: World) -> list[int]:
    """Jobs that run on a node that can say so."""
    jobs = dict.fromkeys(job_id for mine in world.running.values() for job_id, _ in mine)
    return [job_id for job_id in jobs if world.where(job_id)[0] in world.links]


def start(world: World, a: int, b: int) -> None:
    jobs = in_reach(world)
    if jobs:
        world.started(jobs[a % len(jobs)])


def end(world: World, a: int, b: int) -> None:
    jobs = in_reach(world)
    if jobs:
        world.exited(jobs[a % len(jobs)], b % 3 // 2)


def report(world: World, a: int, b: int) -> None:
    """The node says something of a GPU and of jobs: those that have it, or others."""
    node = node_of(world, a)
    if not node:
        return
    state = GpuState((a + b) % 5)
    said = opinion(node, b % GPUS, state, f"why {b % 2}", b % 5 == 0, b % 3 == 0)
    jobs = [(job_id, attempt) for mine in world.running.values() for job_id, attempt in mine]
    old = [(job_id, attempt) for job_id, attempt, _ in world.steps]
    named = (jobs[a % len(jobs) :] if jobs else []) + (old[:1] if b % 4 == 0 else [])
    world.sequence += 1
    world.do(
        GpuReported(
            node, f"spool-{node}", world.sequence, world.links[node], world.now_us, (said,), GpuAction(b % 4),
            tuple(named), f"cause {a % 3}",
        )
    )  # fmt: skip


def register(world: World, a: int, b: int) -> None:
    """With some of its GPUs, or (NVML does not answer) with none."""
    name = sorted(world.running)[a % len(world.running)]
    world.found[name] = facts(name, *[number for number in range(GPUS) if (b >> number) % 4 != 3])
    if name not in world.links:
        world.register(name, gpu_why="driver gone" if not world.found[name] else "", gpu_constraint="cgroup/v2")


def lose(world: World, a: int, b: int) -> None:
    node = node_of(world, a)
    if node:
        world.disconnect(node)
        if b % 2:
            world.reboot(node)


def work(world: World, a: int, b: int) -> None:
    """A work ends, one of long ago perhaps."""
    names = list(world.works)
    if names:
        name = names[-1 - a % len(names)]
        node, uuid = world.works[name]
        if node in world.links:
            world.sequence += 1
            world.do(
                GpuWorkDone(
                    node, f"spool-{node}", world.sequence, world.links[node], world.work_ids[name], uuid, b % 3 > 0,
                    f"words {b % 2}", b % 7 == 0,
                )
            )  # fmt: skip


def administer(world: World, a: int, b: int) -> None:
    node = sorted(world.running)[a % len(world.running)]
    state = ["drain", "resume"][b % 2]
    changes = {"gres": f"gpu:{b % GPUS}" if b % 5 else "gpu", "state": state, "reason": "x"}
    world.do(UpdateNodes(world.actor("root"), (node,), changes, world.reply_to()))


def idle(world: World, a: int, b: int) -> None:
    node = node_of(world, a)
    jobs = list(world.running.get(node, {}))
    if jobs:
        job_id, attempt = jobs[b % len(jobs)]
        world.sequence += 1
        uuids = tuple(uuid_of(node, number) for number in range(a % GPUS + 1))
        world.do(
            GpuIdle(
                node, f"spool-{node}", world.sequence, world.links[node], job_id, attempt, uuids,
                world.now_us - 60_000_000, b % 4 == 3, b % 2 == 0,
            )
        )  # fmt: skip


def control(world: World, a: int, b: int) -> None:
    action = [ControlAction.SUSPEND, ControlAction.RESUME, ControlAction.REQUEUE][b % 3]
    world.do(ControlJobs(world.actor("opa"), (str(a % max(1, world.counters[0]) or 1),), action, world.reply_to()))


def pass_time(world: World, a: int, b: int) -> None:
    world.advance([1, 40, 130, 700][a % 4])


def thought(world: World) -> list[Any]:
    """What is known of each GPU, apart from its place: where no job holds GPUs places are assigned again."""
    every = (gpu for node in world.core.state.node_list for gpu in node.gpus.values())
    return sorted(gpu._replace(slot=0, given_as="", position=0) for gpu in every)


def restart(world: World, a: int, b: int) -> None:
    before = thought(world)
    world.restart()
    assert thought(world) == before, "a restart changes what is thought of GPUs"
    world.settle()


OPERATIONS: tuple[Callable[[World, int, int], None], ...] = (
    submit, submit, start, start, end, report, report, report, register, register, lose, work, work, administer, idle,
    idle, control, pass_time, pass_time, restart,
)  # fmt: skip
SITES: tuple[dict[str, object], ...] = (
    {},
    {"gpu_check_program": "/check", "gpu_reset_program": "/reset", "gpu_check_interval_h": 1},
    {"gpu_idle_warn_s": 30, "gpu_idle_limit_s": 60, "gpu_idle_action": "cancel"},
    {
        "gpu_idle_warn_s": 30, "gpu_idle_limit_s": 60, "gpu_idle_action": "return", "gpu_check_program": "/check",
        "priority_type": "priority/multifactor",
    },
)  # fmt: skip
stories = st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 40), st.integers(0, 40)), max_size=70)


def tell(story: Story, site: int) -> World:
    world = Watched(make_config(nodes=2, cpus=4, gpus=GPUS, return_to_service=2, **SITES[site]))  # type: ignore[arg-type]  # keywords of many types
    for name in list(world.running):
        register(world, sorted(world.running).index(name), 0)
    for operation, a, b in story:
        OPERATIONS[operation](world, a, b)
    return world


def heal(world: World) -> None:
    """All GPUs are there and well, works succeed, jobs end: nothing may be left."""
    root = world.actor("root")
    for name in sorted(world.running):
        if name in world.links:
            world.disconnect(name)
        world.found[name] = facts(name, *range(GPUS))
        world.register(
            name, gpu_constraint="cgroup/v2", gpu_opinions=tuple(opinion(name, n, GpuState(0)) for n in range(GPUS))
        )
    for _ in range(200):
        active = [job for job in world.core.state.jobs.values() if job.state in ACTIVE_STATES]
        if not active:
            return
        for name in world.running:
            world.do(UpdateNodes(root, (name,), {"gres": "gpu", "state": "resume"}, 0))
            world.do(UpdateNodes(root, (name,), {"state": "resume"}, 0))
        for name in list(world.works):
            work(world, len(world.works) - 1 - list(world.works).index(name), 1)
        ids = tuple(str(job.job_id) for job in active)
        for action in (ControlAction.RELEASE, ControlAction.RESUME):
            world.do(ControlJobs(root, ids, action, 0))
        for job_id in in_reach(world):
            world.exited(job_id)
        world.advance(5)
    raise AssertionError([(job.job_id, job.state.name, job.reason_detail) for job in active])


@examples(quick=30 * SCALE, full=600 * SCALE)
@given(stories, st.integers(0, len(SITES) - 1))
def test_every_job_ends_when_gpus_are_well_again(story: Story, site: int) -> None:
    world = tell(story, site)
    heal(world)


@settings(max_examples=20 * SCALE, deadline=None)
@given(stories, st.integers(0, len(SITES) - 1))
def test_the_same_story_ends_the_same(story: Story, site: int) -> None:
    one, two = tell(story, site), tell(story, site)
    assert one.core.digest() == two.core.digest() and one.gpus == two.gpus


def test_cancelled_jobs_do_not_come_back() -> None:
    """A mark does not queue a job again that was cancelled."""
    world = Watched(make_config(nodes=1, cpus=4, gpus=GPUS))
    world.found["n1"] = facts("n1", 0, 1, 2)
    world.register("n1")
    world.submit(JobSubmission(name="j", work_dir=b"/tmp", gres_per_node=(("gpu", "", 1),)))
    world.started(1)
    said = (opinion("n1", 0, GpuState.SUSPECT),)
    world.do(GpuReported("n1", "spool-n1", 1, world.links["n1"], 0, said, GpuAction.MARK, ((1, 0),), "XID 94"))
    world.do(CancelJobs(world.actor("ann"), JobFilter(ids=("1",)), reply_to=world.reply_to()))
    world.exited(1, signal=15)
    assert world.core.state.jobs[1].state.name == "CANCELLED"
