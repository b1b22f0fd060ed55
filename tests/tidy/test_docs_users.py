"""What the pages for users say of the commands is true: examples parse, links lead somewhere, what is missing is missing."""

import importlib
import re
import shlex

import click
import pytest
import tidytree as tree

from cli.base.options import Command, parse
from cli.base.run import CommandError, RemoteAnswer
from cli.penstock import application

README = tree.ROOT / "README.md"
FOR_SLURM_USERS = tree.ROOT / "docs" / "for-slurm-users.md"
DOCUMENTS = sorted([*tree.ROOT.glob("*.md"), *(tree.ROOT / "docs").rglob("*.md")])
MODULES = (
    "sbatch",
    "srun",
    "squeue",
    "sinfo",
    "scancel",
    "scontrol",
    "sacct",
    "sacctmgr",
    "sprio",
    "sshare",
    "sreport",
    "salloc",
)
#: Words that the shell knows by itself; everything else in an example is ours.
OF_THE_SHELL = ("cat", "make", "export", "eval")


def command_of(name: str) -> Command:
    found: Command = importlib.import_module(f"cli.{name}").COMMAND
    return found


def unsupported(name: str) -> set[str]:
    return {option.name for option in command_of(name).options if option.status == "refused"}


def parse_penstock(words: list[str]) -> None:
    """As far as the command line goes; nothing is run."""
    found: click.Command | None = application()
    path = "penstock"
    while isinstance(found, click.Group):
        path, found = f"{path} {words[0]}", found.get_command(click.Context(found), words[0])
        words = words[1:]
    assert found is not None, path
    found.make_context(path, list(words))


def examples() -> list[str]:
    """The lines with a prompt."""
    text = README.read_text(encoding="utf-8")
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("line", examples())
def test_an_example_is_understood(line: str) -> None:
    """As far as the command line goes. One is there to be refused."""
    name, *words = shlex.split(line.partition(" | ")[0])
    if name in OF_THE_SHELL:
        return
    if name == "penstock":
        parse_penstock(words)
    elif words and words[0].startswith("--container"):
        with pytest.raises(CommandError, match="not supported yet"):
            parse(command_of(name), words)
    else:
        parse(command_of(name), words)


def test_there_are_examples() -> None:
    assert len(examples()) > 20


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (tree.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    assert set(re.findall(r"\bmake ([a-z]+)\b", README.read_text(encoding="utf-8"))) <= targets


def test_anchors_exist() -> None:
    """Links to files are looked at by test_words.py."""
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+#[^)\s]+|#[^)\s]+)\)", path.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            page = (path.parent / name).resolve() if name else path
            titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
            found = {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}
            assert anchor in found, f"{tree.name_of(path)}: {target}"


def test_commands_that_are_said_to_be_missing_are_missing() -> None:
    text = FOR_SLURM_USERS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", text, re.M)
    missing = {name for names, state in rows if state == "not there yet" for name in names.split(", ")}
    there = {name for names, state in rows if state != "not there yet" for name in names.split(", ")}
    setup = (tree.ROOT / "setup.py").read_text(encoding="utf-8")
    commands = set(re.findall(r"\w+", re.search(r"^COMMANDS = \[(.*?)\]", setup, re.M | re.S).group(1)))
    assert not missing & commands
    assert set(MODULES) <= there & commands


@pytest.mark.parametrize("name", MODULES)
def test_help_lists_what_is_missing(name: str) -> None:
    with pytest.raises(RemoteAnswer) as answered:
        parse(command_of(name), ["--help"])
    assert {f"--{option}" for option in unsupported(name)} <= set(str(answered.value).split())
