"""The tasks of a step's nodes put together, and what is printed of them; answers of nodes that are none."""

from typing import Any

import pytest

from cli.listings.hangs import StepFinding, found_in
from cli.subcommands.doctor import as_object, shown
from penstock.v1.accounting_pb2 import JobRecord, StepRecord

JOB, STEP = JobRecord(job_id=7), StepRecord(step_id=0, state="RUNNING")


def answer(*tasks: list[int], **more: object) -> dict[str, object]:
    """A node's, of tasks that are (rank, seconds without CPU)."""
    rows = [[rank, quiet_s, quiet_s, quiet_s, 15, 9, 0] for rank, quiet_s in tasks]
    return {
        "after_s": 600,
        "is_script": 0,
        "tasks": rows,
        "pids": [[rank, 100 + rank, "S"] for rank, _ in tasks],
        **more,
    }


def found(**answers: dict[str, object]) -> StepFinding:
    return found_in(JOB, STEP, answers, {})


def test_a_task_that_is_behind_those_of_other_nodes() -> None:
    one = found(n1=answer([0, 5], [1, 0]), n2=answer([2, 900]), n3=answer([3, 10]))
    assert [(s.kind, s.ranks) for s in one.suspicions] == [("behind", (2,))]
    assert [(task.node, task.pid) for task in one.suspects()] == [("n2", 102)]
    assert list(shown(one)) == [
        "Step 7.0: 4 tasks on n1,n2,n3: suspected",
        "  behind: task 2: no CPU used for 900 s, while 3 of 4 tasks compute",
        "  TASK  NODE  PID  STATE  NO CPU FOR  NO I/O FOR  NOTHING WRITTEN FOR",
        "  0     n1    100  S        00:00:05    00:00:05             00:00:05",
        "  1     n1    101  S        00:00:00    00:00:00             00:00:00",
        "  2     n2    102  S        00:15:00    00:15:00             00:15:00",
        "  3     n3    103  S        00:00:10    00:00:10             00:00:10",
    ]


def test_gpus_and_the_flight_recorder_are_named() -> None:
    one = found(n1=answer([0, 0], gpus="8 GPUs are busy", recorder=b"/scratch/nccl_\x1b[31m"), n2=answer([1, 0]))
    lines = list(shown(one))
    assert lines[1] == "  spinning: on n1, 8 GPUs are busy" and len(one.suspects()) == 2
    assert (
        lines[-1].startswith("  NCCL's flight recorder, if it has written: /scratch/nccl_") and "\x1b" not in lines[-1]
    )
    assert as_object(one)["flight_recorder"] == lines[-1].partition("written: ")[2].removesuffix("RANK on each node")


def test_what_is_not_watched_is_said() -> None:
    assert list(shown(found(n1=answer([0, 900], after_s=0)))) == [
        "Step 7.0: 1 task on n1: not watched: it has a terminal, no profile, or PenstockHangAfter is 0"
    ]
    assert list(shown(found(n1=answer()))) == ["Step 7.0: 0 tasks on no node: not watched: it has not been sampled yet"]
    assert (
        list(shown(found_in(JOB, STEP, {}, {"n1": "no answer in time"})))[1]
        == "  node n1 does not answer: no answer in time"
    )


@pytest.mark.parametrize(
    "hostile",
    [
        {}, {"tasks": 5, "pids": "x", "after_s": "600", "gpus": 7, "recorder": []},
        {"tasks": [[1], "abc", [None] * 7, [0, -5, -5, -5, -5, -5, -5]], "pids": [[0], [0, "x", 9]], "after_s": 600},
        {"tasks": [[0, 10**30, 0, 0, 0, 0, 0]], "after_s": 600},
        {"after_s": 600, "tasks": [[b"x", [], {}, "", 0, 0, 0]]},
    ],
)  # fmt: skip
def test_answers_that_are_none(hostile: Any) -> None:
    one = found(n1=hostile, n2=answer([5, 0]))
    list(shown(one))
    as_object(one)


def test_a_job_has_many_tasks() -> None:
    lines = list(shown(found(n1=answer(*[[rank, 900 * (rank > 90)] for rank in range(100)]))))
    assert len(lines) == 2 + 1 + 64 + 1 and lines[-1] == "  and 36 more tasks"
