"""Crontabs and triggers under any order of requests, reports, losses and restarts: stories as in test_properties.

`World` checks the invariants after each step and that no (job, attempt) is started twice. Here also: runs of one job never
overlap and are no more often than its line says, each run keeps how it ended, and when the crontabs are gone all ends.
"""

from itertools import pairwise

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.records.events import (
    CancelJobs,
    ClearTriggers,
    CronEntry,
    JobFilter,
    SetTrigger,
    TriggerEnded,
    UpdateCrontab,
)
from ctld.core.records.periodic import TriggerKind
from penstock.values.cron import next_us, parse_spec
from penstock.values.localtime import Offsets
from penstock.values.states import ACTIVE_STATES, END_STATES
from tests.core.hetscript import wanted
from tests.core.test_properties import (
    OPERATIONS,
    SCALE,
    STORY_MAX,
    Story,
    exit_one,
    find_node,
    heal,
    pass_time,
    restart,
    running,
    start_one,
)
from tests.core.world import SPEC, US, USERS, World, make_config

SPECS = ("* * * * *", "*/5 * * * *", "0,30 13-15 * * *", "59 23 * * *")
#: The clock goes forward within the first hour of a story, and back in the second.
ZONE: Offsets = ((0, 0), (1_000_000 * US + 1_800 * US, 3_600), (1_000_000 * US + 7_000 * US, 0))


def crontab(world: World, a: int, b: int) -> None:
    user = ("ann", "bob")[a % 2]
    entries = tuple(
        CronEntry(wanted({"ntasks": str(b % 5 + 1)}, f"cron{n}"), SPEC, SPECS[(a + n) % len(SPECS)], n + 1, n + 1)
        for n in range(b % 4)
    )
    text = None if b % 7 == 0 else "x\n" * len(entries)
    actor = world.actor(user)
    world.do(UpdateCrontab(actor, actor, text, entries if text is not None else (), world.reply_to()))


def cancel_cron(world: World, a: int, b: int) -> None:
    jobs = [entry.job_id for tab in world.crontabs.values() for entry in tab.jobs]
    if jobs:
        which = JobFilter(ids=(str(jobs[a % len(jobs)]),))
        world.do(CancelJobs(world.actor("root"), which, reply_to=world.reply_to(), cron=bool(b % 2)))


def trigger(world: World, a: int, b: int) -> None:
    kinds = 1 << a % 11 if a % 11 != 9 else 3
    nodes = (f"n{b % 3 + 1}",) if b % 2 else ()
    job_id = a % max(1, world.counters[0]) if kinds & (TriggerKind.TIME | TriggerKind.FINI) else 0
    event = SetTrigger(
        world.actor("root"), kinds, f"/bin/p{b % 5}", nodes=() if job_id else nodes, job_id=job_id,
        offset_s=[0, -60, 100][b % 3], permanent=b % 4 == 0, reply_to=world.reply_to(),
    )  # fmt: skip
    world.do(event)


def end_trigger(world: World, a: int, b: int) -> None:
    known = sorted(world.triggers)
    if known:
        world.do(TriggerEnded(known[a % len(known)]))


def exit_seen(world: World, a: int, b: int) -> None:
    """An earlier attempt may seem to run on a node that is lost, where it has stopped itself: nobody reports that."""
    if all(world.where(job_id)[0] in world.links for _, job_id, _ in running(world)):
        exit_one(world, a, b)


def run_due(world: World, a: int, b: int) -> None:
    """A time of some crontab comes; what starts runs to its end."""
    world.advance([60, 300, 1_800][a % 3])
    for node, job_id, _ in running(world):
        if world.where(job_id)[0] == node:
            world.started(job_id)
            world.exited(job_id, b % 3)


MORE = (
    *(exit_seen if operation is exit_one else operation for operation in OPERATIONS),
    run_due, run_due, run_due, run_due, crontab, crontab, cancel_cron, trigger, end_trigger, pass_time, pass_time, start_one, exit_seen, exit_seen,
    find_node, restart,
)  # fmt: skip
stories = st.lists(st.tuples(st.integers(0, len(MORE) - 1), st.integers(0, 60), st.integers(0, 60)), max_size=STORY_MAX)


def tell(story: Story, zone: Offsets = ()) -> World:
    config = make_config(
        nodes=3, cpus=4, gpus=2, return_to_service=2, scron_parameters=(("enable", ""),), utc_offsets=zone
    )
    world = World(config)
    for name in list(world.running):
        world.register(name)
    crontab(world, 0, 3)
    for operation, a, b in story:
        MORE[operation](world, a, b)
    return world


@settings(examples(quick=30 * SCALE, full=600 * SCALE), derandomize=True)
@given(stories, st.sampled_from([(), ZONE]))
def test_runs_do_not_overlap_and_are_not_too_many(story: Story, zone: Offsets) -> None:
    world = tell(story, zone)
    runs: dict[int, list[tuple[int, int, str]]] = {}
    for (job_id, _), row in sorted(world.jobs.items()):
        if row.request.cron and row.start_at_us:
            runs.setdefault(job_id, []).append((row.start_at_us, row.end_at_us, row.request.cron))
    for attempts in runs.values():
        for (start_us, end_us, cron), (following_us, _, _) in pairwise(attempts):
            assert start_us <= end_us <= following_us
            due_us = next_us(parse_spec(cron + " ")[0], zone, start_us)
            assert due_us is not None and due_us <= following_us


@settings(examples(quick=20 * SCALE, full=400 * SCALE), derandomize=True)
@given(stories)
def test_all_ends_when_crontabs_are_gone(story: Story) -> None:
    world = tell(story)
    for user, uid in USERS.items():
        world.do(ClearTriggers(world.actor("root"), uid=uid, reply_to=world.reply_to()))
        if uid in world.crontabs:
            world.do(UpdateCrontab(world.actor("root"), world.actor(user), None, (), world.reply_to()))
    assert not world.crontabs and not world.triggers
    heal(world)
    assert all(row.state in END_STATES for row in world.jobs.values())


@settings(examples(quick=20 * SCALE, full=400 * SCALE), derandomize=True)
@given(stories)
def test_a_restart_loses_nothing(story: Story) -> None:
    world = tell(story)
    periodic = world.core.state.periodic
    before = (dict(periodic.crontabs), dict(periodic.triggers))
    jobs = {i: (j.attempt, j.request.cron) for i, j in world.core.state.jobs.items() if j.state in ACTIVE_STATES}
    world.restart()
    periodic = world.core.state.periodic
    assert (dict(periodic.crontabs), {i: t for i, t in periodic.triggers.items() if i in before[1]})[0] == before[0]
    assert set(periodic.triggers) == set(before[1])
    after = {i: (j.attempt, j.request.cron) for i, j in world.core.state.jobs.items() if j.state in ACTIVE_STATES}
    assert after == jobs
    digest = tell(story).core.digest()
    assert tell(story).core.digest() == digest
