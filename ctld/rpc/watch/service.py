"""The Watch service: one stream for each watcher, which gets what it may see once a tick.

Rights are those of the listings. For each message the caller is asked for again (gate/auth.py): a stream ends when its token
does, and a role, a group or a PrivateData that has changed counts for what comes after. Watchers with the same rights and
demands who are at the same place get the same bytes, made once. A slow reader gets everything that is still kept; what is
not is reported as missed.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from typing import Final, NamedTuple

from ctld.core.records.effects import Batch
from ctld.core.records.events import Actor
from ctld.rpc.gate.auth import Authenticator, Peer, caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as
from ctld.rpc.gate.rights import require_again
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.underway import PAUSE_MS
from ctld.rpc.gate.visibility import (
    AccountVisibility,
    JobVisibility,
    account_visibility,
    is_private,
    job_visibility,
    sees_reservation,
)
from ctld.rpc.watch.changed import GPU, JOB, KINDS, LIMIT, NODE, RESERVATION
from ctld.rpc.watch.feed import ChangeFeed, KeptChange
from ctld.runtime.errors import BadRequest
from penstock.v1 import watch_pb2
from penstock.values.refusals import TEXT, Code
from penstock.values.varint import varint

#: A message without changes after so long tells both sides that the other is there.
HEARTBEAT_S: Final = 15.0
#: Changes in one message, and messages kept for others of the same tick.
CHANGES_MAX: Final = 2_000
SHARED_MAX: Final = 64
#: Streams of one user: each tab of a browser may be one.
WATCHES_OF_USER_MAX: Final = 64
METHOD: Final = "/penstock.v1.Watch/Watch"
#: `changes` is field 1 of WatchReply: its tag and wire type, before a length.
_CHANGES_TAG: Final = b"\x0a"


class WatchDemands(NamedTuple):
    """What one watcher may see and wants to see; equal ones get equal answers."""

    kinds: frozenset[str]
    uids: frozenset[int]
    jobs: JobVisibility
    reservations_of: Actor | None  # None: all of them
    accounts: AccountVisibility | None  # None: all of them


class WatchService:
    """The methods, by the names of the service."""

    def __init__(self, services: Services, authenticator: Authenticator) -> None:
        self._services = services
        self._authenticator = authenticator
        self._runtime = services.runtime
        runtime = services.runtime
        self.feed = ChangeFeed(runtime.core.state, runtime.epoch, runtime.clock_us)
        runtime.observers += [self.feed.committed, self._committed]
        self._shared: dict[tuple[int, WatchDemands], tuple[bytes, int]] = {}  # of the present last change
        self._shared_of = 0
        self._watches: dict[int, int] = {}  # by uid

    def _committed(self, batch: Batch) -> None:
        if batch.token_revocations or batch.personal_tokens_gone:
            self.feed.wake()

    def watches_of(self, uid: int) -> int:
        """Returns the number of the user's open streams."""
        return self._watches.get(uid, 0)

    async def Watch(self, request: watch_pb2.WatchRequest, context: Context) -> AsyncIterator[bytes]:
        """Sends changes until the caller or the controller ends."""
        actor = caller()
        try:
            kinds = _kinds(request.kinds)
            uids = await self._uids(request.users)
            self._check_number(actor)
        except BadRequest as error:
            await refuse_as(context, error)
            return
        self._watches[actor.uid] = self._watches.get(actor.uid, 0) + 1
        self.feed.enter()
        try:
            async for reply in self._replies(request.after, kinds, uids, context):
                yield reply
        finally:
            self.feed.leave()
            self._watches[actor.uid] -= 1
            if not self._watches[actor.uid]:
                del self._watches[actor.uid]

    async def _replies(
        self, after: int, kinds: frozenset[str], uids: frozenset[int], context: Context
    ) -> AsyncIterator[bytes]:
        now_s = asyncio.get_running_loop().time
        at, due_s = after or self.feed.sequence, now_s()
        while True:
            peer = await require_again(context, METHOD, self._authenticator)
            if not self.feed.has_all_after(at):
                at = self.feed.sequence
                yield watch_pb2.WatchReply(last=at, missed=True).SerializeToString()
            data, at = self._message(at, self._demands(kinds, uids, caller()))
            if data or now_s() >= due_s:
                yield data + watch_pb2.WatchReply(last=at).SerializeToString()
                due_s = now_s() + HEARTBEAT_S
            if at == self.feed.sequence:
                await self.feed.changed(min(due_s - now_s(), self._left_s(peer)))
            else:
                await asyncio.sleep(0)

    def _left_s(self, peer: Peer) -> float:
        """The time until the caller's token ends."""
        return (peer.ends_at_us - self._runtime.clock_us()) / 1_000_000 if peer.ends_at_us else math.inf

    def _message(self, at: int, demands: WatchDemands) -> tuple[bytes, int]:
        """The changes after this one as part of a reply, and the last one that was examined."""
        if self._shared_of != self.feed.sequence or len(self._shared) >= SHARED_MAX:
            self._shared.clear()
            self._shared_of = self.feed.sequence
        found = self._shared.get((at, demands))
        if found is None:
            changes = self.feed.after(at, CHANGES_MAX)
            seen = [change.encoded for change in changes if self._sees(change, demands)]
            data = b"".join(part for one in seen for part in (_CHANGES_TAG, varint(len(one)), one))
            found = self._shared[(at, demands)] = data, changes[-1].sequence if changes else at
        return found

    def _demands(self, kinds: frozenset[str], uids: frozenset[int], actor: Actor) -> WatchDemands:
        """With the rights of this moment."""
        state = self._runtime.core.state
        if is_private(state.config, actor, "nodes"):
            kinds -= {NODE, GPU}
        hides = is_private(state.config, actor, "reservations")
        hides_accounts = any(is_private(state.config, actor, word) for word in ("users", "accounts"))
        accounts = account_visibility(state, actor) if hides_accounts else None
        return WatchDemands(kinds, uids, job_visibility(state, actor), actor if hides else None, accounts)

    def _sees(self, change: KeptChange, demands: WatchDemands) -> bool:
        if change.kind not in demands.kinds:
            return False
        if change.kind == JOB:
            return (not demands.uids or change.uid in demands.uids) and demands.jobs.sees_of(change.uid, change.account)
        if change.kind == RESERVATION and demands.reservations_of is not None:
            config, found = self._runtime.core.state.config, change.reservation
            return found is not None and sees_reservation(config, demands.reservations_of, found)
        if change.kind == LIMIT and change.account and demands.accounts is not None:
            return demands.accounts.sees_assoc(change.account, change.user)
        return True

    async def _uids(self, users: Iterable[str]) -> frozenset[int]:
        """Raises BadRequest."""
        found = set()
        for user in users:
            uid = await self._services.names.uid(user)
            if uid is None:
                raise BadRequest(Code.INVALID_USER, f"{TEXT[Code.INVALID_USER]}: {user[:64]}")
            found.add(uid)
        return frozenset(found)

    def _check_number(self, actor: Actor) -> None:
        if self.watches_of(actor.uid) >= WATCHES_OF_USER_MAX:
            text = f"{WATCHES_OF_USER_MAX} watches of yours are open, the limit; again in milliseconds: {PAUSE_MS}"
            raise BadRequest(Code.RATE_LIMITED, f"{TEXT[Code.RATE_LIMITED]}: {text}")


def _kinds(words: Iterable[str]) -> frozenset[str]:
    """Raises BadRequest."""
    wanted = frozenset(word.upper() for word in words) or frozenset(KINDS)
    if unknown := sorted(wanted - set(KINDS)):
        raise BadRequest(Code.INVALID_VALUE, f"{unknown[0][:64]!r} is no kind of change: {', '.join(KINDS)}")
    return wanted
