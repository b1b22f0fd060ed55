"""Admission to the proxy: budgets of connections, and the session that a token reaches.

The controller says so (AttachStep with the session's token), and its word is kept for KNOWN_S: a page of a notebook is a
hundred requests. A connection that lasts is asked about again every RECHECK_S, so it ends soon after a revocation.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.calls import USER_TOKEN_KEY
from penstock.errors import NotProven, PenstockError
from penstock.v1.controller_pb2 import IssueTokenReply, IssueTokenRequest
from penstock.v1.steps_pb2 import AttachStepReply, AttachStepRequest
from penstock.values.base64url import claims_of
from penstock.values.jobid import BATCH_STEP
from penstock.values.refusals import Code
from rest.interactive.heads import ProxyRefusal
from rest.limits import CALL_TIMEOUT_S, change

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.calls import Proof
    from penstock.client import ReplyMessage

#: Connections to the proxy: in all, of one peer, of one session, and of one user.
CONNECTIONS_MAX: Final = 2048
PEER_CONNECTIONS_MAX: Final = 512
SESSION_CONNECTIONS_MAX: Final = 64
USER_CONNECTIONS_MAX: Final = 256
KNOWN_S: Final = 5.0
#: Answers of the controller that are kept.
KNOWN_MAX: Final = 4096
RECHECK_S: Final = 60.0
#: A token is renewed when less than this is left of its hour.
RENEW_LEFT_S: Final = 1800.0
TOKEN_CHARS_MAX: Final = 3000
_CLOSED: Final = "this session is not open in this browser, or is no longer: open it from the page Sessions of Penstock"


class SessionCaller(Protocol):
    """What is needed of `penstock.aclient.AsyncClient`."""

    async def call(
        self, method: str, request: "Message", timeout_s: float | None = None, *, proof: "Proof | None" = None
    ) -> "ReplyMessage":
        """One request, one answer."""


class _Known(NamedTuple):
    end_s: float
    attached: AttachStepReply


class SessionGate:
    """The budgets and what is known of tokens, for one daemon."""

    def __init__(self, client: SessionCaller, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock_s = clock_s
        self._known: dict[tuple[int, str], _Known] = {}
        self._count = 0
        self._by_peer: Counter[str] = Counter()
        self._by_key: Counter[str] = Counter()

    @contextmanager
    def connection(self, peer: str) -> Iterator[None]:
        """Counts a connection. Raises ProxyRefusal."""
        if self._count >= CONNECTIONS_MAX or self._by_peer[peer] >= PEER_CONNECTIONS_MAX:
            raise ProxyRefusal(503, "too many connections")
        self._count += 1
        change(self._by_peer, peer, 1)
        try:
            yield
        finally:
            self._count -= 1
            change(self._by_peer, peer, -1)

    @contextmanager
    def use(self, attached: AttachStepReply) -> Iterator[None]:
        """Counts a connection to a session, and of its user. Raises ProxyRefusal."""
        keys = (f"job {attached.job_id}", SESSION_CONNECTIONS_MAX), (f"user {attached.user_id}", USER_CONNECTIONS_MAX)
        if any(self._by_key[key] >= most for key, most in keys):
            raise ProxyRefusal(429, "too many connections to this session, or to all sessions of its user")
        for key, _ in keys:
            change(self._by_key, key, 1)
        try:
            yield
        finally:
            for key, _ in keys:
                change(self._by_key, key, -1)

    async def attach(self, job_id: int, token: str, is_fresh: bool = False) -> AttachStepReply:
        """The place and the key of a session. Raises ProxyRefusal."""
        now_s = self._clock_s()
        known = self._known.get((job_id, token))
        if known is not None and known.end_s > now_s and not is_fresh:
            return known.attached
        self._known.pop((job_id, token), None)
        try:
            attached: AttachStepReply = await self._client.call(
                "AttachStep",
                AttachStepRequest(job_id=job_id, step_id=BATCH_STEP),
                CALL_TIMEOUT_S,
                proof=proof_of(token),
            )
        except PenstockError as error:
            raise _refusal(error) from None
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[job_id, token] = _Known(now_s + KNOWN_S, attached)
        return attached

    async def renewed(self, job_id: int, token: str, now_s: float) -> str:
        """The token that follows this one, if its end is near; else "". Only while it is valid is there a next one."""
        if ends_at_s(token) - now_s > RENEW_LEFT_S:
            return ""
        request = IssueTokenRequest(session_job_id=job_id)
        try:
            reply: IssueTokenReply = await self._client.call(
                "IssueToken", request, CALL_TIMEOUT_S, proof=proof_of(token)
            )
        except PenstockError:  # it stays valid until its end, and is asked for again with the next request
            return ""
        return reply.token


def proof_of(token: str) -> "Proof":
    """The metadata of a call with this token."""
    return ((USER_TOKEN_KEY, token),)


def is_token(text: str) -> bool:
    """Whether it may be a session's token: nobody has verified it. Other tokens of a user are none, whatever they may do."""
    if not (0 < len(text) <= TOKEN_CHARS_MAX and text.isascii() and text.isprintable() and " " not in text):
        return False
    return isinstance(claims_of(text).get("penstock_session"), int)


def ends_at_s(token: str) -> float:
    """The end of a token, by its own word."""
    end = claims_of(token).get("exp")
    return float(end) if isinstance(end, int | float) else 0.0


def _refusal(error: PenstockError) -> ProxyRefusal:
    if isinstance(error, NotProven) or error.code in (Code.ACCESS_DENIED, Code.INVALID_JOB_ID):
        return ProxyRefusal(403, _CLOSED)
    if error.code == Code.INVALID_STEP:
        return ProxyRefusal(404, "the session does not run (any more)")
    return ProxyRefusal(503, f"the controller does not answer: {error.text}")
