"""Published results come out to the last digit, and of the SC'15 study every job's wait.

The logs are not part of the project: PENSTOCK_TRACES says where they are. One log runs always, all by `make test-full`;
`make bench-sim` prints the whole table.
"""

import functools

import pytest

from bench import published
from sim.workload import Workload


@functools.cache
def load(log: str, filter_name: str, processors: int) -> Workload:
    return published.load(log, filter_name, processors)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.log == "KTH-SP2" else pytest.mark.slow)
        for case in published.cases()
    ],
)
def test_as_published(case: published.Case) -> None:
    if not published.is_there(case.log):
        pytest.skip(f"no {published.LOGS[case.log].file} in {published.TRACES} (PENSTOCK_TRACES)")
    workload = load(case.log, case.filter, case.processors)
    assert published.differences(case, workload, *published.run(case, workload)) == []


def test_a_difference_is_seen() -> None:
    """On a workload of our own, so that it runs everywhere."""
    case = published.Case("lublin_256", "easy", "batch", "requested", {"wait_mean_s": (5.0, 1)})
    columns = {"submit_s": [0, 0], "run_s": [10, 10], "requested_s": [10, 10], "procs": [256, 256], "user": [0, 0]}
    workload = published.from_columns("two", job_id=[1, 2], **columns)
    outcome, figures = published.run(case, workload)
    assert published.differences(case, workload, outcome, figures) == []
    worse = case._replace(want={"wait_mean_s": (5.1, 1)})
    assert published.differences(worse, workload, outcome, figures) == ["wait_mean_s 5.0, published 5.1"]
