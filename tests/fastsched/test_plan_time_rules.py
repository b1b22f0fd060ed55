"""Each rule of the planner that speaks of time, reservations, alternatives or preemption, by example. The numbers are
contract.py's; the other rules: test_plan_rules.py."""

from typing import Any

import pytest

from _fastsched.contract import (
    BAD_CONSTRAINTS,
    DEADLINE,
    LICENSES,
    NODES_DOWN,
    NOT_TESTED,
    PREEMPTING,
    PRIORITY,
    RESERVED,
    RESOURCES,
    STARTED,
)
from tests.fastsched.planner_input import (
    NOW_S,
    Node,
    Planner,
    Resv,
    Run,
    planner,
    planner_input,
    plans,
    starts,
    victims,
)

FULL = Run({0: 4}, end_s=2000)


@pytest.fixture(params=["_fastsched.plan", "_fastsched.reference"])
def plan(request: pytest.FixtureRequest) -> Planner:
    return planner(request.param)


def outcome(plan: Planner, nodes: list[Node], *rows: dict[str, Any], **more: Any) -> tuple[list[int], list[int]]:
    """Reasons and start times."""
    result = plan(planner_input(nodes, *rows, **more))
    return result.reason.tolist(), result.start_s.tolist()


def row(limit_s: int = 100, cpus: int = 4, **more: Any) -> dict[str, Any]:
    return {"limit_s": limit_s, "cpus_per_task": cpus, **more}


def wide(nodes: int, **more: Any) -> dict[str, Any]:
    return {"nodes_min": nodes, "nodes_max": nodes, "ntasks": nodes, "cpus_per_task": 4, "limit_s": 100, **more}


# --- 0, 4: when


def test_0_later_starts_are_rounded_up_and_lie_in_the_window(plan: Planner) -> None:
    assert outcome(plan, [Node()], row(), running=[FULL]) == ([RESOURCES], [2000])
    assert outcome(plan, [Node()], row(), running=[FULL], resolution_s=300) == ([RESOURCES], [2100])
    assert outcome(plan, [Node()], row(), running=[FULL], window_s=1001) == ([RESOURCES], [2000])
    assert outcome(plan, [Node()], row(), running=[FULL], window_s=1000) == ([RESOURCES], [-1])
    assert outcome(plan, [Node()], row(), window_s=0, resolution_s=300) == ([STARTED], [NOW_S])


def test_0_a_job_that_is_over_its_limit_ends_in_a_second(plan: Planner) -> None:
    assert outcome(plan, [Node()], row(), running=[Run({0: 4}, end_s=5)]) == ([RESOURCES], [NOW_S + 1])


def test_0_earliest_and_latest(plan: Planner) -> None:
    assert outcome(plan, [Node()], row(earliest_s=1234)) == ([RESOURCES], [1234])
    assert outcome(plan, [Node()], row(earliest_s=1234), resolution_s=100) == ([RESOURCES], [1300])
    assert outcome(plan, [Node()], row(latest_s=2000), running=[FULL]) == ([RESOURCES], [2000])
    assert outcome(plan, [Node()], row(latest_s=1999), running=[FULL]) == ([DEADLINE], [-1])
    assert outcome(plan, [Node()], row(latest_s=999)) == ([DEADLINE], [-1])
    assert outcome(plan, [Node()], row(latest_s=NOW_S)) == ([STARTED], [NOW_S])
    assert outcome(plan, [Node()], row(earliest_s=1300, latest_s=1200)) == ([DEADLINE], [-1])
    # Where nothing was planned, or the window ends before, nobody knows.
    assert outcome(plan, [Node()], row(latest_s=1999, reserve=0), running=[FULL], estimate=False) == ([RESOURCES], [-1])
    assert outcome(plan, [Node()], row(latest_s=1999), running=[FULL], window_s=999) == ([RESOURCES], [-1])


def test_4_a_start_needs_the_whole_interval(plan: Planner) -> None:
    """Row 0 is planned for 2000; what ends by then may go before it (backfill)."""
    rows = [wide(2), row(1000), row(1001), row(900, earliest_s=1100)]
    assert outcome(plan, [Node(), Node()], *rows, running=[FULL]) == (
        [RESOURCES, STARTED, PRIORITY, PRIORITY],
        [2000, NOW_S, 2100, 2100],
    )


