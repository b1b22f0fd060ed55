"""Limits under any order of submissions, starts, ends, requeues, suspensions and changes of limits.

At each start no limit that applies to the job is exceeded, counted from the jobs themselves by another way than the
ledger's; `World` has the core count all books a second way after every step; and when nothing is left all are empty.
"""

import os
from collections.abc import Callable

from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.limits import checks as limits
from ctld.core.limits import rules as limit_rules
from ctld.core.records.events import (
    CancelJobs,
    ControlAction,
    ControlJobs,
    JobFilter,
    JobSubmission,
    SubmitJob,
    Tick,
    UpdateJobs,
)
from ctld.core.records.job import Job
from ctld.core.state.fairshare import Assoc
from penstock.values.config import PartitionConfig
from penstock.values.limits import Limits
from penstock.values.states import ACTIVE_STATES, ALLOCATED_STATES, JobState
from tests.core.limitscript import set_limits
from tests.core.world import SPEC, World, make_config

SCALE = int(os.environ.get("PENSTOCK_SCALE", "1"))
STORY_MAX = 60
US = 1_000_000
USERS = ("ann", "bob")
ACCOUNTS = ("physics", "lab")  # the second below the first
QOS = ("normal", "high", "part")
NODES = ("n1", "n2")

Story = list[tuple[int, int, int]]


def submit_plain(world: World, a: int, b: int) -> None:
    wanted = JobSubmission(
        name="job", work_dir=b"/tmp", account=ACCOUNTS[a % 2], qos=["", "high"][b % 2], ntasks=a % 3 + 1,
        partitions=[("debug",), ("other",), ("debug", "other")][b % 3], time_limit_s=[300, 600, None][a % 3],
        gres_per_node=(("gpu", "", b % 3),) if b % 3 else (), exclusive=a % 11 == 0, nodes_min=1 + (a % 13 == 0),
    )  # fmt: skip
    world.submit(wanted, USERS[b % 2])


def submit_array(world: World, a: int, b: int) -> None:
    limit = f"%{b % 3}" if b % 3 else ""
    wanted = JobSubmission(
        name="array", work_dir=b"/tmp", account=ACCOUNTS[a % 2], array=f"0-{a % 9}{limit}", time_limit_s=60
    )
    world.submit(wanted, USERS[b % 2])


def submit_het(world: World, a: int, b: int) -> None:
    parts = [
        JobSubmission(name="het", work_dir=b"/tmp", account=ACCOUNTS[a % 2], ntasks=n, time_limit_s=60)
        for n in (1, a % 3 + 1)
    ]
    key = f"{world.next_reply:032x}"
    actor = world.actor(USERS[b % 2])
    world.do(SubmitJob(actor, key, world.now_us, parts[0], SPEC, False, world.reply_to(), components=tuple(parts[1:])))


def _running(world: World) -> list[int]:
    return [job_id for node, steps in world.running.items() if node in world.links for job_id, _ in steps]


def start_one(world: World, a: int, b: int) -> None:
    if found := _running(world):
        world.started(found[a % len(found)])


def exit_one(world: World, a: int, b: int) -> None:
    if found := _running(world):
        world.exited(found[a % len(found)], [0, 0, 1, 0][b % 4], [0, 0, 0, 9][b % 4])


def _some_id(world: World, a: int) -> str:
    return str(a % max(1, world.counters[0]) or 1)


def cancel_one(world: World, a: int, b: int) -> None:
    text = _some_id(world, a) + (f"_[{b % 4}-{b % 4 + 2}]" if b % 3 == 0 else "")
    world.do(CancelJobs(world.actor("root"), JobFilter(ids=(text,)), reply_to=world.reply_to()))


def control_one(world: World, a: int, b: int) -> None:
    action = list(ControlAction)[b % len(ControlAction)]
    world.do(ControlJobs(world.actor("opa"), (_some_id(world, a),), action, world.reply_to()))


