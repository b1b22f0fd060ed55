"""Reads one mark of the table `rollup_mark`: the progress of a process. The roll-up's own are read together
(rolling.py).
"""

from sqlalchemy import Connection, select

from accounting.tables import ROLLUP_MARK


def read_mark(connection: Connection, name: str) -> int:
    """Returns the mark as committed; 0 = there is none."""
    found = connection.execute(select(ROLLUP_MARK.c.value).where(ROLLUP_MARK.c.name == name)).scalar()
    return found or 0
