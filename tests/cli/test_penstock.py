"""The application: only what answers is imported, every command has help, examples and words for wrong use."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest

from cli import penstock
from cli.base.run import status_of
from cli.subcommands import completion
from penstock.commandline import CommandGroup, DaemonCommand, load


def commands(group: CommandGroup, path: str = "penstock") -> Iterator[tuple[str, click.Command]]:
    """All of them with their words, and groups; daemons have help of their own."""
    context = click.Context(group, info_name=path)
    for word in group.list_commands(context):
        found = group.get_command(context, word)
        assert found is not None
        if isinstance(found, CommandGroup):
            yield f"{path} {word}", found
            yield from commands(found, f"{path} {word}")
        elif not isinstance(found, DaemonCommand):
            yield f"{path} {word}", found


COMMANDS = dict(commands(penstock.application()))


@pytest.mark.parametrize("words", COMMANDS)
def test_help_has_examples(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", penstock.body, [*words.split()[1:], "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: {words} ")
    assert "Examples:\n  " in said
    if words not in ("penstock run", "penstock logs", "penstock submit"):  # a program's output, or as sbatch's
        assert ("--json" in said) != isinstance(COMMANDS[words], CommandGroup)


@pytest.mark.parametrize("words", [program.words for program in penstock.PROGRAMS if program.is_daemon])
def test_help_of_a_daemon_has_examples(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = next(program for program in penstock.PROGRAMS if program.words == words)
    with pytest.raises(SystemExit) as ended:
        load(program.target)(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.startswith(f"usage: penstock {words} ")
    assert re.search(r"\nExamples?.*:\n  ", said), "an epilog with an example"


@pytest.mark.parametrize("words", COMMANDS)
def test_wrong_use_is_a_line_and_a_hint(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = status_of("penstock", penstock.body, [*words.split()[1:], "--qqq"])
    said = capsys.readouterr()
    assert status in (1, 2)
    assert said.out == ""
    assert said.err == f"{words}: No such option '--qqq'\nTry \"{words} --help\" for more information\n"


@pytest.mark.parametrize("words", ["config check", "config diff", "ca list", "audit show", "node token", "db check"])
def test_wrong_use_of_some_is_2(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", penstock.body, [*words.split(), "--qqq"]) == 2


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["upp"], "unrecognized command 'upp'"),
        (["config"], "after config comes: check, diff"),
        (["policy", "x"], "unrecognized command 'x'"),
        (["--nodes"], "--nodes"),
        (["why"], "Missing argument 'JOB'"),
        (["up", "a\x1b[31mb"], "unexpected extra argument"),
    ],
)
def test_mistakes(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", penstock.body, argv) in (1, 2)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("penstock")
    assert text in said.err and "\x1b" not in said.err


def test_help_names_every_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", penstock.body, []) == 0
    said = capsys.readouterr().out
    assert all(f"  {p.words.split()[0]} " in said for p in penstock.PROGRAMS)
    assert status_of("penstock", penstock.body, ["--version"]) == 0
    assert "Penstock" in capsys.readouterr().out


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_completion(shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert status_of("penstock", penstock.body, ["completion", shell]) == 0
    said = capsys.readouterr().out
    assert "_PENSTOCK_COMPLETE" in said and completion.COMPLETE == penstock.COMPLETE
    if shell == "bash":
        monkeypatch.setenv("_PENSTOCK_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", "penstock config c")
        monkeypatch.setenv("COMP_CWORD", "2")
        assert status_of("penstock", penstock.body, []) == 0
        assert capsys.readouterr().out.split() == ["plain,check"]


@pytest.mark.parametrize("program", [p for p in penstock.PROGRAMS if p.is_daemon], ids=lambda p: p.words)
@pytest.mark.parametrize(("shell", "given"), [("bash", "plain,{}"), ("zsh", "plain\n{}\n"), ("fish", "plain,{}")])
def test_options_of_daemons_are_completed(
    program: penstock.Subcommand, shell: str, given: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", f"penstock {program.words} --")
    monkeypatch.setenv("COMP_CWORD", "--" if shell == "fish" else "2")
    assert status_of("penstock", penstock.body, []) == 0
    said = capsys.readouterr().out
    flags = [flag for option in load(program.line)().options for flag in option.flags if flag.startswith("--")]
    assert flags and all(given.format(flag) in said for flag in flags)


@pytest.mark.parametrize("line", ["why 1", "gpus", "fits", "budget", "audit show", "node token n1", "policy export"])
def test_an_error_is_a_document_too(line: str, capsys: Any, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("PENSTOCK_CLUSTER", str(tmp_path / "none.json"))
    assert status_of("penstock", penstock.body, [*line.split(), "--json"]) == 1
    said = capsys.readouterr()
    (error,) = json.loads(said.out)["errors"]
    assert error["error"] and error["error"].split("\n")[0] in said.err


def test_completion_of_a_daemon_imports_no_daemon() -> None:
    code = "import sys; from penstock.commandline import load; load(sys.argv[1])(); print(*sys.modules)"
    for program in (p for p in penstock.PROGRAMS if p.is_daemon):
        done = subprocess.run([sys.executable, "-c", code, program.line], capture_output=True, text=True, check=True)
        assert not set(done.stdout.split()) & {"grpc", "numpy", "sqlalchemy", "google.protobuf", "ctld.runtime.daemon"}


def test_help_of_all_imports_no_command() -> None:
    code = "import sys; from cli.penstock import body; body(['--help']); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not [name for name in loaded if name.startswith(("cli.subcommands", "ctld", "sim", "google", "grpc"))]


def test_status_for_a_program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", "/nowhere/p")
    assert status_of("penstock", penstock.body, ["status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["nodes"] == []


def test_help_imports_neither_daemons_nor_heavy_libraries() -> None:
    code = "import sys; from cli.penstock import body; body(['status']); print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PENSTOCK_HOME": "/nowhere/p", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "cli.subcommands.local" in loaded
    assert not loaded & {"grpc", "numpy", "sqlalchemy", "cryptography", "ctld", "nodedaemon", "asyncio"}
