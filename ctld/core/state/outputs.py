"""Changes since the last seal: rows to write, lines of history, effects to send.

Tables are by primary key, so that a record is written once however often it has changed; batch.py makes the rows. Code
that changes a record marks it here, through `ClusterState.touch_*` or the functions of the record's owner.
"""

from ctld.core.records.accounting_rows import AccountRow, AssocRow, UserRow
from ctld.core.records.effects import AckReports, Effect
from ctld.core.records.job import HistoryRow, JobRow, JobSpan, SpecRow
from ctld.core.records.node import NodeEvent
from ctld.core.records.request import JobRequest
from ctld.core.records.reservation import ReservationSpan
from ctld.core.records.step import ProfileRow, Step


class Outputs:
    """The collected changes. Taken by batch.py, which then calls `start_new_batch`."""

    __slots__ = (
        "acks", "dirty_accounts", "dirty_assocs", "dirty_events", "dirty_gpus", "dirty_jobs", "dirty_nodes",
        "dirty_partitions", "dirty_qos", "dirty_qos_usage", "dirty_reservation_spans", "dirty_reservations",
        "dirty_steps", "dirty_usage", "dirty_users", "effects", "ended_attempts", "history", "is_stored",
        "job_spans", "new_requests", "new_specs", "profile_bytes", "profiles",
        "purged",
    )  # fmt: skip

    def __init__(self) -> None:
        self.is_stored = True  # False: batches are not written, which have effects alone (controller.Core)
        self.acks: dict[tuple[str, int, str], int] = {}  # (node, link, spool) -> the last report that is in the batch
        self.start_new_batch()

    def start_new_batch(self) -> None:
        """Clears the changes that are in the batch."""
        self.dirty_jobs: dict[int, None] = {}
        self.dirty_steps: dict[tuple[int, int, int], Step] = {}
        self.dirty_nodes: dict[str, None] = {}
        self.dirty_gpus: dict[tuple[str, str], None] = {}  # (node, UUID)
        self.dirty_partitions: dict[str, None] = {}
        self.dirty_reservations: dict[str, None] = {}  # including removed ones
        self.dirty_qos: dict[str, None] = {}
        self.dirty_assocs: dict[int, AssocRow] = {}
        self.dirty_accounts: dict[str, AccountRow] = {}
        self.dirty_users: dict[str, UserRow] = {}
        self.dirty_usage: dict[int, None] = {}
        self.dirty_qos_usage: dict[str, None] = {}
        self.dirty_events: dict[tuple[str, int], NodeEvent] = {}
        self.dirty_reservation_spans: dict[tuple[int, int], ReservationSpan] = {}
        self.job_spans: dict[tuple[int, int, int, int], JobSpan] = {}
        self.profiles: dict[tuple[int, int, int, str], ProfileRow] = {}
        self.profile_bytes = 0  # of those reported
        self.ended_attempts: list[JobRow] = []
        self.new_requests: list[tuple[int, JobRequest]] = []
        self.new_specs: list[SpecRow] = []
        self.history: list[HistoryRow] = []
        self.effects: list[Effect] = []
        self.purged: list[int] = []

    def is_dirty(self) -> bool:
        """Whether any row must be written; history and effects excluded."""
        return bool(
            self.dirty_jobs or self.dirty_steps or self.dirty_nodes or self.dirty_partitions or self.ended_attempts
            or self.new_requests or self.new_specs or self.dirty_assocs or self.dirty_usage or self.dirty_accounts
            or self.dirty_users or self.dirty_reservations or self.dirty_gpus or self.dirty_qos
            or self.dirty_events or self.job_spans or self.dirty_reservation_spans or self.profiles
        )  # fmt: skip

    def acknowledge(self, node: str, link_id: int, spool_id: str, sequence: int) -> None:
        """Notes that all reports of this spool up to `sequence` are in the next batch."""
        if self.is_stored and sequence > self.acks.get(key := (node, link_id, spool_id), 0):
            self.acks[key] = sequence

    def take_acks(self) -> list[Effect]:
        """Returns one acknowledgement for each stream that reported since the last seal."""
        taken = self.acks
        self.acks = {}
        return [AckReports(n, link, spool, seq) for (n, link, spool), seq in taken.items()]
