"""Detects the control groups of this node: once, at the daemon's start, before anything is launched.

Uses the unified hierarchy (v2) when the system has it and it is writable, else v1's writable trees, else none. Each
tree gets the node's subtree below the daemon's own group. Missing groups are no error: settings that need them and
cannot be honoured are logged (`lacks`).

v2 delegates a controller only from a group without processes, so the daemon moves itself into a leaf when no other
process is in its group: under systemd with Delegate=yes that is so (DelegateSubgroup=penstock-daemon starts it there,
and starts it again there while steps run). Started by hand from a shell it shares its group, and there are no limits.
"""

import contextlib
import os
import zlib

from nodedaemon.base.kernelfiles import read_text, write_text
from nodedaemon.cgroups.cgroup import NONE, Cgroups
from nodedaemon.cgroups.limits import V2_CONTROLLERS, prepare
from nodedaemon.cgroups.tree import CgroupTree

ROOT = "/sys/fs/cgroup"
#: The leaf that the daemon moves to where it delegates controllers.
LEAF = "penstock-daemon"
#: v1's trees that are used; the freezer groups the processes.
V1_CONTROLLERS = ("freezer", "memory", "cpuset", "pids", "devices", "cpuacct")


def detect(node_name: str, spool_path: str, root: str = ROOT, own_file: str = "/proc/self/cgroup") -> Cgroups:
    """Detects what may be used and creates the subtrees.

    The subtree's name includes the spool's: two clusters on one machine may have nodes of one name and steps of one
    key.
    """
    spool = zlib.crc32(os.path.realpath(spool_path).encode("utf-8", "surrogateescape"))
    name = f"penstock-{node_name.replace('/', '_')}-{spool:08x}"
    own = _own_groups(own_file)
    try:
        if os.path.exists(f"{root}/cgroup.controllers"):
            return _detect_v2(f"{root}{own.get('', '/')}".rstrip("/"), name)
        return _detect_v1(root, own, name)
    except OSError:  # read-only, not delegated to us, or another layout
        return NONE


def _detect_v2(own: str, name: str) -> Cgroups:
    base = os.path.dirname(own) if os.path.basename(own) == LEAF else own
    controllers = _hand_down(own, base)
    path = f"{base}/{name}"
    os.makedirs(path, exist_ok=True)
    # created and removed once, to test that we may
    probe = f"{path}/probe"
    os.makedirs(probe, exist_ok=True)
    os.rmdir(probe)
    return Cgroups("v2", (CgroupTree(path, controllers, True),))


def _hand_down(own: str, base: str) -> tuple[str, ...]:
    """Delegates the available controllers to the groups below; returns those that are enabled then."""
    there = read_text(f"{base}/cgroup.controllers").split()
    wanted = [word for word in V2_CONTROLLERS if word in there]
    if not wanted:
        return ()
    if own == base:
        if read_text(f"{own}/cgroup.procs").split() != [str(os.getpid())]:
            given = read_text(f"{base}/cgroup.subtree_control").split()  # enabled by the process that made this group
            return tuple(word for word in wanted if word in given)
        with contextlib.suppress(OSError):
            os.makedirs(f"{own}/{LEAF}", exist_ok=True)
            write_text(f"{own}/{LEAF}/cgroup.procs", "0")
    given_now = []
    for word in wanted:
        with contextlib.suppress(OSError):
            write_text(f"{base}/cgroup.subtree_control", f"+{word}")
            given_now.append(word)
    return tuple(given_now)


def _detect_v1(root: str, own: dict[str, str], name: str) -> Cgroups:
    trees: dict[str, list[str]] = {}
    for controller in V1_CONTROLLERS:
        base = f"{root}/{controller}"
        path = f"{os.path.realpath(base)}{own.get(controller, '/').rstrip('/')}/{name}"
        if os.path.isdir(base) and _make_v1(path, controller):
            trees.setdefault(path, []).append(controller)  # cpu and cpuacct may be one tree under two names
    for path, controllers in trees.items():
        if "freezer" not in controllers:  # made again by the first step that needs one of its controllers
            with contextlib.suppress(OSError):
                os.rmdir(path)
    if not any("freezer" in controllers for controllers in trees.values()):
        return NONE
    return Cgroups("v1", tuple(CgroupTree(path, tuple(controllers), False) for path, controllers in trees.items()))


def _make_v1(path: str, controller: str) -> bool:
    try:
        os.makedirs(path, exist_ok=True)
        prepare(os.path.dirname(path), path, (controller,), False)
    except OSError:
        return False
    return os.access(f"{path}/tasks", os.W_OK)


def remove_subtree(cgroups: Cgroups) -> None:
    """Removes the node's subtrees when they are empty (a daemon that ends with no step left)."""
    for tree in cgroups.trees:
        with contextlib.suppress(OSError):
            os.rmdir(tree.path)


def lacks(cgroups: Cgroups, wanted: tuple[tuple[str, str], ...]) -> list[str]:
    """The parameters, of (parameter, controller) pairs, that cannot be honoured here."""
    return [
        name
        for name, controller in wanted
        if not (cgroups.can(controller) or (cgroups.kind == "v2" and controller == "devices" and os.geteuid() == 0))
    ]


def _own_groups(own_file: str) -> dict[str, str]:
    """Returns controller -> the group this process is in; "" is the unified hierarchy."""
    own: dict[str, str] = {}
    for line in read_text(own_file).splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    return own