def test_4_the_limit_granted_is_as_long_as_nothing_is_in_the_way(plan: Planner) -> None:
    shrinks = row(5000, limit_min_s=10)
    head = wide(2)

    def granted(*rows: dict[str, Any], nodes: int = 2, **more: Any) -> int:
        return starts(plan(planner_input([Node()] * nodes, *rows, **more)))[-1].limit_s

    assert granted(head, shrinks, running=[FULL]) == 1000
    assert granted(head, {**shrinks, "limit_s": 900}, running=[FULL]) == 900
    assert granted(shrinks) == 5000
    assert granted(shrinks, nodes=1, resvs=[Resv(1500, 1600, blocks=[(0, 1)])]) == 500
    assert granted({**shrinks, "cpus_per_task": 3}, nodes=1, resvs=[Resv(1500, 1600, blocks=[(0, 1)])]) == 5000
    assert granted({**shrinks, "resv": 0}, nodes=1, resvs=[Resv(900, 1600, blocks=[(0, 4)])]) == 600
    assert granted({**shrinks, "resv": 0}, nodes=1, resvs=[Resv(900, 1600, flex=True)]) == 5000
    block = Resv(1700, 1800, licenses={0: 1})
    assert granted({**shrinks, "licenses": (1,)}, nodes=1, licenses=[1], resvs=[block]) == 700
    later = row(10, exclusive=2, user=9, cpus=1, earliest_s=1400)
    assert granted(later, {**shrinks, "cpus_per_task": 1}, nodes=1) == 400


def test_4_licenses_are_counted_over_time(plan: Planner) -> None:
    nodes, has = [Node(16)], Run({0: 1}, end_s=2000, licenses=(2,))
    two = {"licenses": (2,), "limit_s": 100}
    assert outcome(plan, nodes, two, two, {}, licenses=[3], running=[has]) == (
        [LICENSES, LICENSES, STARTED],
        [2000, 2100, NOW_S],
    )
    assert outcome(plan, nodes, {"licenses": (1,)}, two, licenses=[3], running=[has]) == (
        [STARTED, LICENSES],
        [NOW_S, 2000],
    )
    assert outcome(plan, nodes, {"licenses": (9,)}, licenses=[3]) == ([LICENSES], [-1])
    # The nodes are missing too.
    assert outcome(plan, [Node()], row(licenses=(1,)), licenses=[1], running=[Run({0: 4}, 2000, licenses=(1,))]) == (
        [RESOURCES],
        [2000],
    )


# --- 5: reservations


def test_5_a_block_keeps_others_away_for_its_time(plan: Planner) -> None:
    night = Resv(2000, 3000, blocks=[(0, 3)])
    for cpus, limit_s, expected in ((4, 1000, NOW_S), (4, 1001, 3000), (1, 5000, NOW_S), (2, 1001, 3000)):
        why, start_s = outcome(plan, [Node()], row(limit_s, cpus), resvs=[night])
        assert start_s == [expected]
        assert why == [STARTED if expected == NOW_S else RESERVED]
    whole = Resv(2000, 3000, blocks=[(0, -1)])
    assert outcome(plan, [Node()], row(1001, 1), resvs=[whole]) == ([RESERVED], [3000])


def test_5_memory_gres_and_licenses_are_kept_too(plan: Planner) -> None:
    now = Resv(0, 3000, blocks=[(0, 0, 900, 1)], licenses={0: 2})
    rows = {"mem_node_mb": 101}, {"gres": (1,)}, {"licenses": (1,)}, {"mem_node_mb": 100}
    nodes = [Node(gres=(1, 0))]
    assert outcome(plan, nodes, *rows, resvs=[now], licenses=[2]) == (
        [RESERVED, RESERVED, LICENSES, STARTED],
        [3000, 3000, 3000, NOW_S],
    )


