"""Stacks of a step's tasks, taken by py-spy in steps of the same job: as its user, in its groups, with the caller's rights.

One step for each node runs py-spy for that node's tasks, one after the other. Tasks of the same program that wait for each
other are at the same place, so equal stacks are shown once, and the rarest first: that is the task they wait for.
"""

import os
import re
import secrets
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from cli.base.commandpath import how_to_run
from cli.listings.hangs import SeenTask
from penstock.values.counts import format_ranges
from penstock.values.text import clean_line

#: Tasks whose stacks are taken; bytes that are read and lines that are kept of each.
STACKS_MAX: Final = 64
TASK_BYTES_MAX: Final = 256 * 1024
LINES_MAX: Final = 2000
#: Bytes of why a node gives none.
WHY_BYTES_MAX: Final = 16 * 1024
#: For the tasks of one node: a process that hangs in the kernel gives none.
NODE_S: Final = 30
NODES_AT_ONCE: Final = 8
#: A line that no program can have guessed stands before each task's stacks. What follows the bytes that are sent is read, too:
#: py-spy ends by itself.
_SCRIPT: Final = """\
mark=$1; most=$2; shift 2
for pid; do
  printf "%s %s\\n" "$mark" "$pid"
  py-spy dump --nonblocking --pid "$pid" 2>&1 | { head -c "$most"; cat >/dev/null; }
done
"""
_BLOCK_BYTES: Final = 64 * 1024


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


class ProgramOutput(NamedTuple):
    """What a program wrote, both as far as it is kept; and whether it had ended in time."""

    output: bytes
    errors: bytes
    has_ended: bool


def _of_node(job_id: int, node: str, tasks: Sequence[SeenTask]) -> list[TaskStack]:
    mark = secrets.token_hex(16)
    of_job = ["--jobid", str(job_id), "--overlap", "-Q", "-N1", "-n1", "-w", node]
    words = ["sh", "-c", _SCRIPT, "sh", mark, str(TASK_BYTES_MAX + 1), *(str(task.pid) for task in tasks)]
    head_bytes = len(f"{mark} \n") + 20  # of the line before a task's stacks, with the digits of its process
    said = run_bounded([*how_to_run("srun"), *of_job, *words], len(tasks) * (TASK_BYTES_MAX + 1 + head_bytes))
    why = said.errors.decode("utf-8", "replace").strip() or "py-spy has failed"
    if not said.has_ended:
        why = f"none within {NODE_S} s"
    return [
        TaskStack(task, lines or tuple(map(clean_line, why.splitlines())))
        for task, lines in _parted(said.output, mark, tasks)
    ]


def run_bounded(command: Sequence[str], bytes_max: int) -> ProgramOutput:
    """Runs a program for NODE_S at most. What it writes beyond `bytes_max` is read and dropped, so that it can end."""
    end_s = time.monotonic() + NODE_S
    kept = bytearray(), bytearray()
    with (
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program,
        selectors.DefaultSelector() as selector,
    ):
        assert program.stdout is not None and program.stderr is not None
        selector.register(program.stdout.fileno(), selectors.EVENT_READ, (kept[0], bytes_max))
        selector.register(program.stderr.fileno(), selectors.EVENT_READ, (kept[1], WHY_BYTES_MAX))
        while selector.get_map() and (left_s := end_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                block = os.read(key.fd, _BLOCK_BYTES)
                if not block:
                    selector.unregister(key.fd)
                found, most = key.data
                found += block[: most - len(found)]
        has_ended = not selector.get_map()
        if not has_ended:
            program.kill()
    return ProgramOutput(bytes(kept[0]), bytes(kept[1]), has_ended)


def _parted(output: bytes, mark: str, tasks: Sequence[SeenTask]) -> Iterator[tuple[SeenTask, tuple[str, ...]]]:
    """Divides what the step of a node wrote; empty for a task of which it wrote nothing."""
    parts = {}
    for part in output.split(f"{mark} ".encode())[1:]:
        pid, _, text = part.partition(b"\n")
        parts[pid.decode("utf-8", "replace")] = _lines(text)
    for task in tasks:
        yield task, parts.get(str(task.pid), ())


def _lines(text: bytes) -> tuple[str, ...]:
    """The lines that are kept of a task, and a last one that says so if there were more."""
    lines = text[:TASK_BYTES_MAX].decode("utf-8", "replace").strip("\n").split("\n")
    kept = tuple(map(clean_line, lines[:LINES_MAX])) if any(lines) else ()
    if len(text) <= TASK_BYTES_MAX and len(lines) <= LINES_MAX:
        return kept
    return (*kept, f"(the rest is left out: of each task {LINES_MAX} lines and {TASK_BYTES_MAX // 1024} KiB at most)")


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
