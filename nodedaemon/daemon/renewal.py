"""Renews the daemon's own certificate when two thirds of its term are over, and uses it without a restart.

The file's term is checked from time to time; a certificate that was installed from outside (by joining again) is used
in the same way as a renewed one. A failed renewal is logged and tried again every RETRY_S. An expired certificate is
logged once, with what to do; after that only the file is checked.

Uses the wall clock, as terms do: a machine that was suspended for a month checks at most CHECK_S later. Deliberately
absent: the users of the certificate (link.py and stepd/stream_server.py read the file themselves; localauth.py is
notified).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.errors import BadSetup, PenstockError
from penstock.security import renew
from penstock.security.ca import Credentials, load_credentials

log = logging.getLogger("penstock.noded")

CHECK_S: Final = 3600.0
#: Interval of checks of the file, which may be replaced at any time: a check is cheap, and an administrator may be
#: waiting.
ENDED_CHECK_S: Final = 30.0
RETRY_S: Final = 600.0


def wall_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Renewal:
    """Renews the certificate. Belongs to one event loop. `renewed` is called with each new one."""

    def __init__(
        self,
        folder: Path,
        role: str,
        address: str,
        renewed: Callable[[Credentials], None],
        clock_us: Callable[[], int] = wall_us,
    ) -> None:
        self._folder = folder
        self._role = role
        self._address = address
        self._renewed = renewed
        self._clock_us = clock_us
        self._serial = 0  # in use; 0 = not read yet
        self._last_warning = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(await self.renew_due())

    async def renew_due(self) -> float:
        """Renews if it is due; returns the seconds until the next check."""
        try:
            held = load_credentials(self._folder, self._role, None)
        except BadSetup as error:
            self._warn(str(error))
            return ENDED_CHECK_S
        self._use(held)
        now_us = self._clock_us()
        end_us = renew.end_us(held.certificate)
        due_us = renew.due_us(held.certificate)
        if now_us > end_us:
            self._warn(renew.ended_text(held.identity, held.certificate))
            return ENDED_CHECK_S
        if now_us < due_us:
            return min(CHECK_S, (due_us - now_us) / 1_000_000 + 1)
        try:
            new = await asyncio.to_thread(renew.ask, self._address, self._folder, self._role, now_us)
        except PenstockError as error:
            text = f"{error.text} {error.detail}".rstrip()
            days = renew.days_left(end_us, now_us)
            self._warn(f"the certificate ends in {days} days and cannot be renewed: {text}; trying again")
            return min(RETRY_S, max((end_us - now_us) / 10_000_000, 1.0))
        self._use(new)
        return CHECK_S

    def _use(self, credentials: Credentials) -> None:
        serial = credentials.certificate.serial_number
        if serial == self._serial:
            return
        if self._serial:
            end = credentials.certificate.not_valid_after_utc
            log.info("a new certificate is in use, until %s UTC", f"{end:%Y-%m-%d %H:%M}")
            self._renewed(credentials)
        self._serial = serial
        self._last_warning = ""

    def _warn(self, text: str) -> None:
        if text != self._last_warning:
            log.error("%s", text, extra={"event": "certificate_ends"})
            self._last_warning = text
