"""Health states of a GPU, as its node and the controller determine them. The numbers are used on the wire and in the
database.

    HEALTHY       allocated to jobs
    SUSPECT       allocated last: an observation that may be temporary
    DRAINED       not allocated; running jobs continue
    FAILED        missing or broken: nothing runs on it
    UNRESPONSIVE  the driver does not answer for it; running jobs continue, nothing new starts
"""

from enum import IntEnum


class GpuState(IntEnum):
    """Health states by increasing severity: of several sources the most severe counts."""

    HEALTHY = 0
    SUSPECT = 1
    DRAINED = 2
    FAILED = 3
    UNRESPONSIVE = 4


#: Classes of XIDs (PenstockXidFile), and their descriptions.
XID_CLASSES = {
    "application": "the program is to blame; SUSPECT when it happens to several users within a day",
    "contained": "a memory error that has hit one job alone: its result is not to be trusted",
    "reset": "the GPU must be reset: its jobs end, nothing new starts",
    "lost": "only a reboot of the node helps: its jobs end, nothing new starts",
    "repeat": "its jobs end and it is SUSPECT; the second within a day is as reset",
    "note": "counted and shown",
    "ignore": "not even that",
}

#: How jobs are kept from other GPUs on nodes without device cgroups: by an environment variable, which a job can change.
BY_ENVIRONMENT = "env"
#: A GPU in one of these states is not allocated.
CLOSED_STATES = (GpuState.DRAINED, GpuState.FAILED, GpuState.UNRESPONSIVE)
