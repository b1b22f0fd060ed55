"""The compiled placement: signature and answers of fragment_reference.place."""

import numpy as np
from numpy.typing import NDArray

from _fastsched.fragment_contract import FragmentNodes, Placements, Shapes
from _fastsched.fragment_tables import Tables

def place(
    nodes: FragmentNodes,
    shapes: Shapes,
    pod_shape: NDArray[np.int32],
    tables: Tables,
    policy: int,
    draws: NDArray[np.uint64] | None = None,
) -> Placements: ...
