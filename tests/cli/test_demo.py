"""The demo's own parts; the whole of it runs in the end-to-end tests."""

import signal
import tempfile
from pathlib import Path

import pytest

from cli.base.run import status_of
from cli.subcommands import demo
from cli.subcommands.localconf import HOME_LENGTH_MAX


def test_bar_is_always_of_one_width() -> None:
    lines = [demo.bar(ended, running) for ended in range(demo.JOBS + 1) for running in range(demo.JOBS + 1 - ended)]
    assert len({len(line) for line in lines}) == 1
    assert demo.bar(demo.JOBS, 0).startswith("[" + "#" * demo.BAR_WIDTH + "]")
    assert ">" in demo.bar(0, 1)


def test_failure_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(home: Path) -> None:
        raise OSError(28, "No space left on device", str(home))

    monkeypatch.setattr(demo, "prepare", fail)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "HOME_LENGTH_MAX", 10_000)
    assert status_of("penstock", demo.main, []) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_long_temporary_folder_is_avoided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = demo.temporary_folder()
    assert len(str(folder / "home")) <= HOME_LENGTH_MAX
    assert list(long.iterdir()) == []
    folder.rmdir()


def test_examples_are_what_the_demo_submits() -> None:
    assert f"--array=1-{demo.ARRAY_TASKS}" in (demo.EXAMPLES / "array.sbatch").read_text()
    assert {"hello.sbatch", "summary.sbatch"} <= {p.name for p in demo.EXAMPLES.iterdir()}