def test_5_members_run_inside_on_its_nodes_and_use_its_blocks(plan: Planner) -> None:
    nodes = [Node(), Node()]
    resv = Resv(2000, 3000, nodes=[1], blocks=[(1, -1)])
    assert outcome(plan, nodes, row(1000, resv=0), resvs=[resv]) == ([RESERVED], [2000])
    assert outcome(plan, nodes, row(1001, resv=0), resvs=[resv]) == ([RESERVED], [-1])
    open_now = Resv(500, 3000, nodes=[1], blocks=[(1, -1)])
    result = plan(planner_input(nodes, row(1000, resv=0), row(5000), {}, resvs=[open_now]))
    assert [(start.row, start.on) for start in starts(result)] == [(0, {1: 1}), (1, {0: 1})]
    assert (result.reason.tolist(), result.start_s.tolist()) == ([STARTED, STARTED, RESOURCES], [NOW_S, NOW_S, 3000])
    assert outcome(plan, nodes, row(resv=0, nodes=[0]), resvs=[open_now])[0] == [
        BAD_CONSTRAINTS
    ]  # no node of both masks


def test_5_flex_members_go_anywhere_at_any_time(plan: Planner) -> None:
    flex = Resv(2000, 3000, nodes=[1], flex=True, blocks=[(1, 4)])
    result = plan(planner_input([Node(), Node()], row(9000, resv=0), row(9000, resv=0), row(), resvs=[flex]))
    assert [start.on for start in starts(result)] == [{0: 1}, {1: 1}]
    assert result.reason.tolist() == [STARTED, STARTED, RESOURCES]


def test_5_what_members_take_is_taken_from_the_rest_of_the_blocks(plan: Planner) -> None:
    resv = Resv(0, 9000, blocks=[(0, 3), (0, 2)], licenses={0: 2})
    member = row(1000, 3, resv=0, licenses=(2,))
    rows = [member, row(1000, 3), row(1000, 3, licenses=(1,)), row(1001, 3)]
    # 8 cpus: the member has 3 of the 5 that are kept; 3 are for others while it runs and after it.
    assert outcome(plan, [Node(8)], *rows, resvs=[resv], licenses=[3]) == (
        [STARTED, STARTED, RESOURCES, PRIORITY],
        [NOW_S, NOW_S, 2000, 3000],
    )


def test_5_a_member_that_takes_more_than_is_kept_gives_nothing_to_others(plan: Planner) -> None:
    resv = Resv(0, 9000, blocks=[(0, 1)], licenses={0: 1})
    rows = [row(100, 3, resv=0, licenses=(2,)), row(100, 2), row(100, 1, licenses=(2,)), row(100, 1, licenses=(1,))]
    assert outcome(plan, [Node()], *rows, resvs=[resv], licenses=[3])[1] == [NOW_S, 1100, 1100, NOW_S]


# --- 6, 7: copies, and who holds


def test_6_waiting_copies_are_planned_one_after_the_other(plan: Planner) -> None:
    rows = row(100, count=4), row(10)
    for copies_max, expected in ((20, 2300), (2, 2100), (1, 2000)):
        why, start_s = outcome(plan, [Node(), Node()], *rows, running=[FULL, Run({1: 4}, 9000)], copies_max=copies_max)
        assert (why, start_s) == ([RESOURCES, PRIORITY], [2000, expected + 100])


def test_7_reserve_max(plan: Planner) -> None:
    """Rows of 3, 4, 2 and 1 cpus when 3 of 4 come back at 2000."""
    nodes, running = [Node()], [Run({0: 3}, 2000)]
    rows = [row(100, 3), row(100, 4), row(5000, 2), row(5000, 1)]
    for reserve_max, start_s in (
        (-1, [2000, 2100, 2200, 2200]),
        (2, [2000, 2100, 2200, 2200]),
        (1, [2000, 2100, 2100, NOW_S]),
        (0, [2000, 2000, 2000, NOW_S]),
    ):
        assert outcome(plan, nodes, *rows, running=running, reserve_max=reserve_max)[1] == start_s
    unknown = outcome(plan, nodes, *rows, running=running, reserve_max=1, estimate=False)
    assert unknown == ([RESOURCES, PRIORITY, PRIORITY, STARTED], [2000, -1, -1, NOW_S])
    rows[0]["reserve"] = 0
    assert outcome(plan, nodes, *rows, running=running, reserve_max=1)[1] == [2000, 2000, 2100, 2100]


def test_7_the_nodes_of_a_plan_are_named(plan: Planner) -> None:
    result = plan(planner_input([Node()] * 3, wide(2), wide(3), running=[FULL, Run({1: 4}, 3000)], reserve_max=0))
    assert (plans(result), result.start_s.tolist()) == ([[0, 2], [0, 1, 2]], [2000, 3000])
    result = plan(planner_input([Node()] * 3, wide(2, count=3), running=[FULL]))
    assert (starts(result)[0].on, plans(result), result.start_s.tolist()) == ({1: 1, 2: 1}, [[1, 2]], [1100])


