"""Small tables of accounting beside the tree (fairshare.py): licences that it knows, numbers of TRES, QOS that were
deleted; and what is new of them and of wckeys since the last batch.
"""

from ctld.core.fairshare import ResourceRow, TresRow, WckeyRow
from ctld.core.model import Qos


class Registry:
    """Changed by draft.py, tres.py and wckey_names.py."""

    def __init__(self) -> None:
        self.resources: dict[str, ResourceRow] = {}  # by NAME@SERVER, with those that were deleted
        self.tres_ids: dict[str, int] = {}  # tres.py
        self.qos_deleted: dict[str, Qos] = {}  # by name: to be shown, and to have its number again
        self.reservation_id = 0  # the last one given: the history of one that is gone keeps its number
        self.dirty_wckeys: dict[int, WckeyRow] = {}
        self.dirty_resources: dict[str, ResourceRow] = {}
        self.dirty_tres: dict[int, TresRow] = {}

    def start_new_batch(self) -> None:
        """What was new has been handed out. Every batch comes here, and mostly nothing is new."""
        if self.is_dirty():
            self.dirty_wckeys, self.dirty_resources, self.dirty_tres = {}, {}, {}

    def saw_reservation(self, resv_id: int) -> None:
        """It has this number, and no other will. The number is written with the reservation."""
        self.reservation_id = max(self.reservation_id, resv_id)

    def is_dirty(self) -> bool:
        """Some row must be written."""
        return bool(self.dirty_wckeys or self.dirty_resources or self.dirty_tres)
