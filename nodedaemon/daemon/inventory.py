"""Inventory of this node: CPUs, memory, GPUs, disk. Taken once, at the daemon's start, and sent at every registration.

Sizes may be given by hand (several node daemons on one machine, test set-ups): these are reported as pretended, and the
hardware is not queried for them. Heartbeats read two small files of /proc.
"""

import os
import platform
from dataclasses import dataclass

import psutil

from nodedaemon.base.topology_info import NodeTopology
from nodedaemon.core.gpuhealth_messages import Opinion
from nodedaemon.core.gpumessages import Device, Found
from nodedaemon.gpu import messages, once
from penstock.v1 import node_pb2
from penstock.values import pretend

MB = 1024 * 1024
GPUS_MAX = 1024  # a bitmask per node and job; the largest machines have 16
CPUS_MAX = 65_536
MEMORY_MB_MAX = 2**40
NOT_ASKED = "AutoDetect=off"


@dataclass(frozen=True)
class Pretended:
    """Sizes given by hand; None = detect."""

    cpus: int | None = None
    real_memory_mb: int | None = None
    gpus: tuple[int, str] | None = None

    def is_any(self) -> bool:
        """True when anything was given."""
        return any(value is not None for value in (self.cpus, self.real_memory_mb, self.gpus))


def parse_gpus(text: str) -> tuple[int, str]:
    """Parses `4` or `4:a100`."""
    return pretend.parse_gpus(text, GPUS_MAX, "--gpus")


def take_inventory(
    node_name: str, pretended: Pretended, topology: NodeTopology | None = None, asks_nvml: bool = True
) -> tuple[node_pb2.Inventory, Found]:
    """Takes the inventory, with GPUs as NVML's child reports them. topology: None = a number of cpus without
    structure."""
    cpus = pretended.cpus or len(os.sched_getaffinity(0))
    sockets, cores, threads = (1, cpus, 1) if pretended.cpus else _topology(cpus)
    if pretended.gpus is not None:
        found = Found(_pretended_gpus(node_name, *pretended.gpus))
    else:
        found = once.find() if asks_nvml else Found(why=NOT_ASKED)
    inventory = node_pb2.Inventory(
        cpus=cpus,
        boards=1,
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        real_memory_mb=pretended.real_memory_mb or psutil.virtual_memory().total // MB,
        tmp_disk_mb=psutil.disk_usage("/tmp").total // MB,  # noqa: S108 (Slurm's TmpFS)
        os=f"{platform.system()} {platform.release()}",
        arch=platform.machine(),
        hostname=platform.node(),
        boot_at_us=int(psutil.boot_time() * 1_000_000),
        pretended=pretended.is_any(),
    )
    devices = [(device, Opinion(device.uuid)) for device in found.devices]
    messages.fill(inventory, found, devices, topology)
    return inventory, found


def _topology(cpus: int) -> tuple[int, int, int]:
    """Sockets, cores per socket, threads per core; flat when the numbers do not divide (we have a part of a
    machine)."""
    cores = psutil.cpu_count(logical=False) or cpus
    sockets = max(_sockets(), 1)
    threads = max(cpus // cores, 1)
    if sockets * (cores // sockets) * threads != cpus:
        return 1, cpus, 1
    return sockets, cores // sockets, threads


def _sockets() -> int:
    found: set[str] = set()
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("physical id"):
                found.add(line.partition(":")[2].strip())
    return len(found)


def _pretended_gpus(node_name: str, count: int, type_: str) -> tuple[Device, ...]:
    model, name = pretend.model_of(type_), f"pretended {type_}".strip()
    return tuple(
        Device(
            f"GPU-pretended-{node_name}-{i}",
            i,
            i,
            type_,
            model.memory_mb,
            name,
            f"00000000:{i:02X}:00.0",
            capability=model.capability,
        )
        for i in range(count)
    )


def load_and_free_memory() -> tuple[int, int]:
    """CPU load in hundredths and free memory in MB, for a heartbeat."""
    return int(os.getloadavg()[0] * 100), psutil.virtual_memory().available // MB


def boot_id() -> str:
    """The kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
