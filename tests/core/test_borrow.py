"""Borrowing: who may go beyond a guarantee, who gets it back, and what is never touched."""

from typing import Any

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.limits import borrow
from ctld.core.records.events import AccountAction, ChangeAccounts, JobSubmission, Tick, UpdateJobs
from penstock.values.config import PartitionConfig
from penstock.values.states import ALLOCATED_STATES, JobState
from tests.core.test_resolve_association import account
from tests.core.world import World, make_config

LIMITS = ("associations", "limits")
GPU = "gres/gpu"


def change(world: World, name: str, **changes: str) -> None:
    world.do(ChangeAccounts(world.actor("root"), AccountAction.MODIFY, "account", (name,), changes))


def cluster(gpus: int = 8, lend: str = "", borrows: str = "gres/gpu=4", grace_s: int = 0, **extra: Any) -> World:
    """One node; accounts a (ann) and b (bob) with a guarantee of 4 GPUs each, and c (opa) without, below uni."""
    partitions = (PartitionConfig("main", ("n1",), is_default=True, grace_time_s=grace_s),)
    config = make_config(nodes=1, cpus=64, gpus=gpus, mem_mb=100_000, partitions=partitions, enforce=LIMITS, **extra)
    world = World(config)
    world.register("n1")
    account(world, "account", "uni")
    for name, user in (("a", "ann"), ("b", "bob"), ("c", "opa")):
        account(world, "account", name, parent="uni")
        account(world, "user", user, accounts=(name,))
    for name in "ab":
        change(world, name, grptres="gres/gpu=4", borrow=borrows, **({"lend": lend} if lend else {}))
    return world


def submit(world: World, user: str, gpus: int, **wanted: Any) -> str:
    job = JobSubmission(name="j", work_dir=b"/", gres_per_node=(("gpu", "a100", gpus),), time_limit_s=3600, **wanted)
    return world.submit(job, user)[0]


def states(world: World) -> str:
    """R running, B running and borrowed, its reason's capitals else."""
    found = []
    for _, job in sorted(world.core.state.jobs.items()):
        running = job.state in (JobState.CONFIGURING, JobState.RUNNING)
        found.append(
            ("B" if job.borrowed else "R") if running else job.reason.value if job.state is JobState.PENDING else "-"
        )
    return " ".join(found)


def end(world: World, job_id: int) -> None:
    world.started(job_id)
    world.exited(job_id)


def test_nothing_is_lent_by_default_and_all_with_penstock_lending() -> None:
    for how, expected in (("none", "R AssocGrpGRES"), ("all", "R B")):
        world = cluster(penstock_lending=how)
        submit(world, "ann", 4)
        submit(world, "ann", 4)
        assert states(world) == expected


def test_an_idle_guarantee_is_borrowed_as_far_as_both_say() -> None:
    world = cluster(lend="gres/gpu=3", borrows="gres/gpu=2")
    for _ in range(4):
        submit(world, "ann", 2)
    assert states(world) == "R R B AssocGrpGRES"  # the user may borrow 2
    world = cluster(lend="gres/gpu=1")
    for _ in range(7):
        submit(world, "ann", 1)
    assert states(world) == "R R R R B AssocGrpGRES AssocGrpGRES"  # one is lent


def test_the_lender_reclaims_borrowed_jobs_only_and_no_more_than_it_needs() -> None:
    world = cluster(penstock_lending="all")
    for _ in range(4):
        submit(world, "ann", 2)
        world.advance(60)
    assert states(world) == "R R B B"
    for job_id in (1, 2, 3, 4):
        world.started(job_id)
    submit(world, "bob", 2)
    assert world.core.state.jobs[4].state is JobState.COMPLETING  # the youngest
    world.exited(4, signal=15)
    assert states(world) == "R R B AssocGrpGRES R" and world.core.state.jobs[4].attempt == 1
    assert not world.core.state.jobs[4].borrowed
    story = [row.detail for row in world.history if row.job_id == 4 and row.event in ("borrows", "preempted")]
    assert story == ["account a has 4 gres/gpu beyond its 4", "for job 5 (REQUEUE)"]
    submit(world, "bob", 4)  # beyond b's own guarantee with the 2 that it has: nobody goes
    assert states(world) == "R R B AssocGrpGRES R AssocGrpGRES"