def update_one(world: World, a: int, b: int) -> None:
    change = [{"timelimit": "20"}, {"account": "lab"}, {"qos": "high"}, {"partition": "other"}, {"numcpus": "2"}][b % 5]
    world.do(UpdateJobs(world.actor("opa"), (_some_id(world, a),), change, {}, world.reply_to()))


def limit_account(world: World, a: int, b: int) -> None:
    key, values = [
        ("grpjobs", (0, 1, 3, -1)), ("grptres", ("cpu=2", "cpu=5~gres/gpu=2", "node=1", -1)), ("maxjobs", (1, 2, -1, 0)),
        ("grptresrunmins", ("cpu=10", "cpu=40", "gres/gpu=15", -1)), ("maxtresperjob", ("cpu=1", "gres/gpu=1", -1, -1)),
        ("grpsubmitjobs", (3, 9, -1, -1)), ("grptresmins", ("cpu=5", "cpu=50", -1, -1)), ("maxwall", (6, -1, -1, -1)),
    ][a % 8]  # fmt: skip
    where = {"account": ACCOUNTS[b % 2]} | ({"user": USERS[b % 3 % 2]} if b % 3 else {})
    set_limits(world, where, {key: str(values[b % 4])})
    world.do(Tick())


def limit_qos(world: World, a: int, b: int) -> None:
    key, values = [
        ("grpjobs", (1, 3, -1, -1)), ("grptres", ("cpu=3", "gres/gpu=2", "cpu=6", -1)), ("maxjobsperuser", (1, 2, -1, 0)),
        ("maxtresperuser", ("cpu=2", "gres/gpu=1", "node=1", -1)), ("maxtresperaccount", ("cpu=2", "cpu=4", -1, -1)),
        ("maxjobsperaccount", (1, 2, -1, -1)), ("flags", ("OverPartQOS", "", "NoDecay", "DenyOnLimit")),
        ("maxtresrunminsperuser", ("cpu=10", "cpu=30", -1, -1)),
    ][a % 8]  # fmt: skip
    set_limits(world, {"qos": QOS[b % 3]}, {key: str(values[b % 4])})
    world.do(Tick())


def pass_time(world: World, a: int, b: int) -> None:
    world.advance([1, 10, 200, 400][a % 4])


def restart(world: World, a: int, b: int) -> None:
    world.restart()
    world.settle()
    for name in NODES:
        world.register(name)


OPERATIONS: tuple[Callable[[World, int, int], None], ...] = (
    submit_plain, submit_plain, submit_plain, submit_array, submit_het, start_one, exit_one, exit_one, exit_one,
    cancel_one, control_one, update_one, limit_account, limit_account, limit_qos, limit_qos, pass_time, restart,
)  # fmt: skip


# ---- counted by hand ---------------------------------------------------------------------------------------------


def _tres(job: Job) -> dict[str, int]:
    return {
        "cpu": sum(part.cpus for part in job.alloc),
        "gres/gpu": sum(mask.bit_count() for part in job.alloc for _, _, mask in part.gres),
        "node": len(job.alloc),
    }


def _held(jobs: list[Job], tres: str) -> int:
    """What they hold together; a node once, however many of them are there."""
    if tres == "node":
        return len(frozenset(part.node for job in jobs for part in job.alloc))
    return sum(_tres(job)[tres] for job in jobs)


def _left_min(job: Job, tres: str, now_us: int) -> float:
    """What a running job may still use."""
    if job.state is JobState.COMPLETING:
        return 0
    until_us = job.suspended_at_us if job.state is JobState.SUSPENDED else now_us
    limit_s = 365 * 86_400 if job.time_limit_s < 0 else job.time_limit_s
    return _tres(job)[tres] * max(0, job.start_at_us + job.suspended_us + limit_s * US - until_us) / US / 60


