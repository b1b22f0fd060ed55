"""A quality of service: record and committed row in one."""

from typing import NamedTuple

from penstock.values.limits import NO_LIMITS, Limits


class Qos(NamedTuple):
    """A quality of service: what jobs submitted with --qos=NAME may do. Primary key name."""

    # made by tools/records: row of qos
    name: str
    description: str = ""
    priority: int = 0
    preempt: tuple[str, ...] = ()  # QOS whose jobs its jobs may preempt
    preempt_mode: tuple[str, ...] = ()  # of its jobs when they are preempted; () = the cluster's
    grace_time_s: int = 0
    preempt_exempt_time_s: int = -1  # -1 = the cluster's
    flags: tuple[str, ...] = ()
    usage_factor_ppm: int = 1_000_000  # UsageFactor in millionths
    limits: Limits = NO_LIMITS
    usage_threshold_ppm: int = -1  # UsageThreshold in millionths; -1 = none
    limit_factor_ppm: int = -1  # LimitFactor likewise
    qos_id: int = 0  # Slurm's number of it; `normal` has 1
    deleted: bool = False
    # end of what is made
