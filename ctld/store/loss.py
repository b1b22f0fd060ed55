"""Checks at the start whether the database has everything that was acknowledged, and with which numbers it continues.

A database that is behind the witness is refused, unless an administrator accepts the loss. Then epoch, job ids and
request ids continue above those of the witness, or those that the administrator gave; nodes may raise them further
(core/lifecycle/restored.py).
"""

from typing import NamedTuple

from accounting.dbrow import DbRow
from ctld.store.errors import StoreOlder
from ctld.store.witness import Mark, Witness


class Accept(NamedTuple):
    """An administrator's acceptance of a loss."""

    is_accepted: bool = False
    epoch_above: int = 0
    job_id_above: int = 0


NOTHING = Accept()


def mark_of(meta: DbRow) -> Mark:
    """Returns the mark of a database, from its row in `meta`."""
    return Mark(meta.created_at_us, meta.epoch, meta.sequence, meta.epoch, meta.next_job_id, meta.next_request_id)


def numbers(meta: DbRow, witness: Witness | None, accept: Accept) -> Mark:
    """Returns the numbers from which the next leadership continues. Raises StoreOlder."""
    here = mark_of(meta)
    seen = witness.found if witness is not None else None
    if seen is not None and witness is not None and here.is_behind(seen) and not accept.is_accepted:
        what = "is older than what was acknowledged" if here.lineage == seen.lineage else "is another one than before"
        raise StoreOlder(
            f"the database {what}: it is at {here.shown()}; {witness.path} says {seen.shown()}. Was a backup put in its "
            "place, or has it lost the end of its log? Jobs since then are lost: see Restore in docs/database.md, then "
            "start it once with --accept-loss"
        )
    seen = seen or here
    return here._replace(
        epoch_reached=max(here.epoch, seen.epoch_reached, accept.epoch_above) + 1,
        next_job_id=max(here.next_job_id, seen.next_job_id, accept.job_id_above + 1),
        next_request_id=max(here.next_request_id, seen.next_request_id),
    )
