"""The cluster of the comparison: four nodes of two kinds, and a partition of each kind of sharing.

n1 and n2 have cores with one thread and four GPUs, n3 and n4 cores with two threads and two GPUs.
"""

from collections.abc import Callable
from typing import NamedTuple


class Kind(NamedTuple):
    """Nodes that are alike."""

    names: tuple[str, ...]
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    inside: str

    def text(self) -> str:
        """As slurm.conf has it."""
        return f"CPUs={self.cpus} RealMemory={self.memory_mb} Gres=gpu:{self.gpu_type}:{self.gpus} {self.inside}"


KINDS = (
    Kind(("n1", "n2"), 8, 16000, 4, "a", "Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 TmpDisk=1000"),
    Kind(("n3", "n4"), 16, 8000, 2, "b", "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 TmpDisk=500"),
)
FEATURES = {"n1": "one,odd", "n2": "one,even", "n3": "two,odd", "n4": "two,even"}
NODES = tuple(FEATURES)
CONF = """\
ClusterName=grants
FirstJobId=1001
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
MaxArraySize=1001
EnforcePartLimits=ALL
PriorityType=priority/basic
SlurmdParameters=config_overrides
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=ht Nodes=n[3-4] MaxTime=INFINITE State=UP
PartitionName=all Nodes=n[1-4] MaxTime=INFINITE State=UP
PartitionName=excl Nodes=n[1-2] MaxTime=INFINITE OverSubscribe=EXCLUSIVE State=UP
PartitionName=yes Nodes=n[1-2] MaxTime=INFINITE OverSubscribe=YES:2 State=UP
PartitionName=force Nodes=n[1-2] MaxTime=INFINITE OverSubscribe=FORCE:2 State=UP
PartitionName=small Nodes=n[1-2] MaxTime=30 MaxNodes=1 DefMemPerNode=2000 State=UP
"""


def node_lines(more: Callable[[str], str]) -> str:
    """NodeName lines; `more` adds a node's addresses."""
    return "".join(
        f"NodeName={name} {more(name)} {kind.text()} Feature={FEATURES[name]} State=UNKNOWN\n"
        for kind in KINDS
        for name in kind.names
    )
