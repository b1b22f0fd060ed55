"""Revokes the access of a running job to GPUs that it releases, so that the next job has them
alone.

Works only where a device group isolates jobs; elsewhere the job is only requested to stop using them.
Open descriptors stay usable: the controller's deadline, and the search for processes left on the GPU, cover these.
"""

import logging
from collections.abc import Iterable

from nodedaemon.cgroups.devices import OPEN_TO_ALL, entry, take_away
from nodedaemon.launch.containment import files_of
from nodedaemon.launch.site import Site

log = logging.getLogger("penstock.noded")


def close(site: Site, job: str, returned: Iterable[str], kept: Iterable[str]) -> int:
    """Denies all steps of `JOB.ATTEMPT` these GPUs; returns the number of groups. `kept`: the GPUs that it still has.
    Blocks shortly.
    """
    if not site.fences_devices():
        return 0
    known = {device.uuid: device for device in site.inventory()}
    mine = {entry(file) for uuid in kept for file in files_of(known.get(uuid))}
    files = {entry(file) for uuid in returned for file in files_of(known.get(uuid))} - mine - OPEN_TO_ALL
    try:
        return take_away(site.cgroups.trees, job, sorted(files)) if files else 0
    except OSError as error:
        log.error("job %s: its access to the GPUs that it has released cannot be revoked: %s", job, error)
        return 0
