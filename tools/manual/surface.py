"""The input of the generators: every command with its option table, its keywords, its fields and its page's text.

The option tables are authoritative; pages.toml has only text that a table cannot have. An installed command without a
table or text is an error, so that a new command cannot be forgotten.
"""

import importlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from cli.base.options import Command, Option, with_common
from cli.penstock import application
from penstock.commandline import CommandGroup

#: The most characters of the first sentence of a subcommand's help.
MEANING_CHARS = 300
ROOT = Path(__file__).resolve().parent.parent.parent
WORDS = Path(__file__).with_name("pages.toml")
#: Modules with the letters of -o and the names of -O or --format, by command.
FIELD_MODULES = {
    "squeue": "cli.listings.squeue_fields", "sinfo": "cli.listings.sinfo_fields", "sacct": "cli.listings.sacct_fields",
    "sprio": "cli.sprio",
    "sshare": "cli.sshare", "sstat": "cli.sstat",
}  # fmt: skip
#: Modules with the verbs of commands.
VERB_MODULES = {"scontrol": "cli.scontrol", "sacctmgr": "cli.accounts.keywords", "sreport": "cli.sreport"}


class Page(NamedTuple):
    """A command as input of the generators."""

    name: str
    command: Command
    options: tuple[Option, ...]
    summary: str
    about: tuple[str, ...]  # paragraphs
    status: tuple[tuple[str, str], ...]
    examples: tuple[tuple[str, str], ...]
    keywords: tuple[tuple[str, str], ...]  # subcommands and keywords, with their meanings
    fields: tuple[tuple[str, str], ...]  # letters or names, with their headings


def command_names() -> list[str]:
    """The commands that setup.py installs, in its order."""
    found = re.search(r"^COMMANDS = \[(.*?)\]", (ROOT / "setup.py").read_text(encoding="utf-8"), re.M | re.S)
    if found is None:
        raise SystemExit("tools/manual: setup.py has no COMMANDS = [...]")
    return re.findall(r'"([\w-]+)"', found.group(1))


def pages() -> list[Page]:
    """All commands, by name."""
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    names = sorted(command_names())
    missing = sorted(set(names) - set(words))
    if missing:
        raise SystemExit(f"{WORDS}: no words for {', '.join(missing)}")
    return [_page(name, words[name]) for name in names]


def _page(name: str, words: Mapping[str, Any]) -> Page:
    command = _command(name)
    paragraphs = tuple(" ".join(part.split()) for part in words["about"].strip().split("\n\n"))
    return Page(
        name,
        command,
        with_common(command.options),
        words["summary"],
        paragraphs,
        tuple((a, b) for a, b in words["status"]),
        tuple((a, b) for a, b in words["examples"]),
        tuple(_keywords(name)),
        tuple(_fields(name)),
    )


def _command(name: str) -> Command:
    if name == "penstock":
        return Command("penstock", "COMMAND [OPTIONS...]", ())
    found: Command = importlib.import_module(f"cli.{name}").COMMAND
    return found


def _keywords(name: str) -> Iterable[tuple[str, str]]:
    if name == "penstock":
        return list(_subcommands(application(), ""))
    if name not in VERB_MODULES:
        return []
    verbs = importlib.import_module(VERB_MODULES[name]).VERBS
    return [(verb, "") for verb in sorted(verbs)]


def _subcommands(group: CommandGroup, above: str) -> Iterable[tuple[str, str]]:
    """The subcommands of penstock, including those of its groups."""
    context = click.Context(group)
    for word in group.list_commands(context):
        found = group.get_command(context, word)
        assert found is not None
        entry = group.entries.get(word)
        yield f"{above}{word}", entry.help if entry else found.get_short_help_str(MEANING_CHARS).rstrip(".")
        if isinstance(found, CommandGroup):
            yield from _subcommands(found, f"{above}{word} ")


def _fields(name: str) -> Iterable[tuple[str, str]]:
    module = importlib.import_module(FIELD_MODULES[name]) if name in FIELD_MODULES else None
    letters = getattr(module, "LETTERS", {})
    names = getattr(module, "NAMES", {})
    columns = getattr(module, "COLUMNS", ())
    yield from ((f"%{letter}", field.header) for letter, field in sorted(letters.items(), key=_letter_order))
    yield from ((word, field.header) for word, field in sorted(names.items()))
    yield from ((column.name, "") for column in sorted(columns, key=lambda column: column.name.lower()))


def meaning(page: Page, option: Option) -> str:
    """The meaning of an option and the notes on it, as sentences."""
    first = next((o for o in page.options if o.key == option.key and o.help and o.name != option.name), None)
    other = f"another spelling of --{first.name}" if first and not option.help else ""
    texts = [text for text in (option.help, other, option.note) if text]
    return " ".join(text[:1].upper() + text[1:].rstrip(".") + "." for text in texts)


def _letter_order(item: tuple[str, Any]) -> tuple[str, bool]:
    return item[0].lower(), item[0].isupper()
