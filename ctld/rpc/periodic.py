"""The Periodic service: crontabs and triggers.

What is shown is read from the core between two steps, as reservations are. A crontab may be read by its owner and by
administrators, since its lines are as private as a script.
"""

from typing import Any, Final

from ctld.core import triggers
from ctld.core.effects import CrontabUpdated, Refusal, TriggersChanged
from ctld.core.events import Actor, ClearTriggers, CronEntry, Role, SetTrigger, UpdateCrontab
from ctld.core.periodic import Trigger
from ctld.rpc import wanted
from ctld.rpc.auth import Authenticator, caller
from ctld.rpc.refusals import BadRequest, refuse_as, translated
from ctld.rpc.services import Services
from ctld.rpc.sight import is_private
from penstock.v1 import periodic_pb2
from penstock.values.errors import BadValue
from penstock.values.hostlist import compress, expand
from penstock.values.refusals import TEXT, Code

#: Entries of one request; the core's own limit is lower.
ENTRIES_MAX: Final = 10_000
#: No group: the owner's own one is looked up.
NO_GID: Final = 0xFFFFFFFF
#: Slurm's words for what triggers may wait for are at most this long.
WORD_MAX: Final = 64


class PeriodicService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services, authenticator: Authenticator) -> None:
        self._services = services
        self._runtime = services.runtime
        self._authenticator = authenticator

    async def _ask(self, event: Any, context: Any) -> Any:
        body = await self._runtime.ask(event)
        if type(body) is Refusal:
            await refuse_as(context, body)
        return body

    async def _uid(self, user: str) -> int:
        """Raises BadRequest."""
        uid = await self._services.names.uid(user)
        if uid is None:
            raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: {user[:64]}")
        return uid

    async def _owner(self, user: str) -> Actor:
        """Whose crontab it is: the caller's, if nobody is named. Raises BadRequest."""
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
    async def GetCrontab(self, request: Any, context: Any) -> Any:
        """A user's crontab as it was written, and which of its entries are disabled."""
        actor = caller()
        uid = await self._uid(request.user) if request.user else actor.uid
        if uid != actor.uid and actor.role < Role.ADMINISTRATOR:
            raise BadRequest(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: reading the crontab of somebody else")
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
    async def UpdateCrontab(self, request: Any, context: Any) -> Any:
        """Replace or remove a crontab."""
        owner = await self._owner(request.user)
        if len(request.entries) > ENTRIES_MAX:
            raise BadRequest(Code.INVALID_VALUE, f"{len(request.entries)} entries, the limit is {ENTRIES_MAX}")
        config = self._runtime.core.state.config
        entries = tuple(
            CronEntry(
                wanted.wanted_job(entry.job), wanted.spec_row(entry.spec, config), entry.cron, entry.lines.first,
                entry.lines.last,
            )
            for entry in request.entries
        )  # fmt: skip
        text = None if request.remove else request.text
        event = UpdateCrontab(caller(), owner, text, entries, self._runtime.new_reply_to())
        body: CrontabUpdated = await self._ask(event, context)
        first, last = body.failed_lines
        return periodic_pb2.UpdateCrontabReply(
            job_ids=body.job_ids,
            warnings=body.warnings,
            failed_lines=periodic_pb2.LineRange(first=first, last=last) if body.code else None,
            code=body.code,
            text=body.text,
        )

    # ---- triggers ------------------------------------------------------------------------------------------------

    @translated
    async def SetTrigger(self, request: Any, context: Any) -> Any:
        """strigger --set."""
        if len(request.what) > WORD_MAX or (request.what and not request.what.replace("_", "").isalpha()):
            raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: what a trigger waits for")
        try:
            nodes = tuple(dict.fromkeys(expand(request.nodes))) if request.nodes else ()
        except BadValue as error:
            raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {error}") from None
        event = SetTrigger(
            caller(), request.kinds, request.program, what=request.what, nodes=nodes, job_id=request.job_id,
            offset_s=request.offset_s, permanent=request.permanent, reply_to=self._runtime.new_reply_to(),
        )  # fmt: skip
        body: TriggersChanged = await self._ask(event, context)
        return periodic_pb2.SetTriggerReply(trigger_id=body.trigger_ids[0])

    @translated
    async def ListTriggers(self, request: Any, context: Any) -> Any:
        """Triggers, in the order of their ids; with PrivateData=jobs or users one's own."""
        state, actor = self._runtime.core.state, caller()
        private = any(is_private(state.config, actor, word) for word in ("jobs", "users"))
        known = [one for _, one in sorted(state.periodic.triggers.items()) if not private or one.uid == actor.uid]
        return periodic_pb2.ListTriggersReply(triggers=[_info(trigger) for trigger in known])

    @translated
    async def ClearTriggers(self, request: Any, context: Any) -> Any:
        """strigger --clear."""
        uid = await self._uid(request.user) if request.user else -1
        event = ClearTriggers(caller(), request.trigger_id, request.job_id, uid, self._runtime.new_reply_to())
        body: TriggersChanged = await self._ask(event, context)
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