# --- 8: alternatives and heterogeneous jobs


def test_8_the_earliest_alternative_wins(plan: Planner) -> None:
    nodes, running = [Node(), Node()], [Run({0: 4}, 3000), Run({1: 4}, 2000)]
    both = row(job=7, nodes=[0]), row(job=7, nodes=[1])
    result = plan(planner_input(nodes, *both, row(nodes=[0]), running=running))
    assert (result.reason.tolist(), result.start_s.tolist()) == ([RESOURCES, RESOURCES, PRIORITY], [-1, 2000, 3000])
    assert plans(result) == [[], [1], [0]]
    assert outcome(plan, nodes, *both, running=running[1:]) == ([STARTED, NOT_TESTED], [NOW_S, -1])
    assert outcome(plan, nodes, *both, running=running[:1]) == ([NOT_TESTED, STARTED], [-1, NOW_S])
    assert outcome(plan, nodes, *both) == ([STARTED, NOT_TESTED], [NOW_S, -1])


def test_8_copies_go_to_each_alternative(plan: Planner) -> None:
    both = row(job=7, nodes=[0], count=3), row(job=7, nodes=[1])
    result = plan(planner_input([Node(), Node()], *both))
    assert [start.row for start in starts(result)] == [0, 1]
    assert (result.reason.tolist(), result.start_s.tolist()) == ([RESOURCES, RESOURCES], [1100, -1])


def test_8_an_alternative_that_comes_later_is_tried_for_now_only(plan: Planner) -> None:
    nodes = [Node(), Node()]
    rows = row(job=7, nodes=[0]), row(nodes=[0]), row(job=7, nodes=[1])
    assert outcome(plan, nodes, *rows, running=[FULL]) == (
        [RESOURCES, PRIORITY, STARTED],
        [2000, 2100, NOW_S],
    )
    running = [FULL, Run({1: 4}, 3000)]
    assert outcome(plan, nodes, *rows, running=running) == ([RESOURCES, PRIORITY, RESOURCES], [2000, 2100, -1])
    assert outcome(plan, nodes, *rows) == ([STARTED, RESOURCES, NOT_TESTED], [NOW_S, 1100, -1])


def test_8_heterogeneous_jobs_start_together(plan: Planner) -> None:
    one, two = row(cpus=2, het=1, nodes=[0]), row(300, 2, het=1)
    result = plan(planner_input([Node(), Node()], one, two))
    assert [(start.row, start.on) for start in starts(result)] == [(0, {0: 1}), (1, {0: 1})]
    running = [Run({0: 3}, 2000), Run({1: 3}, 3000)]
    result = plan(planner_input([Node(), Node()], one, two, row(1000, 1), row(1001, 1, nodes=[0]), running=running))
    assert (result.start_s.tolist(), plans(result)[:2]) == ([2000, 2000, NOW_S, 2000 + 100], [[0], [0]])
    assert result.reason.tolist()[:2] == [RESOURCES, RESOURCES]
    nodes = [Node(), Node(up=False)]
    assert outcome(plan, nodes, one, {**two, "nodes": [1]}, row()) == (
        [RESOURCES, NODES_DOWN, STARTED],
        [-1, -1, NOW_S],
    )
    assert outcome(plan, [Node()], {**one, "reserve": 0}, {**two, "cpus_per_task": 3}, row()) == (
        [RESOURCES, RESOURCES, STARTED],
        [-1, -1, NOW_S],
    )
    assert outcome(plan, [Node()], one, {**two, "count": 0}) == ([NOT_TESTED, NOT_TESTED], [-1, -1])


def test_8_limits_of_a_heterogeneous_job_grow_after_all_have_their_place(plan: Planner) -> None:
    one = row(900, 4, limit_min_s=10, het=1)
    two = row(900, 4, limit_min_s=20, het=1, licenses=(1,))
    block = Resv(1500, 1600, licenses={0: 1})
    found = starts(plan(planner_input([Node()] * 2, one, two, licenses=[1], resvs=[block])))
    assert [start.limit_s for start in found] == [900, 500]


# --- 9: preemption


