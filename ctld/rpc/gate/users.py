"""Resolves user names in filters to uids, with a cache: pwd may use a slow LDAP server, so it is queried in a thread."""

import asyncio
import grp
import pwd
import time
from typing import Final

from ctld.core.records.events import JobFilter
from ctld.runtime.errors import BadRequest
from penstock.v1 import controller_pb2
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand_all
from penstock.values.refusals import Code
from penstock.values.states import parse_job_states

TTL_S: Final = 60.0
NAMES_MAX: Final = 10_000
UID_MAX: Final = 0xFFFFFFFE
#: A state that no job has: a filter of states that this version does not have must match nothing.
NO_STATE: Final = -1


class UserNames:
    """The cache, in both directions."""

    def __init__(self) -> None:
        self._uids: dict[str, tuple[int | None, float]] = {}
        self._names: dict[int, tuple[str, float]] = {}

    async def uid(self, text: str) -> int | None:
        """Returns the uid of a name or number; None for a name that this host does not know."""
        if text.isascii() and text.isdigit() and len(text) <= 10:
            return min(int(text), UID_MAX)
        now = time.monotonic()
        known = self._uids.get(text)
        if known is None or known[1] < now:
            known = (await asyncio.to_thread(_find_uid, text), now + TTL_S)
            if len(self._uids) >= NAMES_MAX:
                self._uids.clear()
            self._uids[text] = known
        return known[0]

    async def name(self, uid: int) -> str:
        """Returns the name of a uid, its number when it has none."""
        now = time.monotonic()
        known = self._names.get(uid)
        if known is None or known[1] < now:
            known = (await asyncio.to_thread(_find_name, uid), now + TTL_S)
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            self._names[uid] = known
        return known[0]

    async def members(self, group: str) -> tuple[int, ...] | None:
        """Returns the uids of a group's listed members; None for a group that this host does not know.

        Users with it as their primary group are not listed; they are recognised by the group of their jobs.
        """
        return await asyncio.to_thread(_find_members, group)

    async def uids(self, texts: list[str]) -> tuple[tuple[int, ...], bool]:
        """Returns the uids of several names, and whether none of them is known."""
        found = [uid for text in texts if (uid := await self.uid(text)) is not None]
        return tuple(dict.fromkeys(found)), bool(texts) and not found


def _find_uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):  # ValueError: a NUL byte in it
        return None


def _find_members(group: str) -> tuple[int, ...] | None:
    try:
        names = grp.getgrnam(group).gr_mem
    except (KeyError, ValueError):
        return None
    return tuple(uid for name in names if (uid := _find_uid(name)) is not None)


def _find_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


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
