"""The oracles can fail: each mutant is a fault of the kind that they are there for, and some seed must notice it.

A mutant changes one thing in the real code. Which oracle speaks first may be another than one expects; that one of
those named here speaks is what is asserted, and that without the mutant none does (test_worlds.py).
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ctld.core.controller import Core
from ctld.core.dispatch import HANDLERS
from ctld.core.jobs import arrays, expected_end
from ctld.core.jobs.sharing import units_in_use
from ctld.core.jobs.waiters import forget
from ctld.core.lifecycle import depends, job_life, suspend
from ctld.core.nodes import kept
from ctld.core.passes import schedule
from ctld.core.queue import shapes
from ctld.core.records.effects import Batch, LaunchStep, Submitted
from ctld.core.records.events import CancelJobs, StepExited, SubmitJob
from ctld.core.records.job import Job, job_row
from ctld.core.records.waiting_row import whole
from ctld.core.requests import submit
from ctld.core.state.devices import pick_devices
from ctld.core.state.job_step_table import JobStepTable
from ctld.core.state.shares import pick_share
from ctld.core.state.state import ClusterState
from ctld.core.steps import creation
from ctld.core.steps import life as step_life
from ctld.core.steps import parts as step_parts
from ctld.core.steps.plan import plan_step
from ctld.store.committer import Store
from nodedaemon.core.machine import SIGKILL, NodeMachine
from nodedaemon.core.messages import DeliverSignal, Launch, LinkUp, NodeBatch
from nodedaemon.core.steps import StepKey
from penstock.values.states import Hold, JobState
from sim import simnode
from sim.checkers import Broken
from sim.simstep import Disk
from sim.swarm import draw
from sim.world import STEPS, SimWorld

SEEDS_MAX = 60
#: Where to begin to look for those that the first worlds do not notice. Worlds change with the code: then it takes longer.
FIRST_SEED = {
    "launches_twice": 6, "shares_a_gpu_in_use": 7, "ignores_time_limits": 17, "never_kills": 17, "ignores_array_limits": 11,
    "forgets_holds": 20, "same_cpus_for_all_steps": 11, "ends_with_the_first_part": 12, "limits_too_short": 2,
    "loses_reports": 3, "relaunches_after_loss": 5, "forgets_step_keys": 12, "ignores_dependencies": 3, "forgets_cancels": 5,
    "starts_on_closed_nodes": 4, "stops_nothing": 6, "forgets_submit_keys": 4, "drops_a_submit": 2, "never_releases": 1,
}  # fmt: skip
Patch = pytest.MonkeyPatch


def forgets_to_release(patch: Patch) -> None:
    """Resources are given back when the job begins to end, not when it has ended."""
    real = job_life.terminate

    def terminate(state: ClusterState, job: Any, *rest: Any, **more: Any) -> None:
        real(state, job, *rest, **more)
        if job.state is JobState.COMPLETING and not job.request.exclusive:
            state.release(job, state.now_us, units_in_use(state, job))

    patch.setattr(job_life, "terminate", terminate)
    patch.setattr(Core, "check", lambda self: None)


def never_releases(patch: Patch) -> None:
    """Resources of every third job are never given back."""
    real = ClusterState.release

    def release(self: ClusterState, job: Job, now_us: int, units: int) -> None:
        if job.job_id % 3:
            real(self, job, now_us, units)

    patch.setattr(ClusterState, "release", release)
    patch.setattr(Core, "check", lambda self: None)


def launches_twice(patch: Patch) -> None:
    """The node starts what it is sent, whether it knows it or not, and the stepd does not look at the claim."""

    class Unread(dict[StepKey, bool]):
        def __contains__(self, key: object) -> bool:
            return False

    class UnreadDisk(Disk):
        def __init__(self, spool_id: str) -> None:
            super().__init__(spool_id)
            self.claims = Unread()

    def step(self: NodeMachine, now_us: int, event: Any) -> None:
        if isinstance(event, Launch):
            self.steps.pop(event.key, None)
            self.forgotten.pop(event.key, None)
            self.live.pop((event.key.job_id, event.key.step_id), None)
        real(self, now_us, event)

    real = NodeMachine.step
    patch.setattr(NodeMachine, "step", step)
    patch.setattr(NodeMachine, "check", lambda self: None)
    patch.setattr(simnode, "Disk", UnreadDisk)


def launches_before_commit(patch: Patch) -> None:
    """Effects leave while their batch is still being written."""
    real = Core.seal
    rows: dict[Core, Batch] = {}

    def effects_first(self: Core) -> Batch | None:
        """What one call would return, in two: the effects alone need no commit, so they leave at once."""
        if self in rows:
            return rows.pop(self)
        batch = real(self)
        if batch is None or not batch.effects or not batch.is_durable():
            return batch
        rows[self] = msgspec.structs.replace(batch, effects=[])
        return Batch(
            batch.sequence, [], [], [], [], [], [], [], batch.next_job_id, batch.next_request_id, batch.effects, []
        )

    patch.setattr(Core, "seal", effects_first)


def drops_a_submit(patch: Patch) -> None:
    """The database loses the rows of some new jobs."""
    real = Store.commit

    def commit(self: Store, batch: Any) -> None:
        lost = [row for row in batch.jobs if row.job_id % 5 == 0 and row.state is JobState.PENDING]
        real(self, msgspec.structs.replace(batch, jobs=[row for row in batch.jobs if row not in lost]))

    patch.setattr(Store, "commit", commit)


def forgets_submit_keys(patch: Patch) -> None:
    """A submission that comes again is a new job."""
    patch.setattr(submit, "remember_key", lambda *args: None)


def answers_too_early(patch: Patch) -> None:
    """A submission is answered although nothing of it was kept."""

    def answer(state: ClusterState, now_us: int, event: Any) -> None:
        if state.next_job_id % 4 == 0:
            state.reply(event.reply_to, Submitted(state.next_job_id))
        else:
            real(state, now_us, event)

    real = submit.submit_job
    patch.setitem(HANDLERS, SubmitJob, answer)


def ends_on_suspicion(patch: Patch) -> None:
    """A job whose stream is lost is queued again at once, wherever it may run."""
    from ctld.core.records.events import NodeDisconnected

    real = HANDLERS[NodeDisconnected]

    def disconnected(state: ClusterState, now_us: int, event: Any) -> None:
        real(state, now_us, event)
        for job_id in list(state.nodes[event.node].jobs) if event.node in state.nodes else []:
            if state.jobs[job_id].state in (JobState.CONFIGURING, JobState.RUNNING):
                job_life.requeue(state, state.jobs[job_id], now_us)

    patch.setitem(HANDLERS, NodeDisconnected, disconnected)


def same_device_twice(patch: Patch) -> None:
    """Devices are picked without a look at who holds them."""
    real = pick_devices

    def pick(node: Any, wanted: Any) -> Any:
        used, node.gres_used = node.gres_used, {}
        try:
            return real(node, wanted)
        finally:
            node.gres_used = used

    def allocate(self: ClusterState, job: Any, alloc: Any, *rest: Any) -> None:
        for part in alloc:
            for name, type_, mask in part.gres:
                node = self.nodes[part.node]
                node.gres_used[name, type_] = node.gres_used.get((name, type_), 0) & ~mask
        allocate_real(self, job, alloc, *rest)

    allocate_real = ClusterState.allocate
    patch.setattr(schedule, "pick_devices", pick)
    patch.setattr(ClusterState, "allocate", allocate)
    patch.setattr(Core, "check", lambda self: None)


def shares_a_gpu_in_use(patch: Patch) -> None:
    """Shares are taken of the first GPU, whether or not it is in use."""
    real = pick_share

    def pick(node: Any, wish: Any, among: int = -1) -> Any:
        held = node.gres_used, node.gpu_shares
        node.gres_used, node.gpu_shares = {}, {}
        try:
            return real(node, wish, among)
        finally:
            node.gres_used, node.gpu_shares = held

    patch.setattr(schedule, "pick_share", pick)
    patch.setattr(Core, "check", lambda self: None)


def ignores_time_limits(patch: Patch) -> None:
    """The timer of a time limit does nothing."""
    from ctld.core.dispatch import TIMERS
    from ctld.core.state.timers import Timer

    patch.setitem(TIMERS, Timer.TIME_LIMIT, lambda *args: None)
    patch.setattr(step_life, "time_limit", lambda *args: None)


def limits_too_short(patch: Patch) -> None:
    """Time limits are counted in half seconds."""
    real = expected_end.time_limit_us
    patch.setattr(expected_end, "time_limit_us", lambda state, job: real(state, job) // 3)


def never_kills(patch: Patch) -> None:
    """SIGTERM is never followed by SIGKILL."""
    real = NodeMachine.seal

    def seal(self: NodeMachine) -> NodeBatch | None:
        batch = real(self)
        if batch is None:
            return None
        return msgspec.structs.replace(batch, effects=tuple(effect for effect in batch.effects if not is_kill(effect)))

    def is_kill(effect: Any) -> bool:
        return isinstance(effect, DeliverSignal) and SIGKILL in effect.signals

    patch.setattr(NodeMachine, "seal", seal)


def ignores_dependencies(patch: Patch) -> None:
    """Every term of a dependency counts as met."""
    real = depends.evaluate

    def evaluate(state: ClusterState, job: Job, now_us: int) -> None:
        any_of, _ = state.dependencies.waiting_for[job.job_id]
        forget(state, job)
        state.dependencies.waiting_for[job.job_id] = any_of, ()  # nothing is left to be met
        real(state, job, now_us)

    patch.setattr(depends, "evaluate", evaluate)


def ignores_array_limits(patch: Patch) -> None:
    """%N is not looked at."""
    patch.setattr(arrays, "startable", lambda state, job: arrays.weight(job))


def forgets_cancels(patch: Patch) -> None:
    """A cancel of a pending job is answered and not done."""
    real = HANDLERS[CancelJobs]

    def cancel(state: ClusterState, now_us: int, event: Any) -> None:
        finish = job_life.terminate
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                job_life, "terminate", lambda s, job, *a: None if job.state is JobState.PENDING else finish(s, job, *a)
            )
            real(state, now_us, event)

    patch.setitem(HANDLERS, CancelJobs, cancel)


def forgets_holds(patch: Patch) -> None:
    """A held job is taken for free again when the controller starts."""
    load = Store.load

    def loaded(self: Store, *args: Any) -> Any:
        found = load(self, *args)
        return found._replace(jobs=[whole(row)._replace(hold=Hold.NO) for row in found.jobs])

    patch.setattr(Store, "load", loaded)


def counts_cpu_time_twice(patch: Patch) -> None:
    """The row of a step says twice what was used."""
    real = step_life.step_exited

    def exited(state: ClusterState, now_us: int, event: StepExited) -> None:
        real(state, now_us, msgspec.structs.replace(event, user_cpu_us=2 * event.user_cpu_us))

    patch.setattr(step_life, "step_exited", exited)


def loses_reports(patch: Patch) -> None:
    """The node forgets a report when it has sent it."""
    real = NodeMachine.step

    def step(self: NodeMachine, now_us: int, event: Any) -> None:
        if isinstance(event, LinkUp):
            self.unacked.clear()
        real(self, now_us, event)

    patch.setattr(NodeMachine, "step", step)


def starts_on_closed_nodes(patch: Patch) -> None:
    """Excluded nodes and other partitions are not looked at."""

    real = shapes.placements

    def everywhere(state: ClusterState, *rest: Any) -> Any:
        every_node = state.layout.masks.row_of_bits((1 << len(state.node_list)) - 1)
        return [place._replace(mask=every_node) for place in real(state, *rest)]

    patch.setattr(shapes, "placements", everywhere)


def acks_before_commit(patch: Patch) -> None:
    """Reports are acknowledged by the next controller before it has written what they say."""
    real = HANDLERS[StepExited]
    seen: list[int] = []

    def exited(state: ClusterState, now_us: int, event: Any) -> None:
        seen.append(1)
        if len(seen) % 7:
            real(state, now_us, event)
        else:
            state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)

    patch.setitem(HANDLERS, StepExited, exited)


def relaunches_after_loss(patch: Patch) -> None:
    """The launch of an attempt that is over is sent once more."""
    real = job_life.requeue

    def requeue(state: ClusterState, job: Any, *rest: Any, **more: Any) -> None:
        if job.alloc:
            row = job_row(job)
            job_id, attempt, node = job.job_id, job.attempt + 50, job.batch_node
            state.emit(LaunchStep(node, job_id, attempt, -5, state.epoch, row))
        real(state, job, *rest, **more)

    patch.setattr(job_life, "requeue", requeue)


def same_cpus_for_all_steps(patch: Patch) -> None:
    """A step is planned as if no other step of its job held anything."""
    real = plan_step
    patch.setattr(creation, "plan_step", lambda alloc, request, held, *rest: real(alloc, request, {}, *rest))
    patch.setattr(Core, "check", lambda self: None)


def ends_with_the_first_part(patch: Patch) -> None:
    """A step of several nodes has ended when one of them says so."""
    real = step_life.part_done

    def part_done(state: ClusterState, job: Any, step: Any, now_us: int) -> None:
        for at, part in enumerate(step.all_parts):
            if part.state < JobState.COMPLETED and step.step_id >= 0:
                step_parts.put(state, step, at, part._replace(state=JobState.COMPLETED, end_at_us=now_us))
        real(state, job, step, now_us)

    patch.setattr(step_life, "part_done", part_done)


def forgets_step_keys(patch: Patch) -> None:
    """A request of a step that comes again is a new step."""
    real = JobStepTable.add

    def add(self: JobStepTable, step: Any) -> None:
        real(self, step)
        self.keys.clear()

    patch.setattr(JobStepTable, "add", add)


def stops_nothing(patch: Patch) -> None:
    """The CPUs of a suspended job are given away, and its processes run on."""
    patch.setattr(suspend, "emit_suspended", lambda state, job: None)


def counts_what_a_resume_waits_for(patch: Patch) -> None:
    """A start counts the CPUs of a job that waits for them, beside those of the jobs that have them (issue 26, 11)."""
    patch.setattr(kept, "Suspend", SimpleNamespace(RESUMING=None))


MUTANTS: tuple[tuple[Callable[[Patch], None], tuple[str, ...]], ...] = (
    (forgets_to_release, ("capacity", "core")),
    (never_releases, ("liveness", "core")),
    (launches_twice, ("once",)),
    (launches_before_commit, ("books", "once", "acknowledged", "ended")),
    (drops_a_submit, ("acknowledged", "core", "liveness")),
    (forgets_submit_keys, ("acknowledged", "placement")),
    (answers_too_early, ("acknowledged",)),
    (ends_on_suspicion, ("ended", "once", "books")),
    (same_device_twice, ("capacity", "core")),
    (shares_a_gpu_in_use, ("capacity",)),
    (ignores_time_limits, ("time limit",)),
    (limits_too_short, ("time limit",)),
    (never_kills, ("time limit", "liveness", "dependency")),  # what lives on stands beside its namesake
    (ignores_dependencies, ("dependency",)),
    (ignores_array_limits, ("array",)),
    (forgets_cancels, ("cancelled", "core")),  # a part of an array that is split off and left is in no list
    (forgets_holds, ("held",)),
    (counts_cpu_time_twice, ("books",)),
    (loses_reports, ("liveness", "books", "cancelled")),
    (starts_on_closed_nodes, ("placement",)),
    (acks_before_commit, ("liveness", "time limit", "books")),
    (relaunches_after_loss, ("books", "once")),
    (same_cpus_for_all_steps, ("capacity",)),
    (ends_with_the_first_part, ("ended",)),
    (forgets_step_keys, ("acknowledged",)),
    (stops_nothing, ("capacity",)),
)


@pytest.mark.parametrize(("mutant", "oracles"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_mutant_is_found(mutant: Callable[[Patch], None], oracles: tuple[str, ...], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    first = FIRST_SEED.get(mutant.__name__, 1)
    oracle = next(filter(None, map(oracle_of, range(first, first + SEEDS_MAX))), "none")
    assert oracle in oracles


def crowded(seed: int) -> SimWorld:
    """One node, long jobs, and a controller that is killed often while jobs are suspended and wait for their CPUs."""
    deeds = {"submit": 10, "resume": 1, "suspend_job": 8, "resume_job": 8}
    options = msgspec.structs.replace(
        draw(seed, STEPS), nodes=1, run_max_s=400, deeds=deeds, faults={"kill_controller": 8}
    )
    return SimWorld(seed, options=options)


def test_a_start_that_counts_what_a_resume_waits_for_is_found(monkeypatch: Patch) -> None:
    crowded(1).run()
    counts_what_a_resume_waits_for(monkeypatch)
    with pytest.raises(Broken, match="a start with the same file completes it"):
        crowded(1).run()


def oracle_of(seed: int) -> str:
    """Which oracle says no to the world of this seed; "" = none."""
    try:
        SimWorld(seed).run()
    except Broken as broken:
        return broken.oracle
    return ""
