"""Sessions, notebooks and terminals that are jobs, in /penstock/v1/:

    GET /penstock/v1/sessions                   the caller's own, and the kinds that there are
    POST /penstock/v1/sessions                  start one
    POST /penstock/v1/sessions/{job_id}/enter   an address that leads into one, once

A session is a batch job like others: it is cancelled and changed as these are. What its program says of itself (ready, idle)
its node is asked for, as of other figures of running steps.
"""

import json
import pwd
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.base.document import Json
from cli.base.stepids import attach
from cli.listings.livesteps import answers_of
from penstock.errors import PenstockError
from penstock.v1.controller_pb2 import (
    IssueTokenReply,
    IssueTokenRequest,
    JobFilter,
    JobInfo,
    ListJobsRequest,
    PingReply,
    PingRequest,
)
from penstock.values.jobid import BATCH_STEP
from penstock.values.refusals import TEXT, Code
from penstock.values.sessions import END_TEXTS, EXTRA_PREFIX, SESSION_VARIABLE, SESSION_WORD, kind_of_extra
from penstock.values.states import ENDED
from rest.answers import RestError
from rest.asking import in_thread
from rest.calling import RestCall
from rest.contract.parse import CONVERSION, UNKNOWN_WORD
from rest.handlers.jobs import job_path, listed
from rest.handlers.submission import NO_DIRECTORY, job_of, spec_of
from rest.handlers.submit import send
from rest.interactive.kinds import MINUTES_MAX, SessionKind, script_of
from rest.interactive.service import SessionPass, SessionService
from rest.limits import ASKED_STEP_S, ASKED_STEPS_MAX, CALL_TIMEOUT_S

if TYPE_CHECKING:
    from rest.asking import ThreadClient

#: The name of the job, by which the controller finds the sessions among a user's jobs.
JOB_NAME: Final = "session"
NO_ORIGIN: Final = "this daemon serves no sessions: penstock restd --sessions-listen ADDR:PORT (docs/sessions.md)"
_RUNNING: Final = "RUNNING"
#: Members of the body that are those of a job's description.
_TEXTS: Final = ("partition", "account", "qos", "reservation")
_PATH: Final = "PATH=/usr/local/bin:/usr/bin:/bin"
_OUTPUT: Final = "penstock-session-%j.log"


class ProgramState(NamedTuple):
    """What the node says of a session's program; idle_s: for how long nobody has been connected."""

    is_ready: bool = False
    idle_s: int = 0
    connections: int = 0


async def create(call: RestCall) -> Json:
    """Queues a job of the caller that is a session."""
    service = _service(call)
    kind = service.kinds.get(call.text_in("kind"))
    if kind is None:
        known = ", ".join(service.kinds)
        raise RestError(422, UNKNOWN_WORD, f"kind: expected one of {known}", source="#/kind")
    idle_minutes = _number(call, "idle_minutes", kind.idle_minutes, least=0)
    folder = call.text_in("work_dir") or await _home(call)
    job = job_of(_members(call, kind, folder), "#", call.warn)
    spec = spec_of({"environment": [_PATH, f"{SESSION_VARIABLE.decode()}={kind.kind}"]}, script_of(kind, idle_minutes))
    reply = await send(call, [job], spec)
    return {"job_id": reply.job_id, "job_submit_user_msg": "\n".join(reply.user_messages)}


async def _home(call: RestCall) -> str:
    """The home of the caller, as this machine knows it. Raises RestError."""
    assert call.share is not None
    asked = await _caller(call)
    try:
        return await call.share.in_thread(lambda: pwd.getpwuid(asked.user_id).pw_dir)
    except KeyError:
        text = "work_dir is missing, and this machine does not know the home of the user"
        raise RestError(422, NO_DIRECTORY, text, source="#/work_dir") from None


def _members(call: RestCall, kind: SessionKind, folder: str) -> Mapping[str, object]:
    """The description of the job, as POST job/submit takes it. Raises RestError."""
    members: dict[str, object] = {
        "name": JOB_NAME,
        "extra": f"{EXTRA_PREFIX}{kind.kind}",
        "current_working_directory": folder,
        "standard_output": _OUTPUT,
        "time_limit": _number(call, "time_minutes", kind.time_minutes),
        "cpus_per_task": _number(call, "cpus", 1),
        "requeue": False,
        "minimum_nodes": 1,
    }
    if memory_mb := _number(call, "memory_mb", 0, least=0):
        members["memory_per_node"] = memory_mb
    if gpus := call.text_in("gpus"):
        members["tres_per_node"] = f"gres/gpu:{gpus}"
    return members | {name: text for name in _TEXTS if (text := call.text_in(name))}


def _number(call: RestCall, name: str, default: int, least: int = 1) -> int:
    """A number of the body. Raises RestError."""
    value = call.record().get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MINUTES_MAX * 1000:
        raise RestError(422, CONVERSION, f"{name}: expected a number from {least} on", source=f"#/{name}")
    return value


