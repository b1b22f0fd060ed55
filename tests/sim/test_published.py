"""Published results come out to the last digit, and of the SC'15 study every job's wait.

The logs are not part of the project: PENSTOCK_TRACES says where they are. One log runs always, all by `make test-full`;
`make bench-sim` prints the whole table.
"""

import functools

import pytest

from bench import learnedbench, published
from sim.workload import Workload, from_columns


@functools.cache
def load(log: str, filter_name: str, processors: int) -> Workload:
    return published.load(log, filter_name, processors)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=case.name, marks=() if (case.log, case.engine) == ("KTH-SP2", "replay") else pytest.mark.slow
        )
        for case in published.cases() + published.ours()
    ],
)
def test_as_published(case: published.Case) -> None:
    if not published.is_there(case.log):
        pytest.skip(f"no {published.LOGS[case.log].file} in {published.TRACES} (PENSTOCK_TRACES)")
    workload = load(case.log, case.filter, case.processors)
    assert published.differences(case, workload, *published.run(case, workload)) == []


@pytest.mark.parametrize("mode", ["batch", "event"])
@pytest.mark.parametrize(
    "log", [pytest.param(log, marks=() if log == "KTH-SP2" else pytest.mark.slow) for log in learnedbench.STUDY]
)
def test_learned_is_better_than_published(log: str, mode: str) -> None:
    """A lower mean bounded slowdown than EASY, EASY-SJBF and EASY++, and a p95 of waits that is no higher than EASY's."""
    if not published.is_there(log):
        pytest.skip(f"no {published.LOGS[log].file} in {published.TRACES} (PENSTOCK_TRACES)")
    workload = load(log, "sc15", 0)
    rivals = [learnedbench.figures(workload, log, policy, mode) for policy in ("easy", "easy-sjbf", "easypp")]
    assert learnedbench.keeps(learnedbench.figures(workload, log, "learned", mode), rivals)
    assert not learnedbench.keeps(rivals[0], rivals)


def test_a_difference_is_seen() -> None:
    """On a workload of our own, so that it runs everywhere."""
    case = published.Case("lublin_256", "easy", "batch", "requested", {"wait_mean_s": (5.0, 1)})
    columns = {"submit_s": [0, 0], "run_s": [10, 10], "requested_s": [10, 10], "procs": [256, 256], "user": [0, 0]}
    workload = from_columns("two", job_id=[1, 2], **columns)
    outcome, figures = published.run(case, workload)
    assert published.differences(case, workload, outcome, figures) == []
    worse = case._replace(want={"wait_mean_s": (5.1, 1)})
    assert published.differences(worse, workload, outcome, figures) == ["wait_mean_s 5.0, published 5.1"]
