"""A job gives GPUs back and goes on: they are closed to what it runs, so that the next job has them alone.

Only where a device group keeps jobs apart; else the job was asked, and nothing keeps it from them. What a process has open
stays open: the controller's deadline, and who is found on the GPU later, are for that.
"""

import logging
from collections.abc import Iterable

from nodedaemon.containment import files_of
from nodedaemon.devices import OPEN_TO_ALL, entry, take_away
from nodedaemon.site import Site

log = logging.getLogger("penstock.noded")


def close(site: Site, job: str, returned: Iterable[str], kept: Iterable[str]) -> int:
    """Close GPUs to all steps of `JOB.ATTEMPT`; in how many groups. `kept`: those that it still has. Blocks shortly."""
    if not site.fences_devices():
        return 0
    known = {device.uuid: device for device in site.inventory()}
    mine = {entry(file) for uuid in kept for file in files_of(known.get(uuid))}
    files = {entry(file) for uuid in returned for file in files_of(known.get(uuid))} - mine - OPEN_TO_ALL
    try:
        return take_away(site.cgroups.trees, job, sorted(files)) if files else 0
    except OSError as error:
        log.error("job %s: GPUs that it has given back cannot be closed to it: %s", job, error)
        return 0
