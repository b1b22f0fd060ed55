"""Requests: lines of resource options, drawn from a grammar with a seed.

Most are what users write: one to four choices, each from a table of words with weights. Some contradict themselves or ask for
more than there is, since refusals are compared, too.
"""

import random
import re
from collections.abc import Sequence
from typing import NamedTuple


class Choice(NamedTuple):
    """One thing that a line may say."""

    weight: int
    words: Sequence[str]


N = Choice
#: What a job says of its size.
SIZE = (
    N(14, ("-N1", "-N1", "-N2", "-N2", "-N2", "-N2", "-N1-2", "-N1-2", "-N2-4", "-N1-4", "-N3")),
    N(20, tuple(f"-n{n}" for n in (1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8, 8, 10, 12, 16, 17))),
    N(16, tuple(f"-c{n}" for n in (1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8, 16))),
    N(12, tuple(f"--ntasks-per-node={n}" for n in (1, 1, 2, 2, 2, 3, 4, 4, 5, 8))),
)
#: What else it may say of CPUs and of the inside of nodes.
INSIDE = (
    N(3, tuple(f"--ntasks-per-core={n}" for n in (1, 1, 2))),
    N(4, tuple(f"--ntasks-per-socket={n}" for n in (1, 2, 2, 4))),
    N(4, ("--hint=nomultithread", "--hint=nomultithread", "--hint=compute_bound", "--hint=memory_bound", "--hint=multithread")),
    N(4, ("--threads-per-core=1", "--threads-per-core=1", "--threads-per-core=2")),
    N(2, ("--sockets-per-node=1", "--sockets-per-node=2", "--sockets-per-node=3")),
    N(2, ("--cores-per-socket=2", "--cores-per-socket=4", "--cores-per-socket=5")),
    N(2, ("-B2", "-B1:4", "-B2:4", "-B2:4:1", "-B2:4:2", "-B4")),
    N(4, tuple(f"--mincpus={n}" for n in (2, 4, 4, 6, 8, 12, 20))),
    N(6, ("-O",)),
)  # fmt: skip
MEMORY = (
    N(10, tuple(f"--mem={mb}" for mb in ("0", "100", "1000", "1G", "4000", "8000", "12000", "16000", "20000"))),
    N(8, tuple(f"--mem-per-cpu={mb}" for mb in ("10", "50", "100", "200", "500", "1000", "1G", "2000", "9000"))),
)
GPUS = (
    N(10, tuple(f"--gres=gpu{of}" for of in ("", ":1", ":1", ":2", ":2", ":3", ":4", ":a:1", ":a:2", ":b:1"))),
    N(10, ("-G1", "-G1", "-G2", "-G2", "-G3", "-G4", "-G4", "-G5", "-G6", "-G8", "-Ga:2")),
    N(8, tuple(f"--gpus-per-node={n}" for n in ("1", "1", "2", "2", "3", "4", "a:2", "b:2"))),
    N(8, tuple(f"--gpus-per-task={n}" for n in ("1", "1", "1", "2", "2", "4", "a:1"))),
)
#: What is said only of GPUs; now and then without any.
PER_GPU = (
    N(6, tuple(f"--cpus-per-gpu={n}" for n in (1, 2, 2, 3, 4))),
    N(5, tuple(f"--mem-per-gpu={mb}" for mb in ("100", "1000", "2000", "4000"))),
    N(5, tuple(f"--ntasks-per-gpu={n}" for n in (1, 1, 2, 4))),
    N(1, ("--gpus-per-socket=1 --sockets-per-node=1", "--gpus-per-socket=1 --sockets-per-node=2", "--gpus-per-socket=2")),
)  # fmt: skip
WHERE = (
    N(4, ("-w n1", "-w n2", "-w n1,n2", "-w n[1-2]", "-w n3", "-w n3,n4", "-w n9")),
    N(3, ("-x n1", "-x n2", "-x n1,n2", "-x n3", "-x n4")),
    N(4, ("-C one", "-C odd", "-C even", "-C 'one&odd'", "-C 'odd|even'", "-C two", "-C '[odd|even]'", "-C nothing", "-C 'odd*1&even*1'")),
    N(2, ("--tmp=100", "--tmp=400", "--tmp=600", "--tmp=2000")),
    N(1, ("--contiguous",)),
)  # fmt: skip
MANNER = (
    N(8, ("--exclusive", "--exclusive", "--exclusive=user")),
    N(4, ("-s",)),
    N(9, tuple(f"-m {how}" for how in ("block", "cyclic", "cyclic", "block:cyclic", "cyclic:block", "plane=2", "plane=3", "*,pack", "block,nopack", "arbitrary"))),
    N(3, ("--spread-job",)),
    N(3, ("--use-min-nodes",)),
    N(2, ("-t 5", "-t 20", "-t 2:00:00", "-t 0")),
)  # fmt: skip
PARTITIONS = Choice(
    0,
    ("",) * 15 + ("-p ht",) * 5 + ("-p all",) * 2 + ("-p excl",) * 2 + ("-p yes", "-p force", "-p small", "-p main,ht"),
)
#: How often a line says so many of each group.
GROUPS = (
    (SIZE, (1, 5, 7, 2)),
    (INSIDE, (7, 2)),
    (MEMORY, (5, 3)),
    (GPUS, (9, 10, 1)),
    (WHERE, (9, 1)),
    (MANNER, (5, 2)),
)
PER_GPU_SHARE, PER_GPU_SHARE_WITHOUT = 0.35, 0.01
#: Of the lines that plainly contradict themselves or ask for too much so many are kept.
IMPLAUSIBLE_SHARE = 0.12
#: Nodes of each partition, and CPUs and GPUs of one.
SIZES = {"": (2, 8, 4), "ht": (2, 16, 2), "all": (4, 8, 2), "small": (1, 8, 4)}
CONTRARY = (
    ("--cpus-per-gpu", "-c"), ("--mem-per-gpu", "--mem"), ("--ntasks-per-gpu", "--ntasks-per-node"),
    ("--ntasks-per-gpu", "--gpus-per-task"), ("--gres", "--gpus-per-node"),
)  # fmt: skip

