"""What the daemon knows of sessions: their kinds, where their origin is, and the tickets that lead there.

A ticket is a random text for one use within TICKET_LIFE_S, in this process: the browser that was given it exchanges it for
the cookie of one session. The cookie's value is the session's kind and its token (ctld/rpc/control/usertokens.py), so any
daemon takes it; the exchange alone needs the daemon that made the ticket.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from penstock.errors import BadSetup
from penstock.values.sessions import base_path
from rest.interactive.kinds import SessionKind

TICKET_LIFE_S: Final = 60.0
TICKET_BYTES: Final = 32
#: Tickets that wait: of one job, and in all. One more removes the oldest.
JOB_TICKETS_MAX: Final = 8
TICKETS_MAX: Final = 10_000
#: Paths of the proxy's own on the origin of sessions.
OWN_PREFIX: Final = "/-/"
ENTER_PATH: Final = "/-/enter"
TERMINAL_PATH: Final = "/-/terminal"


class SessionPass(NamedTuple):
    """What a browser needs for one session."""

    job_id: int
    kind: str
    token: str


class Tickets:
    """Passes that wait to be fetched."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waiting: dict[str, tuple[float, SessionPass]] = {}  # the oldest first

    def make(self, given: SessionPass) -> str:
        """A ticket for it."""
        self._expire()
        of_job = [ticket for ticket, (_, one) in self._waiting.items() if one.job_id == given.job_id]
        oldest = [*of_job[: -JOB_TICKETS_MAX + 1], *list(self._waiting)[: -TICKETS_MAX + 1]]
        for ticket in oldest:
            self._waiting.pop(ticket, None)
        ticket = secrets.token_urlsafe(TICKET_BYTES)
        self._waiting[ticket] = self._clock_s() + TICKET_LIFE_S, given
        return ticket

    def take(self, ticket: str) -> SessionPass | None:
        """The pass of a ticket, which is void then. 256 random bits are not found by the time of a look-up."""
        self._expire()
        found = self._waiting.pop(ticket, None)
        return found[1] if found is not None else None

    def _expire(self) -> None:
        now_s = self._clock_s()
        for ticket, (end_s, _) in list(self._waiting.items()):
            if end_s > now_s:
                return
            del self._waiting[ticket]


class SessionService:
    """Kinds, origin and tickets of one daemon. `url` is of the origin, without a slash at its end."""

    def __init__(self, kinds: Sequence[SessionKind], url: str, tickets: Tickets | None = None) -> None:
        self.kinds = {one.kind: one for one in kinds}
        self.url = url
        self.tickets = tickets or Tickets()

    def enter_url(self, given: SessionPass) -> str:
        """The address that leads into a session, once."""
        return f"{self.url}{ENTER_PATH}?ticket={self.tickets.make(given)}"

    def landing(self, given: SessionPass) -> str:
        """The path at which a browser goes on."""
        kind = self.kinds.get(given.kind)
        return f"{TERMINAL_PATH}?job={given.job_id}" if kind and kind.is_terminal else base_path(given.job_id)


def checked_url(url: str) -> str:
    """The address of the origin of sessions as it is used. Raises BadSetup."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/") or "@" in parts.netloc:
        raise BadSetup(f"--sessions-url {url}: expected http(s)://HOST[:PORT], without a path")
    if parts.query or parts.fragment:
        raise BadSetup(f"--sessions-url {url}: expected http(s)://HOST[:PORT], without a path")
    return f"{parts.scheme}://{parts.netloc.lower()}"