class Counted:
    """One state, counted again."""

    def __init__(self, world: World) -> None:
        self.world, self.state = world, world.core.state
        self.running = [job for job in self.state.jobs.values() if job.state in ALLOCATED_STATES]

    def assoc(self, job: Job) -> Assoc:
        return self.state.shares.by_id[job.assoc_id]

    def chain(self, job: Job) -> list[Assoc]:
        found: list[Assoc] = []
        at: Assoc | None = self.assoc(job)
        while at is not None:
            found.append(at)
            at = at.parent
        return found

    def qos(self, job: Job) -> list[str]:
        own = job.request.qos or "normal"
        above = self.state.partitions[job.partition].config.qos
        names = [own] if above in ("", own) else [above, own]
        return names[::-1] if "OverPartQOS" in self.state.qos[own].flags else names

    def is_passed(self, job: Job, key: tuple[str, str]) -> bool:
        """Another has started with it that has such a limit of its own QOS, which goes before this one."""
        others = [j for j in self.running if j is not job and j.start_at_us == self.world.now_us]
        field, tres = key
        fields = (field, *limit_rules.SAME.get(field, ()))
        return any(
            value not in (-1, ()) and (not tres or tres in dict(value))
            for other in others
            for name in self.qos(other)
            for value in (getattr(self.state.qos[name].limits, one) for one in fields)
        )

    def check(self, job: Job) -> None:
        """Nothing that applies to a job that has just started is exceeded."""
        tres = {name: amount for name, amount in _tres(job).items() if amount}
        taken: dict[tuple[str, str], None] = {}
        for name in self.qos(job):
            limits, here = self.state.qos[name].limits, [j for j in self.running if name in self.qos(j)]
            user = [j for j in here if j.user_name == job.user_name]
            account = [j for j in here if self.assoc(j).account == self.assoc(job).account]
            groups = {"grp": here, "user": user, "account": account}
            mine = self._of(limits, groups, tres)
            for key, has, most in mine:
                assert key in taken or has <= most or self.is_passed(job, key), (
                    f"QOS {name} {key}: {has} > {most}, job {job.job_id}"
                )
            taken |= dict.fromkeys(key for key, _, _ in mine)
        nearest: dict[tuple[str, str], None] = {}
        for assoc in self.chain(job):
            below = [j for j in self.running if assoc in self.chain(j)]
            own = [j for j in self.running if self.assoc(j) is self.assoc(job)]
            for key, has, most in self._of(assoc.limits, {"grp": below, "own": own}, tres):
                is_grp = key[0].startswith("grp")
                same = [("max_jobs_per_user", ""), ("max_jobs_per_account", "")] if key[0] == "max_jobs" else [key]
                if any(one in taken for one in same) or key in nearest:
                    continue
                assert has <= most or self.is_passed(job, key), (
                    f"{assoc.account}/{assoc.user_name} {key}: {has} > {most}, job {job.job_id}"
                )
                if not is_grp:
                    nearest[key] = None

    def _of(
        self, limits: Limits, groups: dict[str, list[Job]], tres: dict[str, int]
    ) -> list[tuple[tuple[str, str], float, float]]:
        """((field, TRES), what is used, what is allowed) of the limits that are set and touched by a job."""
        now_us, found = self.world.now_us, []
        for field, group in (
            ("grp_jobs", "grp"), ("max_jobs_per_user", "user"), ("max_jobs_per_account", "account"), ("max_jobs", "own"),
        ):  # fmt: skip
            most = getattr(limits, field)
            if most >= 0 and group in groups:
                found.append(((field, ""), float(len(groups[group])), float(most)))
        for field, group in (
            ("grp_tres", "grp"), ("max_tres_per_user", "user"), ("max_tres_per_account", "account"),
        ):  # fmt: skip
            for name, most in getattr(limits, field):
                if group in groups and name in tres:
                    found.append(((field, name), float(_held(groups[group], name)), float(most)))
        for field, group in (("grp_tres_run_min", "grp"), ("max_tres_run_min_per_user", "user")):
            for name, most in getattr(limits, field):
                if group in groups and name in tres:
                    left = sum(_left_min(j, name, now_us) for j in groups[group])
                    found.append(((field, name), left, most + 0.1 * len(groups[group])))
        return found


