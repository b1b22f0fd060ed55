"""PLANNED: an idle node that is kept for a waiting job, as in Slurm."""

import numpy as np
import pytest

from _fastsched import contract
from ctld.core.records.events import JobSubmission
from ctld.core.state.forecast import Forecast
from ctld.rpc.cluster.clusterinfo import planned_nodes
from tests.core.world import World, make_config


def job(**wanted: object) -> JobSubmission:
    return JobSubmission(**{"name": "j", "work_dir": b"/", "time_limit_s": 3600, **wanted})  # type: ignore[arg-type]  # keywords of many types


@pytest.mark.parametrize(
    ("first", "planned"),
    [(job(ntasks=4), {"n2"}), (job(ntasks=2), {"n2"}), (None, set())],
    ids=["a full node and an idle one", "a mixed and an idle one", "nothing waits"],
)
def test_idle_nodes_that_wait_for_a_job(first: JobSubmission | None, planned: set[str]) -> None:
    made = World(make_config(nodes=3, cpus=4))
    for name in ("n1", "n2"):
        made.register(name)
    if first is not None:
        made.submit(first, key="1" * 32)
        made.submit(job(nodes_min=2, nodes_max=2, ntasks=8), key="2" * 32)
    assert planned_nodes(made.core.state) == planned


def forecast() -> Forecast:
    """Rows of jobs 1, 2, 3: 1 started on n1, 2 waits for n1 and n2, 3 waits for n3."""
    columns = dict.fromkeys(contract.PlanResult._fields, np.zeros(0, np.int64)) | {
        "start_s": np.array([5, 9, 9]),
        "reason": np.array([contract.STARTED, contract.STARTED + 1, contract.STARTED + 1]),
        "plan_first": np.array([0, 1, 3, 4]),
        "plan_node": np.array([0, 0, 1, 2]),
    }
    result = contract.PlanResult(**columns)
    return Forecast(0, np.array([1, 2, 3]), result, ("n1", "n2", "n3"), None)


@pytest.mark.parametrize(
    ("waiting", "rows_max", "planned"),
    [({2, 3}, 500, {"n1", "n2", "n3"}), ({2, 3}, 1, {"n1", "n2"}), ({1, 3}, 500, {"n3"}), (set(), 500, set())],
)
def test_of_the_first_jobs_that_still_wait(waiting: set[int], rows_max: int, planned: set[str]) -> None:
    assert forecast().planned_nodes(waiting.__contains__, rows_max) == planned
