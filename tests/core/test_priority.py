"""Multifactor priority in the core: what each factor gives, the calculation as the same formula in bulk, charging."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.demand.factors import billing
from ctld.core.lifecycle.ready import refresh
from ctld.core.queue import associations, priority
from ctld.core.records.decay import USAGE_ONE
from ctld.core.records.events import JobSubmission, LoadConfig, UpdateJobs
from ctld.core.records.request import JobRequest
from ctld.core.state.pending import PendingColumns
from penstock.values.config import Config, PartitionConfig
from penstock.values.states import ALLOCATED_STATES, JobState
from penstock.values.weights import parse_weights
from tests.core.world import US, World, make_config

DAY = 86_400


def multifactor(nodes: int = 1, cpus: int = 4, **extra: object) -> World:
    settings: dict[str, object] = {"priority_type": "priority/multifactor", "def_mem_per_cpu_mb": 1, **extra}
    world = World(make_config(nodes=nodes, cpus=cpus, **settings))  # type: ignore[arg-type]  # keywords of many types
    for node in world.config.nodes:
        world.register(node.name)
    return world


def submit(world: World, user: str = "ann", **fields: object) -> int:
    wanted = JobSubmission(**{"name": "job", "work_dir": b"/tmp", **fields})  # type: ignore[arg-type]  # keywords of many types
    (line, *_) = world.submit(wanted, user)
    return int(line.split()[1].rstrip(";"))


def number(world: World, job_id: int) -> int:
    return priority.current(world.core.state, world.core.state.jobs[job_id])


def ranked(pending: PendingColumns) -> list[tuple[int, int]]:
    """Rank, negative, and job id of each row that is ready, in their order."""
    return [(-(pending.rank_of_row(row) or 0), int(pending.table.job[row])) for row in pending.ready]


def fill(world: World) -> int:
    """One job that takes the whole first node."""
    return submit(world, "bob", ntasks=world.config.nodes[0].cpus)


def test_age_grows_with_each_calculation_until_the_maximum() -> None:
    world = multifactor(priority_weight_age=1000, priority_max_age_s=10 * DAY, priority_calc_period_s=6 * 3600)
    fill(world)
    job_id = submit(world)
    assert number(world, job_id) == 1
    world.advance(5 * DAY + world.config.priority_calc_period_s)
    assert number(world, job_id) == 500
    world.advance(20 * DAY)
    assert number(world, job_id) == 1000


def test_a_dependent_job_does_not_age_unless_asked_for() -> None:
    for flags, expected in (((), 1), (("ACCRUE_ALWAYS",), 100)):
        world = multifactor(priority_weight_age=1000, priority_max_age_s=10 * DAY, priority_flags=flags)
        first = fill(world)
        job_id = submit(world, dependency=f"afterok:{first}")
        world.advance(DAY + world.config.priority_calc_period_s)
        assert number(world, job_id) == expected


@pytest.mark.parametrize(
    ("small", "flags", "expected"),
    [
        (False, (), [225, 300, 400]),  # half of 1/1 node and half of n/8 CPUs, of 400
        (True, (), [175, 100, 1]),  # what is left of that; 0 would mean held
        (False, ("SMALL_RELATIVE_TO_TIME",), [40, 40, 40]),  # at least the CPUs of a node, for 10 minutes
        (True, ("SMALL_RELATIVE_TO_TIME",), [360, 360, 360]),
    ],
)
def test_size_favours_large_or_small_jobs(small: bool, flags: tuple[str, ...], expected: list[int]) -> None:
    world = multifactor(cpus=8, priority_weight_job_size=400, priority_favor_small=small, priority_flags=flags)
    fill(world)
    assert [number(world, submit(world, ntasks=n, time_limit_s=600)) for n in (1, 4, 8)] == expected


def test_partitions_give_their_part_of_the_highest_factor() -> None:
    names = ("n1",)
    partitions = (
        PartitionConfig("low", names, is_default=True, priority_job_factor=10),
        PartitionConfig("high", names, priority_job_factor=40),
    )
    world = multifactor(partitions=partitions, priority_weight_partition=1000)
    fill(world)
    both = submit(world, partitions=("low", "high"))
    high = submit(world, partitions=("high",))
    state = world.core.state
    assert (number(world, both), number(world, high)) == (250, 1000)
    table, rows = state.priorities, state.pending.rows_of(both)
    assert table is not None
    assert [int(table.current[row]) for row in rows] == [250, 1000]  # one number for each of its partitions
    world.do(LoadConfig(replace(world.config, priority_flags=("NO_NORMAL_PART",)), 0))
    assert number(world, high) == 40_000


def test_tres_weights() -> None:
    world = multifactor(cpus=8, mem_mb=8000, gpus=4, priority_weight_tres=parse_weights("CPU=100,GRES/gpu=1000", "x"))
    fill(world)
    job_id = submit(world, ntasks=2, gres_per_node=(("gpu", "", 1),))
    assert number(world, job_id) == 100 * 2 // 8 + 1000 // 4


def test_nice_site_and_a_number_by_hand() -> None:
    world = multifactor(priority_weight_job_size=1000)
    fill(world)
    job_id = submit(world, nice=100)
    base = number(world, job_id) + 100

    def update(user: str, **changes: str) -> list[str]:
        return world.do(UpdateJobs(world.actor(user), (str(job_id),), changes, {}, world.reply_to()))

    update("ann", nice="200")
    assert number(world, job_id) == base - 200
    assert update("ann", sitefactor="50") == [f"{job_id}: Access/permission denied: sitefactor"]
    update("root", sitefactor="50")
    assert number(world, job_id) == base - 150
    assert "Access/permission denied" in update("ann", priority="99999")[0]
    update("root", priority="99999")
    world.advance(DAY)
    assert number(world, job_id) == 99999
    world.restart()
    assert number(world, job_id) == 99999
    update("root", priority="0")
    assert world.core.state.jobs[job_id].hold.name == "ADMIN"
    from ctld.core.records.events import ControlAction, ControlJobs

    world.do(ControlJobs(world.actor("root"), (str(job_id),), ControlAction.RELEASE, world.reply_to()))
    assert number(world, job_id) == base - 150


def test_incr_only_never_takes_back() -> None:
    world = multifactor(nodes=1, priority_weight_fair_share=1000, priority_flags=("INCR_ONLY",))
    fill(world)
    job_id = submit(world, "bob")
    other = submit(world, "ann", account="other")
    before = number(world, job_id)
    world.advance(DAY)
    assert number(world, job_id) == before  # bob has used all there is, and keeps the priority
    assert number(world, other) == 1000


def test_higher_priority_starts_first_whoever_came_first() -> None:
    world = multifactor(cpus=4, priority_weight_fair_share=1000)
    first = fill(world)
    world.advance(3600)
    hungry, patient = submit(world, "bob", ntasks=4), submit(world, "ann", ntasks=4)
    world.advance(600)
    world.started(first)
    out = world.exited(first)
    assert any(line.startswith(f"launch {patient}.0") for line in out)
    assert world.core.state.jobs[hungry].state is JobState.PENDING


def test_a_calculation_writes_no_row_of_any_job() -> None:
    world = multifactor(priority_weight_age=1000, priority_weight_fair_share=1000)
    fill(world)
    for _ in range(20):
        submit(world)
    world.core.seal()
    state = world.core.state
    now_us = world.now_us + 600 * US
    from ctld.core.records.events import Tick

    world.core.step(now_us, Tick())
    world.core.step(now_us + 2000, Tick())
    assert state.priorities is not None and state.priorities.at_us == now_us
    assert not state.outputs.dirty_jobs and not state.outputs.dirty_usage


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ann", "bob", "opa"]), st.integers(1, 4), st.integers(0, 500), st.integers(0, 4000)),
        min_size=1, max_size=12,
    ),
    st.sampled_from([(), ("NO_FAIR_TREE",), ("ACCRUE_ALWAYS",)]),
)  # fmt: skip
def test_the_bulk_calculation_is_the_formula_of_one_job(
    jobs: list[tuple[str, int, int, int]], flags: tuple[str, ...]
) -> None:
    world = multifactor(
        priority_weight_age=7777, priority_max_age_s=9000, priority_weight_fair_share=12_345,
        priority_weight_job_size=321, priority_weight_partition=55, priority_flags=flags,
    )  # fmt: skip
    fill(world)
    for user, ntasks, nice, pause_s in jobs:
        submit(world, user, ntasks=ntasks, nice=nice)
        world.advance(pause_s)
    world.advance(301)
    state = world.core.state
    before = ranked(state.pending)
    numbers = {job_id: number(world, job_id) for job_id in state.jobs}
    for job in list(state.jobs.values()):
        refresh(state, job, world.now_us)
    assert ranked(state.pending) == before
    assert {job_id: number(world, job_id) for job_id in state.jobs} == numbers
    assert before == sorted(before)


def test_the_association_or_the_account_above_gives_its_priority() -> None:
    world = multifactor(priority_weight_assoc=1000)
    fill(world)
    ids = [submit(world, user, account=account) for user, account in (("ann", "a"), ("bob", "a"), ("ann", "b"))]
    tree = world.core.state.shares
    tree.accounts["a"].priority, tree.users["a", "bob"].priority = 10, 40
    world.advance(301)
    assert [number(world, job_id) for job_id in ids] == [250, 1000, 1]
    world.do(LoadConfig(replace(world.config, priority_flags=("NO_NORMAL_ASSOC",)), 0))
    assert [number(world, job_id) for job_id in ids] == [10_000, 40_000, 1]


def test_running_jobs_keep_their_number_unless_asked_for() -> None:
    for flags, expected in (((), 1), (("CALCULATE_RUNNING",), 100)):
        world = multifactor(priority_weight_age=1000, priority_max_age_s=10 * DAY, priority_flags=flags)
        job_id = submit(world)
        world.started(job_id)
        world.advance(DAY + world.config.priority_calc_period_s)
        assert number(world, job_id) == expected


def test_the_older_formula_by_its_flag() -> None:
    """Two users with half of the shares each; bob has used all: 2^-(1/0.5) of the weight, ann 2^-0."""
    world = multifactor(priority_weight_fair_share=1000, priority_flags=("NO_FAIR_TREE",))
    fill(world)
    ids = [submit(world, user) for user in ("ann", "bob")]
    world.advance(301)
    account = world.core.state.shares.accounts["default"]
    assert account.level_shares == 1  # alone below root: all of the shares, so effective usage is drawn to its own
    # ann: effective usage 0 + (1 - 0) * 1/2 over shares 1/2; bob: 1 over 1/2
    assert [number(world, job_id) for job_id in ids] == [500, 250]


def test_gres_beside_the_largest() -> None:
    weights = parse_weights("CPU=1.0,Mem=1G,GRES/gpu=10,license/x=3", "x")
    amounts = {"cpu": 4, "mem": 8192, "gres/gpu": 2, "license/x": 1}
    found = [billing(weights, amounts, flags) for flags in ((), ("MAX_TRES",), ("MAX_TRES_GRES",))]
    assert found == [(4 + 8 + 20 + 3) * 1000, (20 + 3) * 1000, (8 + 20 + 3) * 1000]
    assert billing((), amounts) == 4000


# ---- charging ----------------------------------------------------------------------------------------------------


def usage_s(world: World, user: str, account: str = "default") -> int:
    tree = world.core.state.shares
    return tree.usage_at(tree.users[account, user], world.now_us) // USAGE_ONE


def test_a_job_is_charged_by_its_billing_while_it_runs_and_for_ever() -> None:
    world = multifactor(priority_decay_half_life_s=0)
    job_id = submit(world, ntasks=3)
    world.started(job_id)
    world.advance(100)
    assert usage_s(world, "ann") == 300
    world.exited(job_id)
    world.advance(1000)
    assert usage_s(world, "ann") == 300


def test_weights_of_the_partition_make_the_billing() -> None:
    weights = parse_weights("CPU=1.0,Mem=0.25G,GRES/gpu=10", "x")
    for flags, expected in (((), 12.5), (("MAX_TRES",), 10)):
        partitions = (PartitionConfig("debug", ("n1",), is_default=True, tres_billing_weights=weights),)
        world = multifactor(
            gpus=2, mem_mb=8192, partitions=partitions, priority_decay_half_life_s=0, priority_flags=flags
        )
        job_id = submit(world, ntasks=2, mem_per_node_mb=2048, gres_per_node=(("gpu", "", 1),))
        job = world.core.state.jobs[job_id]
        assert f"billing={int(expected)}" in job.tres_alloc
        assert f"billing={int(expected)}" in job.tres_req
        world.advance(1000)
        assert usage_s(world, "ann") == expected * 1000


def test_a_restart_loses_and_doubles_nothing() -> None:
    worlds = [multifactor(priority_weight_fair_share=1000) for _ in range(2)]
    for restarts, world in enumerate(worlds):
        one, two = submit(world, ntasks=1), submit(world, "bob", ntasks=2)
        world.started(one)
        world.started(two)
        for step in range(5):
            world.advance(1000)
            if restarts:
                world.restart()
                for node in world.config.nodes:
                    world.register(node.name)
            if step == 2:
                world.exited(one)
    first, second = ({u: usage_s(w, u) for u in ("ann", "bob")} for w in worlds)
    assert first == second
    assert worlds[0].core.state.shares.next_id == worlds[1].core.state.shares.next_id


def test_a_requeued_attempt_is_charged() -> None:
    from ctld.core.records.events import ControlAction, ControlJobs

    world = multifactor(priority_decay_half_life_s=0)
    job_id = submit(world, ntasks=2)
    world.started(job_id)
    world.advance(50)
    world.do(ControlJobs(world.actor("ann"), (str(job_id),), ControlAction.REQUEUE, world.reply_to()))
    world.exited(job_id)
    assert usage_s(world, "ann") == 100
    world.core.check()


def test_switching_the_plugin_at_a_reload() -> None:
    world = World(make_config(nodes=1, def_mem_per_cpu_mb=1, priority_decay_half_life_s=0))
    world.register("n1")
    job_id = submit(world, ntasks=4)
    waiting = submit(world)
    world.advance(100)
    assert world.core.state.priorities is None
    world.do(LoadConfig(replace(world.config, priority_type="priority/multifactor", priority_weight_age=10), 0))
    world.advance(100)
    assert usage_s(world, "ann") == 400  # from the reload on
    world.do(LoadConfig(world.config, 0))
    assert number(world, waiting) == priority.initial(waiting, 0)
    world.started(job_id)
    world.exited(job_id)
    world.core.check()


def test_invented_accounts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(associations, "ACCOUNTS_BY_THEMSELVES_MAX", 3)
    world = multifactor()
    for number_ in range(6):
        submit(world, account=f"made{number_}")
    assert sorted(world.core.state.shares.accounts) == ["default", "made0", "made1", "made2", "root"]
    world.restart()
    assert sorted(world.core.state.shares.accounts) == ["default", "made0", "made1", "made2", "root"]


def test_basic_has_no_tree_and_no_timer() -> None:
    world = World(make_config(nodes=1))
    world.register("n1")
    submit(world, account="x")
    assert list(world.core.state.shares.accounts) == ["root"]
    assert not world.assoc_rows and not world.usage_rows


def test_default_request_is_unchanged() -> None:
    assert JobRequest().priority is None
    assert Config().priority_type == "priority/basic"


def test_two_accounts_with_shares_three_to_one_converge() -> None:
    """A node of 8 CPUs, two users who always have more jobs than fit: what they get goes to 3:1."""
    world = multifactor(
        cpus=8, priority_weight_fair_share=100_000, priority_calc_period_s=300, priority_decay_half_life_s=12 * 3600,
        min_job_age_s=1,
    )  # fmt: skip
    state, length_s, got = world.core.state, {"ann": 1800, "bob": 2700}, {"ann": 0, "bob": 0}
    accounts = {"ann": "three", "bob": "one"}
    ends: dict[int, int] = {}
    for turn in range(60 * 12):
        waiting = [job.user_name for job in state.jobs.values() if job.state is JobState.PENDING]
        for user, account in accounts.items():
            for _ in range(6 - waiting.count(user)):
                submit(world, user, account=account)
        state.shares.accounts["three"].shares = 3
        for job in [job for job in state.jobs.values() if job.state is JobState.RUNNING and job.job_id not in ends]:
            world.started(job.job_id)
            ends[job.job_id] = world.now_us + length_s[job.user_name] * US
        for job_id in [job_id for job_id, at_us in ends.items() if at_us <= world.now_us]:
            del ends[job_id]
            world.exited(job_id)
        for job in state.jobs.values():
            if turn >= 24 * 12 and job.state in ALLOCATED_STATES:
                got[job.user_name] += 1
        world.advance(300)
    assert 0.73 <= got["ann"] / (got["ann"] + got["bob"]) <= 0.77
    usage = {user: usage_s(world, user, account) for user, account in accounts.items()}
    assert 0.73 <= usage["ann"] / (usage["ann"] + usage["bob"]) <= 0.77  # as it swings from start to start
