"""Renews the controller's own certificate while it runs, and warns of certificates that expire.

Twice a day: a certificate of the controller with less than a third of its lifetime left is renewed, if the CA's key is
available, and used for new connections; existing ones are kept. The log gets a line for each certificate that expires
within WARN_DAYS and has not been renewed: nodes and login hosts renew theirs at two thirds, so their renewal has
failed. The CA's own expiry is reported half a year before.

Deliberately absent: the warnings of nodes (ctld/rpc/cluster/clusterinfo.py).
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.errors import BadSetup
from penstock.security import issued, renew
from penstock.security.ca import Credentials

log = logging.getLogger("penstock.ctld")

CHECK_S: Final = 12 * 3600.0
_US: Final = 1_000_000


class Certificates:
    """The controller's certificate. `make` is ensure_controller; `renewed` is called with a new one."""

    def __init__(
        self, folder: Path, held: Credentials, make: Callable[[], Credentials], clock_us: Callable[[], int]
    ) -> None:
        self.held = held
        self.renewed: Callable[[Credentials], None] = lambda credentials: None
        self._folder = folder
        self._make = make
        self._clock_us = clock_us
        self._task: asyncio.Task[None] | None = None

    def now(self) -> Credentials:
        """The present certificate."""
        return self.held

    def start(self) -> None:
        """Starts the checks."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stops the checks."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self.renew_due()
            await asyncio.sleep(CHECK_S)

    async def renew_due(self) -> None:
        """Renews certificates that are due, and logs those that expire."""
        try:
            made = await asyncio.to_thread(self._make)
        except BadSetup as error:  # the CA's key may be stored elsewhere
            log.error("the controller's certificate cannot be renewed: %s", error)
        else:
            if made.certificate.serial_number != self.held.certificate.serial_number:
                self.held = made
                self.renewed(made)
                log.info("the controller has a new certificate, until %s UTC", _date(renew.end_us(made.certificate)))
        for line in await asyncio.to_thread(self._ends):
            log.warning("%s", line, extra={"event": "certificate_ends"})

    def _ends(self) -> list[str]:
        """Returns a line for each certificate that expires soon."""
        now_us = self._clock_us()
        lines = []
        try:
            entries = issued.newest(issued.read(self._folder))
        except BadSetup as error:
            return [str(error)]
        for entry in entries:
            if entry.role != "controller" and 0 <= renew.days_left(entry.end_s * _US, now_us) < renew.WARN_DAYS:
                lines.append(f"{entry.role} {entry.name}: {warning(entry.role, entry.name, entry.end_s * _US)}")
        if renew.days_left(renew.end_us(self.held.certificate), now_us) < renew.WARN_DAYS:
            lines.append(f"the controller's certificate ends on {_date(renew.end_us(self.held.certificate))}")
        if renew.days_left(renew.end_us(self.held.ca), now_us) < renew.CA_WARN_DAYS:
            end = _date(renew.end_us(self.held.ca))
            lines.append(f"the cluster's CA ends on {end}: then every node and login host has to join a new one")
        return lines


def warning(role: str, name: str, end_us: int) -> str:
    """Returns the warning about a certificate that expires soon, for the log and as a node's reason: sinfo -R shows 20
    characters."""
    option = " --role login" if role == "login" else ""
    return f"Cert ends {_date(end_us)} and was not renewed: see its log, or penstock node token{option} {name}"


def _date(at_us: int) -> str:
    from penstock.security.ca import to_datetime

    return f"{to_datetime(at_us):%Y-%m-%d}"
