"""What is compared of an answer: the normal form of both sides, which is what recorded.json keeps.

    said     refused, waits or runs
    told     lines on stderr, of sbatch or of the job's srun
    nodes    {node: [cpus, MB, GPUs]}
    env      SLURM_* variables of the batch script that speak of resources; lists of GPUs as their number
    ranks    of srun: [[node, first local id, GPUs of each], ...] by rank

Facts about our own jobs alone; job ids, paths and times are gone.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

REFUSED, WAITS, RUNS = "refused", "waits", "runs"
#: What says who and when, not what.
_ASIDE = re.compile(
    r"SLURM_(JOB_ID|JOBID|JOB_NAME|JOB_USER|JOB_UID|JOB_GID|JOB_GROUP|JOB_ACCOUNT|JOB_QOS|SUBMIT_\w+|CLUSTER_NAME|CONF|TASK_PID"
    r"|PRIO_PROCESS|NODE_ALIASES|WORKING_CLUSTER|TOPOLOGY_\w+|JOB_START_TIME|JOB_END_TIME|GTIDS|PROCID|LOCALID|NODEID"
    r"|RESTART_COUNT|EXPORT_ENV|NODELIST|JOBID|JOB_PARTITION|SCRIPT_CONTEXT|RLIMIT_\w+|UMASK|JOB_NUM_NODES|NPROCS)$"
)
_LISTS = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS")
_TIMED_OUT = (124, 137)


class Step(NamedTuple):
    """What an srun got."""

    said: str
    told: list[str]
    ranks: list[list[object]]


class Job(NamedTuple):
    """What a request got."""

    said: str
    told: list[str]
    nodes: dict[str, list[int]]
    env: dict[str, str]


def number_of(listed: str) -> int:
    """How many GPUs a list of them names."""
    return len(listed.split(",")) if listed and listed != "NoDevFiles" else 0


def environment(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of a batch script's variables those that are compared."""
    found = {}
    for name, value in sorted(pairs):
        if name in _LISTS:
            if number_of(value):
                found[name] = str(number_of(value))
        elif name.startswith("SLURM_") and not _ASIDE.match(name):
            found[name] = value
    return found


def lines(text: str) -> list[str]:
    """What was written on stderr, without numbers of jobs and steps, and how srun says that its task was killed."""
    text = re.sub(r"\b(job|Job|StepId=|JobId=) ?\d+(\.\d+)?", r"\1 N", text)
    kept = [line.rstrip() for line in text.splitlines()]
    return [line for line in kept if line and "launch/slurm" not in line]


def ranks(each: Mapping[int, tuple[str, int, int]]) -> list[list[object]]:
    """By rank: node, local id, GPUs."""
    return [list(each[rank]) for rank in sorted(each)]


def of_said(said: str) -> tuple[dict[str, list[int]], dict[str, str], list[Step]]:
    """What a job or its steps wrote (probe.py)."""
    nodes: dict[str, list[int]] = {}
    env: list[tuple[str, str]] = []
    steps: list[Step] = []
    tasks: dict[int, tuple[str, int, int]] = {}
    status = 0
    errors: list[str] = []

    def close() -> None:
        waits = status in _TIMED_OUT
        steps.append(Step(WAITS if waits else REFUSED if not tasks else RUNS, [] if waits else lines("\n".join(errors)), [] if waits else ranks(tasks)))  # fmt: skip

    begun = False
    for line in said.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "E":
            name, _, value = rest.partition("=")
            env.append((name, value))
        elif kind == "J":
            nodes = nodes_of(rest)
        elif kind == "S":
            if begun:
                close()
            begun, tasks, errors, status = True, {}, [], 0
        elif kind == "R":
            rank, node, local, *gpus = rest.split()
            tasks[int(rank)] = (node, int(local), number_of(gpus[0] if gpus else ""))
        elif kind == "X":
            begun, status = True, int(rest)
        elif kind == "F":
            errors.append(rest)
    if begun:
        close()
    return nodes, environment(env), steps


def nodes_of(text: str) -> dict[str, list[int]]:
    """From the line of scontrol show job -d."""
    found = {}
    for names, cpus, mem, gres in re.findall(r" Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(\S*)", text):
        gpus = sum(int(n) for n in re.findall(r"gpu[^(]*:(\d+)\(", gres))
        for name in expanded(names):
            found[name] = [count(cpus), int(mem), gpus]
    return found


def count(ids: str) -> int:
    """Numbers in `0-2,5`."""
    return sum(int(last or first) - int(first) + 1 for first, last in re.findall(r"(\d+)(?:-(\d+))?", ids))


def expanded(names: str) -> list[str]:
    """`n[1-2]` as n1, n2."""
    match = re.fullmatch(r"n\[(\S+)\]", names)
    if match is None:
        return names.split(",")
    return [
        f"n{number}"
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", match[1])
        for number in range(int(first), int(last or first) + 1)
    ]


def of_raw(status: int, err: str, reason: str, said: str) -> tuple[Job, list[Step]]:
    """The reference's answer (slurm.py)."""
    if status:
        return Job(REFUSED, lines(err), {}, {}), []
    if reason:
        return Job(WAITS, [*lines(err), f"({reason})"], {}, {}), []
    nodes, env, steps = of_said(said)
    return Job(RUNS, lines(err), nodes, env), steps
