"""What a run of the benchmark leaves behind: the keys, the reasons, the status."""

import json
import os
import shutil

import pytest

from bench import __main__ as bench_main
from bench import parts, report, slurmpeer
from bench.measure import CannotMeasure, run, timed


def fails(effort):
    raise CannotMeasure("no such peer here")


@pytest.fixture
def few_parts(monkeypatch):
    """Two parts of ours and the peer, all of them quick."""
    found = {
        "core": lambda effort: {"core_array_task_cpu_us": 50.0},
        "array": lambda effort: {"array_jobs_per_s": 300.0, "sbatch_wall_ms": 90.0},
        "slurm": lambda effort: {"slurm_array_jobs_per_s": 75.0},
    }
    monkeypatch.setattr(parts, "PARTS", found)
    monkeypatch.setattr(bench_main, "PARTS", found)
    return found


def run_main(monkeypatch, capsys, tmp_path, *words):
    out = tmp_path / "deep" / "main.json"
    monkeypatch.setattr("sys.argv", ["bench", "--quick", "--out", str(out), *words])
    status = bench_main.main()
    return status, json.loads(out.read_text()), capsys.readouterr().out


def test_all_keys_are_there_and_what_was_not_measured_is_null(few_parts, monkeypatch, capsys, tmp_path):
    status, written, shown = run_main(monkeypatch, capsys, tmp_path)
    assert status == 0
    assert set(parts.KEYS) <= set(written)
    assert written["array_jobs_per_s"] == 300.0
    assert written["restart_s"] is None and written["ctld_rss_mb"] is None
    assert written["array_jobs_per_s_ratio_to_slurm"] == 4.0
    assert written["sbatch_wall_ms_ratio_to_slurm"] is None
    assert written["not_measured"] == {}
    assert written["machine"]["cpus"] >= 1
    assert "array_jobs_per_s_ratio_to_slurm" in shown and "ok (target at least 3)" in shown


def test_without_slurm_the_run_is_whole(few_parts, monkeypatch, capsys, tmp_path):
    few_parts["slurm"] = fails
    status, written, shown = run_main(monkeypatch, capsys, tmp_path)
    assert status == 0
    assert written["slurm_array_jobs_per_s"] is None and written["array_jobs_per_s_ratio_to_slurm"] is None
    assert written["array_jobs_per_s"] == 300.0
    assert written["not_measured"] == {"slurm": "no such peer here"}
    assert "not measured: slurm: no such peer here" in shown


def test_a_part_of_ours_that_fails_is_told_and_the_others_go_on(few_parts, monkeypatch, capsys, tmp_path):
    few_parts["array"] = fails
    status, written, _ = run_main(monkeypatch, capsys, tmp_path)
    assert status == 1
    assert written["array_jobs_per_s"] is None
    assert written["slurm_array_jobs_per_s"] == 75.0 and written["core_array_task_cpu_us"] == 50.0
    assert written["not_measured"] == {"array": "no such peer here"}


def test_only_the_parts_that_are_asked_for_run(few_parts, monkeypatch, capsys, tmp_path):
    few_parts["array"] = fails
    status, written, _ = run_main(monkeypatch, capsys, tmp_path, "core")
    assert (status, written["not_measured"]) == (0, {})
    with pytest.raises(SystemExit) as stopped:
        run_main(monkeypatch, capsys, tmp_path, "cores")
    assert stopped.value.code == 2
    assert "no part 'cores'; there are core, array, slurm" in capsys.readouterr().err


def test_a_missed_target_is_said():
    assert "MISSED (target at most 3)" in report.table({"restart_s": 3.5}, {})
    assert "MISSED" not in report.table({"restart_s": None, "other": 3.5}, {})


def test_a_failing_command_is_named_with_what_it_said():
    with pytest.raises(CannotMeasure, match=r"sh -c echo oops >&2; exit 3: exit 3: oops"):
        run(["sh", "-c", "echo oops >&2; exit 3"])
    with pytest.raises(CannotMeasure, match="/no/such/command is not there"):
        timed(["/no/such/command"], 1)


def test_the_peer_says_what_it_lacks(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name, path: None if name == "munged" else f"/bin/{name}")
    assert slurmpeer.why_not() == "no munged (Debian: apt install slurm-wlm munge)"
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotMeasure, match="needs root"), slurmpeer.private_slurm(1):
        pass
