"""Passes submissions, crontabs and updates through the site's submit filters (runtime/submitfilter.py), before they become
events.

A changed message is checked like one that has arrived: its bounds by the gate's table, its contents by the core. A
submission whose key is known has been answered before, and its repetition is not shown to a filter; nor is one refused
that became known while the filter ran, so that a request that is sent twice has one answer. Steps, holds,
releases and cancellations are not shown to filters.

A filter sees of an update only the jobs that the core would change for this user, by the core's own rule
(requests/update.py): for others the answer is the core's, and a hidden job's is that of an unknown one. Each job is shown,
and changed by an event with its own answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, cast

from google.protobuf.message import Message
from msgspec.structs import replace

from ctld.core.jobs.select import takes_all
from ctld.core.queue.rights import is_own
from ctld.core.records.effects import Refused
from ctld.core.records.events import Actor, Role, SubmitJob, UpdateJobs
from ctld.core.records.job import Job, JobRow
from ctld.core.requests import update
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.incoming import OutOfBounds, check_bounds
from ctld.rpc.gate.scans import ScanPace, Scans
from ctld.rpc.jobs import submission
from ctld.rpc.jobs.filterfields import apply, record_of
from ctld.rpc.jobs.jobinfo import request_message
from ctld.rpc.jobs.listing import SLICE_ROWS, NamedRows
from ctld.runtime.errors import BadRequest
from ctld.runtime.filterbase import MODIFY, SUBMIT
from ctld.runtime.loop import Runtime
from ctld.runtime.submitfilter import FilterAnswer, FilterError, SubmitFilter
from penstock.v1 import controller_pb2, periodic_pb2
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.values.errors import BadValue
from penstock.values.jobid import format_job, parse_selector
from penstock.values.refusals import TEXT, Code
from penstock.values.taskset import TaskSet

Dates: TypeAlias = Callable[[Mapping[str, str]], dict[str, int]]
#: Jobs of one update that filters see: each takes a turn at a worker.
UPDATED_JOBS_MAX: Final = 1000
#: Lines of filters in one reply, each of MESSAGE_CHARS_MAX characters at most: the reply must leave after what it reports.
REPLY_LINES_MAX: Final = 1000
#: Jobs in one event, as of an update without a filter.
JOINED_MAX: Final = 100
_ROLES: Final = {Role.USER: "user", Role.OPERATOR: "operator", Role.ADMINISTRATOR: "administrator"}


class FilteredUpdates(NamedTuple):
    """What is left of an update."""

    events: list[UpdateJobs]
    refused: list[controller_pb2.JobResult]
    messages: list[str]


class _Shown(NamedTuple):
    """A job that a filter is to see. `name`: in the result if it is refused; `event`: the update of this job only."""

    name: str
    row: JobRow
    event: UpdateJobs


@dataclass
class Filtering:
    """The way of requests through the filters in force."""

    _runtime: Runtime
    _filter: SubmitFilter
    _scans: Scans

    @property
    def submits(self) -> bool:
        """Whether submissions are shown to a filter."""
        return self._filter.has(SUBMIT)

    @property
    def modifies(self) -> bool:
        """Whether updates are shown to a filter."""
        return self._filter.has(MODIFY)

    async def submission(
        self, request: controller_pb2.SubmitJobRequest, event: SubmitJob
    ) -> tuple[SubmitJob, tuple[str, ...]]:
        """Returns the submission as the filters have left it, and lines for the user. Raises BadRequest."""
        if self._is_known(event):
            return event, ()
        changed, actor = controller_pb2.SubmitJobRequest(), event.actor
        changed.CopyFrom(request)
        facts: dict[str, object] = {"test_only": event.test_only}
        said: list[str] = []
        try:
            for offset, job in enumerate((changed.job, *changed.components)):
                number = {"het_job_offset": offset} if changed.components else {}
                add_lines(said, await self._one(job, None if offset else changed.spec, actor, {**facts, **number}))
            self._check(changed)
        except FilterError as error:
            self._filter.failed(f"a submission of {actor.user_name}", error)
            return event, ()
        except BadRequest:
            if self._is_known(event):
                return event, ()
            raise
        for job in (changed.job, *changed.components):  # whose it is has been resolved
            job.ClearField("run_as_uid")
            job.ClearField("run_as_gid")
        event = replace(
            event,
            job=submission.decode_submission(changed.job),
            spec=submission.spec_row(changed.spec, self._runtime.core.state.config, not changed.job.kind),
            components=submission.components(changed.components),
        )
        return event, tuple(said)

    async def entry(
        self, entry: periodic_pb2.CrontabEntry, actor: Actor
    ) -> tuple[periodic_pb2.CrontabEntry, list[str]]:
        """Returns an entry of a crontab as the filters have left it, and lines for the user. Raises BadRequest."""
        changed = periodic_pb2.CrontabEntry()
        changed.CopyFrom(entry)
        try:
            said = list(await self._one(changed.job, changed.spec, actor, {}))
            self._check(changed)
        except FilterError as error:
            self._filter.failed(f"a crontab of {actor.user_name}", error)
            return entry, []
        return changed, said

    async def updates(
        self, event: UpdateJobs, ids: Sequence[str], named: Sequence[JobRow], dates_of: Dates
    ) -> FilteredUpdates:
        """Shows a filter each job of an update that the core would change, and returns events of those that it has not
        refused. `ids`, or the jobs `named` otherwise: rows that `event.which` selects. Raises BadRequest."""
        left = FilteredUpdates([], [], [])
        pace = self._scans.pace(event.actor.uid)
        shown = await self._named(event, named, left.refused, pace)
        rows_of = NamedRows(self._runtime.snapshot, is_union=False, pace=pace)
        for text in dict.fromkeys(ids):
            _check_number(shown)
            shown += await self._of_id(event, text, rows_of, left.refused)
        _check_number(shown)
        for one in shown:
            try:
                row = self._runtime.snapshot.jobs.get(one.row.job_id, one.row)  # others had turns meanwhile
                _open_to(self._runtime.core.state, event.actor, [row])
                changed = await self._update(one.event, row, dates_of, left.messages)
            except (BadRequest, Refused) as error:
                left.refused.append(controller_pb2.JobResult(id=one.name, code=error.code, text=error.text))
            else:
                _join(left.events, changed)
        return left

    async def _named(
        self, event: UpdateJobs, rows: Sequence[JobRow], refused: list[controller_pb2.JobResult], pace: ScanPace
    ) -> list[_Shown]:
        """Returns the jobs of a name that are the caller's: those that the core takes."""
        own: list[_Shown] = []
        for first in range(0, len(rows), SLICE_ROWS):
            for row in rows[first : first + SLICE_ROWS]:
                if is_own(event.actor, cast(Job, row)):
                    own.append(_Shown(str(row.job_id), row, replace(event, chosen=(row.job_id,))))
            _check_number(own)
            await pace.pause()
        return [one for one in own if await self._open(event.actor, one.name, [one.row], refused, pace)]

    async def _of_id(
        self, event: UpdateJobs, text: str, rows_of: NamedRows, refused: list[controller_pb2.JobResult]
    ) -> list[_Shown]:
        """Returns the jobs that an id selects."""
        try:
            rows = await rows_of.of(text) if "." not in text else []  # the core changes no job by the id of a step
            if rows and rows[0].request.het_job_id and takes_all(self._runtime.core.state):
                rows = await rows_of.of(str(rows[0].request.het_job_id)) or rows
        except BadRequest as error:
            refused.append(controller_pb2.JobResult(id=text, code=error.code, text=error.text))
            return []
        found = await self._open(event.actor, text, rows, refused, rows_of.pace)
        if len(rows) == 1 and not rows[0].request.het_job_id:
            return [_Shown(text, row, replace(event, ids=(text,))) for row in found]
        wanted = parse_selector(text).tasks if found else None
        return [
            _Shown(format_job(row.job_id, row.array_job_id, row.array_task_id), row, _only(event, text, row, wanted))
            for row in found
        ]

    async def _open(
        self,
        actor: Actor,
        text: str,
        rows: Sequence[JobRow],
        refused: list[controller_pb2.JobResult],
        pace: ScanPace,
    ) -> list[JobRow]:
        """Returns those that the core would change, by its own rule; if there is none, adds the core's refusal."""
        found: list[JobRow] = []
        refusal: Refused | None = None
        for first in range(0, len(rows) or 1, SLICE_ROWS):
            if first:
                await pace.pause()
            part = rows[first : first + SLICE_ROWS]
            try:
                open_ids = _open_to(self._runtime.core.state, actor, part)
                found += [row for row in part if row.job_id in open_ids]
            except Refused as error:
                refusal = refusal or error
            _check_number(found)
        if refusal is not None and not found:
            refused.append(controller_pb2.JobResult(id=text, code=refusal.code, text=refusal.text))
        return found

    async def _update(self, event: UpdateJobs, row: JobRow, dates_of: Dates, said: list[str]) -> UpdateJobs:
        actor = event.actor
        question = {
            "function": MODIFY,
            "job": event.changes,
            "submitter": self._submitter(actor),
            "record": {
                **record_of(request_message(row.request, True), None, {}),
                "job_id": row.job_id, "user_id": row.user_id, "user_name": row.user_name, "group_id": row.group_id,
                "job_state": row.state.name, "partition": row.partition, "time_limit": _minutes(row.time_limit_s),
            },
            "partitions": self._partitions(),
        }  # fmt: skip
        try:
            answer = await self._filter.ask(actor.uid, question)
            changes = {**event.changes, **_texts(answer.changed)}
            self._check(_message(changes))
        except FilterError as error:
            self._filter.failed(f"an update of job {row.job_id} by {actor.user_name}", error)
            return event
        self._filter.refused(answer)
        add_lines(said, answer.messages)
        changes = {name: value for name, value in changes.items() if name not in answer.removed}
        if changes == event.changes:
            return event
        return replace(event, changes=changes, dates=dates_of(changes))

    async def _one(
        self, job: JobRequest, spec: JobSpec | None, actor: Actor, facts: Mapping[str, object]
    ) -> Sequence[str]:
        """Shows one job to the filters, and puts their changes into it. Raises FilterError, BadRequest."""
        who = {"user_id": actor.uid, "user_name": actor.user_name, "group_id": actor.gid}
        question = {
            "function": SUBMIT,
            "job": record_of(job, spec, {**who, **facts}),
            "submitter": self._submitter(actor),
            "partitions": self._partitions(),
        }
        answer: FilterAnswer = await self._filter.ask(actor.uid, question)
        self._filter.refused(answer)
        try:
            apply(answer.changed, job, spec)
        except BadValue as error:
            raise FilterError(str(error)) from None
        return answer.messages

    def _check(self, message: Message) -> None:
        """Raises FilterError for a value that no request may have."""
        try:
            check_bounds(message)
        except OutOfBounds as error:
            raise FilterError(str(error)) from None

    def _is_known(self, event: SubmitJob) -> bool:
        return (event.actor.uid, event.submit_key) in self._runtime.core.state.submissions.keys

    def _submitter(self, actor: Actor) -> dict[str, object]:
        account = self._runtime.core.state.shares.default_accounts.get(actor.user_name)
        return {
            "user_id": actor.uid, "user_name": actor.user_name, "group_id": actor.gid, "group_name": actor.group_name,
            "groups": list(actor.groups), "role": _ROLES[actor.role], "default_account": account,
        }  # fmt: skip

    def _partitions(self) -> list[dict[str, object]]:
        return _partitions(self._runtime.core.state) if self._filter.needs_partitions else []


