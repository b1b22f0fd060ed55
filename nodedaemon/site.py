"""What the controller's configuration says to this node, as of its last word (NodeSettings), and what it is applied to.

It comes with each registration and after each reload, holds for orders from then on, and is kept nowhere: a node
daemon that has not registered since its start has no commands to obey either. Deliberately absent: decisions about a
step (containment.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from nodedaemon import cgroup_find
from nodedaemon.cgroup import NONE, Cgroups
from nodedaemon.topology_info import Topology
from penstock.v1 import node_pb2

if TYPE_CHECKING:
    from nodedaemon.gpu.agent import GpuAgent

_V1, _V2 = "cgroup/v1", "cgroup/v2"


class Site:
    """The present settings, and the node's inside. `topology` None: its cpus are pretended."""

    def __init__(self, topology: Topology | None = None, always_limits_memory: bool = False) -> None:
        self.settings = node_pb2.NodeSettings()
        self.topology = topology
        self.total_memory_mb = 0
        self.cgroups: Cgroups = NONE
        self.listeners: list[Callable[[], None]] = []  # called after a change
        self.gpus: GpuAgent | None = None  # None: there are none that NVML knows, or they are pretended
        self.always_limits_memory = always_limits_memory  # --constrain-memory
        self.devices: dict[tuple[str, int], str] = {}  # device files by name and index
        self._found: dict[tuple[str, int], str] = {}

    def found(self, inventory: node_pb2.Inventory) -> None:
        """What the node has found by itself: its memory, its GPUs."""
        self.total_memory_mb = inventory.real_memory_mb
        self._found = {("gpu", gpu.index): f"/dev/nvidia{gpu.minor}" for gpu in inventory.gpus}
        self.devices = dict(self._found)

    def take(self, settings: node_pb2.NodeSettings) -> list[str]:
        """From now on these hold; what of them cannot be obeyed here, as lines for the log."""
        self.settings.CopyFrom(settings)
        self.devices = self._found | {(device.name, device.index): device.file for device in settings.devices}
        for listener in self.listeners:
            listener()
        return self.lacks()

    def lacks(self) -> list[str]:
        """What the configuration asks for and this node cannot do."""
        groups, kind = self.settings.cgroup, self.cgroups.kind
        lines = []
        if groups.plugin in (_V1, _V2) and kind != groups.plugin.partition("/")[2]:
            lines.append(f"CgroupPlugin={groups.plugin}: this node has {kind} control groups")
        wanted = (
            ("ConstrainCores", "cpuset", groups.constrain_cores),
            ("ConstrainRAMSpace", "memory", groups.constrain_ram or self.always_limits_memory),
            ("ConstrainDevices", "devices", groups.constrain_devices),
            ("PenstockMaxPidsPerJob", "pids", bool(groups.pids_max)),
        )
        missing = cgroup_find.lacks(self.cgroups, tuple((name, word) for name, word, is_on in wanted if is_on))
        lines += [f"{name}: no writable control group for it; it is not obeyed" for name in missing]
        return lines
