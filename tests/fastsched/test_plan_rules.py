"""Each rule of the planner by example, asked of the compiled form and of its oracle."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from _fastsched import (
    BAD_CONSTRAINTS,
    NODES_DOWN,
    NOT_TESTED,
    PRIORITY,
    RESOURCES,
    STARTED,
    PlanResult,
    contract,
)
from tests.fastsched.planner_input import Node, columns, reasons, starts

Planner = Callable[..., PlanResult]
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@pytest.fixture(params=["_fastsched.plan", "_fastsched.reference"])
def plan(request: pytest.FixtureRequest) -> Planner:
    planner: Planner = importlib.import_module(request.param).plan
    return planner


def outcome(plan: Planner, nodes: list[Node], *rows: dict[str, Any], **more: Any) -> tuple[list[Any], list[int]]:
    result = plan(**columns(nodes, rows, **more))
    return starts(result), reasons(result)


# --- what a node can hold


@pytest.mark.parametrize(
    ("node", "row", "held"),
    [
        (Node(cpus=8), {"cpus_per_task": 3}, 2),
        (Node(cpus=8, used_cpus=6), {"cpus_per_task": 3}, 0),
        (Node(cpus=8), {"ntasks_per_node": 3}, 3),
        (Node(cpus=8, mem_mb=1000), {"mem_cpu_mb": 300}, 3),
        (Node(cpus=8, mem_mb=1000), {"mem_cpu_mb": 300, "cpus_per_task": 2}, 1),
        (Node(cpus=8, mem_mb=1000, used_mem_mb=1), {"mem_cpu_mb": 500}, 1),
        (Node(cpus=8, mem_mb=1000), {"mem_cpu_mb": 0}, 8),
        (Node(cpus=8, mem_mb=1000), {"mem_node_mb": 1000}, 8),
        (Node(cpus=8, mem_mb=1000, used_mem_mb=1), {"mem_node_mb": 1000}, 0),
        (Node(cpus=8, mem_mb=1000, used_mem_mb=1), {"mem_node_mb": 0}, 0),
        (Node(cpus=8, gres=(2,)), {"gres": (2,)}, 8),
        (Node(cpus=8, gres=(2,), used_gres=(1,)), {"gres": (2,)}, 0),
        # A device lost under a running job leaves less than nothing; that is no matter to a job that wants none.
        (Node(cpus=8, gres=(0,), used_gres=(1,)), {}, 8),
        (Node(cpus=8, used_cpus=9), {}, 0),
        (Node(cpus=8, held_exclusive=True), {}, 0),
        (Node(cpus=8, up=False), {}, 0),
    ],
)
def test_a_node_holds_what_fits(plan: Planner, node: Node, row: dict[str, Any], held: int) -> None:
    # A one-node job of exactly that many tasks starts, and one of a task more does not.
    for ntasks, expected in ((held, True), (held + 1, False)):
        if ntasks:
            found, _ = outcome(plan, [node], {**row, "ntasks": ntasks})
            assert found == ([(0, {0: ntasks})] if expected else [])


def test_memory_of_each_kind_is_reported(plan: Planner) -> None:
    nodes = [Node(cpus=8, mem_mb=1000)] * 4
    result = plan(
        **columns(
            nodes,
            [
                {"nodes": [0], "ntasks": 2, "cpus_per_task": 2, "mem_cpu_mb": 100},
                {"nodes": [1], "ntasks": 2, "mem_node_mb": 300},
                {"nodes": [2], "mem_node_mb": 0},
                {"nodes": [3]},
            ],
        )
    )
    assert result.mem_mb.tolist() == [400, 300, 1000, 0]
    assert result.cpus.tolist() == [4, 2, 1, 1]


def test_what_a_start_takes_is_gone_for_the_next(plan: Planner) -> None:
    node = Node(cpus=4, mem_mb=1000, gres=(2,))
    for wants in ({"cpus_per_task": 3}, {"mem_node_mb": 600}, {"gres": (2,)}):
        found, why = outcome(plan, [node], wants, wants)
        assert found == [(0, {0: 1})]
        assert why == [STARTED, RESOURCES]


# --- exclusive


def test_exclusive_takes_all_cpus_and_without_a_request_all_memory(plan: Planner) -> None:
    result = plan(**columns([Node(cpus=8)] * 2, [{"exclusive": 1}, {"exclusive": 1, "mem_node_mb": 10}]))
    assert result.cpus.tolist() == [8, 8]
    assert result.tasks.tolist() == [1, 1]
    assert result.mem_mb.tolist() == [1000, 10]


def test_exclusive_needs_a_node_without_jobs(plan: Planner) -> None:
    nodes = [Node(running_jobs=1), Node(used_cpus=1), Node()]
    assert outcome(plan, nodes, {"exclusive": 1}) == ([(0, {2: 1})], [STARTED])
    assert outcome(plan, nodes[:2], {"exclusive": 1}) == ([], [RESOURCES])


def test_exclusive_and_shared_do_not_meet_within_a_pass(plan: Planner) -> None:
    found, why = outcome(plan, [Node(), Node()], {"nodes": [0]}, {"exclusive": 1}, {"nodes": [1]})
    assert found == [(0, {0: 1}), (1, {1: 1})]
    assert why == [STARTED, STARTED, RESOURCES]


def test_exclusive_copies_take_a_node_each(plan: Planner) -> None:
    found, why = outcome(plan, [Node(), Node()], {"exclusive": 1, "count": 3})
    assert found == [(0, {0: 1}), (0, {1: 1})]
    assert why == [RESOURCES]


# --- which nodes, and how the tasks are spread


def test_nodes_are_taken_in_node_order(plan: Planner) -> None:
    assert outcome(plan, [Node()] * 3, {}, order=[2, 0, 1]) == ([(0, {2: 1})], [STARTED])


def test_tasks_fill_each_node_in_turn_and_leave_one_for_each_that_follows(plan: Planner) -> None:
    nodes = [Node(cpus=4)] * 3
    assert outcome(plan, nodes, {"nodes_min": 3, "nodes_max": 3, "ntasks": 5})[0] == [(0, {0: 3, 1: 1, 2: 1})]
    assert outcome(plan, nodes, {"nodes_min": 3, "nodes_max": 3, "ntasks": 8})[0] == [(0, {0: 4, 1: 3, 2: 1})]
    assert outcome(plan, nodes, {"nodes_min": 3, "nodes_max": 3, "ntasks": 12})[0] == [(0, {0: 4, 1: 4, 2: 4})]


def test_no_more_nodes_than_needed(plan: Planner) -> None:
    nodes = [Node(cpus=4)] * 4
    assert outcome(plan, nodes, {"nodes_max": 4, "ntasks": 7})[0] == [(0, {0: 4, 1: 3})]
    assert outcome(plan, nodes, {"nodes_min": 3, "nodes_max": 4, "ntasks": 4})[0] == [(0, {0: 2, 1: 1, 2: 1})]


def test_a_one_node_job_passes_over_nodes_too_small_for_all_of_it(plan: Planner) -> None:
    nodes = [Node(cpus=2), Node(cpus=4), Node(cpus=8)]
    assert outcome(plan, nodes, {"ntasks": 3})[0] == [(0, {1: 3})]


def test_the_roomiest_nodes_when_the_first_ones_have_too_little_room(plan: Planner) -> None:
    nodes = [Node(cpus=1), Node(cpus=4), Node(cpus=2), Node(cpus=4), Node(cpus=4)]
    job = {"nodes_min": 2, "nodes_max": 2, "ntasks": 7}
    assert outcome(plan, nodes, job)[0] == [(0, {1: 4, 3: 3})]
    # Chosen by room, but named and filled in node_order.
    found, _ = outcome(plan, nodes, job, order=[0, 2, 4, 3, 1])
    assert [(row, list(on.items())) for row, on in found] == [(0, [(4, 4), (3, 3)])]


def test_node_sets_reach_past_the_first_word(plan: Planner) -> None:
    nodes = [Node()] * 130
    assert outcome(plan, nodes, {"nodes": [63, 64, 129], "nodes_min": 3, "nodes_max": 3, "ntasks": 3})[0] == [
        (0, {63: 1, 64: 1, 129: 1})
    ]


# --- all or nothing


def test_a_multi_node_job_starts_whole_or_not_at_all(plan: Planner) -> None:
    nodes = [Node(), Node(used_cpus=4, running_jobs=1)]
    found, why = outcome(plan, nodes, {"nodes_min": 2, "nodes_max": 2, "ntasks": 2}, {})
    assert found == []
    assert why == [RESOURCES, PRIORITY]


# --- waiting


def test_a_waiting_job_holds_its_mask_and_nothing_else(plan: Planner) -> None:
    nodes = [Node(), Node(used_cpus=4, running_jobs=1), Node(cpus=1)]
    found, why = outcome(
        plan,
        nodes,
        {"nodes": [0, 1], "nodes_min": 2, "nodes_max": 2, "ntasks": 2},  # waits for node 1, holds 0 and 1
        {"nodes": [0]},  # would fit on node 0
        {"nodes": [0, 2]},  # node 2 is open
        {"nodes": [0, 2]},  # node 2 is full now, but held by nobody
        {"nodes": [0, 2]},  # everything is held
    )
    assert found == [(2, {2: 1})]
    assert why == [RESOURCES, PRIORITY, STARTED, RESOURCES, PRIORITY]


def test_when_every_up_node_is_held_the_rest_waits_for_priority_unlooked_at(plan: Planner) -> None:
    nodes = [Node(used_cpus=4, running_jobs=1), Node(up=False)]
    _, why = outcome(plan, nodes, {}, {"ntasks": 99}, {"nodes": [1]}, {"count": 0}, {})
    assert why == [RESOURCES, PRIORITY, PRIORITY, NOT_TESTED, PRIORITY]


def test_a_job_that_needs_down_nodes_holds_nothing(plan: Planner) -> None:
    nodes = [Node(), Node(up=False)]
    found, why = outcome(plan, nodes, {"nodes_min": 2, "nodes_max": 2, "ntasks": 2}, {"nodes": [1]}, {})
    assert found == [(2, {0: 1})]
    assert why == [NODES_DOWN, NODES_DOWN, STARTED]


@pytest.mark.parametrize(
    "row",
    [
        {"ntasks": 5},
        {"ntasks": 3, "ntasks_per_node": 2},
        {"mem_node_mb": 1001},
        {"mem_cpu_mb": 1001},
        {"gres": (1,)},
        {"mem_node_mb": 1001, "exclusive": 1},
        {"nodes": []},
        {"nodes_min": 2, "nodes_max": 2, "ntasks": 9},
        {"nodes_min": 3, "nodes_max": 3, "ntasks": 3},
        # numbers that make no sense
        {"nodes_min": 2, "nodes_max": 2, "ntasks": 1},
        {"nodes_min": 2, "nodes_max": 1, "ntasks": 2},
        {"nodes_min": 0},
        {"nodes_max": 0},
        {"ntasks": 0},
        {"cpus_per_task": 0},
        {"cpus_per_task": -1},
        {"ntasks_per_node": -1},
        {"gres": (-1,)},
    ],
)
def test_a_job_that_could_never_run_holds_nothing(plan: Planner, row: dict[str, Any]) -> None:
    found, why = outcome(plan, [Node(), Node()], row, {})
    assert found == [(1, {0: 1})]
    assert why == [BAD_CONSTRAINTS, STARTED]


@pytest.mark.parametrize(
    ("hopeless", "better"),
    [
        ({"nodes_min": 3, "nodes_max": 3, "ntasks": 4}, {"nodes_min": 2}),
        ({"ntasks": 8}, {"nodes_max": 2}),
        ({"ntasks": 5}, {"ntasks": 4}),
        ({"ntasks": 4, "cpus_per_task": 2}, {"cpus_per_task": 1}),
        ({"ntasks": 3, "ntasks_per_node": 2}, {"ntasks_per_node": 3}),
        ({"mem_node_mb": 1001}, {"mem_node_mb": 1000}),
        ({"mem_cpu_mb": 1001}, {"mem_cpu_mb": 1000}),
        ({"gres": (1,)}, {"gres": (0,)}),
        ({"nodes": []}, {"nodes": [0]}),
    ],
)
def test_one_number_less_makes_another_shape(plan: Planner, hopeless: dict[str, Any], better: dict[str, Any]) -> None:
    _, why = outcome(plan, [Node(), Node()], hopeless, {**hopeless, **better}, hopeless)
    assert why == [BAD_CONSTRAINTS, STARTED, BAD_CONSTRAINTS]


def test_no_up_node_at_all(plan: Planner) -> None:
    assert outcome(plan, [Node(up=False)], {}, {}) == ([], [NODES_DOWN, NODES_DOWN])


def test_rows_of_one_shape_get_the_reason_of_their_own_place(plan: Planner) -> None:
    full = Node(used_cpus=4, running_jobs=1)
    wants_first = {"nodes": [0], "mem_cpu_mb": 1}
    found, why = outcome(plan, [full, Node()], wants_first, wants_first, {**wants_first, "nodes": [1]}, wants_first)
    assert found == [(2, {1: 1})]
    assert why == [RESOURCES, PRIORITY, STARTED, PRIORITY]
    hopeless = {"ntasks": 5}
    assert outcome(plan, [Node()], hopeless, hopeless, {})[1] == [BAD_CONSTRAINTS, BAD_CONSTRAINTS, STARTED]


# --- copies and limits


def test_copies_start_one_by_one_until_one_does_not_fit(plan: Planner) -> None:
    nodes = [Node(cpus=2), Node(cpus=1), Node(cpus=2)]
    found, why = outcome(plan, nodes, {"count": 9})
    assert found == [(0, {0: 1}), (0, {0: 1}), (0, {1: 1}), (0, {2: 1}), (0, {2: 1})]
    assert why == [RESOURCES]


def test_copies_of_a_multi_node_row_go_on_where_room_is_left(plan: Planner) -> None:
    nodes = [Node(cpus=1), Node(cpus=3), Node(cpus=1), Node(cpus=2)]
    found, why = outcome(plan, nodes, {"nodes_min": 2, "nodes_max": 2, "ntasks": 2, "count": 3}, {})
    assert found == [(0, {0: 1, 1: 1}), (0, {1: 1, 2: 1}), (0, {1: 1, 3: 1}), (1, {3: 1})]
    assert why == [STARTED, STARTED]


def test_ten_thousand_copies(plan: Planner) -> None:
    result = plan(**columns([Node(cpus=10)] * 60, [{"count": 10_000}]))
    assert result.node.tolist() == [node for node in range(60) for _ in range(10)]
    assert reasons(result) == [RESOURCES]


def test_starts_max_ends_the_pass(plan: Planner) -> None:
    nodes = [Node()] * 4
    found, why = outcome(plan, nodes, {}, {"count": 5}, {}, starts_max=3)
    assert found == [(0, {0: 1}), (1, {0: 1}), (1, {0: 1})]
    assert why == [STARTED, NOT_TESTED, NOT_TESTED]
    assert outcome(plan, nodes, {}, {"count": 2}, {}, starts_max=3)[1] == [STARTED, STARTED, NOT_TESTED]
    assert outcome(plan, nodes, {}, starts_max=0) == ([], [NOT_TESTED])
    assert outcome(plan, nodes, {}, starts_max=-1) == ([], [NOT_TESTED])


def test_the_limit_on_placements_ends_the_pass(plan: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "PLACEMENTS_MAX", 3)
    two_nodes = {"nodes_min": 2, "nodes_max": 2, "ntasks": 2, "count": 2}
    found, why = outcome(plan, [Node()] * 4, two_nodes, {})
    assert found == [(0, {0: 1, 1: 1})]
    assert why == [NOT_TESTED, NOT_TESTED]


def test_a_row_without_copies_is_passed_over(plan: Planner) -> None:
    assert outcome(plan, [Node()], {"count": 0}, {"count": -1}, {}) == (
        [(2, {0: 1})],
        [NOT_TESTED, NOT_TESTED, STARTED],
    )


# --- the edges of the input


def test_nothing_to_do(plan: Planner) -> None:
    assert outcome(plan, [], kinds=0) == ([], [])
    assert outcome(plan, [Node()], kinds=0) == ([], [])
    assert outcome(plan, [], {}, kinds=0) == ([], [BAD_CONSTRAINTS])
    result = plan(**columns([], []))
    assert result.node_first.tolist() == [0]
    assert [array.dtype for array in result] == [np.int32] * 5 + [np.int64, np.uint8]


def test_the_largest_numbers_do_not_overflow(plan: Planner) -> None:
    huge = Node(cpus=INT32_MAX, mem_mb=INT64_MAX, gres=(INT32_MAX,))
    cases = [
        ({"ntasks": INT32_MAX, "mem_cpu_mb": INT64_MAX // INT32_MAX}, STARTED),
        ({"ntasks": INT32_MAX, "mem_cpu_mb": INT64_MAX // INT32_MAX + 1}, BAD_CONSTRAINTS),
        ({"ntasks": 2, "cpus_per_task": INT32_MAX}, BAD_CONSTRAINTS),
        ({"cpus_per_task": INT32_MAX, "mem_cpu_mb": INT64_MAX}, BAD_CONSTRAINTS),
        ({"mem_cpu_mb": INT64_MAX, "gres": (INT32_MAX,)}, STARTED),
        ({"ntasks": INT32_MAX, "nodes_max": INT32_MAX, "exclusive": 1}, STARTED),
        ({"ntasks": INT32_MAX, "nodes_min": 3, "nodes_max": INT32_MAX}, STARTED),
        ({"ntasks": INT32_MAX, "nodes_min": INT32_MAX, "nodes_max": INT32_MAX}, BAD_CONSTRAINTS),
    ]
    for row, expected in cases:
        found, why = outcome(plan, [huge] * 3, row)
        assert why == [expected], row
        assert sum(sum(on.values()) for _, on in found) == (row.get("ntasks", 1) if expected == STARTED else 0)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("node_order", np.array([0, 0], np.int32), "node_order must name each of the 2 nodes exactly once"),
        ("node_order", np.array([0, 2], np.int32), "node_order must name each of the 2 nodes exactly once"),
        ("job_mask", np.array([1], np.int32), r"job_mask\[0\] is 1, there are 1 masks"),
        ("job_mask", np.array([-1], np.int32), r"job_mask\[0\] is -1, there are 1 masks"),
        ("up", np.ones(3, np.uint8), "up has length 3 on axis N, the others have 2"),
        ("gres", np.zeros((1, 2), np.int32), "gres has length 2 on axis G, the others have 1"),
        ("count", np.ones(0, np.int32), "count has length 0 on axis J, the others have 1"),
        ("masks", np.ones((1, 2), np.uint64), "masks has 2 words a row, 2 nodes take 1"),
        ("total_cpus", np.array([4, -4], np.int32), "total_cpus must not be negative, its lowest entry is -4"),
        ("free_mem_mb", np.zeros(2, np.int32), None),
        ("free_cpus", np.zeros((2, 1), np.int32), None),
    ],
)
def test_columns_that_do_not_fit_are_refused(plan: Planner, name: str, value: Any, says: str | None) -> None:
    with pytest.raises(ValueError, match=says):
        plan(**{**columns([Node(), Node()], [{}]), name: value})
