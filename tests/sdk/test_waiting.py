"""Questions of who waits for a job, without a controller."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.calls import PAUSE_MAX_S
from penstock.errors import RECEIVE_FAILURE, RECEIVE_FAILURE_TEXT, Unreachable
from sdk import waiting

JOB: Any = SimpleNamespace(job_id=7, array_job_id=0)


@pytest.mark.parametrize(
    ("limit_s", "error", "is_lost"),
    [
        (300.0, Unreachable(RECEIVE_FAILURE_TEXT, "Deadline Exceeded", RECEIVE_FAILURE), False),
        (PAUSE_MAX_S, Unreachable(), False),  # retries end a pause before the limit
        (300.0, Unreachable(), True),
    ],
)
def test_a_wait_that_ends_early_is_no_lost_controller(limit_s: float, error: Unreachable, is_lost: bool) -> None:
    steps = waiting.end(JOB, limit_s)
    assert next(steps).limit_s == limit_s
    with pytest.raises(Unreachable if is_lost else StopIteration):
        steps.throw(error)
