"""The kind of owner of an allocation: a batch script on its first node, or a command that releases it."""

from enum import IntEnum


class JobKind(IntEnum):
    """Kinds of jobs. The numbers are those of JobKind on the wire."""

    BATCH = 0
    SALLOC = 1  # ends when its owner releases it
    SRUN = 2  # like SALLOC; without an owner it ends with its last step
    COMPONENT = 3  # a component of a heterogeneous batch job, after the first: owned by the leader's script
