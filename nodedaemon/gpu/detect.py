"""Whether NVML is asked at all: AutoDetect of gres.conf.

The first inventory is taken before the controller has said anything, so its last word is remembered in the spool (a file
that is there means no). A change is obeyed at the daemon's next start: before that there are GPUs, and jobs on them, that
somebody has to mind.
"""

import contextlib
import logging
import os

from nodedaemon.gpu import kept

log = logging.getLogger("penstock.noded")

NAME = "gpu-detect-off"
#: Of AutoDetect; "" = nobody has said anything.
ASKS_NVML = ("", "nvml", "nvidia", "full")


def asks_nvml(dir_fd: int) -> bool:
    """As of the last registration."""
    return not kept.exists(dir_fd, NAME)


def remember(dir_fd: int, detect: str) -> None:
    """The controller has said which."""
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
        log.error("spool file %s: %s; AutoDetect=%s is not obeyed", NAME, error.strerror, detect)
