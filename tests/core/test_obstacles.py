"""Readiness and explanation are one table: what `penstock why` names first is the reason that a refresh gives.

By each rule in a scenario of its own, and on queues that anything may have happened to.
"""

from collections.abc import Callable
from typing import Any

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.jobs.holds import hold_for
from ctld.core.lifecycle.obstacles import LIMITS, READINESS, RULES, obstacles
from ctld.core.lifecycle.ready import refresh
from ctld.core.records.compact_request import with_changes
from ctld.core.records.events import (
    ControlAction,
    ControlJobs,
    DeleteReservation,
    Tick,
    UpdatePartition,
)
from ctld.core.records.job import Job
from penstock.values.config import PartitionConfig
from penstock.values.states import END_STATES, Hold, JobState, Reason
from tests.core.limitscript import set_limits
from tests.core.test_budgets import cluster as budget_cluster
from tests.core.test_budgets import give
from tests.core.test_budgets import submit as submit_paid
from tests.core.test_limit_properties import OPERATIONS, SCALE, Story, make_world
from tests.core.test_why import HOUR_S, job, reserve, world
from tests.core.world import US, World

Found = tuple[World, int]


# ---- what is compared --------------------------------------------------------------------------------------------


def own_reason(made: World, one: Job) -> Reason | None:
    """The first obstacle of those that `refresh` asks for, limits apart."""
    state = made.core.state
    found = (rule.decide(state, one, state.now_us) for rule in READINESS)
    return next((reason for reason in found if reason is not None), None)


def judge(made: World, one: Job) -> None:
    """A refresh agrees with what is explained."""
    state = made.core.state
    told, own = obstacles(state, one, state.now_us), own_reason(made, one)
    limit = LIMITS.decide(state, one, state.now_us)
    others = [state.jobs[i] for i in range(one.request.het_job_id, one.request.het_job_id + one.request.het_size)]
    held = any(
        other.state is not JobState.PENDING or own_reason(made, other) is not None
        for other in others
        if other is not one and other.state not in END_STATES
    )
    refresh(state, one, state.now_us)
    is_ready = state.pending.is_ready(one.job_id)
    if own is None and held:
        assert not is_ready, f"job {one.job_id} is ready without its other components"
    elif own is None and limit is None:
        assert is_ready, f"job {one.job_id} waits with {one.reason}, and nothing is in its way"
    else:
        assert not is_ready and told[0].reason is one.reason is (own or limit), (
            f"job {one.job_id}: {one.reason}, {told}"
        )


def judge_all(made: World) -> None:
    for one in list(made.core.state.jobs.values()):
        if one.state is JobState.PENDING:
            judge(made, one)
    made.settle()


# ---- each rule ---------------------------------------------------------------------------------------------------


def closed(**of_partition: Any) -> World:
    """Two partitions that no job may have, the first one since it is down."""
    return world(partitions=(
        PartitionConfig("debug", ("n1", "n2"), is_default=True, state="DOWN"),
        PartitionConfig("other", ("n1", "n2"), **of_partition),
    ))  # fmt: skip


def with_job(made: World, user: str = "ann", **wanted: Any) -> Found:
    before = made.counters[0]
    made.submit(job(**wanted), user, key="e" * 32)
    assert made.counters[0] > before, made.replies
    return made, before


def held(kind: Hold) -> Found:
    made, job_id = with_job(world(), hold=True)
    made.core.state.jobs[job_id].hold = kind
    return made, job_id


def held_by_administrator() -> Found:
    made, job_id = with_job(world(), hold=True)
    made.do(ControlJobs(made.actor("root"), (str(job_id),), ControlAction.HOLD, made.reply_to()))
    return made, job_id


def held_by_controller() -> Found:
    made, job_id = with_job(world(), hold=True)
    hold_for(made.core.state.jobs[job_id], Reason.JOB_HOLD_MAX_REQUEUE.value)
    return made, job_id


def never() -> Found:
    made, job_id = with_job(world(job()), dependency="afternotok:1")
    made.started(1)
    made.exited(1)
    return made, job_id


def without_qos() -> Found:
    made, job_id = with_job(world(), hold=True)
    one = made.core.state.jobs[job_id]
    one.hold, one.request = Hold.NO, with_changes(one.request, qos="gone")
    return made, job_id


def without_association() -> Found:
    made = make_world("priority/basic")
    made, job_id = with_job(made, "bob", account="physics", hold=True)
    one = made.core.state.jobs[job_id]
    one.hold, one.request = Hold.NO, with_changes(one.request, account="unheard")
    return made, job_id


def in_reservation() -> Found:
    made = world()
    reserve(made, "mine", ("n1",), "ann", HOUR_S, HOUR_S)
    return with_job(made, reservation="mine", time_limit_s=2 * HOUR_S)


