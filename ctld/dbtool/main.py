"""`penstock db migrate|check|backup|export|move|dead-letters`: chooses the database and runs the command on it.

Exit status: 0; 1 when `check` has found a problem, or `migrate --look` another schema than this program's; 75 when a
controller leads (migrate, move), the server does not answer or storage takes no writes; 78 when the configuration or
the database cannot be used; 130 when interrupted by the user. The subcommands are in the modules of the same names.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import click
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from accounting.database import DatabaseUrlError, is_server, read_engine, shown
from ctld.dbtool.backup import backup
from ctld.dbtool.check import check
from ctld.dbtool.deadletters import letters_since, text_of
from ctld.dbtool.errors import DatabaseBusy
from ctld.dbtool.export import FORMATS, export
from ctld.dbtool.migrate import describe, migrate_now
from ctld.dbtool.move import move
from ctld.store.address import database_address, given_address
from ctld.store.dialect import HINT_OF_THE_CHECK, dialect_of, kind_of
from ctld.store.errors import StorageWaits, StoreDamaged, StoreError
from penstock.cluster import own_conf_path
from penstock.commandline import CommandGroup, CommandLine, invoke
from penstock.config import ConfigError, load
from penstock.errors import BadSetup
from penstock.storagefaults import advice_of
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue

EX_TEMPFAIL: Final = 75
EX_CONFIG: Final = 78
EX_INTERRUPTED: Final = 130


_Function = TypeVar("_Function", bound=Callable[..., object])


def main(argv: list[str]) -> int:
    """Run `penstock db ...`; returns the exit status."""
    return invoke(command, "penstock db", argv)


def status_of(act: Callable[[], int | None]) -> int:
    """Runs a subcommand and reports its errors."""
    os.umask(0o077)  # the output contains all users' scripts and environments
    try:
        return int(act() or 0)
    except ConfigError as error:
        _say(str(error))
    except BadSetup as error:
        return _refused(error.text, error)
    except (DatabaseBusy, StorageWaits) as error:
        _say(str(error))
        return EX_TEMPFAIL
    except (StoreError, DatabaseUrlError, BadValue) as error:
        return _refused(str(error), error)
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        return _refused(f"{os.fsdecode(error.filename or '')}: {error.strerror}", error)
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        return EX_INTERRUPTED
    return EX_CONFIG


def _refused(text: str, error: Exception) -> int:
    """Says why it ends, and what to do about storage; returns the exit status."""
    _say(text)
    advice = advice_of(error)
    if advice:
        _say(advice)
    return EX_TEMPFAIL if advice else EX_CONFIG


def _config(function: _Function) -> _Function:
    return click.option(
        "-f",
        "--config",
        metavar="FILE",
        help="slurm.conf (default: that of PENSTOCK_HOME or SLURM_CONF).",
    )(function)


def _json(function: _Function) -> _Function:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


@click.group(
    "db",
    cls=CommandGroup,
    help="The controller's database.",
    wrong_use=2,
    edge=status_of,
    examples=(
        ("penstock db check", "look for damage"),
        ("penstock db backup /backup/penstock.db", "a copy, while the controller works"),
    ),
)
@_config
@click.pass_context
def command(context: click.Context, config: str | None) -> None:
    """Stores the options before the subcommand."""
    context.obj = config


def _address(config: str | None) -> str:
    """Returns the location of the database. Raises BadSetup when it does not exist."""
    file = config or click.get_current_context().obj or own_conf_path()
    found = load(file).config
    default = Path(found.state_save_location) / "penstock.db"
    address = database_address(found.penstock_database_url, file, default, schema=found.penstock_database_schema)
    _need_file(address, f"{address}: there is no database yet; the controller makes it when it starts")
    return address


@contextmanager
def _reading(address: str) -> Iterator[Connection]:
    """Yields a read-only connection; errors of the server are reported as the store reports them."""
    engine = read_engine(address)
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        kind, said = kind_of(dialect_of(engine), error)
        raise kind(f"database {shown(address)}: {said}") from error
    finally:
        engine.dispose()


def _answer(line: str, as_json: bool, **found: object) -> None:
    print(json.dumps(found or {"text": line}) if as_json else line, flush=True)


@command.command(
    "migrate",
    cls=CommandLine,
    help="Bring its tables up to date; the controller must be stopped.",
    examples=(("penstock db migrate --look", "only print what would be done"),),
)
@_config
@_json
@click.option("--look", "is_dry_run", is_flag=True, help="Only print what would be done.")
def migrate(config: str | None, is_dry_run: bool, as_json: bool) -> int:
    """Migrates, or only shows what would be done."""
    address, now_us = _address(config), time.time_ns() // 1000
    if not is_dry_run:
        _answer(migrate_now(address, now_us), as_json)
        return 0
    with _reading(address) as connection:
        text, is_done = describe(connection, now_us)
    _answer(text, as_json, text=text, current=is_done)
    return 0 if is_done else 1


@command.command(
    "check",
    cls=CommandLine,
    help="Check it for damage and for inconsistent rows. Exit status: 1 something was found.",
    examples=(("penstock db check", "while the controller works"),),
)
@_config
@_json
def check_command(config: str | None, as_json: bool) -> int:
    """Checks the database."""
    address = _address(config)
    try:
        with _reading(address) as connection:
            found = check(connection)
    except StoreDamaged as error:  # so different that not even the check can run
        text = str(error).replace(HINT_OF_THE_CHECK, "")
        _answer(text, as_json, problems=[text])
        return 1
    text = "\n".join(found.problems or [found.summary])
    _answer(text, as_json, problems=list(found.problems), summary=found.summary)
    return 1 if found.problems else 0


@command.command(
    "backup",
    cls=CommandLine,
    help="Copy it into FILE, which must not exist; the controller may run.",
    examples=(("penstock db backup /backup/penstock.db", "a whole copy"),),
)
@_config
@_json
@click.argument("file")
def backup_command(file: str, config: str | None, as_json: bool) -> int:
    """Writes a backup."""
    _answer(backup(_address(config), Path(file)), as_json)
    return 0


@command.command(
    "export",
    cls=CommandLine,
    help="Write jobs, steps, associations, QOS and usage as text into FOLDER, which must not have these files yet.",
    examples=(("penstock db export --format jsonl --since now-30days out", "the last month, one JSON object a line"),),
)
@_config
@_json
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="csv", show_default=True, help="How.")
@click.option("--since", metavar="TIME", help="Jobs that ended since then or have not, and usage since then.")
@click.argument("folder")
def export_command(folder: str, form: str, since: str | None, config: str | None, as_json: bool) -> int:
    """Exports the tables."""
    address, now_us = _address(config), time.time_ns() // 1000
    since_us = parse_date_us(since, now_us, past=True) if since else 0
    rows: dict[str, int] = {}
    with _reading(address) as connection:
        for name, count in export(connection, Path(folder), form, since_us):
            rows[name] = count
            if not as_json:
                print(f"{name} {count}")
    if as_json:
        _answer("", True, rows=rows)
    return 0


@command.command(
    "move",
    cls=CommandLine,
    help="Copy all of SOURCE into TARGET, an empty database; the controller must be stopped. Each is a path, a URL, or "
    "file:/PATH of a file with a URL in it; TARGET is a file that is not there yet, or a database without tables.",
    examples=(
        ("penstock db move /var/spool/penstock/penstock.db file:/etc/penstock/database.url", "from SQLite to a server"),
    ),
)
@_json
@click.argument("source")
@click.argument("target")
def move_command(source: str, target: str, as_json: bool) -> int:
    """Moves the database."""
    given, wanted = given_address(source), given_address(target)
    _need_file(given, f"{given}: there is no such database")
    lines = []
    for line in move(given, wanted, time.time_ns() // 1000):
        lines.append(line)
        if not as_json:
            print(line, flush=True)
    if as_json:
        _answer("", True, lines=lines)
    return 0


@command.command(
    "dead-letters",
    cls=CommandLine,
    help="Print the events that a receiver of PenstockWebhooks or JobCompType did not take, the oldest first.",
    examples=(("penstock db dead-letters --since now-1day", "those of the last day, and why"),),
)
@_config
@_json
@click.option("--since", metavar="TIME", help="Those that were given up since then.")
def dead_letters_command(since: str | None, config: str | None, as_json: bool) -> int:
    """Prints the dead letters."""
    found = load(config or click.get_current_context().obj or own_conf_path()).config
    since_us = parse_date_us(since, time.time_ns() // 1000, past=True) if since else 0
    letters = letters_since(Path(found.state_save_location), since_us)
    if as_json:
        _answer("", True, dead_letters=[letter._asdict() for letter in letters])
        return 0
    for letter in letters:
        print(text_of(letter))
    return 0


def _need_file(address: str, otherwise: str) -> None:
    if not is_server(address) and not Path(address).exists():
        raise BadSetup(otherwise)


def _say(text: str) -> None:
    for line in text.splitlines():
        print(f"penstock db: error: {line}", file=sys.stderr)
