"""Resolves user names in filters to uids, with a cache. Names are looked up in a process of their own, in the turn of the
user who calls (runtime/lookups.py).
"""

from collections.abc import Callable
from typing import Final

from ctld.core.records.events import JobFilter
from ctld.rpc.gate.auth import caller
from ctld.runtime.answercache import AnswerCache
from ctld.runtime.errors import BadRequest
from ctld.runtime.lookups import LookupFailed, Lookups
from penstock.v1 import controller_pb2
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand_all
from penstock.values.refusals import Code
from penstock.values.states import parse_job_states

UID_MAX: Final = 0xFFFFFFFE
#: A state that no job has: a filter of states that this version does not have must match nothing.
NO_STATE: Final = -1


class UserNames:
    """The cache, in both directions. The methods are for handlers: they look up in the turn of the caller. They raise
    BadRequest."""

    def __init__(self, clock_us: Callable[[], int], lookups: Lookups) -> None:
        self._lookups = lookups
        self._uids: AnswerCache[str, int | None] = AnswerCache(clock_us)
        self._names: AnswerCache[int, str] = AnswerCache(clock_us)

    async def uid(self, text: str) -> int | None:
        """Returns the uid of a name or number; None for a name that this host does not know."""
        if text.isascii() and text.isdigit() and len(text) <= 10:
            return min(int(text), UID_MAX)
        for_uid = caller().uid
        return await self._uids.get(for_uid, text, lambda: self._lookups.uid_of(text, for_uid))

    async def name(self, uid: int) -> str:
        """Returns the name of a uid, its number when it has none."""
        for_uid = caller().uid
        return await self._names.get(for_uid, uid, lambda: self._name(uid, for_uid))

    async def shown(self, uid: int) -> str:
        """Returns the name of a uid for a listing; its number also when it cannot be looked up now."""
        try:
            return await self.name(uid)
        except LookupFailed:
            return str(uid)

    async def _name(self, uid: int, for_uid: int) -> str:
        return await self._lookups.name_of(uid, for_uid) or str(uid)

    async def members(self, group: str) -> tuple[int, ...] | None:
        """Returns the uids of a group's listed members; None for a group that this host does not know.

        Users with it as their primary group are not listed; they are recognised by the group of their jobs.
        """
        return await self._lookups.members(group, caller().uid)

    async def uids(self, texts: list[str]) -> tuple[tuple[int, ...], bool]:
        """Returns the uids of several names, and whether none of them is known."""
        found = [uid for text in texts if (uid := await self.uid(text)) is not None]
        return tuple(dict.fromkeys(found)), bool(texts) and not found


async def job_filter(message: controller_pb2.JobFilter, names: UserNames) -> JobFilter:
    """Resolves a filter for the core. Raises BadRequest."""
    uids, unknown = await names.uids(list(message.users))
    try:
        states: tuple[int, ...] = ()
        if message.states:
            states = tuple(sorted(int(s) for s in parse_job_states(",".join(message.states))[0])) or (NO_STATE,)
        nodes = tuple(expand_all(message.nodes))
    except BadValue as error:
        raise BadRequest(Code.INVALID_VALUE, str(error)) from None
    return JobFilter(
        ids=tuple(message.ids),
        uids=uids,
        partitions=tuple(message.partitions),
        names=tuple(message.names),
        states=states,
        nodes=nodes,
        accounts=tuple(message.accounts),
        qos=tuple(message.qos),
        reservations=tuple(message.reservations),
        wckeys=tuple(message.wckeys),
        unknown_user=unknown,
    )
