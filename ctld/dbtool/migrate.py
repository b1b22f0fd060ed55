"""`penstock db migrate`: upgrades the schema by hand, as the controller does when it starts.

Refused while a controller leads: its statements are for the tables of its own version.
"""

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from accounting.database import shown
from ctld.dbtool.errors import DatabaseBusy
from ctld.store.dialect import dialect_of, kind_of, write_engine
from ctld.store.errors import StoreError
from ctld.store.migrate import REVISIONS, migrate, revision_of


def describe(connection: Connection, now_us: int) -> tuple[str, bool]:
    """Describes what `migrate_now` would do, and whether that is nothing."""
    found = revision_of(connection)
    if found == REVISIONS[-1]:
        return f"schema {found} is up to date", True
    holder = leader(connection, now_us) if found else ""
    first = f"; {holder} leads, stop it first" if holder else ""
    return f"schema {found or 'none'} would become {REVISIONS[-1]}{first}", False


def migrate_now(address: str, now_us: int) -> str:
    """Migrates in one transaction. Raises DatabaseBusy, StoreError; then nothing was changed."""
    engine = write_engine(address)
    try:
        with engine.begin() as connection:
            dialect_of(engine).check(connection)
            found = revision_of(connection)
            if found == REVISIONS[-1]:
                return f"schema {found} is up to date"
            if found and (holder := leader(connection, now_us)):
                raise DatabaseBusy(f"database {shown(address)}: {holder} leads; stop the controller first")
            migrate(connection)
        return f"schema {found or 'none'} became {REVISIONS[-1]}"
    except DBAPIError as error:
        kind, said = kind_of(dialect_of(engine), error)
        raise kind(f"database {shown(address)}: {said}") from error
    except StoreError as error:
        raise type(error)(f"database {shown(address)}: {error}") from error
    finally:
        engine.dispose()


def leader(connection: Connection, now_us: int) -> str:
    """Returns the leader of the database; "" = none."""
    holder, expires_at_us = connection.execute(text("SELECT holder, expires_at_us FROM meta")).one()
    return str(holder) if expires_at_us > now_us else ""
