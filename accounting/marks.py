"""One mark of the table `rollup_mark`: how far something has come. Those of the roll-up itself are read together (rolling.py)."""

from sqlalchemy import Connection, select

from accounting.tables import ROLLUP_MARK


def read_mark(connection: Connection, name: str) -> int:
    """As committed; 0 = there is none."""
    found = connection.execute(select(ROLLUP_MARK.c.value).where(ROLLUP_MARK.c.name == name)).scalar()
    return found or 0