def unpaid() -> Found:
    made = budget_cluster("4gpu-hours/month")
    submit_paid(made, 120, 1)
    submit_paid(made, 180, 1)
    return made, 2


def preempted() -> Found:
    made = world(job(exclusive=True, nodes_min=2), job(nodes_min=2), preempt_type="preempt/qos")
    made, job_id = with_job(made)
    made.core.state.jobs[job_id].preemptor_id = 2
    return made, job_id


def limited() -> Found:
    made = make_world("priority/basic")
    set_limits(made, {"account": "physics"}, {"grptres": "cpu=2", "grpjobs": "0"})
    made.do(Tick())
    return with_job(made, account="physics", ntasks=3)


def limited_beside_closed() -> Found:
    """The partition in which the limit is not takes no jobs."""
    made = make_world("priority/basic")
    set_limits(made, {"qos": "part"}, {"grpjobs": "0"})
    made.do(Tick())
    made.do(UpdatePartition(made.actor("root"), "debug", {"state": "down"}, made.reply_to()))
    return with_job(made, account="physics", partitions=("debug", "other"))


def limited_together() -> Found:
    made = make_world("priority/basic")
    set_limits(made, {"account": "physics"}, {"grptres": "cpu=3"})
    made.do(Tick())
    OPERATIONS[4](made, 2, 0)
    return made, 2


def fenced() -> Found:
    made = make_world("priority/basic")
    set_limits(made, {"account": "physics"}, {"grptres": "node=1"})
    made.do(Tick())
    made, _ = with_job(made, account="physics", cpus_per_task=6)
    made.submit(job(account="physics", cpus_per_task=6), "ann", key="d" * 32)
    return made, 2


def undivided() -> Found:
    made, job_id = with_job(world(job(exclusive=True, nodes_min=2)))
    made.core.state.gpus.mig_waits[job_id] = "it waits until GPU 0 of n1 is divided"
    return made, job_id


