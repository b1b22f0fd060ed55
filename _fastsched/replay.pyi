"""The compiled replay: signature and answers of replay_reference.replay."""

import numpy as np
from numpy.typing import NDArray

from _fastsched.replay_contract import ReplayPolicy

def replay(
    submit_s: NDArray[np.int64],
    run_s: NDArray[np.int64],
    estimate_s: NDArray[np.int64],
    procs: NDArray[np.int32],
    user: NDArray[np.int32],
    processors: int,
    policy: ReplayPolicy,
    mode: int,
) -> NDArray[np.int64]: ...