#: Jobs in which steps are asked for.
JOBS = (
    "-N1 -n4", "-N2 -n4", "-N2 -n8 -c2", "-N2 --ntasks-per-node=4", "-N2 --exclusive --mem=0", "-n6", "-N2 -n4 --gres=gpu:2",
    "-N2 -n4 --gpus-per-task=1", "-N1 -n4 -G4", "-N2 -G8 -n8", "-N1 --exclusive --gres=gpu:4 --mem=0", "-N2 -n16 --mem=8000",
    "-N2 -n8 --mem-per-cpu=500", "-p ht -N2 -n8 -c2", "-p ht -N2 --exclusive --gres=gpu:2 --mem=0", "-p ht -n8", "-N2 -n3 --gres=gpu:1",
    "-N1 -c8", "-N2 -c4 --gres=gpu:4", "-N2 -n10",
)  # fmt: skip
STEP_SIZE = (
    N(10, ("-n1", "-n1", "-n2", "-n2", "-n3", "-n4", "-n4", "-n5", "-n8", "-n16", "-n20")),
    N(7, ("-c1", "-c1", "-c2", "-c2", "-c3", "-c4", "-c8")),
    N(7, ("-N1", "-N1", "-N2", "-N2", "-N1-2", "-N3")),
    N(5, tuple(f"--ntasks-per-node={n}" for n in (1, 2, 4, 8))),
)
STEP_MANNER = (
    N(6, ("--exact",)),
    N(3, ("--overlap",)),
    N(3, ("--exclusive",)),
    N(2, ("-O",)),
    N(2, ("--cpu-bind=none",)),
    N(
        6,
        tuple(
            f"-m {how}" for how in ("block", "cyclic", "cyclic", "plane=2", "block:block", "cyclic:cyclic", "*,pack")
        ),
    ),
    N(1, ("--threads-per-core=1",)),
    N(1, ("--use-min-nodes",)),
    N(1, ("--whole",)),
)
STEP_WHERE = (
    N(3, ("-w n1", "-w n2", "-w n1,n2", "-w n3", "-w n4")),
    N(3, ("-x n1", "-x n2", "-x n3")),
    N(3, ("-r0", "-r1", "-r2")),
)
STEP_MEMORY = (
    N(3, ("--mem=0", "--mem=50", "--mem=100", "--mem=400", "--mem=9000")),
    N(2, ("--mem-per-cpu=50", "--mem-per-cpu=100", "--mem-per-cpu=1000")),
)
STEP_GPUS = (
    N(3, ("--gres=gpu:1", "--gres=gpu:2", "--gres=gpu:4", "--gres=none")),
    N(3, ("-G1", "-G2", "-G3", "-G4", "-G8")),
    N(3, ("--gpus-per-task=1", "--gpus-per-task=1", "--gpus-per-task=2")),
    N(2, ("--gpus-per-node=1", "--gpus-per-node=2")),
    N(1, ("--ntasks-per-gpu=1", "--ntasks-per-gpu=2")),
)
STEP_GROUPS = (
    (STEP_SIZE, (1, 5, 4, 1)),
    (STEP_MANNER, (3, 3, 1)),
    (STEP_WHERE, (6, 1)),
    (STEP_MEMORY, (7, 1)),
    (STEP_GPUS, (5, 2)),
)
STEPS_A_JOB = 25


