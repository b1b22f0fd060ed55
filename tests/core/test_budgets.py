"""Budgets: what is charged, what waits, what is reserved, what a restart keeps."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctld.core.accounts.keys import unpaid
from ctld.core.diagnose.hints import variants
from ctld.core.lifecycle.obstacles import obstacles
from ctld.core.records.budget_book import ONE
from ctld.core.records.events import (
    AccountAction,
    ChangeAccounts,
    ControlAction,
    ControlJobs,
    JobSubmission,
    Tick,
    UpdateJobs,
)
from ctld.core.state.periods import bounds
from ctld.rpc.accounting.budgets import budgets
from ctld.runtime.errors import BadRequest
from penstock.values.budgets import check_budget, parse_budgets
from penstock.values.config import PartitionConfig
from penstock.values.errors import BadValue
from penstock.values.states import JobState, Reason
from penstock.values.weights import parse_weights
from tests.core.bookkeeping import MODIFY, change
from tests.core.test_resolve_association import account
from tests.core.world import START_US, US, World, make_config

HOUR_S = 3600
BERLIN = ((0, 3600),)


def cluster(budget: str = "", above: str = "", **extra: Any) -> World:
    """One node of 8 CPUs and 4 GPUs; account lab below account uni."""
    names = ("n1",)
    prices = parse_weights("gres/gpu=2.50,cpu=0.03", "PenstockPrices")
    partitions = (PartitionConfig("main", names, is_default=True, prices=prices),)
    more = {"partitions": partitions, "penstock_currency": "EUR", **extra}
    world = World(make_config(nodes=1, cpus=8, gpus=4, mem_mb=100_000, **more))
    world.register("n1")
    account(world, "account", "uni")
    account(world, "account", "lab", parent="uni")
    account(world, "user", "ann", "bob", accounts=("lab",))
    give(world, "lab", budget)
    give(world, "uni", above)
    return world


def give(world: World, name: str, budget: str) -> None:
    """Sacctmgr modify account set budget=."""
    event = ChangeAccounts(world.actor("root"), AccountAction.MODIFY, "account", (name,), {"budget": budget or "none"})
    world.do(event)


def submit(world: World, minutes: int | None = 60, gpus: int = 0, **wanted: Any) -> str:
    gres = (("gpu", "a100", gpus),) if gpus else ()
    limit: dict[str, Any] = {} if minutes is None else {"time_limit_s": minutes * 60}
    return world.submit(JobSubmission(name="j", work_dir=b"/", gres_per_node=gres, **limit, **wanted))[0]


def use(world: World, name: str = "lab", index: int = 0) -> tuple[float, float]:
    """(used, reserved) in units."""
    state = world.core.state
    book = state.limits.budgets.by_account[state.shares.accounts[name].assoc_id][index]
    return book.used_at(world.now_us) / ONE, book.reserved_at(world.now_us) / ONE


def reason(world: World, job_id: int) -> str:
    job = world.core.state.jobs[job_id]
    return "R" if job.state is not JobState.PENDING else job.reason.value


def test_the_grammar() -> None:
    assert check_budget("1000GPU-hours/month") == "1000gpu-hours/month"
    assert check_budget("250.5EUR/quarter,10cpu-hours/none") == "250.50EUR/quarter,10cpu-hours/none"
    assert check_budget("none") == check_budget("-1") == ""
    assert parse_budgets("0.05EUR/day")[0].hundredths == 5
    for text in (
        "1000",
        "1000gpu-hours",
        "1gpu-days/month",
        "1EUR/decade",
        "-5EUR/day",
        "1EUR/day,2EUR/day",
        "1.234EUR/day",
        "1234567890123EUR/day",
        "\u0661gpu-hours/day",
    ):
        with pytest.raises(BadValue):
            check_budget(text)
    with pytest.raises(
        BadValue, match="an amount has at most 12 digits, and at most two behind a point; hours are gpu-hours, "
    ):
        check_budget("1.234EUR/day")


@pytest.mark.parametrize(
    ("currency", "prices", "budget", "told"),
    [
        ("", "", "5EUR/month", "'EUR' is no unit, since slurm.conf has no PenstockCurrency; hours are gpu-hours, "),
        (
            "USD",
            "cpu=1",
            "1gpu-hours/day,5EUR/month",
            "'EUR' is no unit: money is USD here (PenstockCurrency); hours are",
        ),
        ("EUR", "", "5EUR/month", "nothing has a price: set PenstockPrices on the line of a partition in slurm.conf"),
        ("EUR", "cpu=1", "5EUR/month", ""),
        ("", "", "5gpu-hours/month", ""),
    ],
)
def test_money_that_nothing_is_charged_to_is_refused(currency: str, prices: str, budget: str, told: str) -> None:
    """It would have no effect. One that was set before the prices were removed is reported with the budgets."""
    weights = parse_weights(prices, "PenstockPrices") if prices else ()
    partition = PartitionConfig("main", ("n1",), is_default=True, prices=weights)
    world = World(make_config(nodes=1, partitions=(partition,), penstock_currency=currency))
    account(world, "account", "lab")
    found = change(world, MODIFY, "account", "lab", budget=budget)
    assert (f"Invalid budget '{budget}': {told}" in found) if told else found == "lab"
    state = world.core.state
    assert state.shares.accounts["lab"].budget == ("" if told else budget)
    one = parse_budgets(budget)[-1]
    assert unpaid(state, one).startswith(told) and bool(unpaid(state, one)) == bool(told)


def test_which_budgets_are_listed() -> None:
    world = cluster("10EUR/none", above="3gpu-hours/month")
    state, root = world.core.state, world.actor("root")
    assert [(one.account, one.unit) for one in budgets(state, root, (), 0)] == [("lab", "EUR"), ("uni", "gpu-hours")]
    assert [one.account for one in budgets(state, root, ("LAB",), 0)] == ["lab"]
    assert budgets(state, root, ("root",), 0) == []
    with pytest.raises(BadRequest, match="Invalid account .*: 'nosuch'"):
        budgets(state, root, ("lab", "nosuch"), 0)


@pytest.mark.parametrize(
    ("period", "first", "after"),
    [
        ("day", "2024-02-29", "2024-03-01"),
        ("week", "2024-02-26", "2024-03-04"),
        ("month", "2024-02-01", "2024-03-01"),
        ("quarter", "2024-01-01", "2024-04-01"),
        ("year", "2024-01-01", "2025-01-01"),
    ],
)
def test_periods_are_those_of_the_controllers_calendar(period: str, first: str, after: str) -> None:
    from datetime import datetime

    def instant(day: str) -> int:  # local midnight, an hour before UTC's
        return (int(datetime.fromisoformat(day + "T00:00:00+00:00").timestamp()) - 3600) * US

    at_us = int(datetime.fromisoformat("2024-02-28T23:30:00+00:00").timestamp()) * US
    assert bounds(period, at_us, BERLIN) == (instant(first), instant(after))
    assert bounds("none", at_us, BERLIN) == (0, 0)


def test_a_job_that_cannot_be_paid_waits_until_what_was_reserved_is_free() -> None:
    world = cluster("4gpu-hours/none")
    assert submit(world, 60, 3) == "submitted 1"
    assert submit(world, 120, 1) == "submitted 2"
    assert [reason(world, i) for i in (1, 2)] == ["R", "AccountBudget"]
    assert submit(world, 60, 1) == "submitted 3"
    assert reason(world, 3) == "R" and use(world) == (0, 4)
    world.started(1)
    world.advance(1800)
    assert use(world) == (2, 2)
    world.exited(1)
    assert use(world) == (2, 0.5) and reason(world, 2) == "AccountBudget"
    world.exited(3)
    assert use(world) == (2, 2) and reason(world, 2) == "R"


def test_money_by_the_prices_of_the_partition() -> None:
    world = cluster("10EUR/none")
    submit(world, 60, 2, ntasks=2)
    assert use(world) == (0, 5.06)
    world.started(1)
    world.advance(30)
    world.exited(1)
    state = world.core.state
    book = state.limits.budgets.by_account[state.shares.accounts["lab"].assoc_id][0]
    assert book.used == 5_060_000 * 30 * US  # exactly


def test_accounts_above_pay_too_and_several_budgets_hold_together() -> None:
    world = cluster("10gpu-hours/none,3cpu-hours/none", above="2gpu-hours/none")
    submit(world, 60, 1)
    submit(world, 60, 2)
    submit(world, 180)
    submit(world, 60, 1)
    assert [reason(world, i) for i in (1, 2, 3, 4)] == ["R", "AccountBudget", "AccountBudget", "R"]
    assert use(world, "uni") == (0, 2) and use(world, "lab", 1) == (0, 2)


def test_a_job_without_a_time_limit() -> None:
    world = cluster("100gpu-hours/none")
    submit(world, None, 1)
    assert reason(world, 1) == "AccountBudget"
    give(world, "lab", "100gpu-hours/day")
    assert reason(world, 1) == "R"
    day_s = 86_400
    assert use(world)[1] == (day_s - START_US // US % day_s) / 3600


def test_an_array_starts_as_many_tasks_as_the_budget_has() -> None:
    world = cluster("2gpu-hours/none")
    assert submit(world, 60, 1, array="1-5") == "submitted 1"
    running = [job for job in world.core.state.jobs.values() if job.state is not JobState.PENDING]
    assert len(running) == 2 and use(world) == (0, 2)
    assert reason(world, 1) == "AccountBudget" or world.core.state.jobs[1].array_tasks is None


def test_the_next_period_begins_with_what_goes_on() -> None:
    world = cluster("30gpu-hours/day")
    day_us = 86_400 * US
    to_end_s = (day_us - START_US % day_us) // US
    world.advance(to_end_s - HOUR_S)
    submit(world, 180, 2)
    submit(world, 60 * 24, 2)
    assert [reason(world, i) for i in (1, 2)] == ["R", "R"]  # of this day they may use an hour each
    assert use(world) == (0, 4)
    world.started(1)
    world.started(2)
    world.advance(HOUR_S + 1800)
    assert use(world) == (2, 3 + 45)
    rows = sorted(world.budget_rows.values(), key=lambda row: row.start_us)
    assert rows[0].used == 4 * ONE
    world.restart()
    world.register("n1")
    assert use(world) == (2, 48)


def test_a_restart_keeps_what_was_used_to_the_microsecond() -> None:
    world = cluster("30gpu-hours/month")
    submit(world, 60, 1)
    world.started(1)
    world.advance(777)
    submit(world, 60, 1)
    before = use(world)
    world.restart()
    assert use(world) == before
    world.register("n1")
    world.advance(100)
    assert use(world)[0] == pytest.approx(before[0] + 2 * 100 / 3600)


def test_what_stands_still_uses_nothing() -> None:
    world = cluster("30gpu-hours/none")
    submit(world, 60, 1)
    world.started(1)
    world.advance(600)
    world.do(ControlJobs(world.actor("root"), ("1",), ControlAction.SUSPEND, world.reply_to()))
    world.advance(1200)
    assert use(world) == (600 / 3600, 3000 / 3600)
    world.do(ControlJobs(world.actor("root"), ("1",), ControlAction.RESUME, world.reply_to()))
    world.advance(600)
    assert use(world) == (1200 / 3600, 2400 / 3600)


@pytest.mark.parametrize("how", ["finish", "cancel"])
def test_what_becomes_of_jobs_when_it_is_used_up(how: str) -> None:
    world = cluster("2gpu-hours/none", penstock_budget_at_end=how)
    submit(world, 60, 2)
    world.started(1)
    world.do(UpdateJobs(world.actor("root"), ("1",), {"timelimit": "300"}, {}, world.reply_to()))
    world.advance(HOUR_S - 1)
    job = world.core.state.jobs[1]
    assert job.state is JobState.RUNNING
    world.advance(1)
    world.do(Tick())
    assert (job.state is JobState.COMPLETING) == (how == "cancel")
    if how == "cancel":
        assert job.reason is Reason.PENSTOCK_BUDGET
        world.exited(1, signal=15)
        assert world.jobs[1, 0].state is JobState.TIMEOUT


def test_who_submits_is_warned_when_little_is_left() -> None:
    world = cluster("10gpu-hours/none")
    assert submit(world, 60 * 9, 1) == "submitted 1"
    assert submit(world, 6, 1) == "submitted 2"
    assert submit(world, 6, 1) == "submitted 3; warning: the budget of account lab, 10 gpu-hours, has 0.90 left"


def test_why_has_the_numbers() -> None:
    world = cluster("4gpu-hours/month")
    submit(world, 120, 1)
    submit(world, 180, 1)
    found = obstacles(world.core.state, world.core.state.jobs[2], world.now_us)
    assert [(one.reason, one.text) for one in found] == [
        (
            Reason.PENSTOCK_BUDGET,
            "the budget of account lab, 4 gpu-hours each month, has 0.00 used and 2.00 reserved by running jobs, and it may "
            "use 3.00",
        )
    ]


def test_a_budget_that_is_raised_lets_jobs_go_on() -> None:
    world = cluster("1gpu-hours/none")
    submit(world, 120, 1)
    assert reason(world, 1) == "AccountBudget"
    give(world, "lab", "2gpu-hours/none")
    assert reason(world, 1) == "R"
    give(world, "lab", "none")
    submit(world, 6000, 1)
    assert reason(world, 2) == "R" and not world.core.state.limits.budgets.books


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "exit", "wait", "suspend", "resume", "limit", "cancel", "requeue", "restart", "budget"]
        ),
        st.integers(0, 9),
        st.integers(1, 6),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_nothing_starts_beyond_the_budget_and_usage_is_the_sum_of_running_times(
    actions: list[tuple[str, int, int]],
) -> None:
    world = cluster("12gpu-hours/none", above="500gpu-hours/none")
    state = world.core.state
    rates: dict[int, int] = {}
    limit = 12
    known: set[tuple[int, int]] = set()
    for what, which, number in actions:
        active = [job for job in world.core.state.jobs.values() if (job.job_id, job.attempt) in world.launches]
        active = [job for job in active if job.state in (JobState.CONFIGURING, JobState.RUNNING, JobState.SUSPENDED)]
        job = active[which % len(active)] if active else None
        root = world.actor("root")
        raised = False
        if what == "submit":
            submit(world, number * 30, 1 + which % 4)
        elif what == "wait":
            world.advance(number * 300)
        elif what == "restart":
            world.restart()
            world.register("n1")
        elif what == "budget":
            limit = number * 3
            give(world, "lab", f"{limit}gpu-hours/none")
        elif job is not None and what == "exit" and job.state is not JobState.SUSPENDED:
            world.started(job.job_id)
            world.exited(job.job_id)
        elif job is not None and what == "limit":
            raised = True
            world.do(UpdateJobs(root, (str(job.job_id),), {"timelimit": str(number * 60)}, {}, world.reply_to()))
        elif job is not None and what in ("suspend", "resume", "requeue"):
            world.do(ControlJobs(root, (str(job.job_id),), ControlAction[what.upper()], world.reply_to()))
        state = world.core.state
        started = {key for key in world.launches if key not in known}
        known |= started
        used, reserved = use(world)
        if started and not raised:
            assert used + reserved <= limit + 1e-9, (used, reserved, limit)
        rates.clear()
    total = 0
    for row in world.jobs.values():
        if not row.start_at_us:
            continue
        live = state.jobs.get(row.job_id)
        end_us = row.end_at_us or world.now_us
        stands = row.suspended_us
        if live is not None and live.attempt == row.attempt and live.state is JobState.SUSPENDED:
            stands += world.now_us - row.suspended_at_us
        gpus = sum(mask.bit_count() for part in row.alloc for _, _, mask in part.gres)
        total += gpus * (end_us - row.start_at_us - stands)
    above = state.limits.budgets.by_account[state.shares.accounts["uni"].assoc_id][0]
    assert above.used_at(world.now_us) == total * 1_000_000


def test_hints_ask_the_budget_too() -> None:
    world = cluster("4gpu-hours/none", def_mem_per_cpu_mb=100)
    submit(world, 120, 1)
    submit(world, 180, 1)
    state = world.core.state
    found = variants(state, state.jobs[2], world.actor("ann"))
    assert next(one.options for one in found if one.kind == "time") == ("--time=2:00:00",)
    assert not any(one.kind == "memory" for one in found)
