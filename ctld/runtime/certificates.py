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
from typing import Final, NamedTuple

from penstock.errors import BadSetup
from penstock.security import issued, renew
from penstock.security.ca import Credentials

log = logging.getLogger("penstock.ctld")

CHECK_S: Final = 12 * 3600.0
_US: Final = 1_000_000
_OWN: Final = ("controller", "ca")


class CertificateEnd(NamedTuple):
    """Until when a certificate is valid."""

    role: str
    name: str
    end_us: int
    warning: str  # "" = it is renewed in time, or ends much later


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
        try:
            found = self.ends()
        except BadSetup as error:
            return [str(error)]
        return [
            one.warning if one.role in _OWN else f"{one.role} {one.name}: {one.warning}" for one in found if one.warning
        ]

    def ends(self) -> list[CertificateEnd]:
        """Returns the newest certificate of each holder that is valid, those of nodes and login hosts first, then the
        controller's and the CA's. Reads the list of issued ones. Raises BadSetup.
        """
        now_us = self._clock_us()
        found = []
        for entry in issued.newest(issued.read(self._folder)):
            end_us = entry.end_s * _US
            left = renew.days_left(end_us, now_us)
            if entry.role != "controller" and left >= 0:
                text = warning(entry.role, entry.name, end_us) if left < renew.WARN_DAYS else ""
                found.append(CertificateEnd(entry.role, entry.name, end_us, text))
        own_us, ca_us = renew.end_us(self.held.certificate), renew.end_us(self.held.ca)
        own = f"the controller's certificate ends on {_date(own_us)}"
        ca = f"the cluster's CA ends on {_date(ca_us)}: then every node and login host has to join a new one"
        own = own if renew.days_left(own_us, now_us) < renew.WARN_DAYS else ""
        ca = ca if renew.days_left(ca_us, now_us) < renew.CA_WARN_DAYS else ""
        name = self.held.identity.name
        return [*found, CertificateEnd(_OWN[0], name, own_us, own), CertificateEnd(_OWN[1], "", ca_us, ca)]


def warning(role: str, name: str, end_us: int) -> str:
    """Returns the warning about a certificate that expires soon, for the log and as a node's reason: sinfo -R shows 20
    characters."""
    option = " --role login" if role == "login" else ""
    return f"Cert ends {_date(end_us)} and was not renewed: see its log, or penstock node token{option} {name}"


def _date(at_us: int) -> str:
    from penstock.security.ca import to_datetime

    return f"{to_datetime(at_us):%Y-%m-%d}"
