"""What only the compiled planner promises: no trace in its input, no hidden state, no overflow, threads, memory.

That it answers as its oracle does is in test_plan_properties.py; here are more random cases than hypothesis has time for, and
inputs that are too large for the oracle.
"""

import hashlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import ANSWER_S

from _fastsched import BAD_CONSTRAINTS, NOT_TESTED, STARTED, contract, reference
from _fastsched.contract import PlanInput, PlanLimits, PlanResult
from _fastsched.plan import plan
from bench.schedqueue import NODE_CPUS, NODE_GPUS, NOW_S, generate, pending_queue, planner_input
from tests.fastsched.planner_cases import a_case

ROOT = Path(__file__).parents[2]


def digest(result: PlanResult) -> str:
    return hashlib.sha256(b"".join(column.tobytes() for column in result)).hexdigest()


def arrays(given: PlanInput) -> dict[str, np.ndarray]:
    found = {}
    for group, columns in contract.GROUPS.items():
        for name in columns:
            found[name] = getattr(getattr(given, group) if group else given, name)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_oracle_agrees_on_cases_of_all_kinds(seed: int) -> None:
    rng = random.Random(f"compiled {seed}")
    for _ in range(10):
        given = a_case(lambda options: rng.choice(list(options))).build()
        fast: Any
        slow: Any
        for name, fast, slow in zip(PlanResult._fields, plan(given), reference.plan(given), strict=True):
            assert fast.dtype == slow.dtype and fast.tolist() == slow.tolist(), name


@pytest.mark.parametrize("nodes", [5, 64, 70])
def test_the_oracle_agrees_on_the_generated_queue(nodes: int) -> None:
    """Longer queues than the random cases have, with more nodes than fit into a word."""
    given = planner_input(generate(60, seed=nodes), nodes)
    for limits in (PlanLimits(NOW_S, resolution_s=60), PlanLimits(NOW_S, reserve_max=1, estimate=False)):
        asked = given._replace(limits=limits)
        fast: Any
        slow: Any
        for fast, slow in zip(plan(asked), reference.plan(asked), strict=True):
            assert fast.tolist() == slow.tolist()


def test_the_same_plan_under_two_hash_seeds() -> None:
    code = "from tests.fastsched import test_plan_compiled as t\nprint(t.digest(t.plan(t.pending_queue(600, 50))))"
    said = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}"},
            timeout=ANSWER_S, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1] == digest(plan(pending_queue(600, 50))) + "\n"


def test_nothing_is_given_twice_in_a_long_plan() -> None:
    """Every pending job of a queue of 3,000 has a start, and at no time is more taken than a node has."""
    given = pending_queue(3000, 200)
    result = plan(given)
    assert (result.start_s >= 0).all()
    rows = given.rows
    events: list[tuple[int, int, int, int, int]] = []
    for position, row in enumerate(rows.tolist()):
        start_s, gpus = int(result.start_s[position]), int(given.jobs.gres[row, 0])
        cpus = int(given.jobs.cpus_per_task[row])
        for node in result.plan_node[result.plan_first[position] : result.plan_first[position + 1]].tolist():
            events.append((start_s, 1, node, cpus, gpus))
            events.append((start_s + int(given.jobs.limit_s[row]), 0, node, cpus, gpus))
    running = given.running
    for run, node, cpus, gres in zip(
        running.part_run.tolist(),
        running.part_node.tolist(),
        running.part_cpus.tolist(),
        running.part_gres[:, 0],
        strict=True,
    ):
        events.append((int(running.run_end_s[run]), 0, node, cpus, int(gres)))
    free_cpus, free_gpus = given.nodes.free_cpus.astype(int), given.nodes.free_gres[:, 0].astype(int)
    for _, begins, node, cpus, gpus in sorted(events):
        free_cpus[node] += -cpus if begins else cpus
        free_gpus[node] += -gpus if begins else gpus
        assert free_cpus[node] >= 0 and free_gpus[node] >= 0
    assert (free_cpus == NODE_CPUS).all() and (free_gpus == NODE_GPUS).all()


def test_the_input_stays_as_it_was_and_may_be_read_only() -> None:
    given = pending_queue(400, 30)
    before = {name: array.copy() for name, array in arrays(given).items()}
    for array in arrays(given).values():
        array.setflags(write=False)
    plan(given)
    for name, array in arrays(given).items():
        assert np.array_equal(array, before[name]), name


