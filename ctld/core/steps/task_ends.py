"""How the tasks of a step ended, as it is stored with the step: the groups of all nodes, within bounds.

Each node's part ends once, and its tasks are added then; a report that is repeated is of a part that has ended, and adds
nothing. Tasks that ended with 0 are not kept, so a step all of whose tasks did has nothing to store. Nor has a step of one
task: its end is the step's.

Kept as JSON: [[[node, kind, exit code, signal, ranks], ...], number of tasks that did not fit], or "". What a node says is
believed of its own tasks alone.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from ctld.core.records.events import StepExited
from ctld.core.records.step import SpreadStep, StepPart
from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.states import JobState
from penstock.values.taskends import GROUPS_MAX, RANKS_CHARS_MAX, EndGroup, EndKind, within
from penstock.values.taskset import TaskSet

#: Bounds of a step: groups, and characters of their nodes and ranks.
STORED_GROUPS_MAX: Final = 100
STORED_CHARS_MAX: Final = 4096
#: Cost of reading one node's ranks (penstock/values/allowance.py): a millisecond or two. Ours interleave nowhere.
READ_ALLOWANCE: Final = 4_000
EXIT_CODE_MAX: Final = 255
SIGNAL_MAX: Final = 127

_Ends = tuple[tuple[EndGroup, ...], int]  # groups, and the number of tasks that are in none of them

_decode = msgspec.json.Decoder(tuple[tuple[tuple[str, int, int, int, str], ...], int]).decode
_encode = msgspec.json.Encoder().encode


def decode(text: str) -> _Ends:
    """Decodes what is stored."""
    if not text:
        return (), 0
    groups, left_out = _decode(text)
    return tuple(
        EndGroup(node, EndKind(kind), code, signal, ranks) for node, kind, code, signal, ranks in groups
    ), left_out


def with_part(step: SpreadStep, part: StepPart, event: StepExited | None = None) -> str:
    """Returns what is stored of the step after the end of one more part. `event`: the node's report, if there is one."""
    if step.request is None or step.tasks <= 1 or part.state is JobState.COMPLETED:
        return step.task_ends
    own = TaskSet.of(part.ranks)
    if event is None or not part.start_at_us:
        was_lost = part.state is JobState.NODE_FAIL
        found: list[_Found] = [(EndKind.UNKNOWN if was_lost else EndKind.NOT_STARTED, 0, 0, own)]
        left_out = 0
    else:
        found, left_out = _reported(own, event)
    return _added(step.task_ends, part.node, found, left_out)


_Found = tuple[EndKind, int, int, TaskSet]  # kind, exit code, signal, ranks


def _reported(own: TaskSet, event: StepExited) -> tuple[list[_Found], int]:
    """What a node says of its tasks, as far as it can be true. A node of an earlier release says nothing."""
    found: list[_Found] = []
    rest = own
    room = RANKS_CHARS_MAX
    allowance = Allowance(READ_ALLOWANCE)
    is_read = len(event.task_ends) <= GROUPS_MAX
    for code, signal, text in event.task_ends[:GROUPS_MAX]:
        room -= len(text)
        try:
            ranks = TaskSet.parse(text if room >= 0 else "?", allowance).intersect(rest)
        except BadValue:
            is_read = False
            break
        code, signal = min(max(code, 0), EXIT_CODE_MAX), min(max(signal, 0), SIGNAL_MAX)
        if ranks and (code or signal):
            found.append((EndKind.EXITED, code, signal, ranks))
            rest = rest.minus(ranks)
    left_out = min(max(event.task_ends_left_out, 0), len(rest))
    if not is_read or not (found or left_out or event.out_of_memory):
        return [*found, (EndKind.UNKNOWN, 0, 0, rest)], 0
    return found, left_out


def _added(text: str, node: str, found: Iterable[_Found], left_out: int) -> str:
    groups, left_before = decode(text)
    kept, left_out = list(groups), left_before + left_out
    room = STORED_CHARS_MAX - sum(len(one.node) + len(one.ranks) for one in kept)
    for kind, code, signal, ranks in found:
        fits = len(kept) < STORED_GROUPS_MAX and room > len(node)
        ranks_text, cut = within(ranks, room - len(node) if fits else 0)
        left_out += cut
        if ranks_text:
            kept.append(EndGroup(node, kind, code, signal, ranks_text))
            room -= len(node) + len(ranks_text)
    return _encode((kept, left_out)).decode() if kept or left_out else ""
