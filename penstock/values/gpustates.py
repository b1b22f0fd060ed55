"""What is thought of a GPU, by node and controller. The numbers are the wire's and the database's.

HEALTHY       given to jobs
SUSPECT       given last: something was seen that may pass
DRAINED       not given; what runs on it goes on
FAILED        gone or broken: nothing runs on it
UNRESPONSIVE  the driver does not answer for it; what runs on it is left alone, nothing new starts
"""

from enum import IntEnum


class GpuState(IntEnum):
    """Rising badness: of several opinions the highest counts."""

    HEALTHY = 0
    SUSPECT = 1
    DRAINED = 2
    FAILED = 3
    UNRESPONSIVE = 4


#: What an XID may mean (PenstockXidFile): class -> in words.
XID_CLASSES = {
    "application": "the program is to blame; SUSPECT when it happens to several users within a day",
    "contained": "a memory error that has hit one job alone: its result is not to be trusted",
    "reset": "the GPU must be reset: its jobs end, nothing new starts",
    "lost": "only a reboot of the node helps: its jobs end, nothing new starts",
    "repeat": "its jobs end and it is SUSPECT; the second within a day is as reset",
    "note": "counted and shown",
    "ignore": "not even that",
}

#: What keeps jobs from GPUs that are not theirs, where no device group does: a variable, which the job can set otherwise.
BY_ENVIRONMENT = "env"
#: A GPU in one of these is not given to a job.
CLOSED_STATES = (GpuState.DRAINED, GpuState.FAILED, GpuState.UNRESPONSIVE)
