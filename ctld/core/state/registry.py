"""Small tables of accounting beside the tree (fairshare.py): known licences, TRES ids, deleted QOS; and the changes of
them and of wckeys since the last batch.
"""

from ctld.core.records.accounting_rows import ResourceRow, TresRow, WckeyRow
from ctld.core.records.qos import Qos


class AccountingRegistry:
    """The tables and their changes. Changed by accounts/draft.py, queue/tres.py and queue/wckeys.py."""

    def __init__(self) -> None:
        self.resources: dict[str, ResourceRow] = {}  # by NAME@SERVER, including deleted ones
        self.tres_ids: dict[str, int] = {}  # queue/tres.py
        self.qos_deleted: dict[str, Qos] = {}  # by name; they keep their numbers when added again
        self.reservation_id = 0  # the last one assigned: a deleted one's history keeps its number
        self.own_accounts = 0  # implicitly created accounts
        self.entities_changed = False  # associations or QOS, since the last run of lifecycle/limit_changes.py
        self.dirty_wckeys: dict[int, WckeyRow] = {}
        self.dirty_resources: dict[str, ResourceRow] = {}
        self.dirty_tres: dict[int, TresRow] = {}

    def start_new_batch(self) -> None:
        """Clears the changes that are in the batch. Called for every batch, and usually there are none."""
        if self.is_dirty():
            self.dirty_wckeys = {}
            self.dirty_resources = {}
            self.dirty_tres = {}

    def note_reservation_id(self, resv_id: int) -> None:
        """Marks a reservation's number as used. It is written with the reservation."""
        self.reservation_id = max(self.reservation_id, resv_id)

    def is_dirty(self) -> bool:
        """Whether any row must be written."""
        return bool(self.dirty_wckeys or self.dirty_resources or self.dirty_tres)
