"""The set-up of a private cluster on this machine: its folder, its nodes' sizes, its ports, its slurm.conf.

One node has the size of the machine. Several nodes share it in equal parts, or have the requested sizes; those are
pretended (the node daemon gets them as options), and Penstock marks such nodes. slurm.conf is written once, when the
cluster is created, and belongs to the user from then on. Pure decisions, apart from reading the machine's size.
"""

import os
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from cli.base.run import CommandError

CLUSTER_NAME = "local"
PARTITION = "debug"
#: The most nodes: each is a process of some 60 MB.
NODES_MAX = 64
CPUS_PER_NODE_MAX = 4096
GPUS_PER_NODE_MAX = 128
#: sun_path holds 107 bytes; the longest name below the folder is noded/n64/ and a socket's name.
HOME_LENGTH_MAX = 72
#: The share of memory for jobs: the rest is for the daemons and the system.
MEMORY_PERCENT = 90
#: Below the range from which the kernel takes ports for outgoing connections, so that none is taken by chance later.
PORTS = range(20000, 32000)
PORT_TRIES_MAX = 200
#: The files that `penstock up` creates in its folder; --purge removes nothing else.
CLUSTER_ENTRY = "cluster.json"
ENTRIES = ("ctld", "noded", "certs", "log", "slurm.conf", CLUSTER_ENTRY, "lock", "restd.sock")
#: What the owner may lay there beforehand: the files of other clusters (penstock/clusters.py).
OWNERS_ENTRIES = ("clusters",)
#: Characters with a special meaning in slurm.conf or its patterns.
UNSAFE = frozenset('"#\\%\n\r\t')


class LocalClusterOptions(NamedTuple):
    """The options of the command line; None = not given."""

    nodes: int | None = None
    cpus_per_node: int | None = None
    gpus_per_node: tuple[int, str] | None = None  # how many, and their type
    name: str | None = None


class Machine(NamedTuple):
    """The size of this machine."""

    cpus: int
    memory_mb: int
    gpus: int


class LocalNode(NamedTuple):
    """The size of one node, for slurm.conf and its daemon."""

    name: str
    cpus: int
    memory_mb: int
    gpus: int
    pretended: bool
    gpu_type: str = ""


def home_folder() -> Path:
    """The folder of this user's cluster."""
    home = Path(os.environ.get("PENSTOCK_HOME") or Path.home() / ".penstock").absolute()
    if len(os.fsencode(home)) > HOME_LENGTH_MAX:
        raise CommandError(
            f"{home}: longer than {HOME_LENGTH_MAX} bytes, so that the sockets' names below it would not fit: "
            "set PENSTOCK_HOME to a shorter one"
        )
    if bad := sorted(UNSAFE & set(str(home))):
        raise CommandError(
            f"{home}: a folder's name with {bad[0]!r} cannot be written in slurm.conf: set PENSTOCK_HOME"
        )
    return home


def prepare(home: Path) -> None:
    """Creates the folder, for its owner only. Refuses a folder of another user, or one with other files in it. The
    folder of an existing cluster may have more files: gres.conf, cgroup.conf, a copy of slurm.conf.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise CommandError(f"{home}: is not a folder") from error
    if home.stat().st_uid != os.geteuid():
        raise CommandError(f"{home}: belongs to another user: set PENSTOCK_HOME")
    found = set(os.listdir(home))
    if CLUSTER_ENTRY not in found and (other := sorted(found - {*ENTRIES, *OWNERS_ENTRIES})):
        raise CommandError(
            f"{home}: holds {other[0]}, which is not Penstock's: set PENSTOCK_HOME to a folder of its own"
        )
    home.chmod(0o700)


def machine_now() -> Machine:
    """This machine: CPUs this process may use, memory, NVIDIA devices."""
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)
    gpus = sum(1 for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit())
    return Machine(len(os.sched_getaffinity(0)), memory_mb, gpus)


def plan_nodes(options: LocalClusterOptions, machine: Machine) -> list[LocalNode]:
    """The requested nodes."""
    count = options.nodes or 1
    pretended = count > 1 or options.cpus_per_node is not None or options.gpus_per_node is not None
    cpus = options.cpus_per_node or max(1, machine.cpus // count)
    memory_mb = max(1, machine.memory_mb * MEMORY_PERCENT // 100 // count)
    # Real GPUs stay with a single node: two nodes must not both believe that they own one.
    gpus, type_ = options.gpus_per_node or (machine.gpus if count == 1 else 0, "")
    return [LocalNode(f"n{i}", cpus, memory_mb, gpus, pretended, type_) for i in range(1, count + 1)]


def gpus_text(gpus: int, type_: str) -> str:
    """`8:h200`, `8`."""
    return f"{gpus}:{type_}" if type_ else str(gpus)


def other_than(options: LocalClusterOptions, nodes: list[LocalNode], name: str = CLUSTER_NAME) -> str:
    """The differences between the options and the existing cluster; empty if none."""
    have: dict[str, object] = {
        "nodes": len(nodes), "cpus_per_node": nodes[0].cpus, "gpus_per_node": (nodes[0].gpus, nodes[0].gpu_type),
        "name": name,
    }  # fmt: skip
    for key, wanted in options._asdict().items():
        if wanted is not None and wanted != have[key]:
            return f"--{key.replace('_', '-')} {_shown(wanted)}: this cluster has {_shown(have[key])}"
    return ""


def _shown(size: object) -> str:
    return gpus_text(*size) if isinstance(size, tuple) else str(size)


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback address."""
    found: list[int] = []
    for _ in range(PORT_TRIES_MAX):
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
        if len(found) == count:
            return found
    raise CommandError(f"no {count} free ports between {PORTS.start} and {PORTS.stop} in {PORT_TRIES_MAX} tries")


def conf_text(
    home: Path, user: str, ports: tuple[int, int, int], nodes: list[LocalNode], name: str = CLUSTER_NAME
) -> str:
    """slurm.conf of the cluster. `ports`: for commands, for nodes, for metrics."""
    names = nodes[0].name if len(nodes) == 1 else f"n[1-{len(nodes)}]"
    size = nodes[0]
    kind = f"gpu:{size.gpu_type}" if size.gpu_type else "gpu"
    gres = f" Gres={kind}:{size.gpus}" if size.gpus else ""
    share_mb = max(1, size.memory_mb // size.cpus)
    return f"""\
# Made by `penstock up`; yours to change: `scontrol reconfigure` applies it, `penstock config check` tries it.
ClusterName={name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
PenstockNodePort={ports[1]}
SlurmUser={user}
StateSaveLocation="{home}/ctld"
SlurmdSpoolDir="{home}/noded"

# MetricsType=metrics/openmetrics shows them on this port of the loopback address, after `penstock down` and `penstock up`.
PenstockMetricsPort={ports[2]}

# `scontrol token` makes tokens: the web interface (`penstock up --web`) and other programs use them.
AuthAltTypes=auth/jwt

# A node that was down is used again as soon as it registers.
ReturnToService=2
# All is on one machine, so no node can be cut off; and jobs should continue after a laptop has slept.
PenstockLeaseTime=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# A job that asks for no memory gets its CPUs' share of the node's.
DefMemPerCPU={share_mb}
GresTypes=gpu

NodeName={names} NodeAddr=127.0.0.1 CPUs={size.cpus} RealMemory={size.memory_mb}{gres} State=UNKNOWN
PartitionName={PARTITION} Nodes={names} Default=YES MaxTime=UNLIMITED State=UP
"""
