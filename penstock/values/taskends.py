"""How the tasks of a step ended: groups of tasks on one node that ended alike.

A node reports those of its tasks that did not end with 0 (`reported`), so a step that goes well costs nothing. The controller
keeps the groups of all nodes with the step's record (ctld/core/steps/task_ends.py). Both keep to bounds, and count the
tasks that do not fit.
"""

import signal
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.values.taskset import TaskSet

#: Bounds of one node's report: groups, and characters of all their ranks.
GROUPS_MAX: Final = 64
RANKS_CHARS_MAX: Final = 4096
#: The signals that end the tasks of a step that is being ended, by their place behind others.
_KILLED: Final = {int(signal.SIGKILL): 1, int(signal.SIGTERM): 2}
#: Of a wait status: the signal. The exit code is above them, and the bit of a core file.
_SIGNAL_BITS: Final = 0x7F
#: Of a sentence: groups, and characters of the ranks of one.
_SAID_GROUPS: Final = 3
_SAID_CHARS: Final = 60


class EndKind(IntEnum):
    """What is known of an end. Numbers are those of the wire's TaskEnds.Kind."""

    EXITED = 0
    UNKNOWN = 1  # the node was lost, or has not said
    NOT_STARTED = 2


class EndGroup(NamedTuple):
    """Tasks of one node that ended alike. `ranks` is a TaskSet as text, `0-3,8`; `code` and `signal` are of EXITED."""

    node: str
    kind: EndKind
    code: int
    signal: int
    ranks: str


def reported(ends: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, int, str]], int]:
    """What a node reports of its tasks, given as (rank, wait status): groups of those that did not end with 0, as (exit code,
    signal, ranks), lowest ranks first; and the number of tasks that do not fit."""
    by_status: dict[int, list[int]] = {}
    for rank, status in ends:
        if status:
            by_status.setdefault(status, []).append(rank)
    groups: list[tuple[int, int, str]] = []
    room, left_out = RANKS_CHARS_MAX, 0
    for status, ranks in sorted(by_status.items(), key=lambda item: min(item[1])):
        text, cut = within(TaskSet.of(ranks), room if len(groups) < GROUPS_MAX else 0)
        left_out += cut
        if text:
            signum = status & _SIGNAL_BITS
            groups.append((0 if signum else status >> 8, signum, text))
            room -= len(text)
    return groups, left_out


def within(ranks: TaskSet, room: int) -> tuple[str, int]:
    """Returns as many of the ranks as have room in so many characters, as text, and the number of the others."""
    text = ranks.format()
    if len(text) <= room:
        return text, 0
    text = text[: room + 1].rpartition(",")[0]  # an item that is cut is another one
    return text, len(ranks) - len(TaskSet.parse(text))


def in_order(groups: Iterable[EndGroup]) -> list[EndGroup]:
    """Sorts groups: first the tasks that ended by themselves, which are rarely those that SIGKILL and SIGTERM have ended."""
    return sorted(groups, key=lambda one: (_place(one), int(one.ranks.split(",")[0].split("-")[0]), one.node))


def _place(group: EndGroup) -> int:
    return len(_KILLED) + group.kind if group.kind is not EndKind.EXITED else _KILLED.get(group.signal, 0)


def sentence(groups: Sequence[EndGroup], left_out: int, tasks: int) -> str:
    """Says how the tasks of a step ended, in the order of the groups: `tasks 5,7 on n2 ended with signal 9 (of 1,000 tasks)`."""
    said = [_said(one) for one in groups[:_SAID_GROUPS]]
    more = left_out + sum(len(TaskSet.parse(one.ranks)) for one in groups[_SAID_GROUPS:])
    if more:
        said.append(f"{more:,} more did not end with 0" if said else f"{more:,} tasks did not end with 0")
    return f"{'; '.join(said)} (of {tasks:,} tasks)"


def _said(group: EndGroup) -> str:
    ranks = TaskSet.parse(group.ranks)
    text, cut = within(ranks, _SAID_CHARS)
    word = "task" if len(ranks) == 1 else "tasks"
    return f"{word} {text}{f' and {cut:,} more' if cut else ''} on {group.node} {end_text(group)}"


def end_text(group: EndGroup) -> str:
    """How the tasks of a group ended, in words."""
    if group.kind is EndKind.NOT_STARTED:
        return "did not start"
    if group.kind is EndKind.UNKNOWN:
        return "ended in an unknown way"
    return f"ended with signal {group.signal}" if group.signal else f"ended with exit code {group.code}"