def test_nothing_is_kept_between_calls() -> None:
    """A small, a large and again the small input; the same tuples with other contents."""
    small, large = planner_input(generate(40), 2), pending_queue(2000, 300)
    first, other = digest(plan(small)), digest(plan(large))
    assert digest(plan(small)) == first
    assert digest(plan(large)) == other
    small.jobs.limit_s[:] = small.jobs.limit_min_s[:] = 60
    assert digest(plan(small)) != first


def test_a_column_of_another_kind_is_named() -> None:
    given = planner_input(generate(5), 3)
    for change, words in (
        ({"rows": given.rows.astype(np.int32)}, "rows is int32"),
        ({"rows": given.rows + 1}, "rows names 1 to 5, expected 0 to 4"),
        ({"rows": given.rows[::2]}, "rows is int64 with 1 axes, expected a contiguous"),
        ({"masks": np.zeros((1, 2), np.uint64)}, "masks has 2 words a row"),
        ({"nodes": given.nodes._replace(order=np.zeros(3, np.int32))}, "order must name each"),
        ({"jobs": given.jobs._replace(mask=np.full(5, 9, np.int32))}, "mask names 9 to 9, expected 0 to 0"),
        ({"rows": given.rows.astype(">i8")}, "rows is >i8"),
    ):
        with pytest.raises(ValueError, match=f"^plan: {words}"):
            plan(given._replace(**change))
    unaligned = np.frombuffer(b"\0" + given.rows.tobytes(), np.uint8)[1:].view(np.int64)
    with pytest.raises(ValueError, match="not aligned"):
        plan(given._replace(rows=unaligned))
    with pytest.raises(ValueError, match="a limit makes no sense"):
        plan(given._replace(limits=PlanLimits(NOW_S, resolution_s=0)))


@pytest.mark.parametrize("name", ["part_run", "part_node", "block_node", "block_resv"])
def test_an_index_that_leads_nowhere_is_refused(name: str) -> None:
    given = pending_queue(100, 5)
    if name.startswith("part"):
        getattr(given.running, name)[0] = 1000
    else:
        blocks = contract.empty("reservations", V=1, B=1, G=1)
        getattr(blocks, name)[0] = 1000
        given = given._replace(reservations=blocks)
    with pytest.raises(ValueError, match=f"^plan: {name} names"):
        plan(given)


def test_odd_numbers_in_a_row_do_not_stop_the_others() -> None:
    given = planner_input(generate(3), 4)
    for name in (
        "nodes_min",
        "ntasks",
        "cpus_per_task",
        "limit_min_s",
        "cpu_units",
        "mem_cpu_mb",
        "earliest_s",
        "latest_s",
    ):
        for odd in (np.iinfo(getattr(given.jobs, name).dtype).min, np.iinfo(getattr(given.jobs, name).dtype).max):
            jobs = given.jobs._replace(**{name: getattr(given.jobs, name).copy()})
            getattr(jobs, name)[1] = odd
            asked = given._replace(jobs=jobs)
            fast, slow = plan(asked), reference.plan(asked)
            assert fast.reason.tolist() == slow.reason.tolist(), (name, odd)
            assert fast.reason[0] == STARTED


def test_the_stop_flag_ends_a_pass() -> None:
    """Set before: nothing is tested. Set while it runs, which needs a planner that has let go of the GIL: it ends early."""
    given = pending_queue(20_000, 1000)
    given.stop[0] = 1
    assert (plan(given).reason == NOT_TESTED).all()
    given.stop[0] = 0
    results: list[PlanResult] = []
    worker = threading.Thread(target=lambda: results.append(plan(given)))
    worker.start()
    given.stop[0] = 1
    worker.join(ANSWER_S)
    assert results[0].reason[-1] == NOT_TESTED


def test_two_threads_plan_at_once() -> None:
    """The memory kept between calls belongs to one pass at a time."""
    inputs = [pending_queue(3000, 100), pending_queue(2000, 150)]
    expected = [digest(plan(given)) for given in inputs]
    found: list[list[str]] = [[], []]

    def work(which: int) -> None:
        for _ in range(3):
            found[which].append(digest(plan(inputs[which])))

    threads = [threading.Thread(target=work, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_S)
    assert found == [[expected[0]] * 3, [expected[1]] * 3]


def test_an_empty_cluster_and_an_empty_queue() -> None:
    assert plan(planner_input(generate(3), 0)).reason.tolist() == [BAD_CONSTRAINTS] * 3
    result = plan(planner_input(generate(0), 3))
    assert [len(column) for column in result] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
