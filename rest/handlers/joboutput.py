"""What a job writes, in /penstock/v1/:

    GET /penstock/v1/jobs/{job_id}/output       the end of its output, or what follows an offset

The file is read on the node as the job's user (penstock/values/outputtail.py), of a running step by its supervisor, of a job that
has ended by a process for this one reading: this daemon opens no file of a user.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from cli.base.document import Json
from cli.base.jobids import wire_id
from cli.base.queryclient import QueryClient
from cli.base.stepids import is_live
from cli.listings.liveoutput import (
    NoOutput,
    OutputPart,
    OutputQuestion,
    live_part,
    opened_part,
    output_step,
    writes_in_client,
)
from penstock.v1.accounting_pb2 import JobRecord
from penstock.v1.steps_pb2 import ListStepsReply, ListStepsRequest, StepInfo
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP, JobSelector, format_step
from penstock.values.outputtail import STDERR, STREAMS, TAIL_BYTES_MAX
from penstock.values.refusals import TEXT, Code
from rest.answers import RestError
from rest.asking import in_thread
from rest.calling import RestCall, bad_query
from rest.contract.parse import UNKNOWN_WORD
from rest.handlers.jobs import job_path
from rest.handlers.jobuse import one_record, step_of
from rest.limits import ASKED_STEP_S

_Reading: TypeAlias = Callable[[QueryClient, OutputQuestion, float], OutputPart]
_NONE: Final = OutputPart("", "", "", 0, 0, 0)


async def output(call: RestCall) -> Json:
    """The end of the output of a job, or what follows an offset of it."""
    selector = job_path(call.path["job_id"])
    word = call.query.get("stream") or "stdout"
    if word not in STREAMS:
        raise bad_query("stream", word, UNKNOWN_WORD)
    wanted = step_of(call)
    asked = OutputQuestion(
        0, 0, call.number("task") if call.query.get("task") else None, STREAMS[word],
        call.number("offset") if call.query.get("offset") else None, min(call.number("lines"), TAIL_BYTES_MAX),
    )  # fmt: skip
    reply: ListStepsReply = await call.call("ListSteps", ListStepsRequest(ids=[wire_id(selector)]))
    if len({one.job_id for one in reply.steps}) > 1:
        raise RestError(404, Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID], f"{call.path['job_id']} is not one job")
    step = output_step([one for one in reply.steps if wanted in (None, one.step_id)], call.now_us)
    if step is None:
        return await _not_running(call, selector, _ended_step(reply.steps, wanted), asked)
    asked = asked._replace(job_id=step.job_id, step_id=step.step_id)
    try:
        part = await _read(call, opened_part if writes_in_client(step) else live_part, asked)
    except NoOutput as problem:
        if not is_live(step):
            return await _not_running(call, selector, step.step_id, asked)
        call.warn(str(problem))
        part = _NONE._replace(offset=asked.offset or 0, next_offset=asked.offset or 0)
    content = _document(step.job_id, step.state, format_step(step.step_id), word, part) | {"is_live": is_live(step)}
    call.tag.vary(json.dumps([content, call.warnings]))  # a node has answered, too
    call.check_modified()
    return content


def _ended_step(steps: Sequence[StepInfo], wanted: int | None) -> int:
    """The step that is meant when none runs: the batch script, else the first one of a job that has none."""
    known = [one.step_id for one in steps if one.step_id != EXTERN_STEP]
    default = BATCH_STEP if BATCH_STEP in known or not known else known[0]
    return default if wanted is None else wanted


async def _read(call: RestCall, read: _Reading, asked: OutputQuestion) -> OutputPart:
    assert call.share is not None
    with call.share.reading():
        return await in_thread(call, lambda client: read(client, asked, ASKED_STEP_S))


async def _not_running(call: RestCall, selector: JobSelector, step_id: int, asked: OutputQuestion) -> Json:
    job: JobRecord = await one_record(call, selector)
    word = next(name for name, number in STREAMS.items() if number == asked.stream)
    path = b""
    step = ""
    part = _NONE
    if step_id == BATCH_STEP:
        path = job.std_err if asked.stream == STDERR and job.std_err else job.std_out
    if job.start_at_us:
        step = format_step(step_id)
        try:
            part = await _read(call, opened_part, asked._replace(job_id=job.job_id, step_id=step_id))
        except NoOutput as problem:
            call.warn(f"{problem}; where its file is seen: penstock logs {call.path['job_id']}")
    part = part if part.path else part._replace(path=path.decode("utf-8", "backslashreplace"))
    content = _document(job.job_id, job.state, step, word, part) | {"is_live": False}
    call.tag.vary(json.dumps([content, call.warnings]))
    call.check_modified()
    return content


def _document(job_id: int, state: str, step: str, stream: str, part: OutputPart) -> Json:
    return {"job_id": job_id, "state": state, "step": step, "stream": stream, **part._asdict()}


#: Members of the answer, and their types.
OUTPUT: Final = {
    "job_id": "integer", "state": "string", "step": "string", "stream": "string", "node": "string", "path": "string",
    "text": "string", "offset": "integer", "next_offset": "integer", "size": "integer", "is_live": "boolean",
}  # fmt: skip