def test_the_grace_of_the_partition_and_a_restart_in_it() -> None:
    world = cluster(penstock_lending="all", grace_s=30)
    submit(world, "ann", 8)
    assert states(world) == "B"
    world.started(1)
    world.restart()
    world.register("n1")
    assert states(world) == "B" and world.core.state.limits.lending.is_on
    submit(world, "bob", 1)
    assert world.core.state.jobs[1].preempt_end_at_us
    world.advance(31)
    world.exited(1, signal=15)
    assert states(world) == "AssocGrpGRES R"


def test_what_was_borrowed_becomes_own_when_use_falls_the_oldest_first() -> None:
    world = cluster(penstock_lending="all")
    for _ in range(4):
        submit(world, "ann", 2)
        world.advance(1)
    assert states(world) == "R R B B"
    end(world, 1)
    assert states(world) == "- R R B"
    end(world, 2)
    assert states(world) == "- - R R"


def test_accounts_without_a_guarantee_are_neither_lenders_nor_reclaimers() -> None:
    world = cluster(penstock_lending="all")
    submit(world, "opa", 4)
    submit(world, "ann", 4)
    submit(world, "bob", 4)  # the cluster is full, with jobs that nobody has borrowed
    assert states(world) == "R R Resources"


def test_a_lenders_waiting_jobs_go_before_borrowers() -> None:
    world = cluster(gpus=4, penstock_lending="all")
    submit(world, "ann", 4)
    submit(world, "bob", 4)
    submit(world, "ann", 1)
    assert states(world) == "R Resources AssocGrpGRES"


def test_nested_cohorts_go_up_parent_by_parent() -> None:
    world = cluster(penstock_lending="all")
    account(world, "account", "other")
    account(world, "account", "d", parent="other")
    account(world, "user", "root", accounts=("d",))
    change(world, "uni", grptres="gres/gpu=4", borrow="gres/gpu=4")
    change(world, "other", grptres="gres/gpu=4")
    change(world, "d", grptres="gres/gpu=4")
    submit(world, "ann", 4)
    submit(world, "ann", 2)
    assert states(world) == "R B"  # a is beyond its own, uni beyond its own: other lends
    world.started(1)
    world.started(2)
    submit(world, "root", 4)  # other reclaims what uni has borrowed
    assert world.core.state.jobs[2].state is JobState.COMPLETING
    assert world.core.state.jobs[1].state is JobState.RUNNING


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "opa", "end", "restart", "wait", "kill"]), st.integers(0, 7), st.integers(1, 5)
    ),
    max_size=40,
)


