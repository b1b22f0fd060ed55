"""A part of a running step's output, from the first of its nodes: its supervisor reads the file as the job's user.

An answer is another machine's: what it must not be is refused.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from cli.base.queryclient import QueryClient
from cli.base.stepids import is_live
from cli.listings.livesteps import answer_of_first
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import StepInfo
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP
from penstock.values.outputtail import (
    AT,
    DATA,
    ERROR,
    FROM_END,
    IS_DENIED,
    PATH,
    SIZE,
    TAIL,
    TAIL_BYTES_MAX,
    last_lines,
    question,
    whole_text,
)
from penstock.values.refusals import TEXT, Code
from penstock.values.text import clean_line

#: How long after its end a batch script is asked.
ENDED_S: Final = 30
_TEXT_CHARS_MAX: Final = 8192


class OutputPart(NamedTuple):
    """A part of an output file. `text` stands for the bytes from `offset` to `next_offset`, of `size` that the file had."""

    node: str
    path: str
    text: str
    offset: int
    next_offset: int
    size: int


class NoOutput(Exception):
    """There is none now; the text is a sentence."""


def output_step(steps: Sequence[StepInfo], now_us: int) -> StepInfo | None:
    """The step whose output is the job's: the batch script, else the first that runs. One that has ended a moment ago counts,
    if it is the batch script: its supervisor may still answer.
    """
    since_us = now_us - ENDED_S * 1_000_000
    known = [step for step in steps if step.step_id != EXTERN_STEP]
    batch = [step for step in known if step.step_id == BATCH_STEP and (is_live(step) or step.end_at_us > since_us)]
    return next(iter(batch or [step for step in known if is_live(step)]), None)


def output_part(
    client: QueryClient, job_id: int, step_id: int, stream: int, offset: int | None, lines: int, limit_s: float
) -> OutputPart:
    """The part from `offset` on; without one the end of the file: whole lines, the last `lines` of them, 0: all that are read.
    Raises PenstockError, and NoOutput.
    """
    word = question(stream, FROM_END if offset is None else offset)
    node, found, reason = answer_of_first(client, job_id, step_id, word, limit_s)
    if not found:
        raise NoOutput(
            f"node {node}: {reason}" if reason else f"node {node}: the step is of an earlier version of Penstock"
        )
    if ERROR in found:
        if IS_DENIED in found:
            raise PenstockError(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        raise NoOutput(f"node {node}: {clean_line(str(found[ERROR])[:_TEXT_CHARS_MAX])}")
    path, at, size, data = (found.get(name) for name in (PATH, AT, SIZE, DATA))
    if not (isinstance(path, str) and isinstance(at, int) and isinstance(size, int) and isinstance(data, bytes)):
        raise NoOutput(f"node {node}: its answer to {TAIL} cannot be read")
    if at < 0 or size < 0 or len(data) > TAIL_BYTES_MAX:
        raise NoOutput(f"node {node}: its answer to {TAIL} cannot be read")
    kept = data if offset is not None else last_lines(data, at == 0, lines)
    text, used = whole_text(kept)
    begin = at + len(data) - len(kept)
    return OutputPart(node, path[:_TEXT_CHARS_MAX], text, begin, begin + used, size)
