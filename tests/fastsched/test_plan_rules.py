"""Each rule of the planner by example, asked of the compiled form and of its oracle. The numbers are contract.py's.

What time does to a row: test_plan_time_rules.py.
"""

from typing import Any

import numpy as np
import pytest

from _fastsched import contract
from _fastsched.contract import BAD_CONSTRAINTS, FOREVER, NODES_DOWN, NOT_TESTED, PRIORITY, RESOURCES, STARTED
from tests.fastsched.planner_input import (
    NOW_S,
    Node,
    Planner,
    Resv,
    Run,
    planner,
    planner_input,
    plans,
    replaced,
    starts,
)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
BUSY = Run({0: 4})


@pytest.fixture(params=["_fastsched.plan", "_fastsched.reference"])
def plan(request: pytest.FixtureRequest) -> Planner:
    return planner(request.param)


def outcome(plan: Planner, nodes: list[Node], *rows: dict[str, Any], **more: Any) -> tuple[list[Any], list[int]]:
    """(position, {node: tasks}) of each start, and the reasons."""
    result = plan(planner_input(nodes, *rows, **more))
    return [(start.row, start.on) for start in starts(result)], result.reason.tolist()


# --- 1, 2: what a node can hold


@pytest.mark.parametrize(
    ("node", "row", "held"),
    [
        (Node(cpus=8), {"cpus_per_task": 3}, 2),
        (Node(cpus=8, lost_cpus=6), {"cpus_per_task": 3}, 0),
        (Node(cpus=8), {"ntasks_per_node": 3}, 3),
        (Node(cpus=8), {"cpu_units": 2}, 4),
        (Node(cpus=8, quantum=2), {}, 8),
        (Node(cpus=9, quantum=2), {"cpus_per_task": 3}, 2),
        (Node(cpus=8, quantum=4), {"cpus_per_task": 3}, 2),
        (Node(cpus=8, quantum=2), {"cpus_per_task": 3, "cpu_units": 2}, 1),
        (Node(cpus=8, mem_mb=1000), {"mem_cpu_mb": 300}, 3),
        (Node(cpus=8, mem_mb=1000), {"mem_cpu_mb": 300, "cpus_per_task": 2}, 1),
        (Node(cpus=8, mem_mb=1000, quantum=2), {"mem_cpu_mb": 300}, 2),
        (Node(cpus=8, mem_mb=1000, lost_mem_mb=1), {"mem_cpu_mb": 500}, 1),
        (Node(cpus=8, mem_mb=1000), {"mem_cpu_mb": 0}, 8),
        (Node(cpus=8, mem_mb=1000), {"mem_node_mb": 1000}, 8),
        (Node(cpus=8, mem_mb=1000), {"mem_node_mb": 10, "mem_cpu_mb": 1000}, 8),
        (Node(cpus=8, mem_mb=1000, lost_mem_mb=1), {"mem_node_mb": 1000}, 0),
        (Node(cpus=8, mem_mb=1000, lost_mem_mb=1), {"mem_node_mb": 0}, 0),
        (Node(cpus=8, mem_mb=0, lost_mem_mb=1), {"mem_node_mb": 0}, 8),
        (Node(cpus=8, gres=(2, 0)), {"gres": (2,)}, 8),
        (Node(cpus=8, gres=(2, 1), lost_gres=(1, 0)), {"gres": (2,)}, 0),
        (Node(cpus=8, gres=(2, 1)), {"gres": (2, 2)}, 0),
        # A device lost under a running job leaves less than nothing; that is no matter to a job that wants none.
        (Node(cpus=8, lost_gres=(1, 0)), {}, 8),
        (Node(cpus=8, lost_cpus=9), {}, 0),
        (Node(cpus=8, up=False), {}, 0),
    ],
)
def test_1_a_node_holds_what_fits(plan: Planner, node: Node, row: dict[str, Any], held: int) -> None:
    # A one-node job of exactly that many tasks starts, and one of a task more does not.
    for ntasks, expected in ((held, True), (held + 1, False)):
        if ntasks:
            found, _ = outcome(plan, [node], {**row, "ntasks": ntasks})
            assert found == ([(0, {0: ntasks})] if expected else [])