@examples(quick=30, full=600)
@given(
    ACTIONS, st.sampled_from(["gres/gpu=2", "gres/gpu=4"]), st.sampled_from(["gres/gpu=1", "gres/gpu=3", "gres/gpu=4"])
)
def test_no_borrower_goes_too_far_and_only_what_is_borrowed_is_reclaimed(
    actions: list[tuple[str, int, int]], borrows: str, lend: str
) -> None:
    world = cluster(lend=lend, borrows=borrows)
    most, lent_most = int(borrows[-1]), int(lend[-1])
    for what, which, number in actions:
        state = world.core.state
        before = {job.job_id: job for job in state.jobs.values() if job.state in ALLOCATED_STATES}
        own = {job_id for job_id, job in before.items() if not job.borrowed}
        held_before = {name: borrow.used(state, state.shares.accounts[name], GPU) for name in "ab"}
        launches = len(world.launches)
        if what in ("ann", "bob", "opa"):
            submit(world, what, number)
        elif what == "restart":
            world.restart()
            world.register("n1")
        elif what == "wait":
            world.advance(number * 60)
        else:
            ending = [job for job in before.values() if job.state is JobState.COMPLETING]
            active = [job for job in before.values() if job.state is not JobState.COMPLETING]
            some = ending if what == "kill" else active
            if some:
                job = some[which % len(some)]
                if what == "end":
                    own.discard(job.job_id)
                    world.started(job.job_id)
                world.exited(job.job_id, signal=15 if what == "kill" else 0)
        state = world.core.state
        for job_id in own:
            job = state.jobs[job_id]
            assert not job.preempt_at_us, f"job {job_id} was preempted and not borrowed"
        used = {name: borrow.used(state, state.shares.accounts[name], GPU) for name in "ab"}
        started = [state.jobs[job_id] for job_id, _ in world.launches[launches:]]
        for name, other in (("a", "b"), ("b", "a")):
            beyond = max(0, used[name] - 4)
            assert beyond <= most
            if beyond and any(job.borrowed and job.request.account == name for job in started):
                assert beyond <= min(lent_most, max(0, 4 - min(used[other], held_before[other])))


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_a_lender_gets_its_guarantee_back(gpus: int) -> None:
    world = cluster(penstock_lending="all")
    for _ in range(8):
        submit(world, "ann", 1)
    for job_id in range(1, 9):
        world.started(job_id)
    for _ in range(4 // gpus):
        submit(world, "bob", gpus)
    for job in list(world.core.state.jobs.values()):
        if job.state is JobState.COMPLETING:
            world.exited(job.job_id, signal=15)
    world.do(Tick())
    for job in list(world.core.state.jobs.values()):
        if job.state is JobState.COMPLETING:
            world.exited(job.job_id, signal=15)
    state = world.core.state
    assert [borrow.used(state, state.shares.accounts[name], GPU) for name in "ab"] == [4, 4]
    assert not state.limits.lending.borrowed


def test_taking_borrow_away_lets_what_runs_run() -> None:
    world = cluster(penstock_lending="all")
    submit(world, "ann", 8)
    change(world, "a", borrow="-1")
    world.do(UpdateJobs(world.actor("root"), ("1",), {"comment": "x"}, {}, world.reply_to()))
    assert states(world) in ("B", "R")


# ---- where the limit of the account above is full, and nodes are free -----------------------------------------------


def under_a_limit(top: int = 8, cpus: int = 64, **extra: Any) -> World:
    """Accounts a (ann) and b (bob) with a guarantee of 4 CPUs each, and c (opa) without, below uni, which has `top`."""
    config = make_config(nodes=1, cpus=cpus, mem_mb=100_000, enforce=LIMITS, penstock_lending="all", **extra)
    world = World(config)
    world.register("n1")
    account(world, "account", "uni")
    change(world, "uni", grptres=f"cpu={top}")
    for name, user in (("a", "ann"), ("b", "bob"), ("c", "opa")):
        account(world, "account", name, parent="uni")
        account(world, "user", user, accounts=(name,))
    for name in "ab":
        change(world, name, grptres="cpu=4", borrow="cpu=4")
    return world


def submit_cpus(world: World, user: str, cpus: int) -> None:
    world.submit(JobSubmission(name="j", work_dir=b"/", ntasks=cpus, nodes_min=1, nodes_max=1, time_limit_s=3600), user)


def finish_leaving(world: World) -> bool:
    """Who was made to go has gone. False if there was nobody."""
    leaving = [job for job in world.core.state.jobs.values() if job.state is JobState.COMPLETING]
    for job in leaving:
        world.exited(job.job_id, signal=15)
    return bool(leaving)


def test_the_limit_of_the_account_above_is_freed_of_borrowed_work() -> None:
    world = under_a_limit()
    for _ in range(4):
        submit_cpus(world, "ann", 2)
        world.advance(60)
    submit_cpus(world, "ann", 1)
    assert states(world) == "R R B B AssocGrpCpuLimit"
    submit_cpus(world, "bob", 2)
    assert world.core.state.jobs[4].state is JobState.COMPLETING  # the youngest, and no other
    assert states(world) == "R R B - AssocGrpCpuLimit AssocGrpCpuLimit"
    finish_leaving(world)
    assert states(world) == "R R B AssocGrpCpuLimit AssocGrpCpuLimit R"
    story = [row.detail for row in world.history if row.job_id == 4 and row.event == "preempted"]
    assert story == ["for job 6 (REQUEUE)"]
    submit_cpus(world, "bob", 3)  # beyond its guarantee
    assert states(world) == "R R B AssocGrpCpuLimit AssocGrpCpuLimit R AssocGrpCpuLimit"
    submit_cpus(world, "bob", 1)
    submit_cpus(world, "bob", 1)
    finish_leaving(world)
    assert states(world) == "R R AssocGrpCpuLimit AssocGrpCpuLimit AssocGrpCpuLimit R AssocGrpCpuLimit R R"


def test_nobody_goes_where_that_would_not_be_enough() -> None:
    world = under_a_limit()
    submit_cpus(world, "opa", 4)
    submit_cpus(world, "ann", 4)
    change(world, "c", grptres="cpu=2", borrow="cpu=2", lend="cpu=0")
    submit_cpus(world, "bob", 4)  # what c has is not borrowed
    assert states(world) == "R R AssocGrpCpuLimit"
    world = under_a_limit()
    submit_cpus(world, "ann", 8)
    change(world, "uni", grptres="cpu=3")
    submit_cpus(world, "bob", 4)  # never, as long as uni has so little
    assert states(world) == "B AssocGrpCpuLimit"


def test_another_limit_in_the_way_lets_nobody_go() -> None:
    world = under_a_limit()
    submit_cpus(world, "ann", 8)
    change(world, "uni", grpjobs="1")
    submit_cpus(world, "bob", 2)
    assert states(world) == "B AssocGrpJobsLimit"


def test_the_grace_holds_and_nobody_else_takes_the_room_meanwhile() -> None:
    partitions = (PartitionConfig("main", ("n1",), is_default=True, grace_time_s=30),)
    world = under_a_limit(partitions=partitions)
    submit_cpus(world, "ann", 4)
    submit_cpus(world, "ann", 4)
    world.started(1)
    world.started(2)
    submit_cpus(world, "bob", 4)
    assert world.core.state.jobs[2].preempt_end_at_us and not world.core.state.jobs[1].preempt_end_at_us
    submit_cpus(world, "ann", 2)
    world.advance(31)
    finish_leaving(world)
    assert states(world) == "R AssocGrpCpuLimit R AssocGrpCpuLimit"


STORY = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "opa", "end", "go"]), st.integers(0, 7), st.integers(1, 5)), max_size=40
)


