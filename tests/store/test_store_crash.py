"""A process that dies in a commit: what it had acknowledged is there, and nothing by half."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from patience import ANSWER_S
from postgres import rows

from penstock import crash
from penstock.values.states import JobState
from tests.store.making import NOW_US, leading, make_job, submitted

ROOT = Path(__file__).resolve().parents[2]


def child(place: str | Path, last: int = 0, **environment: str) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "tests.store.committing", str(place), *([str(last)] if last else [])]
    return subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}
    )


def check_whole(place: str | Path) -> int:
    """Every batch is in with all its rows or with none; returns the last one."""
    store = leading(place, "child")
    last = store.load(NOW_US, 0, 0).next_job_id - 1
    store.close()
    ask = partial(rows, place)
    if "://" not in str(place):
        assert ask("PRAGMA integrity_check") == [("ok",)]
    states = [JobState.COMPLETED] * last
    states[-2:] = [JobState.RUNNING, JobState.PENDING][-last:] if last else []
    assert ask("SELECT job_id, state FROM job ORDER BY job_id") == list(enumerate(states, 1))
    assert ask("SELECT request_id, job_id FROM job_request ORDER BY 1") == [(i, i) for i in range(1, last + 1)]
    assert ask("SELECT job_id FROM step ORDER BY 1") == [(i,) for i in range(1, last)]
    assert ask("SELECT job_id FROM job_history WHERE event = 'submit' ORDER BY history_id") == [
        (i,) for i in range(1, last + 1)
    ]
    assert ask("SELECT job_id FROM job_history WHERE event = 'end' ORDER BY history_id") == [
        (i,) for i in range(1, last - 1)
    ]
    return last


@pytest.mark.parametrize(("point", "durable"), [("before", 0), ("begun", 0), ("before-commit", 0), ("after", 1)])
def test_crash_point(any_store: str, point: str, durable: int) -> None:
    with child(any_store, PENSTOCK_CRASH_AT=f"commit:{point}") as process:
        out, _ = process.communicate(timeout=ANSWER_S)
    assert (out, process.returncode) == ("leading\n", crash.EXIT_STATUS)
    assert check_whole(any_store) == durable


def test_commit_passes_all_its_crash_points_in_order(any_store: str, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    with child(any_store, 2, PENSTOCK_CRASH_LIST=str(seen)) as process:
        out, _ = process.communicate(timeout=ANSWER_S)
    assert (out, process.returncode) == ("leading\n1\n2\n", 0)
    points = list(crash.COMMIT_POINTS)
    assert seen.read_text().splitlines() == points * 2


def test_unset_crash_points_do_nothing() -> None:
    assert crash.crash_point("no such point") is None


def test_an_unknown_crash_point_is_a_mistake(tmp_path: Path) -> None:
    armed = os.environ | {"PENSTOCK_CRASH_LIST": str(tmp_path / "seen")}
    line = [sys.executable, "-c", "from penstock import crash; crash.crash_point('no such point')"]
    done = subprocess.run(line, env=armed, cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S)
    assert done.returncode and "not in penstock.crash.CRASH_POINTS" in done.stderr


def test_kill_in_the_middle_of_commits(any_store: str) -> None:
    place = any_store
    before = 0
    for acks in (1, 17, 60):
        acknowledged = before
        with child(place) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() != "leading":
                    acknowledged = int(line)
                if acknowledged >= before + acks:
                    process.kill()
                    break
            # What it still said before it died counts, too.
            for line in process.stdout:
                acknowledged = int(line) if line.endswith("\n") else acknowledged
        last = check_whole(place)
        # One commit may have been made whose acknowledgement was lost.
        assert last in (acknowledged, acknowledged + 1)
        before = last
    assert before >= 78


@pytest.mark.parametrize("lost", [1, 24, 4096, 9000])
@pytest.mark.parametrize("garbage", [False, True])
def test_torn_log(tmp_path: Path, lost: int, garbage: bool) -> None:
    """Power fails while the log is written: its last bytes are missing, or something else."""
    place = tmp_path / "penstock.db"
    store = leading(place, "child")
    for number in range(1, 8):
        batch = submitted(number, [make_job(number)])
        store.commit(batch)
    torn = tmp_path / "torn.db"
    shutil.copy(place, torn)
    log = Path(f"{place}-wal").read_bytes()
    Path(f"{torn}-wal").write_bytes(log[:-lost] + (b"\xa5" * lost if garbage else b""))
    store.close()
    again = leading(torn, "child")
    jobs = again.load(NOW_US, 0, 0).jobs
    assert 0 < len(jobs) < 7
    assert jobs == [make_job(i) for i in range(1, len(jobs) + 1)]
    again.commit(submitted(1, [make_job(len(jobs) + 1)]))
    assert [len(again.history(i)) for i in range(1, 9)] == [1] * (len(jobs) + 1) + [0] * (7 - len(jobs))
    again.close()