def add_lines(said: list[str], more: Sequence[str]) -> None:
    """Adds lines for the user to those of a reply, as long as it has room."""
    if len(said) + len(more) <= REPLY_LINES_MAX:
        said += more
    elif len(said) <= REPLY_LINES_MAX:
        said += more[: REPLY_LINES_MAX - len(said)]
        said.append("further lines of the submit filter are not shown")


def _check_number(jobs: Sequence[object]) -> None:
    """Raises BadRequest for more jobs than one update may show."""
    if len(jobs) > UPDATED_JOBS_MAX:
        text = f"one update can change {UPDATED_JOBS_MAX} jobs where a submit filter sees each of them: name fewer"
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {text}")


def _open_to(state: ClusterState, actor: Actor, rows: Sequence[JobRow]) -> frozenset[int]:
    """Returns the ids of the jobs that the core would change for the actor. Raises Refused."""
    jobs = [job for row in rows if (job := state.jobs.look(row.job_id)) is not None]
    return frozenset(job.job_id for job in update.open_to(state, actor, jobs))


def _only(event: UpdateJobs, text: str, row: JobRow, wanted: TaskSet | None) -> UpdateJobs:
    """Returns the update of one of several records that an id selects; `wanted`: the tasks that it names."""
    if row.request.het_job_id:
        return replace(event, ids=(text,), chosen=(row.job_id,))
    tasks = row.array_tasks if row.array_tasks is not None else TaskSet.of([row.array_task_id or 0])
    return replace(event, ids=(text,), tasks=tasks if wanted is None else tasks.intersect(wanted))


