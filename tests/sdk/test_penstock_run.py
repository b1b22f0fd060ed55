"""`penstock run`: a program as a job whose output and exit status are the caller's."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from livecluster import ROOT, LiveCluster
from patience import ANSWER_S

from sdk import runcommand
from sdk.errors import InvalidRequest
from sdk.runcommand import read_line


def start(live: LiveCluster, *words: str) -> "subprocess.Popen[str]":
    code = "import sys; from cli.penstock import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", *words], cwd=live.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def run(live: LiveCluster, *words: str) -> tuple[int, str, str]:
    child = start(live, *words)
    out, err = child.communicate(timeout=ANSWER_S)
    return child.returncode, out, err


def test_words_are_options_until_two_hyphens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    Path("tool").write_text("")
    values, program = read_line(["train.py", "--gpus", "4", "data", "-N2", "--", "--epochs", "3", "-N"])
    assert (str(values["gpus"]).count("count=4"), values["nodes"]) == (1, (2, 2))
    assert program == ["python3", str(tmp_path / "train.py"), "data", "--epochs", "3", "-N"]
    Path("train.py").chmod(0o755)
    assert read_line(["train.py"])[1] == [str(tmp_path / "train.py")]
    assert read_line(["./tool"])[1] == [str(tmp_path / "tool")]
    assert read_line(["hostname", "-n", "3"])[1] == ["hostname"]
    for words, text in (
        (["train.py", "--epochs", "3"], "--epochs"),
        (["--gpus", "4"], "name the program to run"),
        (["train.py", "--array", "1-3"], "the output of an array cannot be followed"),
    ):
        with pytest.raises((InvalidRequest, click.UsageError), match=text):
            read_line(words)


def test_output_and_exit_status_are_the_programs(live: LiveCluster) -> None:
    program = live.work / "train.py"
    program.write_text("import os, sys\nprint(os.environ['SLURM_GPUS'], *sys.argv[1:])\nsys.exit(7)\n")
    status, out, err = run(live, "train.py", "--gpus", "2", "data", "--", "--epochs", "3")
    assert (status, out) == (7, "2 data --epochs 3\n"), err
    status, out, err = run(live, "true")
    assert (status, out) == (0, "") and "error" not in err
    status, out, err = run(live, "sh", "--", "-c", "kill -9 $$")
    assert status == 128 + signal.SIGKILL, err


def test_mistakes_are_lines(live: LiveCluster) -> None:
    status, out, err = run(live, "true", "--gpus", "many")
    assert status == 1 and out == "" and "penstock: error:" in err and "Traceback" not in err
    status, _, err = run(live, "true", "--epochs", "3")
    assert status == 1 and "No such option '--epochs'; options of the program come after --" in err
    assert run(live)[0] == 1
    assert "PROGRAM" in run(live, "--help")[1]


def test_a_second_ctrl_c_may_come_while_the_first_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if "one more within" in text:
            assert len(said) < 10, "each counts as the first"
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(runcommand, "say", say)
    with runcommand.Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.cancels
    assert [line.partition(" (")[0] for line in said] == ["interrupt", "the job is cancelled"]


def test_ctrl_c_asks_and_twice_cancels(live: LiveCluster) -> None:
    child = start(live, "sh", "--", "-c", "echo begun; exec sleep 1000")
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    lines = []
    for line in child.stderr:
        lines.append(line)
        if "one more within 1 sec" in line:
            child.send_signal(signal.SIGINT)
        elif "is cancelled" in line:
            break
    assert child.wait(ANSWER_S) != 0
    lines += child.stderr
    said = "".join(lines)
    assert "ended as CANCELLED" in said and "interrupt (one more within 1 sec to abort)" in said, (
        child.returncode,
        lines,
    )
    child.stdout.close()
    child.stderr.close()
