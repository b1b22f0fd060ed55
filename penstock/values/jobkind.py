"""What owns an allocation: a batch script on its first node, or a command that says when it is over."""

from enum import IntEnum


class JobKind(IntEnum):
    """Numbers of the wire's JobKind."""

    BATCH = 0
    SALLOC = 1  # ends when its owner says so
    SRUN = 2  # the same; without an owner it ends with its last step
    COMPONENT = 3  # of a heterogeneous batch job, after the first: the leader's script is its owner
