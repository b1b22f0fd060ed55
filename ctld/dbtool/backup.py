"""`penstock db backup`: a consistent copy of all that is committed, made while the controller works.

SQLite: its own online backup, page by page, into a file that is complete when it gets its name. To restore, replace the
database file by it. PostgreSQL: pg_dump's custom format, for pg_restore. Both are readable by their owner only.
"""

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

from sqlalchemy import make_url

from accounting.database import bare, database_url, is_server, schema_of
from ctld.store.errors import StoreError
from penstock.errors import BadSetup

#: Pages copied at a time: in between writers and readers can proceed.
_PAGES = 2_000


def backup(address: str, file: Path) -> str:
    """Writes the backup; returns a line about it. Raises BadSetup, StoreError, OSError."""
    if file.exists():
        raise BadSetup(f"{file}: exists already; nothing was written")
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        (_dump if is_server(address) else _copy)(address, draft)
        with open(draft, "rb") as written:
            os.fsync(written.fileno())
        os.link(draft, file)  # fails when it was created meanwhile
    finally:
        draft.unlink()
    return f"{file}: {file.stat().st_size} bytes"


def _copy(address: str, draft: Path) -> None:
    try:
        source = sqlite3.connect(Path(str(database_url(address).database)).absolute().as_uri() + "?mode=ro", uri=True)
        target = sqlite3.connect(draft)
        try:
            source.backup(target, pages=_PAGES)
            target.execute("PRAGMA journal_mode = DELETE").close()  # one file, without a log beside it
        finally:
            source.close()
            target.close()
    except sqlite3.Error as error:
        raise StoreError(f"database {address}: {error}") from error


def _dump(address: str, draft: Path) -> None:
    program = pg_dump()
    if program is None:
        raise BadSetup(
            "pg_dump was not found: install Debian's postgresql-client, in the server's version or a newer one"
        )
    schema = schema_of(database_url(address))
    url = bare(make_url(database_url(address))).set(drivername="postgresql")
    environment = dict(os.environ)
    secret = url.password or url.query.get("password")
    if secret:
        environment["PGPASSWORD"] = str(secret)  # an argument is visible to all users
    url = url.set(password=None).difference_update_query(["password"])
    words = [program, "--format=custom", "--no-password", f"--file={draft}", f"--dbname={url.render_as_string()}"]
    words += [f"--schema={schema}"] if schema else []  # a plain name, which is no pattern
    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StoreError(done.stderr.strip() or f"pg_dump ended with status {done.returncode}")


def pg_dump() -> str | None:
    """Returns the program: on the PATH, or Debian's newest."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"), key=lambda path: float(path.parts[-3]))
    return str(versions[-1]) if versions else shutil.which("pg_dump")
