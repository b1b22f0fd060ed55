"""Of the Governance service: what of records of jobs may be changed afterwards (sacctmgr modify job).

The derived exit code, comments and the wckey. A user may change the comment, the extra text and the derived exit code of his
own jobs, an operator all of all jobs. The derived exit code and the wckey are those of jobs that have ended.

A job that the controller has in memory is changed there (UpdateJobs), since its row will be written from there again; the
row of another one is changed in the database. Both are in the audit log and among the transactions, written down first.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from accounting.amended import amend
from accounting.records import RecordsUnavailable
from ctld.core.effects import Refusal, Refused
from ctld.core.events import Actor, Role, UpdateJobs
from ctld.core.state import ClusterState
from ctld.core.update_keys import KEYS
from ctld.rpc.auth import caller
from ctld.rpc.records import record_filter
from ctld.rpc.refusals import BadRequest, refuse_as, translated
from ctld.rpc.services import Services
from ctld.rpc.sight import job_sight
from penstock.v1 import governance_pb2
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code
from penstock.values.states import END_STATES

#: Words of the request, and what they set in a record.
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "admincomment": ("admin_comment",),
    "comment": ("comment",),
    "derivedexitcode": ("derived_code", "derived_signal"),
    "extra": ("extra",),
    "newwckey": ("wckey",),
    "systemcomment": ("system_comment",),
}
#: Jobs of one request.
JOBS_MAX: Final = 10_000
#: Of how many jobs the audit log has what was there before.
BEFORE_MAX: Final = 20


class EndedJobs:
    """Its method."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @translated
    async def ModifyRecords(self, request: Any, context: Any) -> Any:
        """Change them, or say which would be changed."""
        services, actor = self._services, caller()
        state = services.runtime.core.state
        changes = {name.lower(): text for name, text in request.changes.items()}
        values = _values(state, actor, changes)
        uids, unknown = await services.names.uids(list(request.which.users))
        if unknown:
            raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        found = await services.reading.read(lambda _: self._find(request, uids, state, actor))
        _check(actor, found, changes)
        reply = governance_pb2.ModifyRecordsReply(
            records=[governance_pb2.ModifiedRecord(job_id=r.job_id, submit_at_us=r.submit_at_us) for r in found]
        )
        if request.check_only or not found:
            return reply
        before = {str(r.job_id): _shown(r, changes) for r in found[:BEFORE_MAX]} if len(found) <= BEFORE_MAX else None
        objects = tuple(f"job {r.job_id}" for r in found)
        said = " ".join(f"{name}='{text}'" for name, text in sorted(changes.items()))
        await services.record("modify job", objects, before=before, asked=changes, transaction=("Modify Job", said))
        known = [r for r in found if (job := state.jobs.get(r.job_id)) is not None and job.attempt == r.attempt]
        others = [(r.job_id, r.attempt) for r in found if r not in known]
        if known:
            event = UpdateJobs(actor, tuple(map(_id, known)), changes, reply_to=services.runtime.new_reply_to())
            body = await services.runtime.ask(event)
            if isinstance(body, Refusal):
                await refuse_as(context, body)
            for result in body.results:
                if result.code:
                    raise BadRequest(Code(result.code), f"{result.text}: {result.id}")
        if others:
            await services.rollups.write(lambda connection: amend(connection, others, values))
        return reply

    def _find(self, request: Any, uids: tuple[int, ...], state: ClusterState, actor: Actor) -> list[Any]:
        try:
            asked = record_filter(request.which, uids, job_sight(state, actor))
            records = self._services.records.list(msgspec.structs.replace(asked, no_steps=True))
            found = [
                one
                for one in records
                if (not request.started_from_us or one.start_at_us >= request.started_from_us)
                and (not request.ended_until_us or 0 < one.end_at_us < request.ended_until_us)
            ]
        except BadValue as error:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}") from None
        except RecordsUnavailable:
            raise BadRequest(Code.STORAGE_AWAY, TEXT[Code.STORAGE_AWAY]) from None
        if len(found) > JOBS_MAX:
            raise BadRequest(Code.INVALID_VALUE, f"{len(found)} jobs, the limit is {JOBS_MAX}: name fewer")
        return found


def _values(state: ClusterState, actor: Actor, changes: Mapping[str, str]) -> dict[str, Any]:
    """What the words set. Raises BadRequest."""
    values: dict[str, Any] = {}
    for name, text in changes.items():
        if name not in FIELDS:
            raise BadRequest(Code.NOT_SUPPORTED, f"{name[:64]}= is not a field of records; known: {', '.join(FIELDS)}")
        if KEYS[name].operator and actor.role < Role.OPERATOR:
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        try:
            value = KEYS[name].read(state, actor, text)
        except BadValue as error:
            raise BadRequest(Code.INVALID_VALUE, f"{name}: {error}") from None
        except Refused as refused:
            raise BadRequest(refused.code, refused.text) from None
        fields = FIELDS[name]
        values |= zip(fields, value if len(fields) > 1 else (value,), strict=True)
    if not values:
        raise BadRequest(Code.INVALID_VALUE, "nothing is to be changed")
    return values


def _check(actor: Actor, found: list[Any], changes: Mapping[str, str]) -> None:
    if any(record.user_id != actor.uid for record in found) and actor.role < Role.OPERATOR:
        raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
    for record in found:
        if record.state not in END_STATES and any(KEYS[name].only_ended for name in changes):
            raise BadRequest(Code.INVALID_VALUE, f"job {record.job_id} has not ended")


def _shown(record: Any, changes: Mapping[str, str]) -> dict[str, Any]:
    """What is there now, of what is changed."""
    request = msgspec.json.decode(record.request)
    there = {name: getattr(record, name, request.get(name, "")) for word in changes for name in FIELDS[word]}
    return {name: value for name, value in there.items() if value not in ("", None)}


def _id(record: Any) -> str:
    """Of this job alone: the number of an array is that of all its tasks."""
    if record.array_task_id is not None:
        return f"{record.array_job_id}_{record.array_task_id}"
    return str(record.job_id)
