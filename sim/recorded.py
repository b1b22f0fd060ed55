"""The schedule that the log itself recorded, as a run beside those of the policies.

It shows how close the simulator comes to the site's own history under the policy that the site had: with other figures the
machine, the policy or the log was another one (reservations, limits, broken nodes, jobs that depend on others).
"""

import numpy as np

from sim.outcome import Outcome
from sim.workload import Workload

POLICY, ENGINE = "recorded", "log"


def recorded(workload: Workload) -> Outcome | None:
    """The starts and ends of the log; None unless it has all of them."""
    if not len(workload) or (workload.wait_s < 0).any():
        return None
    start_s = workload.submit_s + workload.wait_s
    return Outcome(np.asarray(start_s), start_s + workload.run_s, 0.0, "the log")


def unrecorded(workload: Workload) -> str:
    """Why there is no such run, if only some jobs lack their start; "" if the log has no starts."""
    missing = int((workload.wait_s < 0).sum())
    if not 0 < missing < len(workload):
        return ""
    return f"no column of the schedule as recorded: the log does not have the true start of {missing:,} jobs"