@examples(quick=30, full=600)
@given(STORY, st.sampled_from([8, 10]), st.sampled_from([9, 64]))
def test_a_lenders_job_within_its_guarantee_starts_after_reclaim(
    story: list[tuple[str, int, int]], top: int, cpus: int
) -> None:
    world = under_a_limit(top, max(top, cpus))
    state = world.core.state
    change(world, "c", grptres="cpu=0", borrow="cpu=4")  # it has nothing of its own
    for what, which, number in story:
        active = [j for j in state.jobs.values() if j.state in ALLOCATED_STATES and j.state is not JobState.COMPLETING]
        if what == "go":
            finish_leaving(world)
        elif what != "end":
            submit_cpus(world, what, number)
        elif active:
            end(world, active[which % len(active)].job_id)
    for _ in range(100):
        if not finish_leaving(world):
            break
    else:
        raise AssertionError("borrowed work is reclaimed again and again")
    for name in "ab":
        account = state.shares.accounts[name]
        for job in state.jobs.values():
            if job.state is JobState.PENDING and job.request.account == name:
                wants = job.request.ntasks
                assert borrow.used(state, account, "cpu") + wants > 4, f"job {job.job_id} of {name}: {job.reason}"
    assert all(not job.preempt_at_us or job.attempt or job.borrowed for job in state.jobs.values())
