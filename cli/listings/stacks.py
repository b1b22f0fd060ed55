"""Stacks of a step's tasks, taken by py-spy in steps of the same job: as its user, in its groups, with the caller's rights.

One step for each node runs py-spy for that node's tasks, one after the other. Tasks of the same program that wait for each
other are at the same place, so equal stacks are shown once, and the rarest first: that is the task they wait for.
"""

import re
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from cli.base.commandpath import how_to_run
from cli.listings.hangs import SeenTask
from penstock.values.counts import format_ranges
from penstock.values.text import clean_line

#: Tasks whose stacks are taken; lines of each that are kept.
STACKS_MAX: Final = 64
LINES_MAX: Final = 2000
#: For the tasks of one node: a process that hangs in the kernel gives none.
NODE_S: Final = 30
NODES_AT_ONCE: Final = 8
#: A line that no program can have guessed stands before each task's stacks.
_SCRIPT: Final = (
    'mark=$1; shift; for pid; do printf "%s %s\\n" "$mark" "$pid"; py-spy dump --nonblocking --pid "$pid" 2>&1; done'
)


class TaskStack(NamedTuple):
    """What py-spy said of a task, or why there is nothing."""

    task: SeenTask
    lines: tuple[str, ...]

    def place(self) -> tuple[str, ...]:
        """Where it is: the frames of its main thread; all that was said, without its numbers, if there are none."""
        inside = [
            number for number, line in enumerate(self.lines) if line.startswith("Thread ") and "MainThread" in line
        ]
        if not inside:
            return tuple(re.sub(r"\d+", "0", line) for line in self.lines)
        frames = self.lines[inside[0] + 1 :]
        ends = [number for number, line in enumerate(frames) if not line.startswith(" ")]
        return frames[: ends[0]] if ends else frames


def taken(job_id: int, tasks: Sequence[SeenTask]) -> list[TaskStack]:
    """Takes the stacks of these tasks. Blocks, with a limit for each node."""
    by_node: dict[str, list[SeenTask]] = {}
    for task in [task for task in tasks if task.pid][:STACKS_MAX]:
        by_node.setdefault(task.node, []).append(task)
    with ThreadPoolExecutor(NODES_AT_ONCE) as pool:
        found = list(pool.map(lambda node: _of_node(job_id, node, by_node[node]), by_node))
    return sorted((stack for stacks in found for stack in stacks), key=lambda stack: stack.task.state.rank)


def _of_node(job_id: int, node: str, tasks: Sequence[SeenTask]) -> list[TaskStack]:
    mark = secrets.token_hex(16)
    of_job = ["--jobid", str(job_id), "--overlap", "-Q", "-N1", "-n1", "-w", node]
    words = ["sh", "-c", _SCRIPT, "sh", mark, *(str(task.pid) for task in tasks)]
    command = [*how_to_run("srun"), *of_job, *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=NODE_S, check=False)
        output, why = done.stdout, done.stderr.decode("utf-8", "replace").strip() or "py-spy has failed"
    except subprocess.TimeoutExpired as error:
        output, why = error.stdout or b"", f"none within {NODE_S} s"
    return [
        TaskStack(task, lines or tuple(map(clean_line, why.splitlines())))
        for task, lines in _parted(output, mark, tasks)
    ]


def _parted(output: bytes, mark: str, tasks: Sequence[SeenTask]) -> Iterator[tuple[SeenTask, tuple[str, ...]]]:
    """Divides what the step of a node wrote; empty for a task of which it wrote nothing."""
    parts = {}
    for part in output.decode("utf-8", "replace").split(f"{mark} ")[1:]:
        pid, *lines = part.split("\n")[:LINES_MAX]
        parts[pid] = tuple(map(clean_line, "\n".join(lines).strip("\n").split("\n"))) if any(lines) else ()
    for task in tasks:
        yield task, parts.get(str(task.pid), ())


def grouped(stacks: Sequence[TaskStack]) -> list[list[TaskStack]]:
    """Puts tasks at the same place together, the rarest place first, and among equals that of the lowest rank."""
    places: dict[tuple[str, ...], list[TaskStack]] = {}
    for stack in stacks:
        places.setdefault(stack.place(), []).append(stack)
    return sorted(places.values(), key=lambda group: (len(group), group[0].task.state.rank))


def shown(groups: Sequence[Sequence[TaskStack]]) -> Iterator[str]:
    """The groups for people: the stacks of the first task of each."""
    for group in groups:
        first = group[0].task
        process = f"pid {first.pid} on {first.node}"
        ranks = format_ranges([stack.task.state.rank for stack in group])
        if len(group) == 1:
            yield f"  Stacks of task {ranks} ({process}):"
        else:
            yield f"  Stacks of tasks {ranks}, at the same place, as of task {first.state.rank} ({process}):"
        yield from (f"    {line}" for line in group[0].lines)