def test_9_the_cheapest_victims_of_permitted_classes(plan: Planner) -> None:
    nodes = [Node(8)]
    running = [
        Run({0: 2}, kind=0, cost=5),
        Run({0: 2}, kind=1, cost=1),
        Run({0: 2}, kind=0, cost=3),
        Run({0: 2}, kind=-1),
    ]
    result = plan(planner_input(nodes, row(100, 4, preempts=1), {}, running=running, estimate=False, reserve_max=0))
    assert victims(result) == [(0, 2), (0, 0)]
    assert (result.reason.tolist(), result.start_s.tolist()) == ([PREEMPTING, PRIORITY], [NOW_S, -1])
    assert plans(result) == [[0], []]
    assert victims(plan(planner_input(nodes, row(100, 2, preempts=3), running=running))) == [(0, 1)]
    assert victims(plan(planner_input(nodes, row(100, 6, preempts=1), running=running))) == []
    assert victims(plan(planner_input(nodes, row(100, 6, preempts=3), running=running))) == [(0, 1), (0, 2), (0, 0)]


def test_9_a_victim_that_is_not_needed_is_spared(plan: Planner) -> None:
    running = [Run({0: 1}, kind=0, cost=1), Run({0: 3}, kind=0, cost=2)]
    assert victims(plan(planner_input([Node()], row(100, 3, preempts=1), running=running))) == [(0, 1)]


def test_9_nodes_with_fewer_and_cheaper_victims_come_first(plan: Planner) -> None:
    nodes = [Node()] * 4
    jobs = [
        Run({0: 2}, kind=0),
        Run({0: 2}, kind=0),
        Run({1: 4}, kind=0, cost=9),
        Run({2: 4}, kind=0, cost=8),
        Run({3: 4}),
    ]
    result = plan(planner_input(nodes, row(preempts=1), running=jobs))
    assert (plans(result), victims(result)) == ([[2]], [(0, 3)])


def test_9_nothing_starts_now_on_what_a_victim_still_has(plan: Planner) -> None:
    nodes, running = [Node(), Node()], [Run({0: 4, 1: 4}, 5000, kind=0)]
    why, start_s = outcome(plan, nodes, row(preempts=1), row(), row(preempts=1, nodes=[1]), running=running)
    assert (why, start_s) == ([PREEMPTING, PRIORITY, PRIORITY], [NOW_S, 1001, 1101])
    # Where the victims of an earlier row suffice, there is nobody to remove.
    why, start_s = outcome(plan, nodes, row(preempts=1), row(preempts=1, nodes=[1]), running=running)
    assert (why, start_s) == ([PREEMPTING, PRIORITY], [NOW_S, 1001])


def test_9_preempts_for_one_copy_and_holds_whatever_the_limits(plan: Planner) -> None:
    nodes, running = [Node(), Node()], [Run({0: 4}, kind=0), Run({1: 4}, kind=0)]
    first = row(preempts=1, count=2, reserve=0)
    result = plan(planner_input(nodes, first, row(), running=running, reserve_max=1, estimate=False))
    assert (victims(result), result.reason.tolist()) == ([(0, 0)], [PREEMPTING, PRIORITY])
    assert result.start_s.tolist() == [NOW_S, -1]


def test_9_not_in_vain_and_not_out_of_time(plan: Planner) -> None:
    running = [Run({0: 4}, 2000, kind=0, licenses=(1,))]
    for more, expected in (
        ({"earliest_s": 1500}, RESOURCES),
        ({"licenses": (1,)}, RESOURCES),
        ({"resv": 0}, RESERVED),
        ({"het": 1}, RESOURCES),
        ({}, PREEMPTING),
    ):
        result = plan(
            planner_input([Node()], row(preempts=1, **more), running=running, licenses=[1], resvs=[Resv(1200)])
        )
        assert result.reason.tolist() == [expected]
        assert len(result.victim_run) == (expected == PREEMPTING)


def test_9_of_alternatives_the_first_that_can(plan: Planner) -> None:
    running = [Run({0: 4}), Run({1: 4}, kind=0)]
    rows = row(job=3, nodes=[0]), row(job=3, nodes=[1], preempts=1), row(job=3, nodes=[0])
    assert outcome(plan, [Node(), Node()], *rows[:2], {"job": 4}, rows[2], running=running)[0] == [
        RESOURCES, PREEMPTING, PRIORITY, NOT_TESTED,
    ]  # fmt: skip