def make_world(order: str) -> World:
    partitions = (
        PartitionConfig("debug", NODES, is_default=True),
        PartitionConfig("other", NODES, qos="part"),
    )
    world = World(make_config(nodes=2, cpus=6, gpus=3, partitions=partitions, enforce=("associations", "limits"),
                              priority_type=order, priority_weight_age=100, priority_weight_fair_share=1000))  # fmt: skip
    for name in QOS:
        set_limits(world, {"qos": name}, {})
    for account, parent in zip(ACCOUNTS, ("root", "physics"), strict=True):
        set_limits(world, {"account": account}, {"parent": parent})
        for user in USERS:
            set_limits(world, {"account": account, "user": user}, {})
    world.do(Tick())
    for name in NODES:
        world.register(name)
    return world


def _is_behind_another(world: World, job: Job) -> bool:
    """A job that is ready and waits for nodes has the room."""
    state = world.core.state
    ready = [other for other in state.jobs.values() if state.pending.is_ready(other.job_id)]
    return any(other.user_name == job.user_name or other.request.account == job.request.account for other in ready)


def check_nobody_waits_for_nothing(world: World) -> None:
    """Who waits for a limit would exceed one. (What is given may be more than what is asked for, so of plain jobs.)"""
    state = world.core.state
    assert state.limits.ledger is not None
    for job_id in list(state.limits.ledger.waiting):
        job = state.jobs[job_id]
        if job.request.exclusive or job.request.het_job_id or job.request.nodes_max > 1 or job.request.gres_per_node:
            continue
        found = limits.blocking_limits(state, job)
        if len(found) < len(job.request.partitions) and _is_behind_another(world, job):
            continue
        assert len(found) == len(job.request.partitions) or state.pending.is_ready(job_id), (
            f"job {job_id}: {job.reason}"
        )


def play(world: World, story: Story) -> None:
    for op, a, b in story:
        before = {
            i: (job.attempt, job.state) for i, job in world.core.state.jobs.items() if job.state in ALLOCATED_STATES
        }
        operation = OPERATIONS[op % len(OPERATIONS)]
        operation(world, a, b)
        if operation is pass_time:
            continue  # jobs that started in between have been checked by the core alone
        check_nobody_waits_for_nothing(world)
        counted = Counted(world)
        for job in counted.running:
            if (job.job_id not in before or before[job.job_id][0] != job.attempt) and job.start_at_us == world.now_us:
                counted.check(job)


def finish(world: World) -> None:
    """Everything is cancelled and ends: no counter is left."""
    for _ in range(200):
        active = [job for job in world.core.state.jobs.values() if job.state in ACTIVE_STATES]
        if not active:
            break
        for job in active:
            if job.state is not JobState.COMPLETING:
                world.do(CancelJobs(world.actor("root"), JobFilter(ids=(str(job.job_id),)), reply_to=world.reply_to()))
        for job_id in _running(world):
            world.exited(job_id, 0, 0)
    state = world.core.state
    assert state.limits.ledger is not None and not state.limits.ledger.entries and not state.limits.ledger.waiting
    for key, book in state.limits.ledger.books.items():
        assert book.is_empty(), key
        assert not any(queue.heaps for queue in book.waits.queues.values()), key
        assert book.spent is None or not book.spent.rates, key


stories = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 199), st.integers(0, 199)), max_size=STORY_MAX)


@examples(quick=30 * SCALE, full=600 * SCALE)
@given(stories, st.sampled_from(["priority/basic", "priority/multifactor"]))
def test_no_limit_is_exceeded_and_nothing_leaks(story: Story, order: str) -> None:
    world = make_world(order)
    play(world, story)
    finish(world)
