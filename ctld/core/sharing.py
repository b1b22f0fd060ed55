"""How cpus are counted where jobs may share them (OverSubscribe=FORCE:n, PreemptMode=GANG).

The planner counts cpus in units. A cluster without sharing has one unit a cpu.
"""

from ctld.core.model import JobRequest
from ctld.core.state import ClusterState
from penstock.values.config import Config


def units_per_cpu(config: Config) -> int:
    """Units that every cpu of the cluster stands for."""
    return 1


def units_taken(state: ClusterState, request: JobRequest, partition: str) -> int:
    """Units that one cpu of such a job takes."""
    return 1
