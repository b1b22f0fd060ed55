"""Resolves the database that a configuration means, and checks that its password is not readable for all.

    PenstockDatabaseUrl                         the database
    (nothing)                                   penstock.db in StateSaveLocation
    a path, sqlite:////path                     that file
    postgresql://user@host/name?passfile=FILE   a server; the password is in libpq's passfile (or in PGPASSFILE's)
    file:/path                                  the URL is in that file, with a password if need be

    PenstockDatabaseSchema                      on a server, the schema of this cluster's tables

A file with a password that others can read is refused, like a private key. This applies to slurm.conf when the URL in
it has a password; its group may read it.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import make_url

from accounting.database import DatabaseUrlError, database_url, in_schema, is_server, schema_of, shown
from penstock.errors import BadSetup
from penstock.security.keyfiles import read_secret

_FILE = "file:"
_PASSWORDS = ("password", "sslpassword")


def database_address(
    url: str,
    config_path: str | Path,
    default: Path,
    environment: Mapping[str, str] = os.environ,
    *,
    schema: str = "",
) -> str:
    """Returns the path or URL to open. Raises BadSetup."""
    if not url:
        return _in_schema(str(default), schema)
    address = _address(url, environment)
    if address == url and _has_password(address):
        _check_config(Path(config_path))
    return _in_schema(address, schema)


def _in_schema(address: str, schema: str) -> str:
    """The address with the configured schema. Raises BadSetup."""
    if not schema:
        return address
    if not is_server(address):
        raise BadSetup(
            f"PenstockDatabaseSchema={schema}: {address} is an SQLite file, which has no schemas; set "
            "PenstockDatabaseUrl to a PostgreSQL database, or remove PenstockDatabaseSchema"
        )
    if (own := schema_of(database_url(address))) and own != schema:
        raise BadSetup(f"PenstockDatabaseSchema={schema}: PenstockDatabaseUrl names the schema {own}; keep one of them")
    return in_schema(address, schema)


def given_address(word: str, environment: Mapping[str, str] = os.environ) -> str:
    """Returns the path or URL to open, from an argument of a command, which is visible to all users. Raises BadSetup."""
    address = _address(word, environment)
    if address == word and _has_password(address):
        raise BadSetup(
            f"{shown(address)}: all users can read a password in an argument: change it, write the URL into a file "
            "of mode 0600 and give file:/PATH"
        )
    return address


def _address(url: str, environment: Mapping[str, str]) -> str:
    address = _from_file(url) if url.startswith(_FILE) else url
    try:
        if not is_server(address):
            return str(database_url(address).database)
    except DatabaseUrlError as error:
        raise BadSetup(str(error)) from None
    parsed = make_url(address)
    passfile = str(parsed.query.get("passfile", "")) or environment.get("PGPASSFILE", "")
    if passfile:
        read_secret(Path(passfile), "file of passwords")
    return address


def _has_password(address: str) -> bool:
    if not is_server(address):
        return False
    parsed = make_url(address)
    return bool(parsed.password) or any(name in parsed.query for name in _PASSWORDS)


def _from_file(url: str) -> str:
    path = Path(url.removeprefix(_FILE).removeprefix("//"))
    if not path.is_absolute():
        raise BadSetup(f"{url}: write the whole path, as file:/etc/penstock/database.url")
    try:
        lines = read_secret(path, "file of the database's URL").decode().split("\n")
    except UnicodeDecodeError:
        raise BadSetup(f"{path}: not a text; write one line, postgresql://user:password@host/name") from None
    words = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(words) != 1 or "://" not in words[0]:
        raise BadSetup(f"{path}: write one line, postgresql://user:password@host/name")
    return words[0]


def _check_config(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise BadSetup(f"{path}: {error.strerror}") from error
    if mode & 0o007:
        raise BadSetup(
            f"{path}: the URL of a database has a password in it and all users can read the file (mode {mode:04o}): "
            "change the password, write the URL into a file of mode 0600 and file:/PATH in its place"
        )
