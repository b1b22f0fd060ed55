"""The schedule as the log recorded it: a column beside the policies."""

import json
from pathlib import Path

from sim import __main__ as sim
from sim.compare import pairs
from sim.recorded import recorded, unrecorded
from sim.results import load_result
from sim.workload import from_columns

LOG = """; MaxProcs: 4
1  0  0 10 3 -1 -1 3 10 -1 1 7 1 -1 -1 -1 -1 -1
2  1 29 10 4 -1 -1 4 10 -1 1 7 1 -1 -1 -1 -1 -1
"""


def test_the_times_of_the_log() -> None:
    log = from_columns("w", job_id=[1, 2], submit_s=[0, 1], wait_s=[0, 29], run_s=[10, 10], procs=[3, 4])
    found = recorded(log)
    assert found is not None
    assert (found.start_s.tolist(), found.end_s.tolist(), unrecorded(log)) == ([0, 30], [10, 40], "")
    some = from_columns("w", job_id=[1, 2], submit_s=[0, 1], wait_s=[0, -1], run_s=[10, 10], procs=[3, 4])
    assert recorded(some) is None
    assert unrecorded(some).endswith("the log does not have the true start of 1 jobs")
    assert unrecorded(from_columns("w", job_id=[1], submit_s=[0], run_s=[1], procs=[1])) == ""


def test_a_column_beside_the_policies(tmp_path: Path, capsys) -> None:
    (tmp_path / "log.swf").write_text(LOG)
    words = ["run", "--trace", str(tmp_path / "log.swf")]
    assert sim.main([*words, "--policy", "easy", "--out", str(tmp_path / "a")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:6]] == [
        ["recorded", "easy"],
        ["estimate", "-", "requested"],
        ["engine,", "mode", "log", "replay,", "batch"],
        ["wait_mean_s", "14.5", "4.5"],
    ]
    assert "2,7,4,1,30,40" in (tmp_path / "a" / "jobs-recorded.csv").read_text()
    assert [run["policy"] for run in json.loads((tmp_path / "a" / "result.json").read_text())["runs"]] == [
        "recorded",
        "easy",
    ]
    assert sim.main([*words, "--policy", "fcfs", "--out", str(tmp_path / "b")]) == 0
    one, other = load_result(str(tmp_path / "a")), load_result(str(tmp_path / "b"))
    assert [(a.policy, b.policy) for a, b in pairs(one, other)] == [("easy", "fcfs")]


def test_a_log_with_some_starts_says_so(tmp_path: Path, capsys) -> None:
    (tmp_path / "log.swf").write_text(LOG.replace("1 29 10", "1 -1 10"))
    assert sim.main(["run", "--trace", str(tmp_path / "log.swf")]) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "note: no column of the schedule as recorded: the log does not have the true start of 1 jobs"
    )
