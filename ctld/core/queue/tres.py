"""TRES ids, numbered as Slurm's: 1 to 8 are built in, further ones of a cluster are counted from 1001.

A kind gets its number when the configuration, a node or a licence first names it, and keeps it even when it is removed
from the cluster, so that reports over years can be compared. Kinds that only the planner counts (thousandths of GPUs)
have none.
"""

from typing import Final

from ctld.core.records.accounting_rows import TresRow
from ctld.core.state.state import ClusterState
from penstock.values.tres import gres_keys

BUILT_IN: Final = {
    "cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "fs/disk": 6, "vmem": 7, "pages": 8,
}  # fmt: skip
FIRST: Final = 1001


def number(state: ClusterState) -> None:
    """Numbers each kind that has no number yet."""
    kinds = (kind for kind in state.layout.gres_kinds if kind[0] and kind not in state.gpus.extras)
    names = dict.fromkeys(name for kind in kinds for name in gres_keys(*kind))
    names.update(dict.fromkeys(f"license/{name}" for name in _countable(state)))
    highest = max(state.registry.tres_ids.values(), default=FIRST - 1)
    for name in names:
        if name not in state.registry.tres_ids:
            highest += 1
            state.registry.tres_ids[name] = highest
            state.registry.dirty_tres[highest] = TresRow(highest, name)


def _countable(state: ClusterState) -> list[str]:
    """Returns the licenses that jobs can request; a layer of a hierarchical resource is none."""
    return [*state.layout.licenses, *state.layout.hres]


def known(state: ClusterState) -> dict[str, int]:
    """Returns all kinds by name."""
    return BUILT_IN | state.registry.tres_ids
