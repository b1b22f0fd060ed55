"""The clock, the read snapshot, the flight recorder and the state folder."""

import os
from base64 import b64encode
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.effects import Batch
from ctld.core.records.events import Actor, JobSubmission, SubmitJob, Tick
from ctld.core.records.job import JobRow, SpecRow
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.recover import LoadedState
from ctld.runtime import snapshot as snapshot_module
from ctld.runtime.clock import MonotonicWallClock
from ctld.runtime.flightrec import NAMES, FlightRecorder
from ctld.runtime.snapshot import Snapshot
from ctld.runtime.statefolder import StateFolder
from penstock.errors import BadSetup
from penstock.values.states import Hold, JobState, Reason
from penstock.values.taskset import TaskSet
from tests.core.world import make_config


class Hands:
    """Two clocks that a test turns."""

    def __init__(self) -> None:
        self.wall_us = self.tick_us = 1_000_000_000

    def pass_us(self, number: int) -> None:
        self.wall_us += number
        self.tick_us += number

    def clock(self) -> MonotonicWallClock:
        return MonotonicWallClock(lambda: self.wall_us * 1000, lambda: self.tick_us * 1000)


@given(st.lists(st.tuples(st.integers(0, 10_000_000), st.integers(-(10**11), 10**11))))
def test_the_clock_never_goes_back(moves):
    hands = Hands()
    clock = hands.clock()
    last = clock()
    for passed, jump in moves:
        hands.pass_us(passed)
        hands.wall_us = max(0, hands.wall_us + jump)
        now = clock()
        assert now >= last and now >= hands.wall_us
        last = now


def test_the_clock_goes_on_at_half_speed_when_it_was_set_back():
    hands = Hands()
    clock = hands.clock()
    hands.wall_us -= 3_600_000_000
    start = clock()
    for _ in range(1000):
        hands.pass_us(1)  # too little to halve at each look, but it adds up
        clock()
    assert clock() == start + 500
    hands.pass_us(7_300_000_000)
    assert clock() == hands.wall_us
    hands.wall_us += 3_600_000_000
    assert clock() == hands.wall_us  # forward at once


def row(job_id: int, state: JobState = JobState.PENDING, **changes) -> JobRow:
    fields: dict[str, Any] = dict.fromkeys(JobRow._fields, 0) | {
        "job_id": job_id, "array_task_id": None, "array_tasks": None, "request": JobRequest(name="j"), "state": state,
        "reason": Reason.NONE, "hold": Hold.NO, "alloc": (), "end_state": None,
    }  # fmt: skip
    return JobRow(**(fields | changes))


def batch(*jobs: JobRow, purged=()) -> Batch:
    return Batch(1, list(jobs), [], [], [], [], [], [], 1, 1, [], list(purged))


def test_the_snapshot_has_each_jobs_last_row():
    snapshot = Snapshot()
    snapshot.apply(batch(row(1), row(2, array_job_id=2, array_tasks=TaskSet.parse("0-9"))))
    assert snapshot.counts[JobState.PENDING] == 11
    snapshot.apply(batch(row(1, JobState.REQUEUED), row(1, attempt=1), row(3, JobState.RUNNING, array_job_id=2)))
    assert {job_id: r.state for job_id, r in snapshot.jobs.items()} == {
        1: JobState.PENDING, 2: JobState.PENDING, 3: JobState.RUNNING,
    }  # fmt: skip
    assert snapshot.jobs[1].attempt == 1
    assert [r.job_id for r in snapshot.of_array(2)] == [2, 3]
    snapshot.apply(batch(purged=[2, 3, 99]))
    assert list(snapshot.jobs) == [1] and not snapshot.arrays
    assert {s: n for s, n in snapshot.counts.items() if n} == {JobState.PENDING: 1}


def test_what_is_kept_is_for_one_row_and_bounded(monkeypatch):
    monkeypatch.setattr(snapshot_module, "ENCODED_BYTES_MAX", 100)
    snapshot = Snapshot()
    snapshot.apply(batch(*(row(i) for i in range(1, 6))))
    for i in range(1, 6):
        snapshot.keep(snapshot.jobs[i], bytes(30))
    assert [snapshot.encoded(snapshot.jobs[i]) is not None for i in range(1, 6)] == [False, False, True, True, True]
    old = snapshot.jobs[5]
    snapshot.apply(batch(row(5, JobState.RUNNING)))
    assert snapshot.encoded(snapshot.jobs[5]) is None
    snapshot.keep(old, bytes(10))  # made while the row changed
    assert snapshot.encoded(old) is not None or snapshot.encoded(snapshot.jobs[5]) is None