def test_2_cpus_and_memory_of_each_kind_are_reported(plan: Planner) -> None:
    nodes = [Node(cpus=8)] * 5 + [Node(cpus=8, quantum=4)]
    rows: list[dict[str, Any]] = [
        {"nodes": [0], "ntasks": 2, "cpus_per_task": 2, "mem_cpu_mb": 100},
        {"nodes": [1], "ntasks": 2, "mem_node_mb": 300},
        {"nodes": [2], "mem_node_mb": 0},
        {"nodes": [3]},
        {"nodes": [4], "ntasks": 3, "cpu_units": 2},
        {"nodes": [5], "ntasks": 5, "mem_cpu_mb": 100},
    ]
    found = starts(plan(planner_input(nodes, *rows)))
    assert [start.mem_mb for start in found] == [(400,), (300,), (1000,), (0,), (0,), (800,)]
    assert [start.cpus for start in found] == [(4,), (2,), (1,), (1,), (3,), (8,)]


def test_1_what_a_start_takes_is_gone_for_the_next(plan: Planner) -> None:
    node = Node(cpus=4, mem_mb=1000, gres=(2, 0))
    for wants in ({"cpus_per_task": 3}, {"mem_node_mb": 600}, {"gres": (2,)}, {"cpus_per_task": 1, "cpu_units": 3}):
        assert outcome(plan, [node], wants, wants) == ([(0, {0: 1})], [STARTED, RESOURCES])


def test_1_exclusive_takes_all_cpus_and_without_a_request_all_memory(plan: Planner) -> None:
    rows = {"exclusive": 1}, {"exclusive": 1, "mem_node_mb": 10}, {"exclusive": 1, "cpu_units": 3, "mem_cpu_mb": 7}
    found = starts(plan(planner_input([Node(cpus=8)] * 3, *rows)))
    assert [start.cpus for start in found] == [(8,), (8,), (2,)]
    assert [start.on for start in found] == [{0: 1}, {1: 1}, {2: 1}]
    assert [start.mem_mb for start in found] == [(1000,), (10,), (14,)]  # 7 MB for each of the two CPUs that it gets


def test_1_exclusive_needs_a_node_without_jobs(plan: Planner) -> None:
    nodes = [Node(), Node(lost_cpus=1), Node()]
    nobody = Run({0: 0})  # there, though it has nothing
    assert outcome(plan, nodes, {"exclusive": 1}, running=[nobody]) == ([(0, {2: 1})], [STARTED])
    assert outcome(plan, nodes[:2], {"exclusive": 1}, running=[nobody]) == ([], [RESOURCES])
    assert outcome(plan, nodes, {"nodes": [0]}, running=[Run({0: 0}, exclusive=1)]) == ([], [RESOURCES])


def test_1_exclusive_and_shared_do_not_meet_within_a_pass(plan: Planner) -> None:
    found, why = outcome(plan, [Node(), Node()], {"nodes": [0]}, {"exclusive": 1}, {"nodes": [1]})
    assert found == [(0, {0: 1}), (1, {1: 1})]
    assert why == [STARTED, STARTED, RESOURCES]


def below(*under: int, **more: Any) -> list[Node]:
    """Nodes below these leaf switches."""
    return [Node(under=(leaf,), **more) for leaf in under]


def test_1_exclusive_leaf_needs_a_leaf_without_jobs_and_keeps_it_so(plan: Planner) -> None:
    nodes, topo = below(0, 0, 1, 1), {"exclusive": 4}
    busy = Run({0: 1}, end_s=NOW_S + 10)
    assert outcome(plan, nodes, topo, {}, running=[busy]) == ([(0, {2: 1}), (1, {0: 1})], [STARTED] * 2)
    assert starts(plan(planner_input(nodes, topo)))[0].cpus == (1,)  # what it asks for
    assert starts(plan(planner_input(nodes, {"exclusive": 5})))[0].cpus == (4,)
    # nobody comes to the leaf while it is there, not even to a node where it has nothing
    assert outcome(plan, nodes[:2], topo, {}, topo) == ([(0, {0: 1})], [STARTED, RESOURCES, PRIORITY])
    # it waits for the last job of the leaf, on whichever node that is
    for nodes_of_job in (None, [1]):
        result = plan(planner_input(nodes[:2], {"nodes": nodes_of_job, **topo, "limit_s": 5}, running=[busy]))
        assert (result.start_s.tolist(), plans(result)) == ([NOW_S + 10], [[nodes_of_job[0] if nodes_of_job else 0]])
    # a job on a node that is down is there, too
    down = [Node(up=False, under=(0,)), Node(under=(0,))]
    assert outcome(plan, down, topo, running=[busy])[1] == [RESOURCES]


