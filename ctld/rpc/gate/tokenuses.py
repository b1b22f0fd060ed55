"""Which personal tokens were used, and from where: for the audit log and the owner's list.

A program calls many times a second, so a use is reported once an hour for each address of a token, and of at most ADDRESSES_MAX
addresses: who has stolen a token must not fill the log.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ctld.core.records.event_base import Actor
from ctld.core.records.token_events import PersonalTokenUsed

WINDOW_US: Final = 3600 * 1_000_000
ADDRESSES_MAX: Final = 16
#: Tokens whose uses are remembered; beyond it all are forgotten, and reported again.
TOKENS_MAX: Final = 10_000


@dataclass
class _Window:
    end_us: int
    addresses: set[str] = field(default_factory=set)


class TokenUses:
    """Accepted personal tokens of the last hour. Belongs to the loop's thread."""

    def __init__(self, post: Callable[[PersonalTokenUsed], None], clock_us: Callable[[], int]) -> None:
        """`post` takes an event for the core."""
        self._post = post
        self._clock_us = clock_us
        self._windows: dict[str, _Window] = {}

    def note(self, actor: Actor, token_id: str, address: str) -> None:
        """Notes a call. `address`: without a port."""
        now_us = self._clock_us()
        window = self._windows.get(token_id)
        if window is None or not now_us < window.end_us <= now_us + WINDOW_US:
            if len(self._windows) >= TOKENS_MAX:
                self._windows.clear()
            window = self._windows[token_id] = _Window(now_us + WINDOW_US)
        if address in window.addresses or len(window.addresses) >= ADDRESSES_MAX:
            return
        window.addresses.add(address)
        self._post(PersonalTokenUsed(actor, token_id, address))
