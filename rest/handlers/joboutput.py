"""What a running job writes, in /penstock/v1/:

    GET /penstock/v1/jobs/{job_id}/output       the end of its output, or what follows an offset

The file is read on the node by the step's supervisor, as the job's user (penstock/values/outputtail.py): this daemon opens no
file of a user. Of a job that does not run nothing is read, but the last lines of one that was followed until its end; the answer
says how to read it.
"""

import json
from typing import Final

from cli.base.document import Json
from cli.base.jobids import wire_id
from cli.base.stepids import is_live
from cli.listings.liveoutput import NoOutput, OutputPart, output_part, output_step
from penstock.v1.accounting_pb2 import JobRecord
from penstock.v1.steps_pb2 import ListStepsReply, ListStepsRequest
from penstock.values.jobid import JobSelector, format_step
from penstock.values.outputtail import STREAMS, TAIL_BYTES_MAX
from penstock.values.refusals import TEXT, Code
from rest.answers import RestError
from rest.asking import in_thread
from rest.calling import RestCall, bad_query
from rest.contract.parse import UNKNOWN_WORD
from rest.handlers.jobs import job_path
from rest.handlers.jobuse import one_record, step_of
from rest.limits import ASKED_STEP_S

_PENDING: Final = "PENDING"
_NONE: Final = OutputPart("", "", "", 0, 0, 0)


async def output(call: RestCall) -> Json:
    """The end of the output of a running job, or what follows an offset of it."""
    selector = job_path(call.path["job_id"])
    word = call.query.get("stream") or "stdout"
    if word not in STREAMS:
        raise bad_query("stream", word, UNKNOWN_WORD)
    wanted = step_of(call)
    offset = call.number("offset") if call.query.get("offset") else None
    lines = min(call.number("lines"), TAIL_BYTES_MAX)
    reply: ListStepsReply = await call.call("ListSteps", ListStepsRequest(ids=[wire_id(selector)]))
    if len({one.job_id for one in reply.steps}) > 1:
        raise RestError(404, Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID], f"{call.path['job_id']} is not one job")
    step = output_step([one for one in reply.steps if wanted in (None, one.step_id)], call.now_us)
    if step is None:
        return await _not_running(call, selector, word)
    try:
        assert call.share is not None
        with call.share.reading():
            part = await in_thread(
                call,
                lambda client: output_part(
                    client, step.job_id, step.step_id, STREAMS[word], offset, lines, ASKED_STEP_S
                ),
            )
    except NoOutput as problem:
        if not is_live(step):
            return await _not_running(call, selector, word)
        call.warn(str(problem))
        part = _NONE._replace(offset=offset or 0, next_offset=offset or 0)
    content = _document(step.job_id, step.state, format_step(step.step_id), word, part) | {"is_live": is_live(step)}
    call.tag.vary(json.dumps([content, call.warnings]))  # a node has answered, too
    call.check_modified()
    return content


async def _not_running(call: RestCall, selector: JobSelector, stream: str) -> Json:
    job: JobRecord = await one_record(call, selector)
    path = (job.std_err if stream == "stderr" and job.std_err else job.std_out).decode("utf-8", "backslashreplace")
    if job.state != _PENDING:
        call.warn(f"the output of a job that does not run is in its file alone: penstock logs {call.path['job_id']}")
    call.check_modified()
    return _document(job.job_id, job.state, "", stream, _NONE._replace(path=path)) | {"is_live": False}


def _document(job_id: int, state: str, step: str, stream: str, part: OutputPart) -> Json:
    return {"job_id": job_id, "state": state, "step": step, "stream": stream, **part._asdict()}


#: Members of the answer, and their types.
OUTPUT: Final = {
    "job_id": "integer", "state": "string", "step": "string", "stream": "string", "node": "string", "path": "string",
    "text": "string", "offset": "integer", "next_offset": "integer", "size": "integer", "is_live": "boolean",
}  # fmt: skip
