"""The Controller service: each method turns a message into an event, waits for its Reply, and turns that into the
answer. No decisions: the gate (gate/rights.py) checks rights to methods, the core everything else.

Reading methods do not use the core: jobs come from the committed snapshot, histories from the database.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ctld.core.records import events
from ctld.core.records.effects import Created, JobEnded, Results, Submitted
from ctld.core.records.events import (
    Actor,
    AwaitJob,
    CancelJobs,
    ControlAction,
    ControlJobs,
    CreateReservation,
    DeleteReservation,
    ReservationSettings,
    Role,
    SubmitJob,
    UpdateJobs,
    UpdateReservation,
)
from ctld.core.records.job import JobRow
from ctld.core.records.qos import Qos
from ctld.core.requests import update_steps
from ctld.core.requests.update_keys import DATES
from ctld.rpc.accounting.changes import qos_event
from ctld.rpc.cluster import clusterinfo, reservations
from ctld.rpc.cluster.gpureadings import GpuReadingLists
from ctld.rpc.cluster.nodelists import NodeLists, NodeQuestion
from ctld.rpc.cluster.placemoments import PlaceMoments
from ctld.rpc.control import condition
from ctld.rpc.control.certificates import Certification
from ctld.rpc.control.parts import PART_IDS, PART_RECORDS, looks_for, partition, parts
from ctld.rpc.explain.expectedstart import expected_start
from ctld.rpc.gate.auth import Authenticator, caller, current_peer
from ctld.rpc.gate.bounds import CHANGED_IDS_MAX
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as, translated
from ctld.rpc.gate.rights import CONTROLLER, admit_again
from ctld.rpc.gate.runas import submitted_for
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.users import job_filter
from ctld.rpc.gate.visibility import hidden_partitions, is_private, job_visibility, script_visibility, sees_reservation
from ctld.rpc.jobs import submission
from ctld.rpc.jobs.filtering import Filtering
from ctld.rpc.jobs.joblists import JobLists
from ctld.rpc.jobs.listing import select_rows
from ctld.runtime.errors import BadRequest
from penstock.crash import crash_point
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand_all
from penstock.values.limits import texts
from penstock.values.refusals import TEXT, Code
from penstock.values.states import ACTIVE_STATES
from penstock.values.taskset import TaskSet

ReservationRequest = controller_pb2.CreateReservationRequest | controller_pb2.UpdateReservationRequest


class ControllerService(Certification):
    """The methods, by the names of the service."""

    def __init__(self, services: Services, authenticator: Authenticator) -> None:
        super().__init__(services)
        self._authenticator = authenticator
        self._runtime = services.runtime
        self._names = services.names
        self._specs = submission.SpecReader()
        self._job_lists = JobLists(services)
        self._moments = PlaceMoments()
        self._node_lists = NodeLists(self._moments)
        self._gpu_readings = GpuReadingLists()
        self._filtering = Filtering(services.runtime, services.submit_filter, services.scans)

    # ---- submit and wait -----------------------------------------------------------------------------------------

    @translated
    async def SubmitJob(
        self, request: controller_pb2.SubmitJobRequest, context: Context
    ) -> controller_pb2.SubmitJobReply:
        """Queues a job; the answer is sent when it is durable."""
        key, key_at_us = submission.submit_key(request.request_key)
        job = submission.decode_submission(request.job)
        spec = self._specs.read(request.spec, self._runtime.core.state.config, not job.kind)
        components = submission.components(request.components)
        reply_to = self._runtime.new_reply_to()
        event = SubmitJob(caller(), key, key_at_us, job, spec, request.test_only, reply_to, components)
        event = await submitted_for(event, self._runtime.core.state.config.slurm_user, self._services.directory)
        messages: tuple[str, ...] = ()
        if self._filtering.submits:
            event, messages = await self._filtering.submission(request, event)
            await admit_again(context, CONTROLLER + "SubmitJob", self._authenticator)
        crash_point("submit:before-step")
        body: Submitted = await self._services.ask(event, context)
        if request.test_only:
            reply = await expected_start(self._services, event, body, request.compare_plans)
            reply.user_messages.extend(messages)
            return reply
        if request.received_at_us and self._runtime.received is not None:
            self._runtime.received(body.job_id, request.received_at_us)
        return controller_pb2.SubmitJobReply(job_id=body.job_id, warnings=body.warnings, user_messages=messages)

    @translated
    async def AwaitJob(self, request: controller_pb2.AwaitJobRequest, context: Context) -> controller_pb2.AwaitJobReply:
        """Answers when the job has ended."""
        event = AwaitJob(caller(), request.job_id, self._runtime.new_reply_to())
        body: JobEnded = await self._services.ask(event, context)
        exit_status = common_pb2.ExitStatus(code=body.exit_code, signal=body.exit_signal)
        return controller_pb2.AwaitJobReply(exit=exit_status, state=body.state, cause=body.cause)

    # ---- change --------------------------------------------------------------------------------------------------

    @translated
    async def CancelJobs(
        self, request: controller_pb2.CancelJobsRequest, context: Context
    ) -> controller_pb2.JobResultsReply:
        """scancel."""
        which = await job_filter(request.filter, self._names)
        event = CancelJobs(caller(), which, request.signal, request.batch_only, request.full, cron=request.cron)
        crash_point("cancel:before-step")
        if which.ids:
            if len(which.ids) > CHANGED_IDS_MAX:
                raise BadRequest(Code.INVALID_VALUE, f"{len(which.ids)} job ids, the limit is {CHANGED_IDS_MAX}")
            several: Iterable[CancelJobs] = (
                replace(event, which=replace(which, ids=ids), tasks=tasks)
                for ids, tasks in self._ids_in_parts(which.ids)
            )
        else:
            async with self._services.scans.one(event.actor.uid) as pace:
                rows = await select_rows(self._runtime.snapshot, which, False, pace)
            chosen = [row.job_id for row in rows]
            several = (replace(event, chosen=some) for some in parts(chosen)) if len(chosen) > PART_IDS else (event,)
        return await self._in_parts(several, context, "CancelJobs")

    def _ids_in_parts(
        self, ids: Sequence[str], is_last_first: bool = False
    ) -> Iterator[tuple[tuple[str, ...], TaskSet | None]]:
        """Yields the ids of each event, and which tasks of the one array that they name; None = all. `is_last_first`: the
        events in reverse, of ids in reverse."""
        snapshot = self._runtime.snapshot
        for some in parts(ids, lambda text: looks_for(snapshot, text)):
            sets = partition(snapshot, some[0], PART_RECORDS) if len(some) == 1 else []
            yield from ((some, tasks) for tasks in (sets[::-1] if is_last_first else sets) or (None,))

    async def _in_parts(
        self,
        events: Iterable[events.CancelJobs | events.ControlJobs | events.UpdateJobs],
        context: Context,
        method: str,
        refused: Sequence[controller_pb2.JobResult] = (),
    ) -> controller_pb2.JobResultsReply:
        """Asks one event after the other. The reply grows with each, since 20,000 messages at once would hold the
        loop. `refused`: results that are known already."""
        reply = controller_pb2.JobResultsReply()
        denied = [result.id for result in refused if result.code == Code.ACCESS_DENIED]
        for event in events:
            body = await self._services.ask(replace(event, reply_to=self._runtime.new_reply_to()), context)
            results = [
                controller_pb2.JobResult(id=r.id, code=r.code, text=r.text)
                for r in (body.results if isinstance(body, Results) else ())
            ]
            denied += (result.id for result in results if result.code == Code.ACCESS_DENIED)
            is_part = event.tasks is not None or (not isinstance(event, ControlJobs) and event.chosen)
            if is_part and results and reply.results and reply.results[-1].id == results[0].id:
                # more of the same array: it is refused if all of its records are
                if reply.results[-1].code and not results[0].code:
                    reply.results[-1].CopyFrom(results[0])
                continue
            reply.results.extend(results)
        reply.results.extend(refused)
        if denied:
            text = f"{TEXT[Code.ACCESS_DENIED]}: job {','.join(dict.fromkeys(denied))}"
            self._services.denials.note(current_peer(), method, text, context.peer())
        return reply

    @translated
    async def ControlJobs(
        self, request: controller_pb2.ControlJobsRequest, context: Context
    ) -> controller_pb2.JobResultsReply:
        """Hold, release, requeue."""
        try:
            action = ControlAction(request.action)
        except ValueError:
            raise BadRequest(Code.NOT_SUPPORTED, f"action {request.action} is not known") from None
        actor = caller()
        if action is ControlAction.TOP:  # the last one first, also within each part
            reverse = self._ids_in_parts(request.ids[::-1], is_last_first=True)
            several = (ControlJobs(actor, ids[::-1], action, tasks=tasks) for ids, tasks in reverse)
        else:
            several = (ControlJobs(actor, ids, action, tasks=tasks) for ids, tasks in self._ids_in_parts(request.ids))
        return await self._in_parts(several, context, "ControlJobs")

    @translated
    async def UpdateJobs(
        self, request: controller_pb2.UpdateJobsRequest, context: Context
    ) -> controller_pb2.JobResultsReply:
        """scontrol update jobid=."""
        changes = dict(request.changes)
        dates = self._dates(changes)
        which = None
        if request.job_name:
            users = [request.user] if request.user else []
            states = [state.name for state in sorted(ACTIVE_STATES)]
            message = controller_pb2.JobFilter(names=[request.job_name], users=users, states=states)
            which = await job_filter(message, self._names)
        event = UpdateJobs(await self._acting(request), (), changes, dates, which=which)
        rows: list[JobRow] = []
        if which is not None:
            async with self._services.scans.one(event.actor.uid) as pace:
                rows = await select_rows(self._runtime.snapshot, which, False, pace)
        if self._filtering.modifies and update_steps.KEY not in changes:
            left = await self._filtering.updates(event, () if which is not None else request.ids, rows, self._dates)
            await admit_again(context, CONTROLLER + "UpdateJobs", self._authenticator)
            reply = await self._in_parts(left.events, context, "UpdateJobs", left.refused)
            reply.user_messages.extend(left.messages)
        elif which is not None:
            ids = [row.job_id for row in rows]
            some = (tuple(ids[at : at + PART_RECORDS]) for at in range(0, len(ids), PART_RECORDS))
            reply = await self._in_parts((replace(event, chosen=chosen) for chosen in some), context, "UpdateJobs")
        else:
            several = (replace(event, ids=ids, tasks=tasks) for ids, tasks in self._ids_in_parts(request.ids))
            reply = await self._in_parts(several, context, "UpdateJobs")
        if which is not None and not reply.results:  # in no part is a job of the caller's
            raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        return reply

    def _dates(self, changes: Mapping[str, str]) -> dict[str, int]:
        """Returns the dates in changes of a job; one without a value is reset. Raises BadRequest."""
        now_us = self._runtime.clock_us()
        try:
            return {name: parse_date_us(changes[name], now_us) for name in DATES if changes.get(name)}
        except BadValue as error:
            raise BadRequest(Code.INVALID_TIME_VALUE, f"{TEXT[Code.INVALID_TIME_VALUE]}: {error}") from None

    @translated
    async def CreateReservation(
        self, request: controller_pb2.CreateReservationRequest, context: Context
    ) -> controller_pb2.CreateReservationReply:
        """scontrol create reservation."""
        settings = await self._wanted_reservation(request)
        event = CreateReservation(caller(), request.name, settings, self._runtime.new_reply_to())
        body: Created = await self._services.ask(event, context)
        return controller_pb2.CreateReservationReply(name=body.name)

    @translated
    async def UpdateReservation(
        self, request: controller_pb2.UpdateReservationRequest, context: Context
    ) -> controller_pb2.Empty:
        """scontrol update reservationname=."""
        settings = await self._wanted_reservation(request)
        event = UpdateReservation(caller(), request.name, settings, self._runtime.new_reply_to())
        await self._services.ask(event, context)
        return controller_pb2.Empty()

    async def _wanted_reservation(self, request: ReservationRequest) -> ReservationSettings:
        changes = dict(request.changes)
        users, groups = reservations.users_and_groups(changes)
        uids: dict[str, int] = {}
        for user in users:
            uid = await self._names.uid(user)
            if uid is None:
                raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: {user[:64]}")
            uids[user] = uid
        members = {group: await self._names.members(group) for group in groups}
        unknown = next((group for group, found in members.items() if found is None), None)
        if unknown is not None:
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: no group {unknown[:64]}")
        names = reservations.Names(uids, {group: found or () for group, found in members.items()})
        return reservations.wanted_reservation(changes, names, self._runtime.clock_us())

    @translated
    async def DeleteReservation(
        self, request: controller_pb2.DeleteReservationRequest, context: Context
    ) -> controller_pb2.Empty:
        """scontrol delete reservationname=."""
        await self._services.ask(DeleteReservation(caller(), request.name, self._runtime.new_reply_to()), context)
        return controller_pb2.Empty()

    @translated
    async def ChangeQos(self, request: controller_pb2.ChangeQosRequest, context: Context) -> controller_pb2.Empty:
        """sacctmgr add, modify, delete qos."""
        await self._services.ask(qos_event(caller(), request, self._runtime.new_reply_to()), context)
        return controller_pb2.Empty()

    async def _acting(self, request: controller_pb2.UpdateJobsRequest) -> Actor:
        """Returns the actor of a change of a job: the caller, or with --uid a user whose rights the caller has anyway.
        Raises BadRequest."""
        actor = caller()
        if not request.HasField("as_uid") or request.as_uid == actor.uid:
            return actor
        if actor.role < Role.OPERATOR:
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        name = await self._names.name(request.as_uid)
        return Actor(request.as_uid, -1, name, "", (), Role.USER, by=actor)

    # ---- read ----------------------------------------------------------------------------------------------------

    async def ListJobs(self, request: controller_pb2.ListJobsRequest, context: Context) -> AsyncIterator[bytes]:
        """Returns committed jobs, in pages that are encoded already."""
        try:
            async for page in self._job_lists.pages(request, caller()):
                yield page
        except BadRequest as error:
            await refuse_as(context, error)

    @translated
    async def ListNodes(
        self, request: controller_pb2.ListNodesRequest, context: Context
    ) -> controller_pb2.ListNodesReply | bytes:
        """Nodes, in the order of the configuration."""
        wanted_names = _node_names(request.names)
        state, links = self._runtime.core.state, self._services.registry.by_node
        if is_private(state.config, caller(), "nodes"):
            return controller_pb2.ListNodesReply()
        uids = self._moments.reason_uids(state, request.gpus)
        users = {uid: await self._names.shown(uid) for uid in uids}
        visibility = job_visibility(state, caller())
        now_us = self._runtime.clock_us()
        return self._node_lists.answer(NodeQuestion(state, links, request, wanted_names, users, visibility, now_us))

    @translated
    async def ListGpuReadings(
        self, request: controller_pb2.ListGpuReadingsRequest, context: Context
    ) -> controller_pb2.ListGpuReadingsReply | bytes:
        """What the GPUs of nodes do now, in the order of the configuration."""
        names = _node_names(request.names)
        state, links = self._runtime.core.state, self._services.registry.by_node
        if is_private(state.config, caller(), "nodes"):
            return controller_pb2.ListGpuReadingsReply()
        return await self._gpu_readings.answer(state, links, request, names, self._runtime.clock_us())

    @translated
    async def ListPartitions(
        self, request: controller_pb2.ListPartitionsRequest, context: Context
    ) -> controller_pb2.ListPartitionsReply:
        """Partitions, in the order of the configuration."""
        state, actor = self._runtime.core.state, caller()
        if is_private(state.config, actor, "partitions"):
            return controller_pb2.ListPartitionsReply()
        moment = self._moments.of_partitions(state, request, actor) if request.HasField("known") else b""
        if moment and moment == request.known:
            return controller_pb2.ListPartitionsReply(moment=moment, unchanged=True)
        hidden = hidden_partitions(state, actor) if request.hide_hidden else ()
        return controller_pb2.ListPartitionsReply(
            moment=moment,
            partitions=[
                clusterinfo.partition_info(state, partition)
                for partition in state.partition_list
                if partition.name not in hidden
            ],
        )

    @translated
    async def ListReservations(
        self, request: controller_pb2.ListReservationsRequest, context: Context
    ) -> controller_pb2.ListReservationsReply:
        """Reservations, in the order of their creation."""
        state, now_us = self._runtime.core.state, self._runtime.clock_us()
        moment = self._moments.of_reservations(state, caller(), now_us) if request.HasField("known") else b""
        if moment and moment == request.known:
            return controller_pb2.ListReservationsReply(moment=moment, unchanged=True)
        seen = [r for r in state.reservations.values() if sees_reservation(state.config, caller(), r)]
        return controller_pb2.ListReservationsReply(
            moment=moment, reservations=[reservations.reservation_info(state, r, now_us) for r in seen]
        )

    @translated
    async def ListQos(self, request: controller_pb2.ListQosRequest, context: Context) -> controller_pb2.ListQosReply:
        """Qualities of service, in the order of their names."""
        state = (await self._services.view(request.cluster)).state
        known = state.registry.qos_deleted | state.qos if request.with_deleted else state.qos
        names = [name for name in sorted(known) if not request.names or name in request.names]
        return controller_pb2.ListQosReply(qos=[qos_message(known[name]) for name in names])

    @translated
    async def ListLicenses(
        self, request: controller_pb2.ListLicensesRequest, context: Context
    ) -> controller_pb2.ListLicensesReply:
        """Licenses, in the order of the configuration."""
        now_us = self._runtime.clock_us()
        return controller_pb2.ListLicensesReply(licenses=clusterinfo.licenses(self._runtime.core.state, now_us))

    @translated
    async def ShowTopology(
        self, request: controller_pb2.ShowTopologyRequest, context: Context
    ) -> controller_pb2.ShowTopologyReply:
        """Returns switches or blocks, with names of nodes."""
        if is_private(self._runtime.core.state.config, caller(), "nodes"):
            return controller_pb2.ShowTopologyReply()
        return clusterinfo.topology(self._runtime.core.state)

    @translated
    async def GetBatchScript(
        self, request: controller_pb2.GetBatchScriptRequest, context: Context
    ) -> controller_pb2.GetBatchScriptReply:
        """Returns a job's script, or its environment, for those who may see it (gate/visibility.py)."""
        row = self._runtime.snapshot.jobs.get(request.job_id)
        state = self._runtime.core.state
        actor = caller()
        if row is None or not job_visibility(state, actor).sees(row):
            raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        if not script_visibility(state, actor).sees(row):
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        spec = await self._services.specs.get(row.spec_hash)
        if spec is None:
            raise BadRequest(Code.INTERNAL, TEXT[Code.INTERNAL])
        if request.environment:
            return controller_pb2.GetBatchScriptReply(environment=spec.environment)
        return controller_pb2.GetBatchScriptReply(script=spec.script)

    @translated
    async def ShowController(
        self, request: controller_pb2.ShowControllerRequest, context: Context
    ) -> controller_pb2.ShowControllerReply:
        """Returns what the controller stands on: certificates, and its database without a password."""
        return await condition.shown(self._services)

    @translated
    async def Story(self, request: controller_pb2.StoryRequest, context: Context) -> controller_pb2.StoryReply:
        """Returns a job's history. With PrivateData=jobs only of a visible job, as long as it is listed."""
        visibility = job_visibility(self._runtime.core.state, caller())
        if visibility.uid >= 0:
            row = self._runtime.snapshot.jobs.get(request.job_id)
            if row is None or not visibility.sees(row):
                raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        lines = await self._services.story(request.job_id)
        if not lines:
            raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        return controller_pb2.StoryReply(
            lines=[
                controller_pb2.StoryLine(
                    at_us=h.at_us,
                    attempt=h.attempt,
                    event=h.event,
                    detail=visibility.redact(h.detail, self._runtime.snapshot.jobs),
                )
                for h in lines
            ]
        )

    @translated
    async def Ping(self, request: controller_pb2.PingRequest, context: Context) -> controller_pb2.PingReply:
        """Returns the controller's identity, and the number of its jobs."""
        return self._services.ping()

    # ---- the controller itself -----------------------------------------------------------------------------------

    @translated
    async def Reconfigure(
        self, request: controller_pb2.ReconfigureRequest, context: Context
    ) -> controller_pb2.ReconfigureReply:
        """Reloads the configuration, completely or not at all. A dry run reports the effects."""
        if request.dry_run:
            found = await self._services.preview()
            return controller_pb2.ReconfigureReply(
                warnings=found.warnings, changes=found.changes, problems=found.problems, jobs=found.jobs,
                differences=[controller_pb2.ConfigDifference(**one._asdict()) for one in found.differences],
            )  # fmt: skip
        warnings = await self._services.reconfigure(self._services.act("reconfigure"))
        self.temporary.forget()
        return controller_pb2.ReconfigureReply(warnings=warnings)

    @translated
    async def Shutdown(self, request: controller_pb2.ShutdownRequest, context: Context) -> controller_pb2.Empty:
        """Stops cleanly; jobs continue."""
        await self._services.record("shutdown")
        self._services.shutdown(f"asked by {caller().user_name}")
        return controller_pb2.Empty()


def _node_names(texts: Iterable[str]) -> Collection[str]:
    """Returns the nodes of a request's lists. Raises BadRequest."""
    try:
        return expand_all(texts)
    except BadValue as error:
        raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {error}") from None


def qos_message(record: Qos) -> controller_pb2.Qos:
    """A QOS as ListQos shows it; those that it preempts by name, as in Slurm."""
    fields = {**record._asdict(), "limits": texts(record.limits), "preempt": sorted(record.preempt)}
    return controller_pb2.Qos(id=fields.pop("qos_id"), **fields)
