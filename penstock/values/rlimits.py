"""Resource limits that are propagated from submission to job (PropagateResourceLimits in slurm.conf, sbatch
--propagate).

There are no others: with RTPRIO or NICE a job could starve the node's daemons of CPU time, and unknown names would only
add to every launch.
"""

from collections.abc import Mapping
from typing import Final

from penstock.values.errors import BadValue

#: Without the prefix RLIMIT_, in the order of Slurm's man page.
RLIMITS: Final = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
UNLIMITED: Final = -1
#: The maximum of the wire's type; the kernel's RLIM_INFINITY means unlimited.
VALUE_MAX: Final = 2**63 - 1
_NAME_SHOWN_MAX: Final = 32


def check_rlimits(limits: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Returns the limits by name, sorted. Raises BadValue for an unknown name or an invalid value."""
    for name in limits:
        if name not in RLIMITS:
            raise BadValue(f"rlimits: {name[:_NAME_SHOWN_MAX]!r} is not one of {', '.join(RLIMITS)}")
        if not UNLIMITED <= limits[name] <= VALUE_MAX:
            raise BadValue(f"rlimits: {name}={limits[name]} is neither -1 (unlimited) nor 0 to {VALUE_MAX}")
    return tuple([(name, limits[name]) for name in sorted(limits)])  # items() is half as fast
