"""Passes submissions, crontabs and updates through the site's submit filters (runtime/submitfilter.py), before they become
events.

A changed message is checked like one that has arrived: its bounds by the gate's table, its contents by the core. A
submission whose key is known has been answered before, and its repetition is not shown to a filter; nor is one refused
that became known while the filter looked at it, so that a request that is sent twice has one answer. Steps, holds,
releases and cancellations are not shown to filters.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from google.protobuf.message import Message
from msgspec.structs import replace

from ctld.core.records.events import Actor, JobFilter, Role, SubmitJob, UpdateJobs
from ctld.core.records.job import JobRow
from ctld.core.state.state import ClusterState
from ctld.rpc.gate.incoming import OutOfBounds, check_bounds
from ctld.rpc.jobs import submission
from ctld.rpc.jobs.filterfields import apply, record_of
from ctld.rpc.jobs.jobinfo import request_message
from ctld.rpc.jobs.listing import select_rows
from ctld.runtime.errors import BadRequest
from ctld.runtime.loop import Runtime
from ctld.runtime.submitfilter import MODIFY, SUBMIT, FilterAnswer, FilterError, SubmitFilter
from penstock.v1 import controller_pb2, periodic_pb2
from penstock.v1.common_pb2 import JobRequest, JobSpec
from penstock.values.errors import BadValue

_ROLES: Final = {Role.USER: "user", Role.OPERATOR: "operator", Role.ADMINISTRATOR: "administrator"}


class FilteredUpdates(NamedTuple):
    """What is left of an update."""

    events: list[UpdateJobs]
    refused: list[controller_pb2.JobResult]
    messages: list[str]


@dataclass
class Filtering:
    """The way of requests through the filters in force."""

    _runtime: Runtime
    _filter: SubmitFilter

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
                said += await self._one(job, None if offset else changed.spec, actor, {**facts, **number})
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
            said = await self._one(changed.job, changed.spec, actor, {})
            self._check(changed)
        except FilterError as error:
            self._filter.failed(f"a crontab of {actor.user_name}", error)
            return entry, []
        return changed, said

    async def updates(
        self, several: Iterable[UpdateJobs], dates_of: Callable[[Mapping[str, str]], dict[str, int]]
    ) -> FilteredUpdates:
        """Shows a filter each job of an update, and returns events of those that it has not refused. Raises BadRequest."""
        left = FilteredUpdates([], [], [])
        for event in several:
            for one in _single(event):
                rows = await select_rows(self._runtime.snapshot, _named(one), False)
                if not rows:  # the core says what is wrong with the id
                    left.events.append(one)
                    continue
                try:
                    left.events.append(await self._update(one, rows[0], dates_of, left.messages))
                except BadRequest as error:
                    name = one.ids[0] if one.ids else str(rows[0].job_id)
                    left.refused.append(controller_pb2.JobResult(id=name, code=error.code, text=error.text))
        return left

    async def _update(
        self, event: UpdateJobs, row: JobRow, dates_of: Callable[[Mapping[str, str]], dict[str, int]], said: list[str]
    ) -> UpdateJobs:
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
        except FilterError as error:
            self._filter.failed(f"an update of job {row.job_id} by {actor.user_name}", error)
            return event
        self._filter.refused(answer)
        said += answer.messages
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


def _single(event: UpdateJobs) -> Iterable[UpdateJobs]:
    """Yields an event for each job that is named."""
    if len(event.ids) > 1:
        return (replace(event, ids=(one,), tasks=None) for one in event.ids)
    if event.chosen:
        return (replace(event, chosen=(one,)) for one in event.chosen)
    return (event,)


def _named(event: UpdateJobs) -> JobFilter:
    if event.chosen:
        return JobFilter(ids=(str(event.chosen[0]),))
    return event.which if event.which is not None else JobFilter(ids=event.ids)


def _texts(changed: Mapping[str, object]) -> dict[str, str]:
    """Returns changes whose values are texts. Raises FilterError."""
    for name, value in changed.items():
        if not isinstance(value, str):
            raise FilterError(f"the filter has set {name[:64]} to {value!r:.80}, which is no text")
    return {name: str(value) for name, value in changed.items()}


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
