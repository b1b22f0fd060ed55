"""Changes to the records of jobs after their end (sacctmgr modify job), for the Governance service.

The derived exit code, comments and the wckey. A user may change the comment, the extra text and the derived exit code of their
own jobs, an operator all of all jobs. The derived exit code and the wckey are those of jobs that have ended.

A job that the controller has in memory is changed there (UpdateJobs), since its row is written from memory; of other
jobs the row in the database is changed. Both changes are recorded first, in the audit log and among the transactions.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from accounting.amended import amend
from accounting.filter import FilterRecord
from accounting.records import RecordsUnavailable
from ctld.core.records.effects import Refusal, Refused
from ctld.core.records.events import Actor, Role, UpdateJobs
from ctld.core.requests.update_keys import KEYS
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as, translated
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import job_visibility
from ctld.rpc.jobs.records import record_filter
from ctld.runtime.errors import BadRequest
from penstock.v1 import governance_pb2
from penstock.values.errors import BadValue
from penstock.values.refusals import TEXT, Code
from penstock.values.states import END_STATES

#: Keys of the request, and the fields of a record that they set.
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
#: Maximum number of jobs whose previous values are recorded in the audit log.
BEFORE_MAX: Final = 20


class EndedJobs:
    """The method that changes records."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @translated
    async def ModifyRecords(
        self, request: governance_pb2.ModifyRecordsRequest, context: Context
    ) -> governance_pb2.ModifyRecordsReply:
        """Changes records, or reports which would be changed."""
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
            event = UpdateJobs(
                actor, tuple(map(_id, known)), changes, reply_to=services.runtime.new_reply_to(), of_records=True
            )
            body = await services.runtime.ask(event)
            if isinstance(body, Refusal):
                await refuse_as(context, body)
            for result in body.results:
                if result.code:
                    raise BadRequest(Code(result.code), f"{result.text}: {result.id}")
        if others:
            await services.rollups.write(lambda connection: amend(connection, others, values))
        return reply

    def _find(
        self, request: governance_pb2.ModifyRecordsRequest, uids: tuple[int, ...], state: ClusterState, actor: Actor
    ) -> list[FilterRecord]:
        try:
            asked = record_filter(request.which, uids, job_visibility(state, actor))
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


def _values(state: ClusterState, actor: Actor, changes: Mapping[str, str]) -> dict[str, object]:
    """Returns the values to set. Raises BadRequest."""
    values: dict[str, object] = {}
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


def _check(actor: Actor, found: list[FilterRecord], changes: Mapping[str, str]) -> None:
    if any(record.user_id != actor.uid for record in found) and actor.role < Role.OPERATOR:
        raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
    for record in found:
        if record.state not in END_STATES and any(KEYS[name].only_ended for name in changes):
            raise BadRequest(Code.INVALID_VALUE, f"job {record.job_id} has not ended")


def _shown(record: FilterRecord, changes: Mapping[str, str]) -> dict[str, object]:
    """Returns the present values of what is changed."""
    request = msgspec.json.decode(record.request)
    there = {name: getattr(record, name, request.get(name, "")) for word in changes for name in FIELDS[word]}
    return {name: value for name, value in there.items() if value not in ("", None)}


def _id(record: FilterRecord) -> str:
    """Returns the id of this job alone: the number of an array means all its tasks."""
    if record.array_task_id is not None:
        return f"{record.array_job_id}_{record.array_task_id}"
    return str(record.job_id)
