"""The entry point of fractional placement for callers: the compiled form where it was built, else its oracle.

The contract for the controller: for a job that requests a part of a GPU (GRES shard or mps) it calls

    choice = choose(nodes, shape, tables, policy)      -> (row of nodes, GPUs as a mask of device indices) or None

- `nodes` (fragment_contract.Nodes): the candidates of the moment, one row a node: free CPUs in thousandths, free memory,
  GPUs, model, the free thousandths of each GPU (`milli_of`), and a rank without ties: the planner's order of equal nodes
  (node_order). Nodes that the job may not use for another reason are left out.
- `shape` (fragment_contract.Shapes with one row): the job's CPUs and memory on that node, how many GPUs, the share of each,
  and a mask of models.
- `tables` (fragment_tables.prepare): the expected arrivals, as classes with weights. The controller makes them from the
  pending and the recent jobs, one class for each (CPUs, GPUs, share, models) with the number of such jobs as weight
  (`count_classes`). It repeats that when they have changed much, not for each job: it takes some milliseconds, and with a
  hundred different shares 0.3 s. `empty_tables()` returns the tables of an unknown distribution; then FGD and steer know no
  fragmentation, so use best fit.
- `policy`: BEST_FIT, or FGD with SelectTypeParameters=PENSTOCK_FGD, or STEER with PENSTOCK_STEER (POLICY_WORDS).

`choose` places one job without the memory that clustering has of the pods on a node. BEST_FIT, FGD and STEER have no such
memory, so calling it job by job gives what one call of `place` with all jobs gives. For a job whose node is chosen already
the caller passes that node alone, to have its GPU chosen.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import BEST_FIT, FGD, GPU_MILLI, STEER, Classes, FragmentNodes, Shapes
from _fastsched.fragment_tables import Tables, prepare

COMPILED: bool
try:
    from _fastsched.fragment import place

    COMPILED = True
except ModuleNotFoundError as absent:
    # A compiled module that exists and cannot be imported is an error: only a missing one leads to the oracle.
    if absent.name != "_fastsched.fragment":
        raise
    from _fastsched.fragment_reference import place

    COMPILED = False

#: Keywords of SelectTypeParameters; without any of them the policy is best fit.
POLICY_WORDS: dict[str, int] = {"PENSTOCK_FGD": FGD, "PENSTOCK_STEER": STEER}


def policy_of(select_type_parameters: tuple[str, ...]) -> int:
    """Returns the policy that these keywords choose: the first of POLICY_WORDS that is present, else best fit."""
    return next((policy for word, policy in POLICY_WORDS.items() if word in select_type_parameters), BEST_FIT)


def milli_of(units: int, units_of_gpu: int) -> int:
    """Converts units of a GRES shard or mps to thousandths of the GPU that is divided into units_of_gpu, rounded down.

    Requested and free units are rounded alike, so a shape fits in thousandths exactly if it fits in units, up to GPU_MILLI
    units a GPU; beyond that the caller must check the units as well.
    """
    return GPU_MILLI * units // units_of_gpu


def count_classes(jobs: Mapping[tuple[int, int, int, int], int]) -> Classes:
    """Builds classes from (CPU milli, GPUs, share milli, mask of models) -> number of such jobs, in the order of the keys."""
    rows = sorted(jobs)
    weight = np.array([jobs[row] for row in rows], np.int64)
    return Classes(
        cpu_milli=np.array([row[0] for row in rows], np.int64),
        gpus=np.array([row[1] for row in rows], np.int32),
        share_milli=np.array([row[2] for row in rows], np.int32),
        models=np.array([row[3] for row in rows], np.uint64),
        weight=weight,
        probability=weight / max(1, int(weight.sum())),
    )


def empty_tables(supply_gpus: NDArray[np.int64]) -> Tables:
    """Returns the tables of an empty distribution."""
    return prepare(count_classes({}), supply_gpus)


def choose(nodes: FragmentNodes, shape: Shapes, tables: Tables, policy: int) -> tuple[int, int] | None:
    """Returns the node and the GPUs for one job, or None if it fits nowhere; see the module's contract."""
    found = place(nodes, shape, np.zeros(1, np.int32), tables, policy)
    return None if found.node[0] < 0 else (int(found.node[0]), int(found.gpus[0]))


__all__ = ["COMPILED", "POLICY_WORDS", "choose", "count_classes", "empty_tables", "milli_of", "place", "policy_of"]
