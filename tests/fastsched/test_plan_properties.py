"""What holds for every input: the compiled planner agrees with its oracle, and the oracle keeps the rules."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _fastsched import NOT_TESTED, PRIORITY, RESOURCES, STARTED, PlanResult, contract
from _fastsched.plan import plan as compiled
from _fastsched.reference import plan as reference
from tests.fastsched.planner_input import Node, columns, starts

settings.register_profile("planner", max_examples=200, deadline=None, derandomize=True, database=None)
FIXED = settings.get_profile("planner")
HUGE = (2**31 - 1, 2**31 - 2, 2**30)


def small(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def sometimes(usual: st.SearchStrategy[int], *rare: int) -> st.SearchStrategy[int]:
    """Mostly `usual`: a row has ten such numbers, and one odd number is enough to make it hopeless."""
    return st.integers(0, 24).flatmap(lambda die: st.sampled_from(rare) if die == 17 else usual)


@st.composite
def a_node(draw: st.DrawFn) -> Node:
    return Node(
        cpus=draw(sometimes(small(1, 9), 0, *HUGE)),
        mem_mb=draw(sometimes(small(4, 24), 0, 2**63 - 1)),
        gres=(draw(small(1, 3)), draw(small(0, 1))),
        used_cpus=draw(st.sampled_from([0, 0, 0, 1, 2, 3, 10])),
        used_mem_mb=draw(st.sampled_from([0, 0, 0, 0, 1, 3, 25])),
        used_gres=(draw(sometimes(st.just(0), 1, 2)), draw(sometimes(st.just(0), 1))),
        running_jobs=draw(st.sampled_from([0, 0, 0, 1, 2**31 - 1])),
        held_exclusive=draw(small(0, 15)) == 7,
        up=draw(small(0, 5)) != 5,
    )


@st.composite
def a_row(draw: st.DrawFn) -> dict[str, Any]:
    nodes_min = draw(sometimes(small(1, 3), 0, 9))
    return {
        "nodes_min": nodes_min,
        "nodes_max": draw(sometimes(small(nodes_min, nodes_min + 2), 2**31 - 1, 0)),
        "ntasks": draw(sometimes(small(nodes_min, 4 * nodes_min + 2), 0, 1, 60, *HUGE)),
        "cpus_per_task": draw(sometimes(small(1, 2), 0, 3, 2**31 - 1)),
        "ntasks_per_node": draw(st.sampled_from([0, 0, 0, 0, 3, 4]) | sometimes(st.just(0), 1, -1, 2**31 - 1)),
        "mem_node_mb": draw(sometimes(st.sampled_from([-1, -1, -1, 1, 4]), 0, 2**63 - 1)),
        "mem_cpu_mb": draw(sometimes(st.sampled_from([-1, -1, -1, 1, 2]), 0, 2**62)),
        "gres": (draw(sometimes(st.sampled_from([0, 0, 1]), 2, -1)), draw(sometimes(st.just(0), 1))),
        "exclusive": int(draw(small(0, 6)) == 4),
        "count": draw(sometimes(small(1, 3), 0, -1, 40)),
    }


@st.composite
def an_input(draw: st.DrawFn, alike: bool = True) -> dict[str, Any]:
    nodes = draw(st.lists(a_node(), max_size=7)) * draw(st.sampled_from([1, 1, 1, 2, 2, 12]))
    rows = draw(st.lists(a_row(), max_size=8))
    if alike and rows:  # some neighbours of one shape
        rows = [row for row in rows for _ in range(draw(sometimes(st.just(1), 2, 3)))]
    made = columns(
        nodes,
        rows,
        kinds=draw(small(0, 2)),
        order=draw(st.permutations(range(len(nodes)))),
        starts_max=draw(sometimes(st.just(10_000), 0, 1, 3, 8)),
    )
    words = made["masks"].shape[1]
    ones = 2**64 - 1  # with bits beyond the last node, which mean nothing
    words_of = st.lists(
        st.integers(0, ones) | st.sampled_from([ones, ones, ones - 3, ones // 3]), min_size=words, max_size=words
    )
    masks = draw(st.lists(words_of, min_size=1, max_size=3))
    made["masks"] = np.array(masks, np.uint64).reshape(len(masks), words)
    picks = [draw(small(0, len(masks) - 1)) for _ in rows]
    made["job_mask"] = np.array(picks, np.int32)
    return made


def mask_nodes(given_: dict[str, Any], row: int) -> list[int]:
    words = given_["masks"][given_["job_mask"][row]].tolist()
    return [n for n in given_["node_order"].tolist() if words[n // 64] >> (n % 64) & 1]


def assert_same(a: PlanResult, b: PlanResult) -> None:
    for name, left, right in zip(PlanResult._fields, a, b, strict=True):
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=name)


@given(an_input())
@settings(FIXED, max_examples=400)
def test_compiled_and_reference_agree(made: dict[str, Any]) -> None:
    before = {name: np.array(made[name]) for name in contract.COLUMNS}
    assert_same(compiled(**made), reference(**made))
    for name, column in before.items():
        np.testing.assert_array_equal(made[name], column, err_msg=f"{name} was written to")


def a_busy_cluster(rng: np.random.Generator) -> dict[str, Any]:
    """Larger and less odd than what hypothesis makes: most rows could run, and the pass is long."""
    pick = lambda *values: int(rng.choice(values))  # noqa: E731
    nodes = []
    for _ in range(pick(20, 64, 65, 150)):
        cpus = pick(4, 8, 16)
        used = pick(0, 0, 0, 1, 3, 4)
        gpus = pick(0, 4)
        node = Node(
            cpus, cpus * 4, (gpus, 1), used, pick(0, used * 2), (min(gpus, used), 0), used, up=rng.random() > 0.1
        )
        nodes.append(node)
    rows = []
    for _ in range(60):
        least = pick(1, 1, 1, 2, 3, 5)
        rows.append(
            {
                "nodes": [n for n in range(len(nodes)) if rng.random() < 0.4],
                "nodes_min": least,
                "nodes_max": least + pick(0, 0, 1, 2, 10),
                "ntasks": int(rng.integers(least, least * 6 + 1)),
                "cpus_per_task": pick(1, 1, 2, 3),
                "ntasks_per_node": pick(0, 0, 0, 2, 4),
                "mem_node_mb": pick(-1, -1, -1, 0, 10),
                "mem_cpu_mb": pick(-1, 1, 4, 5),
                "gres": (pick(0, 0, 0, 0, 1, 2), 0),
                "exclusive": pick(0, 0, 0, 0, 1),
                "count": pick(1, 1, 2, 4),
            }
        )
    order = rng.permutation(len(nodes)).tolist()
    return columns(nodes, rows, kinds=2, order=order, starts_max=pick(20, 10_000))


@pytest.mark.parametrize("seed", range(40))
def test_compiled_and_reference_agree_on_a_busy_cluster(seed: int) -> None:
    made = a_busy_cluster(np.random.default_rng(seed))
    assert_same(compiled(**made), reference(**made))
    # And in small parts: with few holds in the way, more rows are searched for in earnest.
    for first in range(0, 60, 6):
        few = {**made}
        for name, (_, axes) in contract.COLUMNS.items():
            if axes[0] == "J":
                few[name] = made[name][first : first + 6]
        assert_same(compiled(**few), reference(**few))


@given(an_input())
@settings(FIXED)
def test_nothing_is_given_twice(made: dict[str, Any]) -> None:
    result = compiled(**made)
    cpus, mem = made["free_cpus"].astype(object), made["free_mem_mb"].astype(object)
    gres, jobs = made["free_gres"].astype(object), made["running_jobs"].astype(object)
    closed = {n for n in range(len(cpus)) if made["held_exclusive"][n] or not made["up"][n]}
    for s, row in enumerate(result.job.tolist()):
        for k in range(result.node_first[s], result.node_first[s + 1]):
            n = int(result.node[k])
            assert n not in closed
            assert result.cpus[k] >= result.tasks[k] * made["cpus_per_task"][row] > 0
            assert result.mem_mb[k] >= 0
            if made["exclusive"][row]:
                assert jobs[n] == 0
                assert result.cpus[k] == made["total_cpus"][n]
                closed.add(n)
            took = {"cpus": int(result.cpus[k]), "mem": int(result.mem_mb[k])}
            assert took["cpus"] <= cpus[n]
            assert took["mem"] == 0 or took["mem"] <= mem[n]
            cpus[n] -= took["cpus"]
            mem[n] -= took["mem"]
            jobs[n] += 1
            for kind, want in enumerate(made["gres"][row].tolist()):
                assert want == 0 or want <= gres[n][kind]
                gres[n][kind] -= want


@given(an_input())
@settings(FIXED)
def test_each_start_is_whole(made: dict[str, Any]) -> None:
    result = compiled(**made)
    found = starts(result)
    place = {n: at for at, n in enumerate(made["node_order"].tolist())}
    for row, on in found:
        assert sum(on.values()) == made["ntasks"][row]
        assert min(on.values()) >= 1
        assert made["nodes_min"][row] <= len(on) <= made["nodes_max"][row]
        assert set(on) <= set(mask_nodes(made, row))
        assert list(on) == sorted(on, key=place.__getitem__)
        if made["ntasks_per_node"][row]:
            assert max(on.values()) <= made["ntasks_per_node"][row]
    rows = [row for row, _ in found]
    assert rows == sorted(rows)
    assert len(rows) <= made["starts_max"]
    for row, reason in enumerate(result.reason.tolist()):
        wanted = made["count"][row]
        assert (reason == STARTED) == (rows.count(row) == wanted > 0)
        assert rows.count(row) <= max(0, wanted)
    assert result.node_first[-1] == len(result.node) == len(result.cpus) == len(result.tasks) == len(result.mem_mb)


@given(an_input())
@settings(FIXED)
def test_nothing_starts_on_a_node_that_a_row_before_it_waits_for(made: dict[str, Any]) -> None:
    result = compiled(**made)
    found = starts(result)
    held: dict[int, None] = {}
    for row, reason in enumerate(result.reason.tolist()):
        used = [n for start, on in found if start == row for n in on]
        assert not set(used) & set(held)
        open_nodes = [n for n in mask_nodes(made, row) if made["up"][n] and n not in held]
        if reason == RESOURCES:
            assert open_nodes
            held.update(dict.fromkeys(mask_nodes(made, row)))
        if reason == PRIORITY:
            assert not open_nodes


@given(an_input())
@settings(FIXED)
def test_starts_max_cuts_the_plan_and_changes_nothing_before(made: dict[str, Any]) -> None:
    whole = compiled(**{**made, "starts_max": 10_000})
    for limit in (0, 1, len(whole.job) // 2, len(whole.job)):
        part = compiled(**{**made, "starts_max": limit})
        assert starts(part) == starts(whole)[:limit]
        assert all(p in (w, NOT_TESTED) for p, w in zip(part.reason, whole.reason, strict=True))


@given(an_input(alike=False))
@settings(FIXED)
def test_copies_start_as_equal_rows_would(made: dict[str, Any]) -> None:
    copies = np.maximum(made["count"], 0)
    rows_of = np.repeat(np.arange(len(copies)), copies)
    spread = dict(made)
    for name, (_, axes) in contract.COLUMNS.items():
        if axes[0] == "J":
            spread[name] = np.ascontiguousarray(made[name][rows_of])
    spread["count"] = np.ones(len(rows_of), np.int32)
    one_by_one = [(int(rows_of[row]), on) for row, on in starts(compiled(**spread))]
    assert starts(compiled(**made)) == one_by_one


@given(st.lists(a_node(), min_size=1, max_size=5), a_row())
@settings(FIXED, max_examples=300)
def test_a_job_alone_starts_exactly_when_some_set_of_nodes_fits(nodes: list[Node], row: dict[str, Any]) -> None:
    """Independent of both planners: try every set of nodes."""
    row = {**row, "count": 1}
    result = compiled(**columns(nodes, [row], kinds=2))

    def most(node: Node) -> int:
        need_mem = row["mem_node_mb"] or node.mem_mb
        free_mem = node.mem_mb - node.used_mem_mb
        busy = node.running_jobs or node.used_cpus
        if not node.up or node.held_exclusive or (row["exclusive"] and busy):
            return 0
        if any(w > 0 and w > g - u for w, g, u in zip(row["gres"], node.gres, node.used_gres, strict=True)):
            return 0
        tasks = max(0, node.cpus - node.used_cpus) // max(1, row["cpus_per_task"])
        if row["mem_node_mb"] >= 0:
            tasks = 0 if need_mem and need_mem > free_mem else tasks
        elif row["mem_cpu_mb"] > 0:
            tasks = min(tasks, max(0, free_mem) // (row["mem_cpu_mb"] * max(1, row["cpus_per_task"])))
        elif row["mem_cpu_mb"] < 0 and row["exclusive"] and node.mem_mb and node.used_mem_mb:
            tasks = 0
        return min(tasks, row["ntasks_per_node"] or tasks)

    room = [most(node) for node in nodes]
    sane = row["cpus_per_task"] >= 1 and row["ntasks_per_node"] >= 0 and min(row["gres"]) >= 0 and row["nodes_min"] >= 1
    fits = sane and any(
        min(chosen) >= 1 and size <= row["ntasks"] <= sum(chosen)
        for size in range(max(1, row["nodes_min"]), min(len(nodes), row["nodes_max"]) + 1)
        for chosen in combinations(room, size)
    )
    assert (len(result.job) == 1) == fits
