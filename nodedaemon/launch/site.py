"""The controller's settings for this node, as last received (NodeSettings), and the node's facts that they apply to.

Sent with each registration and after each reload, valid for orders from then on, and not stored: a node daemon that has
not registered since its start has no commands, either. Deliberately absent: decisions about a step (containment.py).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nodedaemon.base.conffile import write_conf
from nodedaemon.base.topology_info import NodeTopology
from nodedaemon.cgroups import find as cgroup_find
from nodedaemon.cgroups.cgroup import NONE, Cgroups
from nodedaemon.cgroups.devices import can_deny
from nodedaemon.core.gpumessages import Device
from nodedaemon.core.gpupins import Pinning
from penstock.v1 import node_pb2
from penstock.values.errors import BadValue
from penstock.values.gpustates import BY_ENVIRONMENT

if TYPE_CHECKING:
    from nodedaemon.gpu.agent import GpuAgent

#: Prefix of UUIDs of GPUs that are identified by number only.
PRETENDED = "GPU-pretended-"
_V1, _V2 = "cgroup/v1", "cgroup/v2"


def _device(gpu: node_pb2.GpuDevice, topology: NodeTopology | None) -> Device:
    """Returns a GPU as registered, for a node whose GPUs are not watched."""
    near = tuple(number for index in gpu.near_cpus if topology and (number := topology.kernel(index)) >= 0)
    here = () if gpu.uuid.startswith(PRETENDED) else (f"/dev/nvidia{gpu.minor}",)
    files = tuple(gpu.files) or here
    return Device(
        gpu.uuid, gpu.index, gpu.minor, gpu.type, gpu.memory_mb, gpu.name, gpu.bus_id, near_cpus=near,
        parent=gpu.parent_uuid, profile=gpu.profile, mig_enabled=gpu.mig_enabled, files=files,
    )  # fmt: skip


class Site:
    """The present settings, and the node's facts. `topology` None: its cpus are pretended."""

    def __init__(self, topology: NodeTopology | None = None, always_limits_memory: bool = False) -> None:
        self.settings = node_pb2.NodeSettings()
        self.topology = topology
        self.total_memory_mb = 0
        self.cgroups: Cgroups = NONE
        self.listeners: list[Callable[[], None]] = []  # called after a change
        self.gpus: GpuAgent | None = None  # None: there are no GPUs that NVML knows, or they are pretended
        self.mps_base = ""  # folder of the MPS control daemons; "" = there are none
        self.always_limits_memory = always_limits_memory  # --constrain-memory
        self.devices: dict[tuple[str, int], tuple[str, ...]] = {}  # gres.conf's device files by name and index
        self._gpus: dict[str, Device] = {}
        self.slurm_conf = ""  # the file for jobs, written from the settings; "" = there is none
        self.pinning: Pinning | None = None  # cache of pinning.py, until there are new settings

    def found(self, inventory: node_pb2.Inventory) -> None:
        """Takes the node's own inventory: its memory, its GPUs."""
        self.total_memory_mb = inventory.real_memory_mb
        self.pinning = None
        self._gpus = {gpu.uuid: _device(gpu, self.topology) for gpu in inventory.gpus if gpu.uuid}

    def inventory(self) -> tuple[Device, ...]:
        """The GPUs that have a UUID, as they are now."""
        return self.gpus.devices() if self.gpus is not None else tuple(self._gpus.values())

    def resolve(self, uuids: Sequence[str]) -> tuple[Device, ...]:
        """Resolves these devices, in their order. Raises BadValue when one is missing or must not be allocated."""
        if self.gpus is not None:
            return self.gpus.resolve(tuple(uuids))
        missing = [uuid for uuid in uuids if uuid not in self._gpus]
        if missing:
            raise BadValue(f"GPU {missing[0]} is not on this node")
        return tuple(self._gpus[uuid] for uuid in uuids)

    def has_devices(self, name: str) -> bool:
        """True when the configuration names device files of that name."""
        return any(key[0] == name for key in self.devices)

    def fences_devices(self) -> bool:
        """True when a step is denied the devices that it was not given."""
        groups = self.settings.cgroup
        return (groups.constrain_devices or groups.fence_where_able) and self.can_fence_devices()

    def can_fence_devices(self) -> bool:
        """True when this node is able to deny devices."""
        groups = self.settings.cgroup
        return groups.plugin != "disabled" and (
            self.cgroups.can("devices") or (self.cgroups.kind == "v2" and can_deny())
        )

    def gpu_constraint(self) -> str:
        """How jobs are kept from GPUs that are not theirs, as `scontrol show node` displays it."""
        return f"cgroup/{self.cgroups.kind}" if self.can_fence_devices() else BY_ENVIRONMENT

    def take(self, settings: node_pb2.NodeSettings) -> list[str]:
        """Applies these settings; returns lines for the log about those that cannot be honoured here."""
        self.settings.CopyFrom(settings)
        self.pinning = None
        if self.slurm_conf and settings.slurm_conf:
            write_conf(self.slurm_conf, settings.slurm_conf)
        self.devices = {}
        for device in settings.devices:
            key = (device.name, device.index)
            self.devices[key] = (*self.devices.get(key, ()), device.file)
        for listener in self.listeners:
            listener()
        return self.lacks()

    def lacks(self) -> list[str]:
        """The settings that this node cannot honour."""
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
        lines += [f"{name}: no writable control group for it; it is not enforced" for name in missing]
        return lines