def test_1_exclusive_leaf_without_switches_is_the_node(plan: Planner) -> None:
    topo = {"exclusive": 4}
    assert outcome(plan, [Node()] * 3, topo, {}, topo, running=[Run({0: 1})]) == (
        [(0, {1: 1}), (1, {0: 1}), (2, {2: 1})], [STARTED] * 3,
    )  # fmt: skip


def test_1_exclusive_leaf_waits_for_what_is_planned_and_is_waited_for(plan: Planner) -> None:
    nodes, busy = below(0, 0), Run({0: 4, 1: 4}, end_s=NOW_S + 10)
    alone: dict[str, Any] = {"exclusive": 4, "nodes": [1], "limit_s": 7}
    near: dict[str, Any] = {"nodes": [0], "limit_s": 5}
    result = plan(planner_input(nodes, {"limit_s": 5}, alone, near, running=[busy]))
    assert result.start_s.tolist() == [NOW_S + 10, NOW_S + 15, NOW_S + 10]
    assert plan(planner_input(nodes, alone, near, running=[busy])).start_s.tolist() == [NOW_S + 10, NOW_S + 17]


def test_1_exclusive_leaf_respects_a_reservation_of_another_node_of_the_leaf(plan: Planner) -> None:
    resv = Resv(NOW_S + 20, NOW_S + 30, nodes=[0], blocks=[(0, -1)])
    row = {"exclusive": 4, "nodes": [1], "limit_s": 60, "limit_min_s": 15}
    found = plan(planner_input(below(0, 0), row, resvs=[resv]))
    assert [start.limit_s for start in starts(found)] == [20]
    found = plan(planner_input(below(0, 0), {**row, "limit_min_s": 60}, resvs=[resv]))
    assert (found.reason.tolist(), found.start_s.tolist()) == ([contract.RESERVED], [NOW_S + 30])
    member = {"exclusive": 4, "nodes": [0], "resv": 0, "limit_s": 5}
    assert plan(planner_input(below(0, 0), member, resvs=[resv])).start_s.tolist() == [NOW_S + 20]


def test_9_exclusive_leaf_preempts_on_its_own_nodes_only(plan: Planner) -> None:
    here, near = Run({0: 4}, kind=0), Run({1: 1}, kind=0)
    row = {"exclusive": 4, "nodes": [0], "preempts": 1}
    assert plan(planner_input(below(0, 0), row, running=[here])).victim_run.tolist() == [0]
    assert plan(planner_input(below(0, 0), row, running=[here, near])).victim_run.tolist() == []
    wide = Run({0: 1, 1: 1}, kind=0)
    assert plan(planner_input(below(0, 0), row, running=[wide])).victim_run.tolist() == [0]
    # one that has the leaf, though nothing on the node, is preempted there
    holder = Run({0: 1, 1: 0}, exclusive=1, kind=0)
    found = plan(planner_input(below(0, 0), {"nodes": [1], "preempts": 1}, running=[holder]))
    assert found.victim_run.tolist() == [0]


def test_1_exclusive_user_shares_with_the_same_user_only(plan: Planner) -> None:
    mine, other = {"exclusive": 2, "user": 7}, {"user": 8}
    assert outcome(plan, [Node()], mine, {"user": 7}, mine, other)[1] == [STARTED] * 3 + [RESOURCES]
    assert outcome(plan, [Node()], other, mine)[1] == [STARTED, RESOURCES]
    assert outcome(plan, [Node()], mine, {"exclusive": 1, "user": 7})[1] == [STARTED, RESOURCES]
    for run, expected in ((Run({0: 1}, user=7), STARTED), (Run({0: 1}, user=8), RESOURCES)):
        assert outcome(plan, [Node()], mine, running=[run])[1] == [expected]
    assert outcome(plan, [Node()], other, running=[Run({0: 1}, user=7, exclusive=2)])[1] == [RESOURCES]


# --- 3: which nodes, and how the tasks are spread


def test_3_nodes_are_taken_in_order(plan: Planner) -> None:
    assert outcome(plan, [Node()] * 3, {}, order=[2, 0, 1]) == ([(0, {2: 1})], [STARTED])