def _join(events: list[UpdateJobs], event: UpdateJobs) -> None:
    """Adds an event, to the one before where both make the same changes to whole jobs."""
    last = events[-1] if events else None
    if (
        last is not None
        and last.changes == event.changes
        and not (last.tasks or event.tasks)
        and not (event.ids and (last.chosen or event.chosen))
        and max(len(last.ids), len(last.chosen)) < JOINED_MAX
    ):
        events[-1] = replace(last, ids=last.ids + event.ids, chosen=last.chosen + event.chosen)
    else:
        events.append(event)


def _texts(changed: Mapping[str, object]) -> dict[str, str]:
    """Returns changes whose values are texts. Raises FilterError."""
    for name, value in changed.items():
        if not isinstance(value, str):
            raise FilterError(f"the filter has set {name[:64]} to {value!r:.80}, which is no text")
    return {name: str(value) for name, value in changed.items()}


def _message(changes: Mapping[str, str]) -> Message:
    """Returns an update as it would have arrived. Raises FilterError."""
    try:
        return controller_pb2.UpdateJobsRequest(changes=changes)
    except ValueError:
        raise FilterError("the filter has set a text that is not UTF-8") from None


def _minutes(seconds: int) -> int:
    return seconds if seconds < 0 else -(-seconds // 60)


def _partitions(state: ClusterState) -> list[dict[str, object]]:
    """Returns the partitions as Lua's part_list has them."""
    return [
        {
            "name": one.name, "state_up": one.state, "flag_default": int(one.config.is_default),
            "max_nodes": one.config.max_nodes, "min_nodes": one.config.min_nodes, "max_time": _minutes(one.config.max_time_s),
            "default_time": _minutes(one.config.default_time_s), "priority_tier": one.config.priority_tier,
            "priority_job_factor": one.config.priority_job_factor, "allow_accounts": ",".join(one.config.allow_accounts),
            "allow_groups": ",".join(one.config.allow_groups), "allow_qos": ",".join(one.config.allow_qos),
            "deny_accounts": ",".join(one.config.deny_accounts), "deny_qos": ",".join(one.config.deny_qos),
            "qos": one.config.qos, "total_nodes": one.node_bits.bit_count(),
        }
        for one in state.partition_list
    ]  # fmt: skip
