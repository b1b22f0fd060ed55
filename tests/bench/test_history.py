"""The history of releases: its lines, and that the plot is of them."""

import json
import sys

import pytest

from bench import history

MACHINE = {"date": "2026-11-23", "cpus": 2, "cpu_model": "EPYC", "python_build": "Python 3.11.2: PGO"}
REPORT = {
    "array_jobs_per_s": 300.0, "restart_s": 2.5, "listing_jobs": 4000, "steps_per_s": None, "array_runs": [1.0],
    "not_measured": {}, "machine": MACHINE,
}  # fmt: skip


def test_the_committed_history_parses_and_the_plot_is_of_it():
    text = history.HISTORY.read_text()
    releases = history.read(text)
    assert releases and history.text_of(releases) == text
    assert len({one.version for one in releases}) == len(releases), "one line a release"
    for one in releases:
        assert all(unit == history.unit_of(name) for name, (_, unit) in one.figures.items())
    assert history.mark_of(text) in history.PLOT.read_text(), "run `make bench-history`, or draw it again"
    assert f"({history.PLOT.name})" in history.PLOT.with_name("performance.md").read_text()


def test_a_release_has_the_single_numbers_of_a_report_with_their_units():
    found = history.release_of(REPORT, "1.0.0", "abc123")
    assert found[:6] == ("1.0.0", "2026-11-23", "abc123", 2, "EPYC", "Python 3.11.2: PGO")
    assert found.figures == {"array_jobs_per_s": (300.0, "1/s"), "restart_s": (2.5, "s"), "listing_jobs": (4000, "")}
    assert history.read(history.text_of([found])) == [found]


@pytest.mark.parametrize(
    ("name", "unit"),
    [("stream_mb_per_s", "MB/s"), ("a_ms", "ms"), ("a_us", "us"), ("a_mb", "MiB"), ("a_cores", "cores"), ("a", "")],
)
def test_units_are_the_ends_of_names(name, unit):
    assert history.unit_of(name) == unit


def test_a_version_has_one_line():
    first, second = (history.release_of(REPORT, version, "a") for version in ("1.0.0", "1.1.0"))
    again = first._replace(commit="b")
    assert history.with_release([first], second) == [first, second]
    assert history.with_release([first, second], again) == [again, second]


def test_a_line_that_is_no_release_is_refused():
    with pytest.raises(ValueError, match="line 2: needs version"):
        history.read(history.text_of([history.release_of(REPORT, "1.0.0", "a")]) + '{"version": "1"}\n')


def test_a_report_becomes_a_line_and_a_plot(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(history, "HISTORY", tmp_path / "history.jsonl")
    monkeypatch.setattr(history, "PLOT", tmp_path / "history.svg")
    monkeypatch.setattr(history, "git", lambda *words: "abc123")
    report = tmp_path / "main.json"
    report.write_text(json.dumps(REPORT))
    monkeypatch.setattr(sys, "argv", ["history", "--report", str(report)])
    assert history.main() == 0 and history.main() == 0
    (line,) = (tmp_path / "history.jsonl").read_text().splitlines()
    assert json.loads(line)["commit"] == "abc123"
    assert history.mark_of(line + "\n") in (tmp_path / "history.svg").read_text()
    monkeypatch.setattr(sys, "argv", ["history", "--report", str(tmp_path / "none.json")])
    assert history.main() == 1 and "run `make bench` first" in capsys.readouterr().err