def test_3_least_loaded_and_best_fit_within_a_weight(plan: Planner) -> None:
    nodes = [Node(8, weight=1), Node(8, weight=0, lost_cpus=4), Node(8, weight=0, lost_cpus=2, gres=(4, 0)), Node(8)]
    assert outcome(plan, nodes, {"order_kind": 1})[0] == [(0, {3: 1})]
    assert outcome(plan, nodes, {"order_kind": 2})[0] == [(0, {1: 1})]
    nodes[0] = Node(8, weight=1, gres=(1, 0))
    nodes[3] = Node(8, gres=(8, 0), lost_cpus=7)
    assert outcome(plan, nodes, {"order_kind": 2, "gres": (1,)})[0] == [(0, {2: 1})]
    # Over the whole interval: node 0 is free now, but planned to be full.
    row = {"order_kind": 1, "limit_s": 7200}
    found = plan(planner_input([Node(8), Node(6)], {"nodes": [0], "cpus_per_task": 8, "earliest_s": 5000}, row))
    assert starts(found)[0].on == {1: 1}


def test_3_tasks_fill_each_node_in_turn_and_leave_one_for_each_that_follows(plan: Planner) -> None:
    nodes = [Node(cpus=4)] * 3
    for ntasks, on in ((5, {0: 3, 1: 1, 2: 1}), (8, {0: 4, 1: 3, 2: 1}), (12, {0: 4, 1: 4, 2: 4})):
        assert outcome(plan, nodes, {"nodes_min": 3, "nodes_max": 3, "ntasks": ntasks})[0] == [(0, on)]


def test_3_no_more_nodes_than_needed_unless_spread(plan: Planner) -> None:
    nodes = [Node(cpus=4)] * 4
    assert outcome(plan, nodes, {"nodes_max": 4, "ntasks": 7})[0] == [(0, {0: 4, 1: 3})]
    assert outcome(plan, nodes, {"nodes_max": 3, "ntasks": 7, "spread": 1})[0] == [(0, {0: 4, 1: 2, 2: 1})]
    assert outcome(plan, nodes, {"nodes_max": 9, "ntasks": 3, "spread": 1})[0] == [(0, {0: 1, 1: 1, 2: 1})]
    assert outcome(plan, nodes, {"nodes_min": 3, "nodes_max": 4, "ntasks": 4})[0] == [(0, {0: 2, 1: 1, 2: 1})]


def test_3_a_one_node_job_passes_over_nodes_too_small_for_all_of_it(plan: Planner) -> None:
    assert outcome(plan, [Node(cpus=2), Node(cpus=4), Node(cpus=8)], {"ntasks": 3})[0] == [(0, {1: 3})]


def test_3_the_roomiest_nodes_when_the_first_ones_have_too_little_room(plan: Planner) -> None:
    nodes = [Node(cpus=1), Node(cpus=4), Node(cpus=2), Node(cpus=4), Node(cpus=4)]
    job = {"nodes_min": 2, "nodes_max": 2, "ntasks": 7}
    assert outcome(plan, nodes, job)[0] == [(0, {1: 4, 3: 3})]
    # Chosen by room, but named and filled in `order`.
    found, _ = outcome(plan, nodes, job, order=[0, 2, 4, 3, 1])
    assert [(row, list(on.items())) for row, on in found] == [(0, [(4, 4), (3, 3)])]


def test_3_node_sets_reach_past_the_first_word(plan: Planner) -> None:
    row = {"nodes": [63, 64, 129], "nodes_min": 3, "nodes_max": 3, "ntasks": 3}
    assert outcome(plan, [Node()] * 130, row)[0] == [(0, {63: 1, 64: 1, 129: 1})]


def test_3_a_multi_node_job_starts_whole_or_not_at_all(plan: Planner) -> None:
    two = {"nodes_min": 2, "nodes_max": 2, "ntasks": 2}
    assert outcome(plan, [Node(), Node()], two, {"limit_s": 9}, running=[BUSY]) == ([(1, {1: 1})], [RESOURCES, STARTED])


