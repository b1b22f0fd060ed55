"""Numbers of kinds of TRES, as Slurm's: 1 to 8 are built in, what a cluster has besides is counted from 1001.

A kind has its number from the first time that the configuration, a node or a licence names it, and keeps it: reports of
years compare. What is gone from the cluster keeps its number, too. What only the planner counts (thousandths of GPUs) has none.
"""

from typing import Final

from ctld.core.fairshare import TresRow
from ctld.core.state import ClusterState
from penstock.values.tres import gres_keys

BUILT_IN: Final = {
    "cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "fs/disk": 6, "vmem": 7, "pages": 8,
}  # fmt: skip
FIRST: Final = 1001


def number(state: ClusterState) -> None:
    """Give a number to each kind that has none."""
    kinds = (kind for kind in state.gres_kinds if kind[0] and kind not in state.gpu_extras)
    names = dict.fromkeys(name for kind in kinds for name in gres_keys(*kind))
    names.update(dict.fromkeys(f"license/{name}" for name in state.license_totals))
    highest = max(state.registry.tres_ids.values(), default=FIRST - 1)
    for name in names:
        if name not in state.registry.tres_ids:
            highest += 1
            state.registry.tres_ids[name] = highest
            state.registry.dirty_tres[highest] = TresRow(highest, name)


def known(state: ClusterState) -> dict[str, int]:
    """All kinds by name."""
    return BUILT_IN | state.registry.tres_ids