def _some(rng: random.Random, groups: tuple[tuple[tuple[Choice, ...], tuple[int, ...]], ...]) -> list[str]:
    words: list[str] = []
    for choices, counts in groups:
        left = list(choices)
        for _ in range(rng.choices(range(len(counts)), counts)[0]):
            found = rng.choices(left, [choice.weight for choice in left])[0]
            left.remove(found)
            words.append(rng.choice(found.words))
    return words


def is_plausible(line: str) -> bool:
    """False when a look at the numbers tells that nobody means it."""
    said = re.findall(r"(--?[a-zA-Z][a-z-]*)[= ]?(\S*)", line)
    values = {name: value for name, value in said}
    nodes, cpus, gpus = SIZES.get(values.get("-p", ""), SIZES[""])

    def number(name: str, default: int = 0) -> int:
        text = re.findall(r"\d+", values.get(name, ""))
        return int(text[0]) if text else default

    each, tasks, per_node = number("-c", 1), number("-n"), number("--ntasks-per-node")
    least = number("-N", 1)
    of_task, of_node = number("--gpus-per-task"), max(number("--gpus-per-node"), number("--gres"))
    if any(a in values and any(name.startswith(b) and name != a for name in values) for a, b in CONTRARY):
        return False
    if (
        least > nodes
        or each > cpus
        or per_node * each > cpus
        or tasks * each > nodes * cpus
        or number("--mincpus") > cpus
    ):
        return False
    if per_node and tasks > per_node * (least if "-N" in values and "-" not in values["-N"] else nodes):
        return False
    if per_node and tasks and tasks < per_node:
        return False
    if (
        of_node > gpus
        or max(number("-G"), tasks * of_task) > gpus * nodes
        or (of_task and not (tasks or "-G" in values))
    ):
        return False
    if ("-G" in values and number("-G") < least) or max(tasks, per_node, least) * of_task > gpus * nodes:
        return False
    return not ("arbitrary" in line and "-w" not in values)


def request(rng: random.Random) -> str:
    """A line of sbatch's options."""
    line = _request(rng)
    while not is_plausible(line) and rng.random() > IMPLAUSIBLE_SHARE:
        line = _request(rng)
    return line


def _request(rng: random.Random) -> str:
    words = _some(rng, GROUPS)
    has_gpus = any(word.startswith(("--gres", "-G", "--gpus")) for word in words)
    if rng.random() < (PER_GPU_SHARE if has_gpus else PER_GPU_SHARE_WITHOUT):
        words.append(rng.choice(rng.choices(PER_GPU, [choice.weight for choice in PER_GPU])[0].words))
    words.append(rng.choice(PARTITIONS.words))
    return " ".join(filter(None, words))


def requests(seed: int, count: int) -> list[str]:
    """So many different lines."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[request(rng)] = None
    return list(found)


def steps(seed: int, count: int) -> list[tuple[str, list[str]]]:
    """Jobs, and the steps that are asked for in them one after the other."""
    rng = random.Random(seed)
    found = []
    for number in range(-(-count // STEPS_A_JOB)):
        lines: dict[str, None] = {}
        while len(lines) < min(STEPS_A_JOB, count - number * STEPS_A_JOB):
            lines[" ".join(_some(rng, STEP_GROUPS))] = None
        found.append((JOBS[number % len(JOBS)], list(lines)))
    return found