def test_3_a_node_leaves_a_whole_quantum_for_each_that_follows(plan: Planner) -> None:
    pair = {"nodes_min": 2, "nodes_max": 2}
    threads = [Node(cpus=8, quantum=2)] * 2
    for ntasks, filled in ((2, (1, 1)), (3, (1, 2)), (4, (2, 2)), (7, (5, 2))):
        assert outcome(plan, threads, {**pair, "ntasks": ntasks})[0] == [(0, dict(enumerate(filled)))]
    # Tasks of several cpus, and nodes with room for one: a task each.
    assert outcome(plan, threads, {**pair, "ntasks": 3, "cpus_per_task": 3})[0] == [(0, {0: 2, 1: 1})]
    nodes = [Node(cpus=8, quantum=2), Node(cpus=8, quantum=2, mem_mb=100)]
    assert outcome(plan, nodes, {**pair, "ntasks": 4, "mem_cpu_mb": 50})[0] == [(0, {0: 2, 1: 2})]


# --- 3a: groups


def test_3a_nodes_of_groups_are_filled_first(plan: Planner) -> None:
    row = {"nodes_min": 3, "nodes_max": 3, "ntasks": 9, "groups": [([2], 1)]}
    assert outcome(plan, [Node(cpus=8)] * 3, row)[0] == [(0, {0: 1, 1: 1, 2: 7})]


def test_3a_groups_are_taken_first_and_their_nodes_count_for_later_groups(plan: Planner) -> None:
    nodes = [Node()] * 6
    row = {"nodes_min": 3, "nodes_max": 3, "ntasks": 3, "groups": [([4, 5], 1), ([3, 4], 1)]}
    assert outcome(plan, nodes, row)[0] == [(0, {0: 1, 1: 1, 4: 1})]
    row["groups"] = [([4, 5], 2), ([3], 1)]
    assert outcome(plan, nodes, row)[0] == [(0, {3: 1, 4: 1, 5: 1})]
    assert outcome(plan, nodes, {**row, "nodes_min": 2, "nodes_max": 2})[1] == [BAD_CONSTRAINTS]  # three are forced
    assert outcome(plan, nodes, {**row, "nodes": [3, 4]})[1] == [BAD_CONSTRAINTS]
    assert outcome(plan, nodes, row, running=[Run({5: 4})])[1] == [RESOURCES]
    assert outcome(plan, nodes, {"groups": [([2], 0)]})[0] == [(0, {0: 1})]


# --- 3b: topology


