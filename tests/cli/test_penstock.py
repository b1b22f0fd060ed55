"""The dispatcher: one module is imported, and mistakes are told in a line."""

import importlib.util
import subprocess
import sys

import pytest

from cli import penstock
from cli.run import status_of


@pytest.mark.parametrize(
    ("argv", "words", "rest"),
    [
        (["up", "--nodes", "2"], "up", ["--nodes", "2"]),
        (["config", "check", "slurm.conf"], "config check", ["slurm.conf"]),
        (["noded", "--help"], "noded", ["--help"]),
    ],
)
def test_first_words_choose(argv: list[str], words: str, rest: list[str]) -> None:
    program, left = penstock.choose(argv)
    assert (program.words, left) == (words, rest)


@pytest.mark.parametrize(
    ("argv", "text"),
    [(["upp"], "unrecognized command 'upp'"), (["config"], "after config comes: check"), (["--nodes"], "--nodes")],
)
def test_mistakes(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", penstock.body, argv) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("penstock: ")
    assert text in said.err


def test_help_names_every_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", penstock.body, []) == 0
    said = capsys.readouterr().out
    assert all(f"  {p.words} " in said for p in penstock.PROGRAMS)
    assert status_of("penstock", penstock.body, ["--version"]) == 0
    assert "Penstock" in capsys.readouterr().out


@pytest.mark.parametrize("program", penstock.PROGRAMS, ids=lambda p: p.words)
def test_every_program_exists(program: penstock.Program) -> None:
    assert importlib.util.find_spec(program.target.partition(":")[0]) is not None


def test_help_imports_neither_daemons_nor_heavy_libraries() -> None:
    code = "import sys; from cli.penstock import body; body(['status', '--json']); print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PENSTOCK_HOME": "/nowhere/p", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "cli.local" in loaded
    assert not loaded & {"grpc", "numpy", "sqlalchemy", "cryptography", "ctld", "nodedaemon", "asyncio"}
