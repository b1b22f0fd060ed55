"""A part of a step's output: of a running step from its supervisor, else from a process on a node that had the job. Both read
the file as the job's user.

An answer is another machine's: what it must not be is refused.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cli.base.queryclient import QueryClient
from cli.base.stepids import attach, is_live
from cli.listings.livesteps import NodeAnswers, answers_of
from penstock.errors import PenstockError
from penstock.v1.steps_pb2 import AttachStepReply, OpenOutputRequest, StepInfo
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


class OutputBytes(NamedTuple):
    """A part of an output file: its bytes from `offset` on, of `size` that the file had."""

    node: str
    path: str
    data: bytes
    offset: int
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


class OutputQuestion(NamedTuple):
    """A part of the output of a task, None: of the step's first one. `offset`: from there on; None: the end of the file, whole
    lines, the last `lines` of them, 0: all that are read."""

    job_id: int
    step_id: int
    task: int | None
    stream: int
    offset: int | None
    lines: int


def writes_in_client(step: StepInfo) -> bool:
    """Whether the srun that started the step writes its output to a file, in a batch script."""
    return bool(step.spec.client_out) and not (step.spec.std_out or step.spec.std_err)


def live_part(client: QueryClient, asked: OutputQuestion, limit_s: float) -> OutputPart:
    """A part of the output of a running step, of the step's supervisor. Raises PenstockError, and NoOutput."""
    attached = attach(client, asked.job_id, asked.step_id)
    word = question(asked.stream, FROM_END if asked.offset is None else asked.offset, asked.task)
    return _part(_first(answers_of(client, attached, [word], limit_s, asked.task)), asked)


def opened_part(client: QueryClient, asked: OutputQuestion, limit_s: float) -> OutputPart:
    """A part of a file of the job's record, of a process of the user's on a node that had the job. Raises PenstockError, and
    NoOutput."""
    offset = FROM_END if asked.offset is None else asked.offset
    return _part(opened_bytes(client, asked, [offset], limit_s)[0], asked)


def opened_bytes(
    client: QueryClient, asked: OutputQuestion, offsets: Sequence[int], limit_s: float
) -> list[OutputBytes]:
    """Parts of such a file, of one process there: of QUESTIONS_MAX offsets at most, those that could be had; the first is among
    them. Raises PenstockError, and NoOutput."""
    request = OpenOutputRequest(job_id=asked.job_id, step_id=asked.step_id, task=asked.task or 0)
    try:
        attached: AttachStepReply = client.call("OpenOutput", request)
    except PenstockError as error:
        if error.code == Code.INVALID_STEP:
            raise NoOutput(error.text) from None
        raise
    words = [question(asked.stream, offset) for offset in offsets]
    answers = answers_of(client, attached, words, limit_s)
    parts = [_first(answers)]
    with contextlib.suppress(NoOutput):  # the next question for it gets the reason
        parts += [_bytes(answers.node, found) for found in answers.found[1:]]
    return parts


def _first(answers: NodeAnswers) -> OutputBytes:
    if not answers.found or not answers.found[0]:
        said = f"node {answers.node}: " if answers.node else ""
        raise NoOutput(f"{said}{answers.reason or 'the step is of an earlier version of Penstock'}")
    return _bytes(answers.node, answers.found[0])


def _bytes(node: str, found: Mapping[str, object]) -> OutputBytes:
    said = f"node {node}: "
    if ERROR in found:
        if IS_DENIED in found:
            raise PenstockError(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        raise NoOutput(f"{said}{clean_line(str(found[ERROR])[:_TEXT_CHARS_MAX])}")
    path, at, size, data = (found.get(name) for name in (PATH, AT, SIZE, DATA))
    if not (isinstance(path, str) and isinstance(at, int) and isinstance(size, int) and isinstance(data, bytes)):
        raise NoOutput(f"{said}its answer to {TAIL} cannot be read")
    if at < 0 or size < 0 or len(data) > TAIL_BYTES_MAX:
        raise NoOutput(f"{said}its answer to {TAIL} cannot be read")
    return OutputBytes(node, path[:_TEXT_CHARS_MAX], data, at, size)


def _part(found: OutputBytes, asked: OutputQuestion) -> OutputPart:
    """The text of a part, of its last lines if the end was asked for."""
    data = found.data
    kept = data if asked.offset is not None else last_lines(data, found.offset == 0, asked.lines)
    text, used = whole_text(kept)
    begin = found.offset + len(data) - len(kept)
    return OutputPart(found.node, found.path, text, begin, begin + used, found.size)
