"""swait against a controller that answers from a table."""

import itertools
import time
from typing import Any

import pytest

from cli.swait import body
from penstock.v1.common_pb2 import ExitStatus
from penstock.v1.controller_pb2 import JobInfo, ListJobsReply
from penstock.v1.steps_pb2 import AwaitStepReply, ListStepsReply, StepInfo
from tests.cli.fake_controller import FakeClient, run_body


def run(capsys: Any, *argv: str) -> tuple[int, str, str]:
    return run_body(capsys, "swait", body, *argv)


def step(number: int, state: str = "RUNNING") -> StepInfo:
    return StepInfo(job_id=7, step_id=number, state=state, start_at_us=1)


def fake(monkeypatch: Any, *lists: list[StepInfo], jobs: tuple[str, ...] = ("RUNNING",), **answers: Any) -> FakeClient:
    """The steps at each look; those that are awaited end with 3."""
    looks = itertools.chain([ListStepsReply(steps=steps) for steps in lists], itertools.repeat(ListStepsReply()))
    pages = [ListJobsReply(jobs=[JobInfo(job_id=7 + n, state=state) for n, state in enumerate(jobs)])]
    table = {
        "ListJobs": pages,
        "ListSteps": lambda request: next(looks),
        "AwaitStep": AwaitStepReply(state="FAILED", exit=ExitStatus(code=3)),
        **answers,
    }
    return FakeClient(**table).install(monkeypatch)


@pytest.fixture(autouse=True)
def outside(monkeypatch: Any) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def test_all_steps_of_a_job(monkeypatch: Any, capsys: Any) -> None:
    ended, batch = step(0, "COMPLETED"), StepInfo(job_id=7, step_id=-5, state="RUNNING")
    client = fake(monkeypatch, [batch, ended, step(1), step(2)], [batch, step(2)], [batch])
    assert run(capsys, "7") == (0, "JobId=7 steps drained\n", "")
    assert [request.step_id for method, request in client.calls if method == "AwaitStep"] == [1, 2]


def test_nothing_to_wait_for_says_nothing(monkeypatch: Any, capsys: Any) -> None:
    fake(monkeypatch)
    assert run(capsys, "7") == (0, "", "")


def test_follow_and_quiet(monkeypatch: Any, capsys: Any) -> None:
    fake(monkeypatch, [step(1)])
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert run(capsys, "--follow") == (0, "StepId=7.1 code=3:0\nJobId=7 steps drained\n", "")
    fake(monkeypatch, [step(1)])
    assert run(capsys, "-Q") == (0, "", "")


def test_one_step(monkeypatch: Any, capsys: Any) -> None:
    timed_out = AwaitStepReply(state="TIMEOUT", exit=ExitStatus(signal=9))
    fake(monkeypatch, [step(1), step(2)], AwaitStep=timed_out)
    assert run(capsys, "7.2") == (0, "StepId=7.2 code=0:9 reason=TIMEOUT\n", "")
    fake(monkeypatch, [step(1), step(2, "COMPLETED")])
    assert run(capsys, "7.2") == (3, "", "")


def test_timeout(monkeypatch: Any, capsys: Any) -> None:
    now = itertools.count(0.0, 0.4)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    fake(monkeypatch, *[[step(1)]] * 20, AwaitStep=AwaitStepReply(state="RUNNING"))
    assert run(capsys, "--timeout=2", "7") == (2, "", "swait: timed out after 2 s\n")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "no job id given"),
        (["7", "8"], "one job, or one step of it"),
        (["x"], "Invalid job id x"),
        (["7_[1-3]"], "one job or one array task"),
        (["7+1"], "one job or one array task"),
        (["7.batch"], "a step of srun"),
        (["7.1", "--follow"], "exclude each other"),
        (["7", "-Q", "-v"], "exclude each other"),
        (["7", "--timeout=-1"], "non-negative integer"),
        (["7", "--timeout=1.5"], "non-negative integer"),
        (["7", "--timeout="], "non-negative integer"),
        (["7", "--timeout=99999999999999"], "non-negative integer"),
    ],
)
def test_refused(monkeypatch: Any, capsys: Any, argv: list[str], words: str) -> None:
    client = fake(monkeypatch)
    status, out, err = run(capsys, *argv)
    assert (status, out) == (1, "") and words in err and not client.calls


def test_jobs_without_steps_to_wait_for(monkeypatch: Any, capsys: Any) -> None:
    fake(monkeypatch, jobs=())
    assert run(capsys, "7") == (1, "", "swait: error: Invalid job id specified: 7\n")
    fake(monkeypatch, jobs=("PENDING",))
    assert run(capsys, "7") == (1, "", "swait: error: job 7 is still pending\n")
    fake(monkeypatch, jobs=("RUNNING", "RUNNING"))
    assert "is an array with 2 tasks" in run(capsys, "7")[2]
