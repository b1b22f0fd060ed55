"""Numbering of the cluster for the planner; rebuilt by nodes/layout.py for every configuration."""

# Any: placements are of a room above this one, whose types may not be imported here
from typing import Any

from ctld.core.state.columns import MaskTable
from ctld.core.state.hres import HresPool, HresSet
from ctld.core.state.pending import KnownShapes, Shape


def cpus_kind(partition: str) -> tuple[str, str]:
    """Returns the kind of GRES that counts, for MaxCPUsPerNode, the CPUs of the partition's jobs on each node. Users
    cannot request it: GRES names are words."""
    return "", f"MaxCPUsPerNode of {partition}"


class ClusterLayout:
    """Numbers of kinds, names by number, and cached answers that are valid as long as the numbers are."""

    __slots__ = (
        "assoc_numbers", "cpus_largest", "feasible", "gres_kinds", "hres", "hres_free", "hres_sets", "kept", "license_kinds",
        "license_totals", "licenses", "masks", "node_names", "partition_cpus", "placements", "shapes_known", "switches_above",
        "units_per_cpu", "user_numbers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.gres_kinds: dict[tuple[str, str], int] = {}  # (name, type) -> planner column; (name, "") = any type of it
        self.partition_cpus: dict[str, int] = {}  # partition with MaxCPUsPerNode -> column that counts its jobs' CPUs
        self.licenses: dict[str, int] = {}  # without the layers of hierarchical resources
        self.license_kinds: dict[str, int] = {}
        self.license_totals: dict[str, int] = {}  # in the order of the kinds
        self.hres: dict[str, HresPool] = {}
        self.hres_free = b""  # what was free when these sets were renewed
        self.hres_sets: dict[HresSet, int] = {}  # rows of the masks that change with what is free: queue/hres.py
        self.node_names: tuple[str, ...] = ()  # by column index
        self.switches_above: dict[str, tuple[str, ...]] = {}  # by node: values/topology.py
        self.units_per_cpu = 1  # jobs/sharing.py
        self.kept: dict[str, str] = {}  # nodes that the file lacks or has smaller, and why: nodes/kept.py
        self.cpus_largest = 0  # the CPUs of the largest node; 0 = there is none
        self.assoc_numbers: dict[tuple[int, str, str], int] = {}
        self.user_numbers: dict[int | tuple[str, int], int] = {}  # uid, or MCS label with uid or -1 -> a small number
        self.masks = MaskTable(0)
        self.placements: dict[tuple[object, ...], list[Any]] = {}  # shapes.placements
        self.feasible: dict[Shape, bool] = {}  # whether a shape could ever run; valid for this configuration
        self.shapes_known = KnownShapes()