def test_the_flight_recorder_keeps_events_but_no_secrets(tmp_path):
    recorder = FlightRecorder(tmp_path / "flight")
    spec = SpecRow(b"h" * 32, b"#!/bin/sh\nSECRET", (b"SECRET",), (b"TOKEN=SECRET",))
    recorder.event(1, Tick())
    recorder.event(2, SubmitJob(Actor(1, 1, "u", "g"), "k", 2, JobSubmission(name="shown"), spec))
    recorder.sealed(batch(row(1)))
    recorder.close()
    data = (tmp_path / "flight" / NAMES[0]).read_bytes()
    assert b64encode(b"h" * 32) in data and b"shown" in data
    assert b"SECRET" not in data and not any(b64encode(text) in data for text in (*spec.argv, *spec.environment))
    assert os.stat(tmp_path / "flight" / NAMES[0]).st_mode & 0o077 == 0
    assert os.stat(tmp_path / "flight").st_mode & 0o077 == 0
    assert data.startswith(msgspec.json.encode((0, 1, Tick())) + b"\n")


def test_the_flight_recorder_keeps_allocations_of_many_cpus(tmp_path):
    """A mask of more than 64 bits ended the controller at its start: with any job on such a node it did not come back."""
    alloc = (NodeAlloc("n1", 100, 0, 1, (), (1 << 100) - 1),)
    recorder = FlightRecorder(tmp_path / "flight")
    loaded = LoadedState(1, 2, 2, [row(1, JobState.RUNNING)._replace(alloc=alloc)], [], [], [], [], [])
    recorder.start(1, make_config(), loaded)
    recorder.close()
    assert str(alloc[0].cpu_ids).encode() in (tmp_path / "flight" / NAMES[0]).read_bytes()


def test_a_recorder_without_a_folder_turns_itself_off(tmp_path, caplog):
    (tmp_path / "flight").write_text("a file is in its place")
    recorder = FlightRecorder(tmp_path / "flight")
    recorder.event(1, Tick())
    recorder.close()
    assert "the flight recorder is off" in caplog.text


def test_what_cannot_be_recorded_turns_the_recorder_off(tmp_path, caplog):
    recorder = FlightRecorder(tmp_path / "flight")
    recorder.event(1, cast(Any, "\ud800"))
    recorder.event(2, Tick())
    recorder.close()
    assert "the flight recorder is off: str cannot be encoded" in caplog.text


def test_the_flight_recorder_is_bounded(tmp_path):
    recorder = FlightRecorder(tmp_path / "flight", file_bytes_max=2000)
    for number in range(500):
        recorder.event(number, Tick())
        recorder.sealed(batch(row(number)))
    recorder.close()
    sizes = [(tmp_path / "flight" / name).stat().st_size for name in NAMES]
    assert all(size < 2200 for size in sizes) and sizes[1] > 2000


def test_a_recorder_that_cannot_write_turns_itself_off(tmp_path, caplog):
    (tmp_path / "flight").mkdir(0o700)
    (tmp_path / "flight" / NAMES[0]).symlink_to("/dev/full")
    recorder = FlightRecorder(tmp_path / "flight")
    recorder.event(1, Tick())
    recorder.flush()
    recorder.event(2, Tick())
    recorder.close()
    assert "the flight recorder is off" in caplog.text


def test_one_process_has_the_state_folder(tmp_path):
    with StateFolder(str(tmp_path / "s")) as folder:
        assert os.stat(folder.path).st_mode & 0o777 == 0o711
        with pytest.raises(BadSetup, match=f"another controller \\(pid {os.getpid()}\\) uses it"), folder_again(folder):
            pass
    with folder_again(folder):
        pass


def folder_again(folder: StateFolder) -> StateFolder:
    return StateFolder(str(folder.path))


def test_the_clock_tells_by_how_much_it_was_set_forward():
    hands = Hands()
    clock = hands.clock()
    hands.pass_us(5_000_000)
    clock()
    assert clock.take_jump() == 0
    hands.wall_us += 3_600_000_000
    hands.pass_us(2_000_000)
    clock()
    assert (clock.take_jump(), clock.take_jump()) == (3_600_000_000, 0)
    hands.wall_us += 500_000  # what keeps clocks right does this
    clock()
    assert clock.take_jump() == 0
    hands.wall_us -= 60_000_000  # set back, and right again by waiting: nothing has jumped
    for _ in range(200):
        hands.pass_us(1_000_000)
        clock()
    assert clock.take_jump() == 0
