"""Decides whether NVML is used at all: AutoDetect of gres.conf.

The first inventory is taken before the registration, so the last setting is stored in the spool (an existing file means
no). A change takes effect at the daemon's next start: until then there may be GPUs with jobs on them to monitor.
"""

import contextlib
import logging
import os

from nodedaemon.gpu import kept

log = logging.getLogger("penstock.noded")

NAME = "gpu-detect-off"
#: Value of AutoDetect; "" = not set.
ASKS_NVML = ("", "nvml", "nvidia", "full")


def asks_nvml(dir_fd: int) -> bool:
    """Whether NVML is used, as of the last registration."""
    return not kept.exists(dir_fd, NAME)


def remember(dir_fd: int, detect: str) -> None:
    """Stores the controller's setting."""
    asks = detect.lower() in ASKS_NVML
    if asks == asks_nvml(dir_fd):
        return
    log.info("AutoDetect=%s: GPUs are %slooked for at the daemon's next start", detect, "" if asks else "not ")
    try:
        if asks:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(NAME, dir_fd=dir_fd)
        else:
            kept.save(dir_fd, NAME, detect.encode())
    except OSError as error:
        log.error("spool file %s: %s; AutoDetect=%s has no effect", NAME, error.strerror, detect)
