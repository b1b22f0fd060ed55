"""The Controller service: each method turns a message into an event, waits for its Reply, and turns that into the
answer. No decisions: who may call is the gate's (rights.py), what may be done is the core's.

Reading methods do not trouble the core: jobs come from the committed snapshot, histories from the database.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

from ctld.core.effects import Created, Done, Ended, Refusal, Refused, Results, Submitted
from ctld.core.events import (
    Actor,
    AwaitJob,
    CancelJobs,
    ControlAction,
    ControlJobs,
    CreateReservation,
    DeleteReservation,
    RecordAct,
    Role,
    SubmitJob,
    UpdateJobs,
    UpdateReservation,
)
from ctld.core.foresee import foresee, inquire_start
from ctld.core.model import Qos
from ctld.core.update_keys import DATES
from ctld.rpc import clusterinfo, gpuinfo, reservations, wanted
from ctld.rpc.administration import Administration
from ctld.rpc.auth import caller, current_peer
from ctld.rpc.changes import qos_event
from ctld.rpc.denials import address_of
from ctld.rpc.joblists import JobLists
from ctld.rpc.refusals import BadRequest, refuse_as, translated
from ctld.rpc.runas import submitted_for
from ctld.rpc.services import Services
from ctld.rpc.sight import hidden_partitions, is_private, job_sight, script_sight, sees_reservation
from ctld.rpc.users import job_filter
from ctld.runtime.points import crash_point
from penstock.security.join import SECRET_BYTES, admit
from penstock.v1 import common_pb2, controller_pb2
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand
from penstock.values.limits import texts
from penstock.values.refusals import TEXT, Code
from penstock.values.states import ACTIVE_STATES


class ControllerService(Administration):
    """The methods, by the names of the service."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._runtime = services.runtime
        self._names = services.names
        self._job_lists = JobLists(services)

    async def _ask(self, event: Any, context: Any) -> Any:
        body = await self._runtime.ask(event)
        if type(body) is Refusal:
            await refuse_as(context, body)
        return body

    # ---- submit and wait -----------------------------------------------------------------------------------------

    @translated
    async def SubmitJob(self, request: Any, context: Any) -> Any:
        """Queue a job; the answer leaves when it is durable."""
        key, key_at_us = wanted.submit_key(request.request_key)
        job = wanted.wanted_job(request.job)
        spec = wanted.spec_row(request.spec, self._runtime.core.state.config, not job.kind)
        components = wanted.components(request.components)
        reply_to = self._runtime.new_reply_to()
        event = SubmitJob(caller(), key, key_at_us, job, spec, request.test_only, reply_to, components)
        event = await submitted_for(event, self._runtime.core.state.config.slurm_user, self._services.directory)
        crash_point("submit:before-step")
        body: Submitted = await self._ask(event, context)
        if request.test_only:
            return await self._expected(event, body)
        return controller_pb2.SubmitJobReply(
            job_id=body.job_id,
            warnings=body.warnings,
        )

    async def _expected(self, event: Any, body: Submitted) -> Any:
        """--test-only: when and where it would start, the whole queue given. Raises BadRequest."""
        runtime = self._runtime
        try:
            expected = await self._services.thinker.ask(
                foresee, lambda: inquire_start(runtime.core.state, runtime.clock_us(), event)
            )
        except Refused as error:  # since the core looked, the configuration has changed
            raise BadRequest(error.code, error.text) from None
        return controller_pb2.SubmitJobReply(
            job_id=body.job_id,
            warnings=body.warnings,
            start_at_us=expected.start_s * 1_000_000 if expected is not None else 0,
            node_list=compress(expected.nodes) if expected is not None else "",
            cpus=body.cpus,
            partition=expected.partition if expected is not None else body.partition,
        )

    @translated
    async def AwaitJob(self, request: Any, context: Any) -> Any:
        """Answer when the job has ended."""
        event = AwaitJob(caller(), request.job_id, self._runtime.new_reply_to())
        body: Ended = await self._ask(event, context)
        exit_status = common_pb2.ExitStatus(code=body.exit_code, signal=body.exit_signal)
        return controller_pb2.AwaitJobReply(exit=exit_status, state=body.state, cause=body.cause)

    # ---- change --------------------------------------------------------------------------------------------------

    @translated
    async def CancelJobs(self, request: Any, context: Any) -> Any:
        """scancel."""
        which = await job_filter(request.filter, self._names)
        event = CancelJobs(
            caller(), which, request.signal, request.batch_only, request.full, self._runtime.new_reply_to(),
            request.cron,
        )  # fmt: skip
        crash_point("cancel:before-step")
        return self._results(await self._ask(event, context), context, "CancelJobs")

    @translated
    async def ControlJobs(self, request: Any, context: Any) -> Any:
        """Hold, release, requeue."""
        try:
            action = ControlAction(request.action)
        except ValueError:
            raise BadRequest(Code.NOT_SUPPORTED, f"action {request.action} is not known") from None
        event = ControlJobs(caller(), tuple(request.ids), action, self._runtime.new_reply_to())
        return self._results(await self._ask(event, context), context, "ControlJobs")

    @translated
    async def UpdateJobs(self, request: Any, context: Any) -> Any:
        """scontrol update jobid=."""
        changes = wanted.changes_of(request.changes)
        dates = {}
        for name in DATES:
            if changes.get(name):  # without a value the date is taken back
                try:
                    dates[name] = parse_date_us(changes[name], self._runtime.clock_us())
                except BadValue as error:
                    raise BadRequest(Code.INVALID_TIME_VALUE, f"{TEXT[Code.INVALID_TIME_VALUE]}: {error}") from None
        which = None
        if request.job_name:
            users = [request.user] if request.user else []
            states = [state.name for state in sorted(ACTIVE_STATES)]
            message = controller_pb2.JobFilter(names=[request.job_name], users=users, states=states)
            which = await job_filter(message, self._names)
        reply_to = self._runtime.new_reply_to()
        event = UpdateJobs(await self._acting(request), tuple(request.ids), changes, dates, reply_to, which)
        return self._results(await self._ask(event, context), context, "UpdateJobs")

    def _results(self, body: Results | Done, context: Any, method: str) -> controller_pb2.JobResultsReply:
        results = body.results if isinstance(body, Results) else ()
        denied = [result.id for result in results if result.code == Code.ACCESS_DENIED]
        if denied:
            text = f"{TEXT[Code.ACCESS_DENIED]}: job {','.join(denied)}"
            self._services.denials.note(current_peer(), method, text, context.peer())
        return controller_pb2.JobResultsReply(
            results=[controller_pb2.JobResult(id=r.id, code=r.code, text=r.text) for r in results]
        )

    @translated
    async def CreateReservation(self, request: Any, context: Any) -> Any:
        """scontrol create reservation."""
        wish = await self._wanted_reservation(request)
        event = CreateReservation(caller(), request.name, wish, self._runtime.new_reply_to())
        body: Created = await self._ask(event, context)
        return controller_pb2.CreateReservationReply(name=body.name)

    @translated
    async def UpdateReservation(self, request: Any, context: Any) -> Any:
        """scontrol update reservationname=."""
        wish = await self._wanted_reservation(request)
        event = UpdateReservation(caller(), request.name, wish, self._runtime.new_reply_to())
        await self._ask(event, context)
        return controller_pb2.Empty()

    async def _wanted_reservation(self, request: Any) -> Any:
        changes = wanted.changes_of(request.changes)
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
    async def DeleteReservation(self, request: Any, context: Any) -> Any:
        """scontrol delete reservationname=."""
        await self._ask(DeleteReservation(caller(), request.name, self._runtime.new_reply_to()), context)
        return controller_pb2.Empty()

    @translated
    async def ChangeQos(self, request: Any, context: Any) -> Any:
        """sacctmgr add, modify, delete qos."""
        await self._ask(qos_event(caller(), request, self._runtime.new_reply_to()), context)
        return controller_pb2.Empty()

    async def _acting(self, request: Any) -> Actor:
        """Who changes a job: the caller, or by --uid somebody whose rights he has anyway. Raises BadRequest."""
        actor = caller()
        if not request.HasField("as_uid") or request.as_uid == actor.uid:
            return actor
        if actor.role < Role.OPERATOR:
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        name = await self._names.name(request.as_uid)
        return Actor(request.as_uid, -1, name, "", (), Role.USER, by=actor)

    # ---- read ----------------------------------------------------------------------------------------------------

    async def ListJobs(self, request: Any, context: Any) -> AsyncIterator[bytes]:
        """Jobs as committed, in pages, encoded already."""
        try:
            async for page in self._job_lists.pages(request, caller()):
                yield page
        except BadRequest as error:
            await refuse_as(context, error)

    @translated
    async def ListNodes(self, request: Any, context: Any) -> Any:
        """Nodes, in the order of the configuration."""
        try:
            wanted_names = {name for text in request.names for name in expand(text)}
        except BadValue as error:
            raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {error}") from None
        state, links = self._runtime.core.state, self._services.registry.by_node
        if is_private(state.config, caller(), "nodes"):
            return controller_pb2.ListNodesReply()
        uids = dict.fromkeys(node.reason_uid for node in state.node_list if node.reason)
        uids |= dict.fromkeys(gpuinfo.drain_uids(state.node_list) if request.gpus else ())
        users = {uid: await self._names.name(uid) for uid in uids}
        nodes = [node for node in state.node_list if not wanted_names or node.name in wanted_names]
        partitions = clusterinfo.partitions_of_nodes(state)
        reserved = clusterinfo.reservations_of_nodes(state, self._runtime.clock_us())
        gpus = gpuinfo.gpu_infos(state, nodes, users, job_sight(state, caller())) if request.gpus else {}
        return controller_pb2.ListNodesReply(
            nodes=[
                clusterinfo.node_info(
                    state,
                    node,
                    partitions.get(node.name, ()),
                    links.get(node.name),
                    users.get(node.reason_uid, "") if node.reason else "",
                    reserved.get(node.name, ()),
                    gpus.get(node.name, ()),
                )
                for node in nodes
            ]
        )

    @translated
    async def ListPartitions(self, request: Any, context: Any) -> Any:
        """Partitions, in the order of the configuration."""
        state, actor = self._runtime.core.state, caller()
        if is_private(state.config, actor, "partitions"):
            return controller_pb2.ListPartitionsReply()
        hidden = hidden_partitions(state, actor) if request.hide_hidden else ()
        return controller_pb2.ListPartitionsReply(
            partitions=[
                clusterinfo.partition_info(state, partition)
                for partition in state.partition_list
                if partition.name not in hidden
            ]
        )

    @translated
    async def ListReservations(self, request: Any, context: Any) -> Any:
        """Reservations, in the order of their creation."""
        state, now_us = self._runtime.core.state, self._runtime.clock_us()
        seen = [r for r in state.reservations.values() if sees_reservation(state.config, caller(), r)]
        return controller_pb2.ListReservationsReply(
            reservations=[reservations.reservation_info(state, r, now_us) for r in seen]
        )

    @translated
    async def ListQos(self, request: Any, context: Any) -> Any:
        """Qualities of service, in the order of their names."""
        state = self._runtime.core.state
        known = state.registry.qos_deleted | state.qos if request.with_deleted else state.qos
        names = [name for name in sorted(known) if not request.names or name in request.names]
        return controller_pb2.ListQosReply(qos=[_qos(known[name]) for name in names])

    @translated
    async def ListLicenses(self, request: Any, context: Any) -> Any:
        """Licenses, in the order of the configuration."""
        now_us = self._runtime.clock_us()
        return controller_pb2.ListLicensesReply(licenses=clusterinfo.licenses(self._runtime.core.state, now_us))

    @translated
    async def ShowTopology(self, request: Any, context: Any) -> Any:
        """Switches or blocks: names of nodes."""
        if is_private(self._runtime.core.state.config, caller(), "nodes"):
            return controller_pb2.ShowTopologyReply()
        return clusterinfo.topology(self._runtime.core.state)

    @translated
    async def GetBatchScript(self, request: Any, context: Any) -> Any:
        """A job's script, for those who may see it (sight.py)."""
        row, state, actor = self._runtime.snapshot.jobs.get(request.job_id), self._runtime.core.state, caller()
        if row is None or not job_sight(state, actor).sees(row):
            raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        if not script_sight(state, actor).sees(row):
            raise BadRequest(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED])
        spec = await self._services.specs.get(row.spec_hash)
        if spec is None:
            raise BadRequest(Code.INTERNAL, TEXT[Code.INTERNAL])
        return controller_pb2.GetBatchScriptReply(script=spec.script)

    @translated
    async def Story(self, request: Any, context: Any) -> Any:
        """What happened to a job. With PrivateData=jobs: to one that the caller sees, as long as it is listed."""
        sight = job_sight(self._runtime.core.state, caller())
        if sight.uid >= 0:
            row = self._runtime.snapshot.jobs.get(request.job_id)
            if row is None or not sight.sees(row):
                raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        store, reader = self._services.store, self._services.reader
        lines = await asyncio.get_running_loop().run_in_executor(reader, store.history, request.job_id)
        if not lines:
            raise BadRequest(Code.INVALID_JOB_ID, TEXT[Code.INVALID_JOB_ID])
        return controller_pb2.StoryReply(
            lines=[
                controller_pb2.StoryLine(at_us=h.at_us, attempt=h.attempt, event=h.event, detail=h.detail)
                for h in lines
            ]
        )

    @translated
    async def Ping(self, request: Any, context: Any) -> Any:
        """Who answers, and how much there is to do."""
        return self._services.ping()

    # ---- the controller itself -----------------------------------------------------------------------------------

    @translated
    async def Reconfigure(self, request: Any, context: Any) -> Any:
        """Read the configuration again; all of it takes force or nothing. A dry run says what that would do."""
        if request.dry_run:
            found = await self._services.preview()
            return controller_pb2.ReconfigureReply(
                warnings=found.warnings, changes=found.changes, problems=found.problems, jobs=found.jobs
            )
        warnings = await self._services.reconfigure(self._services.act("reconfigure"))
        self.temporary.forget()
        return controller_pb2.ReconfigureReply(warnings=warnings)

    @translated
    async def Shutdown(self, request: Any, context: Any) -> Any:
        """Stop cleanly; jobs go on."""
        await self._services.record("shutdown")
        self._services.shutdown(f"asked by {caller().user_name}")
        return controller_pb2.Empty()

    @translated
    async def CreateNodeToken(self, request: Any, context: Any) -> Any:
        """A one-use token with which a node of the configuration, or a login host, may join."""
        role = "login" if request.login_host else "node"
        if role == "node" and request.node_name not in self._runtime.core.state.nodes:
            raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {request.node_name[:64]!r}")
        token, expires_at_us = self._services.join_tokens.create(
            request.node_name, secrets.token_bytes(SECRET_BYTES), self._runtime.clock_us(), role
        )
        await self._services.record("create join token", (f"{role} {request.node_name}",))
        return controller_pb2.CreateNodeTokenReply(token=token, expires_at_us=expires_at_us)

    @translated
    async def JoinNode(self, request: Any, context: Any) -> Any:
        """Trade a join token for a certificate."""
        certificate, ca = admit(
            self._services.authority(),
            self._services.join_tokens,
            request.token,
            request.node_name,
            request.csr_pem,
            self._runtime.clock_us(),
        )
        who = {"from": address_of(context.peer()), "auth": "join token"}
        objects = (f"host {request.node_name}",)
        await self._runtime.ask(RecordAct(None, "join", objects, more=who, reply_to=self._runtime.new_reply_to()))
        return controller_pb2.JoinNodeReply(certificate_pem=certificate, ca_pem=ca)


def _qos(record: Qos) -> controller_pb2.Qos:
    fields = record._asdict()
    return controller_pb2.Qos(id=fields.pop("qos_id"), **{**fields, "limits": texts(record.limits)})
