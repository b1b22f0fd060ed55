"""The rows that accounting has from the first start of a controller on: user root, and its association in account root.

In Slurm they come with the cluster: when it is added to the accounting, once. So they come here in the transaction of
the database's first leadership, and never later. A database that has had a controller is left as it is: what an
administrator has deleted stays deleted, and an upgrade changes nobody's part of the shares.
"""

from typing import Final

from sqlalchemy import Connection, insert, select

from ctld.core.records.accounting_rows import AssocRow, UserRow
from ctld.core.records.event_base import Role
from ctld.core.state.fairshare import ROOT, ROOT_ID
from ctld.store import rows
from ctld.store.schema import ACCOUNT_USER, ASSOC

ROOT_USER: Final = UserRow("root", ROOT, int(Role.ADMINISTRATOR))


def add_first_rows(connection: Connection, now_us: int) -> None:
    """Adds the rows to a database that no controller has had, inside the caller's transaction, unless something else
    has put accounts there."""
    if connection.execute(select(ASSOC.c.assoc_id).limit(1)).first() is not None:
        return
    assoc = AssocRow(ROOT_ID + 1, ROOT, ROOT_USER.name, ROOT, 1, 0, False, False, created_at_us=now_us)
    connection.execute(insert(ASSOC).values(rows.assoc_values(assoc)))
    connection.execute(insert(ACCOUNT_USER).values(rows.account_user_values(ROOT_USER)))
