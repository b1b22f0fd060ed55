"""The contract of the node run: a workload through a policy on nodes with CPUs, memory and GPUs.

It stands between the replay, which counts processors alone, and the controller's own core, which has every rule and every
message. Node choice and EASY are the planner's (contract.py, rules 1 to 3 and 7), so that the core starts each job in the
same second on the same machine.

Rules
1. Jobs are numbered in the order of their submission; that order breaks all ties.
2. On a node a job with t tasks takes t CPUs rounded up to the node's quantum, its GPUs, and memory: mem_node_mb on each
   node (0 = all that the node has), else mem_cpu_mb for each CPU that it takes, else none. The number of tasks that a node
   can take is at most ntasks - nodes_min + 1, and exactly ntasks or nothing where nodes_max is 1.
3. Candidates are the nodes that can take a task, in node order (kind 0), most free CPUs first (kind 1), or fewest free
   GPUs first, of jobs without GPUs fewest free CPUs (kind 2). The shortest run from the first candidate on that has
   nodes_min nodes and room for ntasks is chosen; where nodes_max nodes have no such room, those with room for most tasks
   come first. The chosen nodes, in node order, are filled one after the other. Each leaves for each that follows as many
   tasks as its quantum, or as it has room for; but takes one.
4. At equal times: ends in the order of the starts, submissions, then one pass if there was any of them.
5. A pass starts heads, the first jobs in `order`, as long as they fit. EASY then reserves nodes for the first that does
   not fit, at the earliest expected end at which it fits, and tries the others in the order `candidates`: a job that ends
   by then may use what is free; another one only what is also free beside the reservation.
6. A job is expected to end at start + estimate, and one that is still running then within the next second.
7. Keys of orders, lowest first, with n = ntasks, r = the ranker's estimate, s = submit time, w = time waited:

       wfp3      -(w / r)^3 n                   (Tang, Lan, Desai, Buettner 2009)
       unicep    -w / (log2(n) r)               (the same; n = 1: log2(n) is taken as 2^-50)
       f1        log10(r) n + 870 log10(s)      (Carastan-Santos, de Camargo 2017; s at least 0.1)

   and those of replay_contract.py. The first two change with time: every pass sorts all jobs that wait.

8. An urgent job has 0 in the place of the ranker's estimate: it stands by its submit time alone in order aged, and before
   all others, by submission, in shortest and smallest-area. With all jobs urgent, these orders are that of arrival.

Deliberately absent: partitions, limits, priorities, preemption, topology, and conservative backfill: those need the core.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _fastsched import replay_contract as words
from _fastsched.replay_contract import ReplayPolicy

WFP3 = 5
UNICEP = 6
F1 = 7
NODE_ORDERS = {**words.ORDERS, "wfp3": WFP3, "unicep": UNICEP, "f1": F1}
F1_WEIGHT = 870.0
#: What stands for log2(1) in UNICEP, and for log10 of a submit time of 0 in F1.
LOG2_OF_ONE, SUBMIT_S_MIN = 2.0**-50, 0.1

#: The request of a job: its columns from here to the last but one.
REQUEST = slice(4, 10)

#: Numbers of CPUs, GPUs and tasks; of MB and of seconds, so that sums and keys are exact in 64 bits and in floats.
COUNT_MAX, LARGE_MAX = 2**31 - 1, 2**45

NODE_POLICIES = {
    **{name: policy for name, policy in words.POLICIES.items() if policy.backfill != words.CONSERVATIVE},
    "wfp3": ReplayPolicy(order=WFP3, backfill=words.EASY, candidates=WFP3),
    "unicep": ReplayPolicy(order=UNICEP, backfill=words.EASY, candidates=UNICEP),
    "f1": ReplayPolicy(order=F1, backfill=words.EASY, candidates=F1),
}
del NODE_POLICIES["easypp"]  # it corrects predicted ends, which rule 6 does not


class RunNodes(NamedTuple):
    """The machine, in node order."""

    cpus: NDArray[np.int32]
    mem_mb: NDArray[np.int64]
    gpus: NDArray[np.int32]
    quantum: NDArray[np.int32]  # CPUs are allocated in multiples of it
    kind: int = 0  # of rule 3


class RunJobs(NamedTuple):
    """The jobs, by submit time."""

    submit_s: NDArray[np.int64]
    run_s: NDArray[np.int64]
    estimate_s: NDArray[np.int64]
    user: NDArray[np.int32]
    ntasks: NDArray[np.int32]
    nodes_min: NDArray[np.int32]
    nodes_max: NDArray[np.int32]
    gpus: NDArray[np.int32]  # on each node
    mem_node_mb: NDArray[np.int64]  # -1 = not given
    mem_cpu_mb: NDArray[np.int64]  # -1 = not given
    urgent: NDArray[np.uint8]  # 1 = of rule 8


class NodeRun(NamedTuple):
    """The schedule: job j has the nodes node[first[j]:first[j + 1]]."""

    start_s: NDArray[np.int64]
    first: NDArray[np.int64]
    node: NDArray[np.int32]


_Numbered = tuple[NDArray[np.int64], NDArray[np.int64]]


def numbered(*columns: NDArray[np.int32] | NDArray[np.int64]) -> _Numbered:
    """Numbers the distinct rows of columns of numbers: (a row of each number, the number of each row)."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        if len(column) and (column != column[0]).any():
            _, value = np.unique(column, return_inverse=True)
            _, number = np.unique(number * (value.max() + 1) + value, return_inverse=True)
    _, first = np.unique(number, return_index=True)
    return first, number


