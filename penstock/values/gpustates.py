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


#: A GPU in one of these is not given to a job.
CLOSED_STATES = (GpuState.DRAINED, GpuState.FAILED, GpuState.UNRESPONSIVE)
