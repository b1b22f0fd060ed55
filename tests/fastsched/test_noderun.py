"""The compiled node run against its oracle, and what both must do on cases that a reader can follow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _fastsched import noderun_contract as contract
from _fastsched import noderun_reference
from _fastsched import replay_contract as words
from _fastsched.noderun import run_on_nodes as compiled
from _fastsched.noderun_contract import NODE_ORDERS, NODE_POLICIES, NodeRun, RunJobs, RunNodes
from _fastsched.replay import replay
from _fastsched.replay_contract import ReplayPolicy

I32, I64 = np.int32, np.int64

#: submit, run, estimate, user, ntasks, nodes_min, nodes_max, gpus, mem_node_mb, mem_cpu_mb
Row = tuple[int, int, int, int, int, int, int, int, int, int]


def table(rows: list[Row]) -> RunJobs:
    columns = np.array(sorted(rows, key=lambda row: row[0]), dtype=I64).reshape(-1, 10).T
    submit_s, run_s, estimate_s, user, ntasks, nodes_min, nodes_max, gpus, mem_node_mb, mem_cpu_mb = map(
        np.ascontiguousarray, columns
    )
    users, tasks, least, most, devices = (c.astype(I32) for c in (user, ntasks, nodes_min, nodes_max, gpus))
    urgent = np.zeros(len(rows), dtype=np.uint8)
    return RunJobs(submit_s, run_s, estimate_s, users, tasks, least, most, devices, mem_node_mb, mem_cpu_mb, urgent)


def machine(*nodes: tuple[int, int, int, int], kind: int = 0) -> RunNodes:
    """Nodes of (cpus, mem_mb, gpus, quantum)."""
    cpus, mem_mb, gpus, quantum = (np.array(column) for column in zip(*nodes, strict=True))
    return RunNodes(cpus.astype(I32), mem_mb.astype(I64), gpus.astype(I32), quantum.astype(I32), kind)


def same(jobs: RunJobs, nodes: RunNodes, policy: ReplayPolicy) -> NodeRun:
    """The schedule, on which both forms agree."""
    told, found = noderun_reference.run_on_nodes(jobs, nodes, policy), compiled(jobs, nodes, policy)
    assert found.start_s.tolist() == told.start_s.tolist()
    assert (found.first.tolist(), found.node.tolist()) == (told.first.tolist(), told.node.tolist())
    return found


@st.composite
def requests(draw) -> Row:
    ntasks = draw(st.integers(1, 9))
    nodes_min = draw(st.integers(1, min(3, ntasks)))
    nodes_max = draw(st.integers(nodes_min, ntasks))
    run_s = draw(st.integers(0, 30) | st.integers(0, 900))
    estimate_s = draw(st.integers(1, 40) | st.just(run_s + 1))
    memory = draw(st.sampled_from([(-1, -1), (0, -1), (300, -1), (-1, 90), (-1, 0)]))
    return (
        draw(st.integers(0, 60)), run_s, estimate_s, draw(st.integers(0, 2)), ntasks, nodes_min, nodes_max,
        draw(st.sampled_from([0, 0, 1, 2])), *memory,
    )  # fmt: skip


node = st.tuples(st.integers(1, 8), st.sampled_from([400, 1000]), st.integers(0, 3), st.sampled_from([1, 1, 2]))
machines = st.builds(
    lambda nodes, kind: machine(*nodes, kind=kind), st.lists(node, min_size=1, max_size=4), st.integers(0, 2)
)
policies = st.sampled_from(list(NODE_POLICIES.values())) | st.builds(
    ReplayPolicy,
    order=st.sampled_from(sorted(NODE_ORDERS.values())),
    backfill=st.sampled_from([words.NONE, words.EASY]),
    candidates=st.sampled_from(sorted(NODE_ORDERS.values())),
    predictor=st.just(words.GIVEN),
    ranker=st.sampled_from(sorted(words.PREDICTORS.values())),
    aged_factor=st.integers(0, 3),
    aged_max_s=st.integers(0, 2000),
)


def those_that_fit(rows: list[Row], nodes: RunNodes) -> RunJobs:
    jobs = table(rows)
    fits = contract.fitting(jobs, nodes)
    return RunJobs(**{name: getattr(jobs, name)[fits] for name in RunJobs._fields})


@given(st.lists(requests(), max_size=25), machines, policies)
def test_compiled_and_oracle_agree(rows, nodes, policy) -> None:
    same(those_that_fit(rows, nodes), nodes, policy)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), machines, policies)
def test_deep_queues_agree(seed, nodes, policy) -> None:
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(90):
        ntasks = int(random.integers(1, 5))
        nodes_min = int(random.integers(1, ntasks + 1))
        run_s, estimate_s = int(random.integers(1, 60)), int(random.integers(1, 90))
        rows.append(
            (int(random.integers(0, 50)), run_s, estimate_s, int(random.integers(0, 3)), ntasks, nodes_min, ntasks,
             int(random.integers(0, 2)), -1, int(random.integers(-1, 100)))
        )  # fmt: skip
    same(those_that_fit(rows, nodes), nodes, policy)


@given(st.lists(requests(), max_size=25), machines, st.integers(0, 2**25 - 1))
def test_urgent_jobs_agree(rows, nodes, urgent) -> None:
    jobs = those_that_fit(rows, nodes)
    mask = np.array([urgent >> k & 1 for k in range(len(jobs.urgent))], dtype=np.uint8)
    same(jobs._replace(urgent=mask), nodes, NODE_POLICIES["learned"])


@given(st.lists(requests(), max_size=25), machines)
def test_the_learned_order_of_urgent_jobs_is_easy(rows, nodes) -> None:
    jobs = those_that_fit(rows, nodes)
    told = compiled(jobs, nodes, NODE_POLICIES["easy"]).start_s
    all_urgent = jobs._replace(urgent=np.ones(len(jobs.urgent), dtype=np.uint8))
    assert compiled(all_urgent, nodes, NODE_POLICIES["learned"]).start_s.tolist() == told.tolist()


@given(st.lists(requests(), max_size=25), machines, policies)
def test_nothing_is_given_twice(rows, nodes, policy) -> None:
    jobs = those_that_fit(rows, nodes)
    found = compiled(jobs, nodes, policy)
    assert (found.start_s >= jobs.submit_s).all()
    counts = np.diff(found.first)
    assert (counts >= jobs.nodes_min).all()
    assert (counts <= jobs.nodes_max).all()
    for moment in found.start_s.tolist():
        gpus = np.zeros(len(nodes.cpus), dtype=I64)
        tasks = 0
        for number in np.flatnonzero((found.start_s <= moment) & (moment < found.start_s + jobs.run_s)).tolist():
            gpus[found.node[found.first[number] : found.first[number + 1]]] += jobs.gpus[number]
            tasks += int(jobs.ntasks[number])
        assert (gpus <= nodes.gpus).all()
        assert tasks <= nodes.cpus.sum()


@given(st.lists(requests(), max_size=40), st.sampled_from(["fcfs", "sjf", "easy", "easy-sjbf", "learned"]))
def test_one_node_of_processors_is_the_replay(rows, name) -> None:
    """Where estimates hold: two programs that share no line of policy."""
    rows = [(s, run, max(run, estimate), user, n, 1, 1, 0, -1, -1) for s, run, estimate, user, n, *_ in rows]
    jobs, nodes = table(rows), machine((10, 0, 0, 1))
    columns = (jobs.submit_s, jobs.run_s, jobs.estimate_s, jobs.ntasks, jobs.user)
    told = replay(*columns, 10, words.POLICIES[name], words.BATCH)
    assert compiled(jobs, nodes, NODE_POLICIES[name]).start_s.tolist() == told.tolist()


def single(submit_s: int, run_s: int, cpus: int, gpus: int = 0) -> Row:
    return (submit_s, run_s, run_s, 0, cpus, 1, 1, gpus, -1, -1)


#: Two nodes of four CPUs and two GPUs.
TWO = machine((4, 1000, 2, 1), (4, 1000, 2, 1))


def test_the_third_pair_of_gpus_waits() -> None:
    found = same(table([single(0, 100, 1, 2)] * 3), TWO, NODE_POLICIES["easy"])
    assert found.start_s.tolist() == [0, 0, 100]
    assert found.node.tolist() == [0, 1, 0]


def test_free_cpus_of_two_nodes_are_no_node() -> None:
    found = same(table([single(0, 100, 3), single(0, 50, 3), single(1, 10, 2)]), TWO, NODE_POLICIES["easy"])
    assert found.start_s.tolist() == [0, 0, 50]


def test_a_job_beside_the_reservation_outlasts_it() -> None:
    """Job 2 needs both nodes at 100. A long job may not pass it, a short one may."""
    wide = (1, 10, 10, 0, 8, 2, 2, 0, -1, -1)
    rows = [single(0, 100, 4), wide, single(2, 200, 1), single(2, 98, 1)]
    assert same(table(rows), TWO, NODE_POLICIES["easy"]).start_s.tolist() == [0, 100, 110, 2]
    assert same(table(rows), TWO, NODE_POLICIES["fcfs"]).start_s.tolist() == [0, 100, 110, 110]


def test_best_fit_and_least_loaded() -> None:
    rows = [single(0, 100, 2), single(1, 100, 1), single(2, 100, 1)]
    nodes = [(8, 0, 0, 1), (4, 0, 0, 1)]
    easy = NODE_POLICIES["easy"]
    chosen = [same(table(rows), machine(*nodes, kind=kind), easy).node.tolist() for kind in (0, 1, 2)]
    assert chosen == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]


def test_orders_of_the_literature() -> None:
    """One processor is busy until 100; then three jobs of other lengths and widths follow by their scores."""
    nodes = machine((4, 0, 0, 1))
    rows = [single(0, 100, 4), single(10, 1000, 4), single(20, 10, 4), single(90, 5, 3)]
    starts = {name: same(table(rows), nodes, NODE_POLICIES[name]).start_s.tolist() for name in ("wfp3", "unicep", "f1")}
    assert starts["wfp3"] == [0, 115, 100, 110]  # (80/10)^3 4, (10/5)^3 3, (90/1000)^3 4; then (20/5)^3 3
    assert starts["unicep"] == [0, 115, 100, 110]  # 80/(2 10), 10/(1.58 5), 90/(2 1000)
    assert starts["f1"] == [0, 100, 1100, 1110]  # 870 log10(s) decides


@pytest.mark.parametrize(
    ("row", "policy", "said"),
    [
        (single(0, 10, 5), NODE_POLICIES["easy"], "job number 1 does not fit on the empty machine"),
        (single(0, 10, 1, 3), NODE_POLICIES["easy"], "job number 1 does not fit on the empty machine"),
        ((0, 10, 0, 0, 1, 1, 1, 0, -1, -1), NODE_POLICIES["easy"], "job number 1 has an estimate below 1 s"),
        ((0, 10, 9, 0, 1, 2, 2, 0, -1, -1), NODE_POLICIES["easy"], "job number 1 has numbers of nodes that contradict"),
        (single(0, 10, 1), ReplayPolicy(backfill=words.CONSERVATIVE), "jobs on nodes have backfill none or easy"),
        (single(0, 10, 1), ReplayPolicy(order=99), "not a policy of nodes"),
    ],
)
def test_what_no_run_can_do_is_refused(row: Row, policy: ReplayPolicy, said: str) -> None:
    jobs = table([single(0, 1, 1), row])
    for form in (noderun_reference.run_on_nodes, compiled):
        with pytest.raises(ValueError, match=said):
            form(jobs, TWO, policy)
