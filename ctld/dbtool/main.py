"""`penstock db migrate|check|backup|export|move`: which database, and what to do with it.

Exit status: 0; 1 when `check` has found something, or `migrate --look` a schema that is not this program's; 75 when a
controller leads (migrate, move) or the server does not answer; 78 when the configuration or the database cannot be
used; 130 when a person has interrupted it.
What the subcommands do is in the modules named like them.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from accounting.database import DatabaseUrlError, is_server, read_engine, shown
from ctld.dbtool.backup import backup
from ctld.dbtool.check import check
from ctld.dbtool.errors import DatabaseBusy
from ctld.dbtool.export import FORMATS, export
from ctld.dbtool.migrate import look, migrate_now
from ctld.dbtool.move import move
from ctld.store.dialect import dialect_of, kind_of
from ctld.store.errors import StorageWaits, StoreError
from ctld.store.place import database_place, given_place
from penstock.cluster import conf_path
from penstock.config import ConfigError, load
from penstock.errors import BadSetup
from penstock.values.dates import parse_date_us
from penstock.values.errors import BadValue

EX_TEMPFAIL: Final = 75
EX_CONFIG: Final = 78
EX_INTERRUPTED: Final = 130


def main(argv: list[str]) -> int:
    """Run `penstock db ...`; returns the exit status."""
    options = _parser().parse_args(argv)
    os.umask(0o077)  # what is written holds other people's scripts and environments
    try:
        return _run(options)
    except ConfigError as error:
        _say(str(error))
    except BadSetup as error:
        _say(error.text)
    except (DatabaseBusy, StorageWaits) as error:
        _say(str(error))
        return EX_TEMPFAIL
    except (StoreError, DatabaseUrlError, BadValue) as error:
        _say(str(error))
    except OSError as error:
        _say(f"{error.filename or ''}: {error.strerror}")
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        return EX_INTERRUPTED
    return EX_CONFIG


def _run(options: argparse.Namespace) -> int:
    if options.command == "move":
        source, target = given_place(options.source), given_place(options.target)
        _need_file(source, f"{source}: there is no such database")
        for line in move(source, target, time.time_ns() // 1000):
            print(line, flush=True)
        return 0
    config = load(options.config).config
    place = database_place(
        config.penstock_database_url, options.config, Path(config.state_save_location) / "penstock.db"
    )
    _need_file(place, f"{place}: there is no database yet; the controller makes it when it starts")
    if options.command == "backup":
        print(backup(place, Path(options.file)))
        return 0
    now_us = time.time_ns() // 1000
    if options.command == "migrate" and not options.look:
        print(migrate_now(place, now_us))
        return 0
    engine = read_engine(place)
    try:
        return _read(options, engine, now_us)
    except DBAPIError as error:
        kind, said = kind_of(dialect_of(engine), error)
        raise kind(f"database {shown(place)}: {said}") from error
    finally:
        engine.dispose()


def _need_file(place: str, otherwise: str) -> None:
    if not is_server(place) and not Path(place).exists():
        raise BadSetup(otherwise)


def _read(options: argparse.Namespace, engine: Engine, now_us: int) -> int:
    with engine.connect() as connection:
        if options.command == "migrate":
            text, is_done = look(connection, now_us)
            print(text)
            return 0 if is_done else 1
        if options.command == "check":
            found = check(connection)
            print("\n".join(found.problems or [found.summary]))
            return 1 if found.problems else 0
        since_us = parse_date_us(options.since, now_us, past=True) if options.since else 0
        for name, rows in export(connection, Path(options.folder), options.format, since_us):
            print(f"{name} {rows}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock db", description="The controller's database.")
    which = {"metavar": "FILE", "help": f"slurm.conf (default: SLURM_CONF, here {conf_path()})".replace("%", "%%")}
    parser.add_argument("--config", "-f", default=conf_path(), **which)  # type: ignore[arg-type]
    behind = argparse.ArgumentParser(add_help=False)  # the same, behind the command
    behind.add_argument("--config", "-f", default=argparse.SUPPRESS, **which)  # type: ignore[arg-type]
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    one = commands.add_parser(
        "migrate", parents=[behind], help="bring its tables up to date; the controller must be stopped"
    )
    one.add_argument("--look", action="store_true", help="only say what would be done")
    commands.add_parser("check", parents=[behind], help="look for damage and for rows that do not fit together")
    one = commands.add_parser("backup", parents=[behind], help="copy it into a file, while the controller works")
    one.add_argument("file", metavar="FILE", help="a file that is not there yet")
    one = commands.add_parser("export", parents=[behind], help="write jobs, steps, associations, QOS and usage as text")
    one.add_argument("folder", metavar="FOLDER", help="where the files go; it must not have them yet")
    one.add_argument("--format", choices=FORMATS, default="csv", help="default %(default)s")
    one.add_argument("--since", metavar="TIME", help="jobs that ended since then or have not, and usage since then")
    one = commands.add_parser("move", help="copy all of it into an empty one; the controller must be stopped")
    one.add_argument("source", metavar="FROM", help="a path, a URL, or file:/PATH of a file with a URL in it")
    one.add_argument(
        "target", metavar="TO", help="likewise: a file that is not there yet, or a database without tables"
    )
    return parser


def _say(text: str) -> None:
    for line in text.splitlines():
        print(f"penstock db: error: {line}", file=sys.stderr)
