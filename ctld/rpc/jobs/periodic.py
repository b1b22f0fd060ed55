"""The Periodic service: crontabs and triggers.

Data are read from the core between two steps, as reservations are. A crontab may be read by its owner and by
administrators, since its lines are as private as a script.
"""

from ctld.core.lifecycle import triggers
from ctld.core.records.effects import CrontabUpdated, Refused, TriggersChanged
from ctld.core.records.events import Actor, ClearTriggers, CronEntry, Role, SetTrigger, UpdateCrontab
from ctld.core.records.periodic import Trigger
from ctld.core.requests import crontabs
from ctld.rpc.gate.auth import NO_GID, Authenticator, caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.hostlists import expand_nodes
from ctld.rpc.gate.refusals import translated
from ctld.rpc.gate.rights import admit_again
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import is_private
from ctld.rpc.jobs import submission
from ctld.rpc.jobs.filtering import Filtering, add_lines
from ctld.runtime.errors import BadRequest
from penstock.v1 import periodic_pb2
from penstock.values.hostlist import compress
from penstock.values.refusals import TEXT, Code


class PeriodicService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services, authenticator: Authenticator) -> None:
        self._services = services
        self._runtime = services.runtime
        self._authenticator = authenticator
        self._filtering = Filtering(services.runtime, services.submit_filter, services.scans)

    async def _uid(self, user: str) -> int:
        """Raises BadRequest."""
        uid = await self._services.names.uid(user)
        if uid is None:
            raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: {user[:64]}")
        return uid

    async def _owner(self, user: str) -> Actor:
        """Returns the owner of the crontab: by default the caller. Raises BadRequest."""
        actor = caller()
        uid = await self._uid(user) if user else actor.uid
        if uid == actor.uid:
            return actor
        owner = await self._authenticator.actor(uid, NO_GID)
        if owner.gid == NO_GID:
            raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: {user[:64]}")
        return owner

    # ---- crontabs ------------------------------------------------------------------------------------------------

    @translated
    async def GetCrontab(
        self, request: periodic_pb2.GetCrontabRequest, context: Context
    ) -> periodic_pb2.GetCrontabReply:
        """Returns a user's crontab as written, and its disabled entries."""
        actor = caller()
        uid = await self._uid(request.user) if request.user else actor.uid
        if uid != actor.uid and actor.role < Role.ADMINISTRATOR:
            raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: reading another user's crontab")
        self._check_enabled()
        found = self._runtime.core.state.periodic.crontabs.get(uid)
        if found is None:
            return periodic_pb2.GetCrontabReply()
        disabled = [periodic_pb2.LineRange(first=first, last=last) for first, last in found.disabled]
        return periodic_pb2.GetCrontabReply(found=True, text=found.text, disabled=disabled)

    def _check_enabled(self) -> None:
        if not self._runtime.core.state.config.has_word("scron_parameters", "enable"):
            raise BadRequest(Code.CRON_DISABLED, TEXT[Code.CRON_DISABLED])

    @translated
    async def UpdateCrontab(
        self, request: periodic_pb2.UpdateCrontabRequest, context: Context
    ) -> periodic_pb2.UpdateCrontabReply:
        """Replaces or removes a crontab."""
        owner = await self._owner(request.user)
        config = self._runtime.core.state.config
        try:  # before a filter sees the entries as the owner's
            crontabs.check_rights(self._runtime.core.state, caller(), owner)
        except Refused as error:
            raise BadRequest(error.code, error.text) from None
        wanted, said = list(request.entries), list[str]()
        for at, entry in enumerate(wanted if self._filtering.submits else ()):
            try:
                wanted[at], more = await self._filtering.entry(entry, owner)
            except BadRequest as error:
                return periodic_pb2.UpdateCrontabReply(failed_lines=entry.lines, code=error.code, text=error.text)
            add_lines(said, more)
        if wanted and self._filtering.submits:
            await admit_again(context, "/penstock.v1.Periodic/UpdateCrontab", self._authenticator)
        entries = tuple(
            CronEntry(
                submission.decode_submission(entry.job), submission.spec_row(entry.spec, config), entry.cron, entry.lines.first,
                entry.lines.last,
            )
            for entry in wanted
        )  # fmt: skip
        text = None if request.remove else request.text
        event = UpdateCrontab(caller(), owner, text, entries, self._runtime.new_reply_to())
        body: CrontabUpdated = await self._services.ask(event, context)
        first, last = body.failed_lines
        return periodic_pb2.UpdateCrontabReply(
            job_ids=body.job_ids,
            warnings=body.warnings,
            failed_lines=periodic_pb2.LineRange(first=first, last=last) if body.code else None,
            code=body.code,
            text=body.text,
            user_messages=said,
        )

    # ---- triggers ------------------------------------------------------------------------------------------------

    @translated
    async def SetTrigger(
        self, request: periodic_pb2.SetTriggerRequest, context: Context
    ) -> periodic_pb2.SetTriggerReply:
        """strigger --set."""
        if request.what and not request.what.replace("_", "").isalpha():
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: what a trigger waits for")
        nodes = expand_nodes(request.nodes) if request.nodes else ()
        event = SetTrigger(
            caller(), request.kinds, request.program, what=request.what, nodes=nodes, job_id=request.job_id,
            offset_s=request.offset_s, permanent=request.permanent, reply_to=self._runtime.new_reply_to(),
        )  # fmt: skip
        body: TriggersChanged = await self._services.ask(event, context)
        return periodic_pb2.SetTriggerReply(trigger_id=body.trigger_ids[0])

    @translated
    async def ListTriggers(
        self, request: periodic_pb2.ListTriggersRequest, context: Context
    ) -> periodic_pb2.ListTriggersReply:
        """Returns triggers, in the order of their ids; with PrivateData=jobs or users one's own."""
        state, actor = self._runtime.core.state, caller()
        private = any(is_private(state.config, actor, word) for word in ("jobs", "users"))
        known = [one for _, one in sorted(state.periodic.triggers.items()) if not private or one.uid == actor.uid]
        return periodic_pb2.ListTriggersReply(triggers=[_info(trigger) for trigger in known])

    @translated
    async def ClearTriggers(
        self, request: periodic_pb2.ClearTriggersRequest, context: Context
    ) -> periodic_pb2.ClearTriggersReply:
        """strigger --clear."""
        uid = await self._uid(request.user) if request.user else -1
        event = ClearTriggers(caller(), request.trigger_id, request.job_id, uid, self._runtime.new_reply_to())
        body: TriggersChanged = await self._services.ask(event, context)
        return periodic_pb2.ClearTriggersReply(trigger_ids=body.trigger_ids)


def _info(trigger: Trigger) -> periodic_pb2.TriggerInfo:
    return periodic_pb2.TriggerInfo(
        trigger_id=trigger.trigger_id,
        kinds=trigger.kinds,
        words=triggers.name_of(trigger),
        nodes=compress(trigger.nodes) if trigger.nodes else "",
        job_id=trigger.job_id,
        offset_s=trigger.offset_s,
        user_id=trigger.uid,
        user_name=trigger.user_name,
        program=trigger.program,
        permanent=trigger.permanent,
        due=bool(trigger.due_at_us) or trigger.running is not None,
    )