def refuse(jobs: RunJobs, nodes: RunNodes, policy: ReplayPolicy) -> _Numbered:
    """Raises ValueError, with the first job that is at fault, for what no run can do. Returns the distinct requests."""
    orders = NODE_ORDERS.values()
    if policy.order not in orders or policy.candidates not in orders or nodes.kind not in (0, 1, 2):
        raise ValueError(f"not a policy of nodes: {policy}, {nodes.kind}")
    if policy.backfill not in (words.NONE, words.EASY) or policy.predictor != words.GIVEN:
        raise ValueError("jobs on nodes have backfill none or easy, and the given estimates for reservations")
    if policy.ranker not in words.PREDICTORS.values():
        raise ValueError(f"not a predictor: {policy.ranker}")
    if not (0 <= policy.aged_factor <= words.AGED_FACTOR_MAX and 0 <= policy.aged_max_s <= words.AGED_S_MAX):
        raise ValueError(f"aged_factor is 0 to {words.AGED_FACTOR_MAX}, aged_max_s 0 to {words.AGED_S_MAX}: {policy}")
    if len({column.shape for column in jobs}) != 1 or jobs.submit_s.ndim != 1:
        raise ValueError("columns of jobs of different lengths")
    if len({column.shape for column in nodes[:4]}) != 1 or nodes.cpus.ndim != 1 or not len(nodes.cpus):
        raise ValueError("columns of nodes of different lengths, or no node")
    if any((column < 0).any() or (column > LARGE_MAX).any() for column in nodes[:4]) or (nodes.quantum < 1).any():
        raise ValueError("a node has less than nothing, or more than can be counted")
    for broken, text in _rules(jobs):
        if broken.any():
            raise ValueError(f"job number {int(broken.argmax())} {text}")
    if jobs.urgent.any() and {policy.order, policy.candidates} & {WFP3, UNICEP, F1}:
        raise ValueError("no job is urgent in the orders wfp3, unicep and f1")
    requests = numbered(*jobs[REQUEST])
    missing = ~_fitting(requests, jobs, nodes)
    if missing.any():
        raise ValueError(f"job number {int(missing.argmax())} does not fit on the empty machine")
    return requests


def _rules(jobs: RunJobs) -> list[tuple[NDArray[np.bool_], str]]:
    times = np.stack([jobs.submit_s, jobs.run_s, jobs.estimate_s, jobs.mem_node_mb, jobs.mem_cpu_mb])
    too_large: NDArray[np.bool_] = times.max(axis=0, initial=0) > LARGE_MAX
    return [
        (np.diff(jobs.submit_s, prepend=jobs.submit_s[:1]) < 0, "is submitted before the job in front of it"),
        ((jobs.submit_s < 0) | (jobs.run_s < 0), "has a negative submit or run time"),
        (too_large, "has times or memory too large to be added up"),
        (jobs.estimate_s < 1, "has an estimate below 1 s"),
        ((jobs.ntasks < 1) | (jobs.gpus < 0) | (jobs.user < 0), "has no tasks, or a negative number"),
        (
            (jobs.nodes_min < 1) | (jobs.nodes_max < jobs.nodes_min) | (jobs.nodes_max > jobs.ntasks),
            "has numbers of nodes that contradict each other",
        ),
        ((jobs.mem_node_mb < -1) | (jobs.mem_cpu_mb < -1), "has a negative amount of memory"),
    ]


def fitting(jobs: RunJobs, nodes: RunNodes) -> NDArray[np.bool_]:
    """Which jobs fit on the empty machine."""
    return _fitting(numbered(*jobs[REQUEST]), jobs, nodes)


def _fitting(requests: _Numbered, jobs: RunJobs, nodes: RunNodes) -> NDArray[np.bool_]:
    """Tries each distinct request once."""
    first, number = requests
    distinct = zip(*(column[first].tolist() for column in jobs[REQUEST]), strict=True)
    return np.array([_fits(nodes, *row) for row in distinct], dtype=bool)[number]


def _fits(
    nodes: RunNodes, ntasks: int, nodes_min: int, nodes_max: int, gpus: int, mem_node_mb: int, mem_cpu_mb: int
) -> bool:
    """Rules 2 and 3 on the empty machine."""
    cpus, quantum = nodes.cpus.astype(np.int64), nodes.quantum.astype(np.int64)
    room = np.minimum(cpus // quantum * quantum, ntasks - nodes_min + 1)
    if mem_node_mb < 0 < mem_cpu_mb:
        room = np.minimum(room, nodes.mem_mb // mem_cpu_mb // quantum * quantum)
    room[(nodes.gpus < gpus) | (nodes.mem_mb < max(mem_node_mb, 0))] = 0
    if nodes_max == 1:
        return bool((room == ntasks).any())
    most = np.sort(room[room > 0])[::-1]
    return len(most) >= nodes_min and int(most[:nodes_max].sum()) >= ntasks
