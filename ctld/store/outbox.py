"""The outbox: events that wait for deliveries, and how far each receiver has come.

The committer inserts the events with their cause; here they are read, in their order, and deleted when every receiver
has them. Beyond ROWS_MAX the oldest are deleted unseen: a receiver that is away for weeks fills no disk, and the
caller learns how many it has missed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select, update

from ctld.core.records.effects import OutboxRow
from ctld.store.schema import DELIVERY_CURSOR, OUTBOX

#: Some 2 kB each.
ROWS_MAX: Final = 100_000


def cursors(connection: Connection, receivers: Sequence[str], newest: int) -> dict[str, int]:
    """Returns the last event that each receiver has, and forgets other receivers. A new one begins after `newest`."""
    connection.execute(delete(DELIVERY_CURSOR).where(DELIVERY_CURSOR.c.receiver.not_in(receivers)))
    found = {row.receiver: row.sequence for row in connection.execute(select(DELIVERY_CURSOR))}
    for receiver in receivers:
        if receiver not in found:
            connection.execute(insert(DELIVERY_CURSOR).values(receiver=receiver, sequence=newest))
            found[receiver] = newest
    return found


def page(connection: Connection, after: int, rows_max: int) -> list[OutboxRow]:
    """Returns the first events after that one."""
    wanted = select(OUTBOX).where(OUTBOX.c.sequence > after).order_by(OUTBOX.c.sequence).limit(rows_max)
    found = connection.execute(wanted)
    return [OutboxRow(row.sequence, row.at_us, row.kind, bytes(row.body)) for row in found]


def keep(connection: Connection, reached: Mapping[str, int]) -> None:
    """Stores how far the receivers have come, and deletes what all of them have."""
    for receiver, sequence in reached.items():
        changed = update(DELIVERY_CURSOR).where(DELIVERY_CURSOR.c.receiver == receiver)
        connection.execute(changed.values(sequence=sequence))
    last = connection.execute(select(func.min(DELIVERY_CURSOR.c.sequence))).scalar()
    gone = delete(OUTBOX)
    connection.execute(gone if last is None else gone.where(OUTBOX.c.sequence <= last))


def surplus(connection: Connection) -> tuple[int, dict[str, int]]:
    """Returns the last of the events beyond ROWS_MAX (0 = there are none), and how many of them each receiver does not
    have."""
    newest_first = select(OUTBOX.c.sequence).order_by(OUTBOX.c.sequence.desc())
    last = connection.execute(newest_first.offset(ROWS_MAX).limit(1)).scalar()
    if last is None:
        return 0, {}
    missed: dict[str, int] = {}
    for row in connection.execute(select(DELIVERY_CURSOR).where(DELIVERY_CURSOR.c.sequence < last)).all():
        lost = select(func.count()).where(OUTBOX.c.sequence > row.sequence, OUTBOX.c.sequence <= last)
        missed[row.receiver] = connection.execute(lost).scalar() or 0
    return last, missed


def cut(connection: Connection, last: int) -> None:
    """Deletes the events up to that one."""
    connection.execute(delete(OUTBOX).where(OUTBOX.c.sequence <= last))
