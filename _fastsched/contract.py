"""What the compiled planner and its oracle share: the words of the answer, the limits, and the check of the input.

Both planners call `check` first. It proves what the loops afterwards rely on (the compiled one runs without bounds
checks): every column has the dtype and the length that the others imply, `node_order` names each node once, no node has
less than nothing in total (what is free may be negative: a node can shrink under its jobs), and each job names an
existing mask. Numbers inside a job's row are not checked here: a row that makes no sense (no task, no cpu, more nodes
than tasks) can run nowhere and gets BAD_CONSTRAINTS, because one odd job must not stop the pass for all others.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

NOT_TESTED: Final = 0  # the pass ended (starts_max, PLACEMENTS_MAX) before this row, or the row has no copies
STARTED: Final = 1  # all copies of the row start
RESOURCES: Final = 2  # waits for nodes, and holds them against everything of lower priority
PRIORITY: Final = 3  # waits because every node that it could use is held by higher-priority rows
NODES_DOWN: Final = 4  # could run only with nodes that are not up
BAD_CONSTRAINTS: Final = 5  # could not run even on all nodes of its mask, empty

# One pass names at most this many (start, node) pairs, so that its buffers stay under 150 MB; the next pass goes on
# from there. It is what 65,536 nodes of 64 cpus can take in one-cpu tasks.
PLACEMENTS_MAX = 1 << 22


class PlanResult(NamedTuple):
    """The starts in order of decision; start s has the entries node_first[s] up to node_first[s + 1] of the rest."""

    job: NDArray[np.int32]
    node_first: NDArray[np.int32]
    node: NDArray[np.int32]
    cpus: NDArray[np.int32]
    tasks: NDArray[np.int32]
    mem_mb: NDArray[np.int64]
    reason: NDArray[np.uint8]


# name: (dtype, length of each axis). N nodes, G kinds of GRES, M masks, W words of a mask, J jobs.
COLUMNS: Final[dict[str, tuple[type, str]]] = {
    "free_cpus": (np.int32, "N"),
    "free_mem_mb": (np.int64, "N"),
    "free_gres": (np.int32, "NG"),
    "total_cpus": (np.int32, "N"),
    "total_mem_mb": (np.int64, "N"),
    "total_gres": (np.int32, "NG"),
    "running_jobs": (np.int32, "N"),
    "held_exclusive": (np.uint8, "N"),
    "node_order": (np.int32, "N"),
    "up": (np.uint8, "N"),
    "masks": (np.uint64, "MW"),
    "job_mask": (np.int32, "J"),
    "nodes_min": (np.int32, "J"),
    "nodes_max": (np.int32, "J"),
    "ntasks": (np.int32, "J"),
    "cpus_per_task": (np.int32, "J"),
    "ntasks_per_node": (np.int32, "J"),
    "mem_node_mb": (np.int64, "J"),
    "mem_cpu_mb": (np.int64, "J"),
    "gres": (np.int32, "JG"),
    "exclusive": (np.uint8, "J"),
    "count": (np.int32, "J"),
}


def check(columns: Mapping[str, Any]) -> None:
    """Raise ValueError that names the column if one does not fit the others."""
    arrays = {name: np.asarray(columns[name]) for name in COLUMNS}
    lengths: dict[str, int] = {}
    for name, (dtype, axes) in COLUMNS.items():
        array = arrays[name]
        if array.dtype != dtype or array.ndim != len(axes):
            wanted = f"{np.dtype(dtype)}[{','.join(axes)}]"
            raise ValueError(f"plan: {name} is {array.dtype} with {array.ndim} axes, expected {wanted}")
        for axis, length in zip(axes, array.shape, strict=True):
            if length != lengths.setdefault(axis, length):
                raise ValueError(f"plan: {name} has length {length} on axis {axis}, the others have {lengths[axis]}")
    nodes = lengths["N"]
    if lengths["W"] != (nodes + 63) // 64:
        raise ValueError(f"plan: masks has {lengths['W']} words a row, {nodes} nodes take {(nodes + 63) // 64}")
    if not np.array_equal(np.sort(arrays["node_order"]), np.arange(nodes)):
        raise ValueError(f"plan: node_order must name each of the {nodes} nodes exactly once")
    for name in ("total_cpus", "total_mem_mb", "total_gres"):
        if arrays[name].min(initial=0) < 0:
            raise ValueError(f"plan: {name} must not be negative, its lowest entry is {arrays[name].min()}")
    bad = (arrays["job_mask"] < 0) | (arrays["job_mask"] >= lengths["M"])
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"plan: job_mask[{row}] is {arrays['job_mask'][row]}, there are {lengths['M']} masks")