async def sessions(call: RestCall) -> Json:
    """The caller's own sessions: those in the queue and those that ended lately."""
    service = _service(call)
    asked = await _caller(call)
    which = JobFilter(users=[str(asked.user_id)], names=[JOB_NAME])
    request = ListJobsRequest(filter=which, all_states=True, planned=True)
    found = [
        job async for page in call.pages("ListJobs", request) for job in page.jobs if kind_of_extra(job.request.extra)
    ]
    running = [job.job_id for job in found if job.state == _RUNNING]
    if len(running) > ASKED_STEPS_MAX:
        call.warn(f"more than {ASKED_STEPS_MAX} sessions run: of the others it is not asked whether they are ready")
    states = await _asked(call, running[-ASKED_STEPS_MAX:])
    kinds = [one._asdict() | {"command": list(one.command)} for one in service.kinds.values()]
    content: Json = {"sessions": [_session(job, states.get(job.job_id)) for job in found], "kinds": kinds}
    call.tag.vary(json.dumps([content, call.warnings]))  # nodes have answered, too
    call.check_modified()
    return content


async def _caller(call: RestCall) -> PingReply:
    """The caller, as the controller has authenticated them. Its clock is no part of the answer's tag."""
    reply: PingReply = await call.client.call("Ping", PingRequest(), CALL_TIMEOUT_S, proof=call.proof)
    return reply


async def _asked(call: RestCall, job_ids: Iterable[int]) -> Mapping[int, ProgramState]:
    chosen = list(job_ids)
    if not chosen:
        return {}

    def ask(client: "ThreadClient") -> dict[int, ProgramState]:
        return {job_id: _state_of(client, job_id) for job_id in chosen}

    return await in_thread(call, ask)


def _state_of(client: "ThreadClient", job_id: int) -> ProgramState:
    """What the node of a session says. An answer is another machine's: what it must not be is left out."""
    try:
        answers = answers_of(client, attach(client, job_id, BATCH_STEP), [SESSION_WORD], ASKED_STEP_S).found
    except PenstockError:  # it has ended meanwhile
        return ProgramState()
    found = answers[0] if answers else {}
    is_ready, idle_s, connections = (found.get(name) for name in ("is_ready", "idle_s", "connections"))
    if not (isinstance(is_ready, int) and isinstance(idle_s, int) and isinstance(connections, int)):
        return ProgramState()
    return ProgramState(bool(is_ready), max(idle_s, 0), max(connections, 0))


def _session(job: JobInfo, state: ProgramState | None) -> Json:
    return {
        "job_id": job.job_id,
        "kind": kind_of_extra(job.request.extra),
        "state": job.state,
        "reason": job.reason,
        "partition": job.partition,
        "node": job.node_list,
        "cpus": job.cpus,
        "tres": job.tres_alloc or job.tres_req,
        "submit_at_us": job.submit_at_us,
        "planned_start_at_us": job.planned_start_at_us,
        "start_at_us": job.start_at_us,
        "end_at_us": job.end_at_us,
        "time_limit_s": job.time_limit_s,
        "message": _message(job) if job.state in ENDED else "",
        **(state or ProgramState())._asdict(),
    }


def _message(job: JobInfo) -> str:
    """Why a session has ended; "" = its state says it."""
    code = job.exit.code
    return END_TEXTS.get(code, f"its program has ended with exit code {code}" if code else "")


async def enter(call: RestCall) -> Json:
    """An address for one use within a minute, which opens the session in the browser that follows it."""
    service = _service(call)
    text = call.path["job_id"]
    job_path(text)
    found = [one async for one in listed(call, [text])]
    job_id = found[0].job_id if len(found) == 1 else 0
    kind = kind_of_extra(found[0].request.extra) if len(found) == 1 else ""
    if not kind:
        raise RestError(404, Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID], f"job {text} is no session")
    if found[0].state != _RUNNING:
        raise RestError(409, 0, f"the session does not run: job {job_id} is {found[0].state}")
    reply: IssueTokenReply = await call.call("IssueToken", IssueTokenRequest(session_job_id=job_id))
    return {"url": service.enter_url(SessionPass(job_id, kind, reply.token))}


def _service(call: RestCall) -> SessionService:
    if call.sessions is None:
        raise RestError(404, 0, NO_ORIGIN)
    return call.sessions


#: Members of the answers, and their types.
SESSION: Final = {
    "job_id": "integer", "kind": "string", "state": "string", "reason": "string", "partition": "string",
    "node": "string", "cpus": "integer", "tres": "string", "submit_at_us": "integer", "planned_start_at_us": "integer",
    "start_at_us": "integer", "end_at_us": "integer", "time_limit_s": "integer", "message": "string",
    "is_ready": "boolean", "idle_s": "integer", "connections": "integer",
}  # fmt: skip
KIND: Final = {
    "kind": "string", "title": "string", "command": "string[]", "time_minutes": "integer", "idle_minutes": "integer",
    "is_terminal": "boolean", "strips_base": "boolean",
}  # fmt: skip
#: Members of the body of a start.
REQUEST: Final = {
    "kind": "string", "time_minutes": "integer", "idle_minutes": "integer", "cpus": "integer", "memory_mb": "integer",
    "gpus": "string", "partition": "string", "account": "string", "qos": "string", "reservation": "string",
    "work_dir": "string",
}  # fmt: skip