SCENARIOS: dict[str, tuple[Callable[[], Found], list[tuple[Reason, str]]]] = {
    "held": (lambda: held(Hold.USER), [(Reason.JOB_HELD_USER, "held by its owner ann: scontrol release releases it")]),
    "exit status": (lambda: held(Hold.SPECIAL_EXIT), [
        (Reason.JOB_HELD_USER, "its script ended with a status of RequeueExitHold: scontrol release releases it"),
    ]),
    "administrator": (held_by_administrator, [(Reason.JOB_HELD_ADMIN, "held by an administrator")]),
    "controller": (held_by_controller, [
        (Reason.JOB_HOLD_MAX_REQUEUE, "Its nodes have ended more than MaxBatchRequeue of its attempts, or could not launch them."),
    ]),
    "dependency": (lambda: with_job(world(job()), dependency="afterok:1"), [
        (Reason.DEPENDENCY, "it waits for afterok:1 (RUNNING)"),
    ]),
    "never": (never, [
        (Reason.DEPENDENCY_NEVER_SATISFIED, "it will never start, for it depends on afternotok:1 (COMPLETED)"),
    ]),
    "begin": (lambda: with_job(world(), begin_at_us=2_000_000 * US), [(Reason.BEGIN_TIME, "it may not begin before")]),
    "array": (lambda: (world(job(array="1-5%2")), 1), [
        (Reason.JOB_ARRAY_TASK_LIMIT, "2 tasks of its array run, and its limit is %2"),
    ]),
    "qos": (without_qos, [(Reason.INVALID_QOS, "its QOS gone no longer exists")]),
    "association": (without_association, [
        (Reason.INVALID_ACCOUNT, "user bob has no association with account unheard for any of its partitions"),
    ]),
    "partitions": (lambda: with_job(closed(max_time_s=60), partitions=("debug", "other")), [
        (Reason.PARTITION_TIME_LIMIT, "its time limit is 1:00:00, partition other has MaxTime=1:00"),
        (Reason.PARTITION_DOWN, "partition debug is DOWN"),
    ]),
    "lists of a partition": (
        lambda: with_job(closed(allow_accounts=("lab",)), account="physics", partitions=("debug", "other")),
        [
            (Reason.ACCOUNT_NOT_ALLOWED, "partition other: account physics is not let in"),
            (Reason.PARTITION_DOWN, "partition debug is DOWN"),
        ],
    ),
    "nodes": (lambda: with_job(closed(max_nodes=1), partitions=("other",), nodes_min=2), [
        (Reason.PARTITION_NODE_LIMIT, "it requests 2 nodes, partition other has MinNodes=0 MaxNodes=1"),
    ]),
    "reservation": (in_reservation, [
        (Reason.RESERVATION, "reservation mine is over, too short for its time limit, or not for its owner"),
    ]),
    "budget": (unpaid, [
        (
            Reason.PENSTOCK_BUDGET,
            "the budget of account lab, 4 gpu-hours each month, has 0.00 used and 2.00 reserved by running jobs, and it may "
            "use 3.00",
        ),
    ]),
    "preemptor": (preempted, [(Reason.PRIORITY, "it was preempted for job 2, which goes first")]),
    "limits": (limited, [
        (Reason.ASSOC_GRP_JOBS_LIMIT, "account physics: GrpJobs 0, 0 are used, 1 are wanted"),
        (Reason.ASSOC_GRP_CPU_LIMIT, "account physics: GrpTRES cpu=2, 0 are used, 3 are wanted"),
    ]),
    "limit beside a closed partition": (limited_beside_closed, [
        (Reason.QOS_GRP_JOBS_LIMIT, "QOS part: GrpJobs 0, 0 are used, 1 are wanted"),
    ]),
    "limit of components": (limited_together, [
        (Reason.ASSOC_GRP_CPU_LIMIT, "account physics: GrpTRES cpu=3, 0 are used, 4 are wanted"),
    ]),
    "nodes of its group": (fenced, [
        (Reason.ASSOC_GRP_NODE_LIMIT, "account physics: GrpTRES node=1, 1 are used, and it may run only there"),
    ]),
    "division": (undivided, [(Reason.RESOURCES, "it waits until GPU 0 of n1 is divided")]),
    "deadline": (lambda: with_job(world(job(exclusive=True, nodes_min=2)), deadline_at_us=1_010_000 * US), [
        (Reason.DEADLINE, "to end before its deadline it must have started by"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_rule_gives_the_reason_that_it_explains(name: str) -> None:
    make, told = SCENARIOS[name]
    made, job_id = make()
    state = made.core.state
    one = state.jobs[job_id]
    assert one.state is JobState.PENDING
    assert [(o.reason, o.text) for o in obstacles(state, one, state.now_us)] == told
    judge(made, one)


def test_no_rule_is_left_out() -> None:
    """Every row of the table decides and describes in one of these, and is the first to hold in it."""
    seen: dict[int, None] = {}
    for make, _ in SCENARIOS.values():
        made, job_id = make()
        state = made.core.state
        one = state.jobs[job_id]
        holding = [rule for rule in RULES if rule.decide(state, one, state.now_us) is not None]
        for rule in holding:
            reason = rule.decide(state, one, state.now_us)
            assert reason is not None
            first = next(iter(rule.describe(state, one, state.now_us, reason)))
            assert first.reason is reason and first.text
        seen[RULES.index(holding[0])] = None
    assert sorted(seen) == list(range(len(RULES)))


# ---- any queue -----------------------------------------------------------------------------------------------------


def submit_waiting(made: World, a: int, b: int) -> None:
    """A job with one reason to wait, or none, in one partition or both."""
    choices: tuple[dict[str, object], ...] = (
        {"hold": True}, {"begin_at_us": made.now_us + (a % 3) * 100 * US}, {"dependency": "singleton"},
        {"dependency": f"afterok:{max(1, made.counters[0] - 1 - a % 3)}"}, {"deadline_at_us": made.now_us + HOUR_S * US},
        {"reservation": "mine", "time_limit_s": 300 + a % 2 * HOUR_S}, {"array": "0-4%1"},
    )  # fmt: skip
    more = choices[a % len(choices)]
    places = [("debug",), ("other",), ("debug", "other"), ("other", "debug")][b % 4]
    made.submit(job(**{"account": "physics", "partitions": places, "time_limit_s": 300, **more}), ("ann", "bob")[b % 2])


def change_partition(made: World, a: int, b: int) -> None:
    change = {"state": ("up", "down", "inactive", "up")[a % 4]}
    made.do(UpdatePartition(made.actor("root"), ("debug", "other")[b % 2], change, made.reply_to()))


def change_reservation(made: World, a: int, b: int) -> None:
    if "mine" in made.core.state.reservations:
        made.do(DeleteReservation(made.actor("root"), "mine", made.reply_to()))
    elif not any(node.jobs for node in made.core.state.nodes.values()):
        reserve(made, "mine", ("n1",), "ann", a % 2 * HOUR_S, HOUR_S)


def change_budget(made: World, a: int, b: int) -> None:
    give(made, ("physics", "lab")[b % 2], ("", "1cpu-hours/none", "0.01cpu-hours/none")[a % 3])


WAITING = (submit_waiting, submit_waiting, submit_waiting, change_partition, change_reservation, change_budget)
EVERYTHING = (*WAITING, *OPERATIONS, *WAITING)
stories = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 199), st.integers(0, 199)), min_size=20, max_size=50)


@examples(quick=25 * SCALE, full=600 * SCALE)
@given(stories, st.sampled_from(["priority/basic", "priority/multifactor"]))
def test_refresh_and_why_agree_whatever_has_happened(story: Story, order: str) -> None:
    made = make_world(order)
    for op, a, b in story:
        EVERYTHING[op % len(EVERYTHING)](made, a, b)
    judge_all(made)
