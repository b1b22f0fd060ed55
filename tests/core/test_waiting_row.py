"""Compact rows of waiting jobs: readers see the same values, and other rows stay as they are."""

from typing import Any

import pytest

from ctld.core.records.job import JobRow, job_from, job_row
from ctld.core.records.request import JobRequest
from ctld.core.records.waiting_row import KEPT, WaitingRow, compact, waiting_job_from, whole
from penstock.values.states import Hold, JobState, Reason
from penstock.values.taskset import TaskSet


def waiting(**changes: Any) -> JobRow:
    fields: dict[str, Any] = {
        "job_id": 7, "attempt": 0, "array_job_id": 5, "request_id": 6, "request": JobRequest(name="j"),
        "spec_hash": b"h", "submit_key": "k", "user_id": 1, "group_id": 2, "user_name": "ann", "group_name": "g",
        "submit_at_us": 3, "tres_req": "cpu=1", "array_task_id": 0, "array_tasks": None, "array_throttle": 0,
        "partition": "p", "state": JobState.PENDING, "end_state": None, "reason": Reason.PRIORITY,
        "reason_detail": "d", "hold": Hold.USER, "priority": 9, "eligible_at_us": 4, "time_limit_s": 60, "assoc_id": 8,
    }  # fmt: skip
    return JobRow(**(fields | changes))


def test_a_compact_row_has_all_values():
    row = waiting()
    short = compact(row)
    assert type(short) is WaitingRow
    assert [getattr(short, name) for name in JobRow._fields] == list(row)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": JobState.RUNNING, "start_at_us": 5},
        {"attempt": 1},
        {"array_tasks": TaskSet.parse("0-3")},
        {"start_at_us": 5},
        {"dependency": "afterok:1"},
        {"admin_comment": "late"},
        {"borrowed": 1},
    ],
)
def test_a_row_with_any_other_value_stays_whole(changes: dict[str, Any]):
    row = waiting(**changes)
    assert compact(row) is row


def test_each_field_is_kept_or_has_one_value():
    row = waiting()
    for name in JobRow._fields:
        if name not in KEPT:
            other: dict[str, Any] = {name: JobState.RUNNING if name == "state" else "other"}
            changed = row._replace(**other)
            assert compact(changed) is changed, name


def test_the_kept_fields_are_in_the_order_of_the_row():
    assert list(KEPT) == [name for name in JobRow._fields if name in KEPT]  # the loader gives them by position


def test_a_compact_row_equals_the_whole_one():
    row = waiting()
    assert compact(row) == row == compact(row)
    assert compact(row) != row._replace(priority=10)
    assert compact(compact(row)) == row
    assert whole(compact(row)) == row


def test_the_job_of_a_compact_row_is_that_of_the_whole_one():
    row = waiting()
    job = waiting_job_from(compact(row))
    assert job_row(job) == job_row(job_from(row)) == row
    assert job.steps == {}
