"""Replaying a flight record: the same batches come out, and a difference is found and shown."""

from pathlib import Path

import msgspec
import pytest

from bench.incore import CoreCluster, make_config
from ctld.core.controller import Core
from ctld.core.dispatch import HANDLERS
from ctld.core.records.effects import Batch
from ctld.core.records.events import NodeRegistered, Tick
from ctld.core.records.job import JobRow, job_row
from ctld.core.records.waiting_row import compact, whole
from ctld.core.recover import LoadedState
from ctld.runtime import flightrec
from ctld.runtime.flightrec import NAMES, FlightRecorder
from sim import flight
from sim.swarm import draw
from sim.world import SimWorld

#: Seeds whose last controller has lived long and seen much.
SEEDS = (1, 3, 5, 8)


def recorded(folder: Path, seed: int, steps: int = 100) -> None:
    """Write the flight record of a world's controllers, with the planner's depth of real ones."""
    SimWorld(seed, record=folder, options=msgspec.structs.replace(draw(seed, steps), quick_depth=128)).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_batches_come_out(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "flight", seed)
    assert flight.main([str(tmp_path / "flight")]) == 0
    assert "all as recorded" in capsys.readouterr().out


def test_every_event_is_shown_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "flight", 1)
    assert flight.main([str(tmp_path / "flight" / NAMES[0]), "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "start: epoch" in out and "NodeRegistered" in out and "= batch 1:" in out


def test_a_difference_is_found_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "flight", 1)
    monkeypatch.setattr("ctld.core.state.known_jobs.job_row", lambda job: job_row(job)._replace(end_at_us=1))
    assert flight.main([str(tmp_path / "flight")]) == flight.EXIT_DIFFERS
    out = capsys.readouterr().out
    assert "differs: recorded" in out and "start: epoch" in out and "after " in out


def test_a_crash_is_found_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "flight", 1)

    def fail(*args: object) -> None:
        raise KeyError("made up")

    monkeypatch.setitem(HANDLERS, NodeRegistered, fail)
    assert flight.main([str(tmp_path / "flight")]) == flight.EXIT_DIFFERS
    out = capsys.readouterr().out
    assert "the core fails" in out and "KeyError: 'made up'" in out and "NodeRegistered(" in out


def test_a_record_that_ends_in_the_middle_of_a_value_is_read_up_to_there(tmp_path: Path) -> None:
    recorded(tmp_path / "flight", 1)
    file = tmp_path / "flight" / NAMES[0]
    whole = flight.read(file)
    file.write_bytes(file.read_bytes()[:-3])
    assert len(flight.read(file)) == len(whole) - 1


def test_a_run_over_two_files_is_read_as_one(tmp_path: Path) -> None:
    recorded(tmp_path / "one", 1)
    data = (tmp_path / "one" / NAMES[0]).read_bytes()
    events_bytes = len(data) - data.index(b"\n")
    real = FlightRecorder.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlightRecorder, "__init__", lambda self, folder: real(self, folder, events_bytes * 6 // 10))
        recorded(tmp_path / "two", 1)
    assert len((tmp_path / "two" / NAMES[0]).read_bytes()) < events_bytes // 2
    assert flight.read(tmp_path / "two") == flight.read(tmp_path / "one")


def test_the_waiting_jobs_of_a_start_are_written_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flightrec, "WAITING_EACH", 3)
    rows: dict[int, JobRow] = {}

    def commit(batch: Batch) -> None:
        rows.update({row.job_id: row for row in batch.jobs})

    config = make_config(2, 4)
    before = CoreCluster(config, commit=commit, register=False)
    for number in range(10):
        before.submit(name=f"j{number}", hold=number % 2)
    before.seal()
    now_us, state = before.now_us(), before.core.state
    jobs = [compact(row) for row in rows.values()]
    assert len({type(row) for row in jobs}) == 1
    jobs[4] = whole(rows[5])._replace(admin_comment="not compact")
    loaded = LoadedState(2, state.next_job_id, state.next_request_id, jobs, [], [], [], [], [])
    recorder, core = FlightRecorder(tmp_path / "flight"), Core(config, loaded, now_us)
    recorder.start(now_us, config, loaded)
    recorder.event(now_us, Tick())
    core.step(now_us, Tick())
    recorder.sealed(core.seal())
    recorder.write_out()
    assert flight.main([str(tmp_path / "flight")]) == flight.EXIT_UNUSABLE
    assert "the start has 9 waiting jobs, of which 6 are in the record" in capsys.readouterr().err
    recorder.close()
    assert flight.main([str(tmp_path / "flight"), "--verbose"]) == 0
    assert "start: epoch 2, 10 jobs" in capsys.readouterr().out


def test_what_cannot_be_replayed_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert flight.main([str(tmp_path / "none")]) == flight.EXIT_UNUSABLE
    assert "no flight record" in capsys.readouterr().err
    recorder = FlightRecorder(tmp_path / "flight")
    recorder.event(1, Tick())
    recorder.close()
    assert flight.main([str(tmp_path / "flight")]) == flight.EXIT_UNUSABLE
    assert "the start of the run is not in it any more" in capsys.readouterr().err
