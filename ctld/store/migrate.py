"""Upgrades a database to the schema of this program, when the store opens.

Every change of a table is a migration (migrations/versions), from the first schema on. They run in one transaction, on
the store's own connection: a crash leaves the database as it was. A database that a newer program has written is
refused, since this one would drop unknown data.
"""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from ctld.store.errors import SchemaTooNew, StoreError

MIGRATIONS = Path(__file__).with_name("migrations")
#: Revisions that this program knows, oldest first. It requires the last one.
REVISIONS = (
    # made by tools/records: revisions
    "0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0010", "0011", "0012", "0015", "0014", "0016", "0013",
    "0019", "0020", "0021", "0022", "0023", "0024", "0025", "0026", "0027", "0028", "0029", "0030", "0031",
    # end of what is made
)  # fmt: skip


def migrate(connection: Connection) -> None:
    """Upgrades the schema inside the caller's transaction."""
    found = revision_of(connection)
    if found == REVISIONS[-1]:
        return
    if found is not None and found not in REVISIONS:
        raise SchemaTooNew(
            f"the database has schema {found}, this program knows schemas up to {REVISIONS[-1]}: "
            "a newer Penstock has written it. Run that version, or restore the backup made before the upgrade"
        )
    from alembic import command  # takes half a second, and is needed once for most databases
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def revision_of(connection: Connection) -> str | None:
    """Returns the schema of a database; None = it is empty. Raises StoreError for a database of another program."""
    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables:
        revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return revision
    if tables:
        raise StoreError(f"it is a database of another program (it has a table {tables[0]})")
    return None