def leaves(*sizes: int, cpus: int = 4) -> list[Node]:
    """Two leaves share a switch of the next level."""
    return [Node(cpus, under=(leaf, leaf // 2)) for leaf, size in enumerate(sizes) for _ in range(size)]


def wide(nodes: int, **more: Any) -> dict[str, Any]:
    return {"nodes_min": nodes, "nodes_max": nodes, "ntasks": nodes, **more}


def test_3b_the_smallest_switch_that_will_do(plan: Planner) -> None:
    nodes = leaves(1, 4, 3, 2)
    for size, on in ((1, [0]), (2, [8, 9]), (3, [5, 6, 7]), (4, [1, 2, 3, 4]), (5, [0, 1, 2, 3, 4])):
        assert outcome(plan, nodes, wide(size))[0] == [(0, dict.fromkeys(on, 1))]
    # A level above: within it the fuller leaf first, though its nodes come later in `order`.
    assert outcome(plan, leaves(2, 3, 1, 1), wide(4))[0] == [(0, {0: 1, 2: 1, 3: 1, 4: 1})]
    # No switch at all: fuller leaves first.
    assert outcome(plan, leaves(1, 3, 1, 2), wide(6))[0] == [(0, dict.fromkeys([0, 1, 2, 3, 5, 6], 1))]


def test_3b_what_groups_took_helps_to_be_enough(plan: Planner) -> None:
    row = wide(3, groups=[([0], 1)])
    assert outcome(plan, leaves(1, 3, 2, 3), row)[0] == [(0, {0: 1, 4: 1, 5: 1})]


def test_3b_switches_max(plan: Planner) -> None:
    nodes = leaves(2, 2, 2)
    assert outcome(plan, nodes, wide(3, switches_max=1))[1] == [BAD_CONSTRAINTS]
    assert outcome(plan, nodes, wide(3, switches_max=2))[0] == [(0, {0: 1, 1: 1, 2: 1})]
    result = plan(planner_input(nodes, wide(2, switches_max=1), running=[Run({0: 4, 2: 4, 4: 4})]))
    assert (result.reason.tolist(), result.start_s.tolist(), plans(result)) == ([RESOURCES], [4600], [[0, 1]])
    assert outcome(plan, [Node()] * 3, wide(3, switches_max=1))[1] == [STARTED]  # no topology


def test_3b_segments(plan: Planner) -> None:
    nodes = leaves(5, 3, 4)
    assert outcome(plan, nodes, wide(4, segment=2))[0] == [(0, dict.fromkeys([0, 1, 2, 3], 1))]
    assert outcome(plan, nodes, wide(2, segment=2))[0] == [(0, {5: 1, 6: 1})]
    assert outcome(plan, nodes, wide(6, segment=2))[0] == [(0, dict.fromkeys([0, 1, 2, 3, 8, 9], 1))]
    assert outcome(plan, nodes, wide(10, segment=2))[0] == [(0, dict.fromkeys([0, 1, 2, 3, 5, 6, 8, 9, 10, 11], 1))]
    assert outcome(plan, nodes, wide(12, segment=2))[1] == [BAD_CONSTRAINTS]
    assert outcome(plan, nodes, {**wide(4, segment=2), "nodes_max": 9, "ntasks": 17})[1] == [BAD_CONSTRAINTS]
    assert outcome(plan, nodes, {**wide(3, segment=2), "ntasks": 4})[1] == [BAD_CONSTRAINTS]


# --- 6: copies


def test_6_copies_start_until_one_waits(plan: Planner) -> None:
    found, why = outcome(plan, [Node(), Node(cpus=1)], {"count": 4}, {"count": 3})
    assert found == [(0, {0: 1})] * 4 + [(1, {1: 1})]
    assert why == [STARTED, RESOURCES]
    assert outcome(plan, [Node(), Node()], {"exclusive": 1, "count": 3}) == ([(0, {0: 1}), (0, {1: 1})], [RESOURCES])


def test_6_a_row_without_copies_is_passed_over(plan: Planner) -> None:
    assert outcome(plan, [Node()], {"count": 0}, {"count": -1}, {}) == (
        [(2, {0: 1})],
        [NOT_TESTED, NOT_TESTED, STARTED],
    )


# --- 10: reasons that time has no part in


@pytest.mark.parametrize(
    "row",
    [
        {"ntasks": 5},
        {"ntasks": 3, "ntasks_per_node": 2},
        {"mem_node_mb": 1001},
        {"gres": (3,)},
        {"nodes_min": 3, "nodes_max": 3, "ntasks": 3},
        {"nodes": []},
        {"nodes_min": 2, "nodes_max": 1, "ntasks": 2},
        {"nodes_min": 2, "nodes_max": 2, "ntasks": 1},
        {"nodes_min": 0},
        {"ntasks": 0},
        {"cpus_per_task": 0},
        {"cpu_units": 0},
        {"ntasks_per_node": -1},
        {"gres": (-1,)},
        {"licenses": (-1,)},
        {"exclusive": 3},
        {"order_kind": 3},
        {"switches_max": -1},
        {"segment": -1},
        {"limit_s": 0},
        {"limit_s": 10, "limit_min_s": 11},
        {"limit_s": FOREVER + 1},
        {"limit_s": INT64_MAX},
        {"segment": 1, "groups": [([0], 1)]},
    ],
)
def test_10_what_can_run_nowhere_is_said_so_and_holds_nothing(plan: Planner, row: dict[str, Any]) -> None:
    nodes = [Node(gres=(2, 0))] * 2
    given = planner_input(nodes, row, {}, licenses=[3], running=[BUSY])
    result = plan(given)
    assert result.reason.tolist() == [BAD_CONSTRAINTS, STARTED]
    assert result.start_s.tolist() == [-1, NOW_S]


def test_10_a_job_that_needs_down_nodes_holds_nothing(plan: Planner) -> None:
    nodes = [Node(), Node(up=False)]
    found, why = outcome(plan, nodes, wide(2), {"nodes": [1]}, {})
    assert (found, why) == ([(2, {0: 1})], [NODES_DOWN, NODES_DOWN, STARTED])


def test_10_priority_when_each_node_is_waited_for_by_an_earlier_row(plan: Planner) -> None:
    nodes = [Node(), Node(), Node(up=False)]
    running = [Run({0: 4, 1: 4})]
    rows = {"nodes": [0, 2]}, {"nodes": [0]}, {"nodes": [0, 1]}, {"nodes": [0, 1, 2]}, {"ntasks": 9}
    assert outcome(plan, nodes, *rows, running=running)[1] == [
        RESOURCES, PRIORITY, RESOURCES, PRIORITY, BAD_CONSTRAINTS,
    ]  # fmt: skip
    # Alternatives of one job do not wait for each other.
    assert outcome(plan, nodes, {"job": 1}, {"job": 1}, {"job": 2}, running=running)[1] == [RESOURCES] * 2 + [PRIORITY]


def test_10_limits_of_the_pass(plan: Planner) -> None:
    nodes = [Node()] * 4
    found, why = outcome(plan, nodes, {}, {"count": 5}, {}, starts_max=3)
    assert found == [(0, {0: 1}), (1, {0: 1}), (1, {0: 1})]
    assert why == [STARTED, NOT_TESTED, NOT_TESTED]
    assert outcome(plan, nodes, {}, {"count": 2}, {}, starts_max=3)[1] == [STARTED, STARTED, NOT_TESTED]
    for starts_max in (0, -1):
        assert outcome(plan, nodes, {}, starts_max=starts_max) == ([], [NOT_TESTED])
    assert outcome(plan, nodes, {}, {}, {}, rows_max=2)[1] == [STARTED, STARTED, NOT_TESTED]
    assert outcome(plan, nodes, {}, {"job": 9}, {"job": 9}, rows_max=2)[1] == [STARTED, NOT_TESTED, NOT_TESTED]
    assert outcome(plan, nodes, {}, {"het": 1}, {"het": 1}, starts_max=2)[1] == [STARTED, NOT_TESTED, NOT_TESTED]
    assert outcome(plan, nodes, {}, stop=1) == ([], [NOT_TESTED])


def test_10_the_limit_on_placements_ends_the_pass(plan: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "PLACEMENTS_MAX", 3)
    found, why = outcome(plan, [Node()] * 4, wide(2, count=2), {})
    assert (found, why) == ([(0, {0: 1, 1: 1})], [NOT_TESTED, NOT_TESTED])
    running = [Run(dict.fromkeys(range(4), 4))]
    result = plan(planner_input([Node()] * 4, wide(2), {}, wide(2), {}, running=running))
    assert result.reason.tolist() == [RESOURCES, PRIORITY, NOT_TESTED, NOT_TESTED]
    assert plans(result) == [[0, 1], [0], [], []]
    assert result.start_s.tolist() == [4600, 4600, -1, -1]


# --- the edges of the input


def test_nothing_to_do(plan: Planner) -> None:
    assert outcome(plan, [], kinds=0) == ([], [])
    assert outcome(plan, [Node()], kinds=0) == ([], [])
    assert outcome(plan, [], {}, kinds=0) == ([], [BAD_CONSTRAINTS])
    result = plan(planner_input([]))
    assert (result.node_first.tolist(), result.plan_first.tolist()) == ([0], [0])
    i32, i64 = np.int32, np.int64
    assert [a.dtype for a in result] == [i32] * 5 + [i64, i64, np.uint8, i64] + [i32] * 4


def test_rows_name_what_is_looked_at_and_in_which_order(plan: Planner) -> None:
    odd = {"ntasks": 3}
    found, why = outcome(plan, [Node()], odd, odd, {"ntasks": 2}, ranks=[2, 0])
    assert (found, why) == ([(0, {0: 2})], [STARTED, RESOURCES])


def test_parts_without_a_job_are_not_there(plan: Planner) -> None:
    given = replaced(
        planner_input([Node()], {"exclusive": 1}, running=[Run({0: 0})]), part_run=np.array([-1], np.int32)
    )
    assert plan(given).reason.tolist() == [STARTED]
    given = replaced(given, part_node=np.array([99], np.int32))
    assert plan(given).reason.tolist() == [STARTED]


def test_the_largest_numbers_do_not_overflow(plan: Planner) -> None:
    huge = Node(cpus=INT32_MAX, mem_mb=INT64_MAX, gres=(INT32_MAX, 0))
    cases: list[tuple[dict[str, Any], int]] = [
        ({"ntasks": INT32_MAX, "mem_cpu_mb": INT64_MAX // INT32_MAX}, STARTED),
        ({"ntasks": INT32_MAX, "mem_cpu_mb": INT64_MAX // INT32_MAX + 1}, BAD_CONSTRAINTS),
        ({"ntasks": 2, "cpus_per_task": INT32_MAX}, BAD_CONSTRAINTS),
        ({"cpus_per_task": INT32_MAX, "mem_cpu_mb": INT64_MAX}, BAD_CONSTRAINTS),
        ({"cpus_per_task": INT32_MAX, "cpu_units": INT32_MAX}, BAD_CONSTRAINTS),
        ({"mem_cpu_mb": INT64_MAX, "gres": (INT32_MAX,)}, STARTED),
        ({"ntasks": INT32_MAX, "nodes_max": INT32_MAX, "exclusive": 1}, STARTED),
        ({"ntasks": INT32_MAX, "nodes_min": 3, "nodes_max": INT32_MAX}, STARTED),
        ({"ntasks": INT32_MAX, "nodes_min": INT32_MAX, "nodes_max": INT32_MAX}, BAD_CONSTRAINTS),
        ({"limit_s": FOREVER, "latest_s": INT64_MAX, "earliest_s": -INT64_MAX}, STARTED),
    ]
    for row, expected in cases:
        found, why = outcome(plan, [huge] * 3, row)
        assert why == [expected], row
        assert sum(sum(on.values()) for _, on in found) == (row.get("ntasks", 1) if expected == STARTED else 0)
    far = [Run({0: 1}, end_s=INT64_MAX)]
    for row in ({"earliest_s": FOREVER + 9 * NOW_S, "latest_s": INT64_MAX}, {"ntasks": 4}):
        result = plan(planner_input([Node()], row, running=far, resolution_s=60))
        assert (result.reason.tolist(), result.start_s.tolist()) == ([RESOURCES], [-1])


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("order", np.array([0, 0], np.int32), "order must name each of the 2 nodes exactly once"),
        ("order", np.array([0, 2], np.int32), "order must name each of the 2 nodes exactly once"),
        ("mask", np.array([9], np.int32), "mask names 9 to 9, expected 0 to "),
        ("mask", np.array([-1], np.int32), "mask names -1 to -1"),
        ("rows", np.array([1], np.int64), "rows names 1 to 1, expected 0 to 0"),
        ("resv", np.array([1], np.int32), "resv names 1 to 1, expected -1 to 0"),
        ("group", np.array([0], np.int32), "group names 0 to 0"),
        ("part_run", np.array([1], np.int32), "part_run names 1 to 1"),
        ("part_node", np.array([2], np.int32), "part_node names 2 to 2"),
        ("resv_mask", np.array([-1], np.int32), "resv_mask names"),
        ("block_node", np.array([2], np.int32), "block_node names 2 to 2"),
        ("block_resv", np.array([1], np.int32), "block_resv names 1 to 1"),
        ("licblock_kind", np.array([1], np.int32), "licblock_kind names 1 to 1"),
        ("switches", np.array([[0, 2]], np.int32), "switches names 0 to 2"),
        ("group_first", np.array([1], np.int32), "group_first must rise from 0"),
        ("up", np.ones(3, np.uint8), "up has length 3 on axis N, the others have 2"),
        ("gres", np.zeros((1, 3), np.int32), "gres has length 3 on axis G, the others have 2"),
        ("count", np.ones(0, np.int32), "count has length 0 on axis J, the others have 1"),
        ("masks", np.ones((2, 2), np.uint64), "masks has 2 words a row, 2 nodes need 1"),
        ("total_cpus", np.array([4, -4], np.int32), "total_cpus must not be negative, its lowest entry is -4"),
        ("cpu_quantum", np.array([0, 1], np.int32), "cpu_quantum must be at least 1"),
        ("free_mem_mb", np.zeros(2, np.int32), "free_mem_mb is int32 with 1 axes"),
        ("free_cpus", np.zeros((2, 1), np.int32), "free_cpus is int32 with 2 axes"),
        ("free_cpus", np.zeros(4, np.int32)[::2], "free_cpus is int32 with 1 axes, expected a contiguous"),
    ],
)
def test_columns_that_do_not_fit_are_refused(plan: Planner, name: str, value: Any, says: str) -> None:
    nodes = [Node(under=(0,))] * 2
    resv = Resv(blocks=[(0, 1)], licenses={0: 1})
    given = planner_input(nodes, {}, running=[Run({0: 1})], resvs=[resv], licenses=[1])
    plan(given)
    with pytest.raises(ValueError, match=says):
        plan(replaced(given, **{name: value}))
