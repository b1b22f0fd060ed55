"""Store: one writer, one transaction a batch, fenced by the row in `meta`.

The order in a transaction: the fence first (a deposed controller must not even try), then the rows. When the answer to
COMMIT is lost, `meta` decides: our epoch and the batch's number = committed; our epoch and the number before = not
committed; another epoch = another controller leads.

A connection to a server may be lost at any time. A commit then reconnects once, at once, reads `meta` and continues
from there; when that fails, it raises StorageAway, and the same batch must be committed again (loop.py).

A job's row is inserted when its id was not assigned before this batch, and updated otherwise; rows of later attempts,
and those whose request has changed, are few and replaced. An update that matches no row means that memory and database
disagree: the batch is rolled back and the process must end.

A batch may raise the epoch (core/lifecycle/restored.py decides when): it is written under the old one, and the
leadership continues under the new one. The witness (witness.py) is written for each batch before and after its COMMIT.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path

# Any: each driver has its own classes of connections and cursors, with the same methods
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from accounting.database import DatabaseUrlError, shown
from ctld.core.records.effects import Batch
from ctld.core.records.gap import OpenGap
from ctld.core.records.job import HistoryRow, JobRow, SpecRow
from ctld.core.recover import LoadedState
from ctld.store import encodings, loader, rows
from ctld.store.dialect import (
    DAMAGED_HINT,
    dialect_of,
    kind_of,
    one_moment,
    reader_engine,
    why_not_opened,
    write_engine,
)
from ctld.store.dialect_type import Dialect, Many
from ctld.store.errors import Deposed, LeaseHeld, StorageAway, StorageWaits, StoreDamaged, StoreError
from ctld.store.firstrows import add_first_rows
from ctld.store.loss import NOTHING, Accept, numbers
from ctld.store.migrate import migrate
from ctld.store.schema import COUNTER, META
from ctld.store.statements import Statements, compile_statements
from ctld.store.stepparts import is_plain
from ctld.store.watchdog import Watchdog
from ctld.store.witness import Mark, Witness
from penstock.crash import crash_point

#: How long a leadership lasts without renewal. The holder renews it every third of this; a standby waits for all of it.
LEASE_US = 10 * 1_000_000

_Work = list[tuple[Many, Sequence[rows.Params]]]


class Store:
    """The controller's database. `commit` and the lease belong to one thread at a time; look-ups may be in any.

    `raw` is the driver's connection of `engine`, through which commits go (None = it is lost): a test of lost answers
    replaces it. `sequence` is the number of the last batch; `watchdog` and `witness` are those in use.
    """

    def __init__(self, address: str, holder: str, engine: Engine, witness: Witness | None = None) -> None:
        """Use `open`."""
        self.witness = witness
        self._lineage = 0
        self._address = shown(address)
        self._holder = holder
        self.engine = engine
        self._reader = reader_engine(address, engine)
        self._dialect: Dialect = dialect_of(engine)
        self._sql: Statements = compile_statements(engine, self._dialect)
        self.raw: Any = self._connect()  # None = lost; the next write connects again
        self.watchdog = _watchdog(self._dialect, engine)
        self._closed = False
        self._epoch = 0  # 0 = not the leader
        self._epoch_to_be = 0  # the new epoch that the batch in progress stores; 0 = none
        self._seen_at_us = 0  # when the previous leader last renewed its lease; 0 = there was none
        self.sequence = 0
        self._next_job_id = 1
        self._next_request_id = 1
        self._first_unknown_id = 1

    @classmethod
    def open(
        cls,
        address: str | Path,
        holder: str,
        witness: Witness | None = None,
        check: Callable[[Connection], None] = lambda _: None,
    ) -> "Store":
        """Opens or creates the database at a path or URL. `holder` identifies this controller to others, in their
        errors. `check` may refuse the database before anything in it is changed."""
        if not holder:
            raise ValueError("the holder needs a name")
        try:
            engine = write_engine(str(address))
        except DatabaseUrlError as error:
            raise StoreError(str(error)) from error
        try:
            with engine.begin() as connection:
                check(connection)
                dialect_of(engine).check(connection)
                migrate(connection)
        except DBAPIError as error:
            engine.dispose()
            kind, said = kind_of(dialect_of(engine), error)
            cause = why_not_opened(str(address), error)
            text = f"{said}: {cause.strerror}" if cause is not None else said
            raise kind(f"database {shown(address)}: {text}") from cause or error
        except StoreError as error:
            engine.dispose()
            raise type(error)(f"database {shown(address)}: {error}") from error
        return cls(str(address), holder, engine, witness)

    @property
    def epoch(self) -> int:
        """The epoch of our leadership; 0 = not the leader."""
        return self._epoch

    def close(self) -> None:
        """Releases the lease, so that the next controller need not wait for its end, and closes. May be called twice."""
        if self._closed:
            return
        self._closed = True
        try:
            # If there is no space, or no server, the lease expires by itself.
            with suppress(StorageWaits), self._writing(), self.engine.begin() as connection:
                connection.execute(update(META).where(META.c.epoch == (self._epoch or -1)).values(expires_at_us=0))
        finally:
            if self.watchdog is not None:
                self.watchdog.close()
            self._reader.dispose()
            self.engine.dispose()
            if self.witness is not None:
                self.witness.close()

    # ---- leadership ----------------------------------------------------------------------------------------------

    def leads(self, epoch: int) -> bool:
        """Whether that leadership is ours. From any thread."""
        return bool(epoch) and epoch in (self._epoch, self._epoch_to_be)

    def acquire_lease(self, now_us: int, accept: Accept = NOTHING) -> int:
        """Becomes the leader; returns the new epoch. Raises LeaseHeld while another holder's lease has not expired.

        Raises StoreOlder for a database that has lost something, unless that is accepted.
        """
        with self._writing(), self.engine.begin() as connection:
            meta = connection.execute(select(META).with_for_update()).one()
            if meta.holder != self._holder and meta.expires_at_us > now_us:
                raise LeaseHeld(meta.holder, meta.expires_at_us)
            after = numbers(meta, self.witness, accept)
            epoch = after.epoch_reached
            self._lineage = meta.created_at_us or now_us
            values = {"epoch": epoch, "holder": self._holder, "expires_at_us": now_us + LEASE_US, "sequence": 0}
            values |= {"next_job_id": after.next_job_id, "next_request_id": after.next_request_id}
            values |= {"seen_at_us": now_us, "created_at_us": self._lineage}
            if self.witness is not None:
                seen = self.witness.found or after
                self.witness.begin(seen._replace(epoch_reached=epoch, next_job_id=after.next_job_id))
            connection.execute(update(META).values(values))
            if not meta.epoch:
                add_first_rows(connection, now_us)
            if accept.is_accepted:
                loader.keep_gap(connection, OpenGap(epoch, meta.next_job_id))
            if accept.is_accepted or (self.witness is not None and self.witness.found is None and meta.epoch):
                connection.execute(delete(COUNTER).where(COUNTER.c.name == loader.LOSS))
                connection.execute(insert(COUNTER).values(name=loader.LOSS, value=now_us))
        self._epoch = self._epoch_to_be = epoch
        self.sequence = 0
        self._seen_at_us = meta.seen_at_us
        self._next_job_id = after.next_job_id
        self._next_request_id = after.next_request_id
        self._first_unknown_id = meta.next_job_id
        if self.witness is not None:
            self.witness.end(self._mark())
        return self._epoch

    def _mark(self) -> Mark:
        """Returns the acknowledged position."""
        return Mark(
            self._lineage, self._epoch, self.sequence, self._epoch_to_be, self._next_job_id, self._next_request_id
        )

    def renew_lease(self, now_us: int) -> None:
        """Renews the lease for another LEASE_US. Raises Deposed, StorageWaits."""
        try:
            self._renew(now_us)
        except StorageAway:
            self._renew(now_us)  # the connection may have been lost unnoticed long ago
        if self.witness is not None:
            self.witness.sync()

    def _renew(self, now_us: int) -> None:
        with self._writing(), self._watched(), self.engine.begin() as connection:
            statement = update(META).where(META.c.epoch == self._epoch).values(expires_at_us=now_us + LEASE_US)
            statement = statement.values(seen_at_us=now_us)
            if connection.execute(statement).rowcount != 1:
                raise Deposed(self._deposed_text())

    def _deposed_text(self) -> str:
        return f"another controller has taken over (our leadership was number {self._epoch})"

    # ---- commit --------------------------------------------------------------------------------------------------

    def commit(self, batch: Batch) -> None:
        """Makes a batch durable, completely or not at all. A batch without rows is not written.

        Raises StorageWaits (the batch may be committed again), Deposed or another StoreError (end).
        """
        if not batch.is_durable():
            return
        if not self._epoch or batch.sequence <= self.sequence:
            raise ValueError(f"batch {batch.sequence} after {self.sequence} in leadership {self._epoch}")
        work = self._work(batch)
        self._epoch_to_be = batch.epoch or self._epoch
        crash_point("commit:before")
        if self.witness is not None:
            reached = {"next_job_id": batch.next_job_id, "next_request_id": batch.next_request_id}
            self.witness.begin(self._mark()._replace(**reached))
        with self._writing(), self._watched():
            self._write(batch, work)
        self._epoch = self._epoch_to_be
        self.sequence = batch.sequence
        self._next_job_id = batch.next_job_id
        self._next_request_id = batch.next_request_id
        if self.witness is not None:
            self.witness.end(self._mark())
        crash_point("commit:after")

    def _write(self, batch: Batch, work: _Work) -> None:
        if self.raw is not None:
            try:
                return self._write_once(batch, work)
            except self._dialect.error as error:
                if not self._dialect.is_away(error):
                    raise
                self._lose()
        self.raw = self._connect()
        if not self._is_committed(batch):
            self._write_once(batch, work)

    def _write_once(self, batch: Batch, work: _Work) -> None:
        with closing(self.raw.cursor()) as cursor:
            try:
                self._write_rows(cursor, batch, work)
            except BaseException:
                self._roll_back()
                raise
            try:
                self.raw.commit()
            except self._dialect.error as error:
                if self._dialect.is_away(error):
                    raise
                self._roll_back()
                if not self._is_committed(batch):
                    raise

    def _write_rows(self, cursor: Any, batch: Batch, work: _Work) -> None:
        reached = (batch.sequence, self._epoch_to_be, batch.next_job_id, batch.next_request_id)
        fence = (*reached, self._epoch, self.sequence)
        with self._dialect.pipeline(self.raw):
            cursor.execute(self._dialect.begin)
            cursor.execute(self._sql.fence, fence)
        if cursor.rowcount != 1:
            raise Deposed(self._deposed_text())
        crash_point("commit:begun")
        known = 0
        with closing(self.raw.cursor()) as updates:
            with self._dialect.pipeline(self.raw):
                for statement, params in work:
                    if statement is self._sql.update_jobs and params:
                        known = self._dialect.run(updates, statement, params)
                    elif params:
                        self._dialect.run(cursor, statement, params)
            if known and updates.rowcount != known:
                raise StoreError(f"{known - updates.rowcount} rows of known jobs are not in the database")
        crash_point("commit:before-commit")

    def _roll_back(self) -> None:
        # Some errors end the transaction by themselves; another rollback would fail.
        if self._dialect.in_transaction(self.raw):
            self.raw.rollback()

    def _is_committed(self, batch: Batch) -> bool:
        """Checks after a lost answer whether the batch is committed. Raises Deposed when another controller leads.

        The row is locked: the server may still be executing the COMMIT whose answer was lost.
        """
        with closing(self.raw.cursor()) as cursor:
            epoch, sequence = cursor.execute(self._sql.last_batch).fetchone()
        if not self.leads(epoch):
            raise Deposed(self._deposed_text())
        return bool(sequence == batch.sequence)

    def _connect(self) -> object:
        """Returns the driver's own connection: the pool has only this one, and keeps it."""
        handle = self.engine.raw_connection()
        try:
            return handle.dbapi_connection
        finally:
            handle.close()

    def _lose(self) -> None:
        """Drops the connection."""
        self.raw = None
        self.engine.dispose()

    def _work(self, batch: Batch) -> _Work:
        """Returns the statements of a batch with their parameters; empty ones are skipped later."""
        sql = self._sql
        return [
            *self._job_work(batch),
            (sql.replace_steps, [rows.plain_step_values(step) for step in batch.steps if is_plain(step)]),
            (sql.replace_spread_steps, [rows.step_values(s) for s in batch.steps if not is_plain(s)]),
            (sql.replace_nodes, [rows.node_values(node) for node in batch.nodes]),
            (sql.replace_partitions, batch.partitions),
            (sql.replace_amendments, [encodings.amendment_values(one, position) for position, one in batch.amendments]),
            (sql.delete_amendments, batch.amendments_gone),
            (sql.replace_budgets, [rows.budget_use_values(row) for row in batch.budgets]),
            (sql.replace_gpus, [rows.gpu_values(gpu) for gpu in batch.gpus]),
            (sql.delete_gpus, batch.gpus_gone),
            (sql.replace_qos, [rows.qos_values(record) for record in batch.qos]),
            (sql.delete_qos, [(name,) for name in batch.qos_gone]),
            (sql.insert_history, batch.history),
            (sql.replace_assocs, [rows.assoc_values(assoc) for assoc in batch.assocs]),
            (sql.replace_usage, batch.usage),
            (sql.replace_qos_usage, batch.qos_usage),
            (sql.replace_accounts, [rows.account_values(row) for row in batch.accounts]),
            (sql.replace_users, [rows.account_user_values(row) for row in batch.users]),
            (sql.replace_reservations, [rows.reservation_values(r) for r in batch.reservations]),
            (sql.delete_reservations, [(name,) for name in batch.reservations_gone]),
            (sql.replace_crontabs, [rows.crontab_values(crontab) for crontab in batch.crontabs]),
            (sql.delete_crontabs, [(uid,) for uid in batch.crontabs_gone]),
            (sql.replace_triggers, [rows.event_trigger_values(trigger) for trigger in batch.triggers]),
            (sql.delete_triggers, [(trigger_id,) for trigger_id in batch.triggers_gone]),
            (sql.insert_audit, batch.audit),
            (sql.insert_txns, batch.txns),
            (sql.replace_wckeys, [rows.wckey_values(row) for row in batch.wckeys]),
            (sql.replace_resources, [rows.resource_values(row) for row in batch.resources]),
            (sql.replace_tres, batch.tres),
            (sql.replace_node_events, batch.node_events),
            (sql.insert_job_spans, batch.job_spans),
            (sql.replace_profiles, batch.profiles),
            (sql.replace_reservation_spans, batch.reservation_spans),
            (sql.replace_counters, batch.counters),
            (sql.replace_token_revocations, batch.token_revocations),
            (sql.replace_personal_tokens, batch.personal_tokens),
            (sql.delete_personal_tokens, [(token_id,) for token_id in batch.personal_tokens_gone]),
            (sql.insert_outbox, batch.outbox),
        ]

    def _job_work(self, batch: Batch) -> _Work:
        """Returns the statements of the jobs of a batch, and before them those of what their rows refer to."""
        new: list[rows.Params] = []
        replaced: list[rows.Params] = []
        changed: list[rows.Params] = []
        owners: dict[int, JobRow] = {}
        for row in batch.jobs:
            if row.request_id >= self._next_request_id and (row.submit_key or row.request_id not in owners):
                owners[row.request_id] = row
            if row.job_id >= self._next_job_id:
                new.append(rows.job_insert(row))
            elif row.attempt or row.request_id >= self._next_request_id:
                replaced.append(rows.job_insert(row))
            else:
                changed.append(rows.job_update(row))
        # A request that was changed again before this batch was sealed has no job.
        requests = [encodings.request_values(i, request, owners[i]) for i, request in batch.requests if i in owners]
        specs = {spec.spec_hash: spec for spec in batch.specs}  # a loop around sbatch sends the same one repeatedly
        sql = self._sql
        return [
            (sql.insert_requests, requests),
            (sql.insert_specs, [rows.job_spec_values(spec) for spec in specs.values()]),
            (sql.insert_jobs, new),
            (sql.replace_jobs, replaced),
            (sql.update_jobs, changed),
        ]

    # ---- reading -------------------------------------------------------------------------------------------------

    def load(self, now_us: int, min_job_age_us: int, submit_key_age_us: int) -> LoadedState:
        """Loads the core's initial state: the live queue, and what ended less than `min_job_age_us` ago. Raises StoreDamaged for
        a row that cannot be read, and StorageWaits."""
        with self._writing(), self.engine.begin() as connection:
            one_moment(connection)
            try:
                loaded = loader.load(connection, now_us - min_job_age_us, now_us - submit_key_age_us)
            except StoreDamaged as error:
                raise StoreDamaged(f"database {self._address}: {error}; {DAMAGED_HINT}") from error
            if self._dialect.shrink:
                connection.exec_driver_sql(self._dialect.shrink)
        return loaded._replace(seen_at_us=self._seen_at_us, first_unknown_id=self._first_unknown_id)

    def spec(self, spec_hash: bytes) -> SpecRow | None:
        """Returns a submission's script, arguments and environment. From any thread."""
        with self._translated(), self._reader.connect() as connection:
            return loader.spec(connection, spec_hash)

    def history(self, job_id: int) -> list[HistoryRow]:
        """Returns a job's history, oldest first. From any thread."""
        with self._translated(), self._reader.connect() as connection:
            return loader.history(connection, job_id)

    # ---- errors --------------------------------------------------------------------------------------------------

    def _watched(self) -> AbstractContextManager[None]:
        return self.watchdog.over(lambda: self.raw) if self.watchdog is not None else nullcontext()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._translated():
                yield
        except StorageAway:
            self._lose()
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, self._dialect.error) as error:
            kind, said = kind_of(self._dialect, error)
            raise kind(f"database {self._address}: {said}") from error
        except PoolTimeout as error:
            raise StoreError(f"database {self._address}: all connections for look-ups are in use") from error


def _watchdog(dialect: Dialect, engine: Engine) -> Watchdog | None:
    answers = dialect.answers
    return Watchdog(lambda: answers(engine.url)) if answers is not None else None
