"""Store: one writer, one transaction a batch, fenced by the row in `meta`.

The order in a transaction: the fence first (a deposed controller must not even try), then the rows. When the answer to
COMMIT is lost, `meta` tells: our epoch and the batch's number = it is in; our epoch and the number before = it is not;
another epoch = somebody else leads.

A connection to a server may be lost at any time. A commit then connects again, once and at once, reads `meta` and goes
on from there; when that fails, it raises StorageAway, and the same batch is to be given again (loop.py).

A job's row is inserted when its id is one that the last batch had not yet given out, and updated otherwise; rows of
later attempts, and those whose request has changed, are few and replaced whole. An update that meets no row means that
memory and database disagree: the batch is rolled back and the process must end.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from accounting.database import DatabaseUrlError, shown
from ctld.core.effects import Batch
from ctld.core.model import HistoryRow, JobRow, SpecRow
from ctld.core.recover import Loaded
from ctld.store import loader, rows, steprows
from ctld.store.dialect import Dialect, Many, dialect_of, kind_of, one_moment, reader_engine, write_engine
from ctld.store.errors import Deposed, LeaseHeld, StorageAway, StorageWaits, StoreError
from ctld.store.migrate import migrate
from ctld.store.schema import META
from ctld.store.statements import Statements, compile_statements
from penstock.crash import crash_point

#: How long a leadership lasts without renewal. The holder renews it at a third of this; a standby waits for all of it.
LEASE_US = 10 * 1_000_000

_Work = list[tuple[Many, Sequence[rows.Params]]]


class Store:
    """The controller's database. `commit` and the lease belong to one thread at a time; look-ups may be anywhere."""

    def __init__(self, place: str, holder: str, engine: Engine) -> None:
        """Use `open`."""
        self._place = shown(place)
        self._holder = holder
        self._engine = engine
        self._reader = reader_engine(place, engine)
        self._dialect: Dialect = dialect_of(engine)
        self._sql: Statements = compile_statements(engine, self._dialect)
        self._raw: Any = self._connect()  # None = lost; the next call that writes makes another
        self._closed = False
        self._epoch = 0  # 0 = not leading
        self._seen_at_us = 0  # when the leader before us was there last; 0 = there was none
        self._sequence = 0
        self._next_job_id = self._next_request_id = 1

    @classmethod
    def open(cls, place: str | Path, holder: str) -> "Store":
        """Open or create the database at a path or URL. `holder` names this controller to others, for their errors."""
        if not holder:
            raise ValueError("the holder needs a name")
        try:
            engine = write_engine(str(place))
        except DatabaseUrlError as error:
            raise StoreError(str(error)) from error
        try:
            with engine.begin() as connection:
                dialect_of(engine).check(connection)
                migrate(connection)
        except DBAPIError as error:
            engine.dispose()
            kind, said = kind_of(dialect_of(engine), error)
            raise kind(f"database {shown(place)}: {said}") from error
        except StoreError as error:
            engine.dispose()
            raise type(error)(f"database {shown(place)}: {error}") from error
        return cls(str(place), holder, engine)

    @property
    def epoch(self) -> int:
        """Our leadership; 0 = we do not lead."""
        return self._epoch

    def close(self) -> None:
        """Give the lease back, so that the next controller need not wait for its end, and close. Twice is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            # Without room for that, or without a server, the lease ends by itself.
            with suppress(StorageWaits), self._writing(), self._engine.begin() as connection:
                connection.execute(update(META).where(META.c.epoch == (self._epoch or -1)).values(expires_at_us=0))
        finally:
            self._reader.dispose()
            self._engine.dispose()

    # ---- leadership ----------------------------------------------------------------------------------------------

    def acquire_lease(self, now_us: int) -> int:
        """Become the leader; returns the new epoch. Raises LeaseHeld while another holder's lease has not expired."""
        with self._writing(), self._engine.begin() as connection:
            meta = connection.execute(select(META).with_for_update()).one()
            if meta.holder != self._holder and meta.expires_at_us > now_us:
                raise LeaseHeld(meta.holder, meta.expires_at_us)
            epoch = meta.epoch + 1
            values = {"epoch": epoch, "holder": self._holder, "expires_at_us": now_us + LEASE_US, "sequence": 0}
            values["seen_at_us"] = now_us
            created = {} if meta.created_at_us else {"created_at_us": now_us}
            connection.execute(update(META).values(values | created))
        self._epoch, self._sequence, self._seen_at_us = epoch, 0, meta.seen_at_us
        self._next_job_id, self._next_request_id = meta.next_job_id, meta.next_request_id
        return self._epoch

    def renew_lease(self, now_us: int) -> None:
        """Lead for another LEASE_US. Raises Deposed, StorageWaits."""
        try:
            self._renew(now_us)
        except StorageAway:
            self._renew(now_us)  # the connection may have been cut long ago, and nobody has noticed

    def _renew(self, now_us: int) -> None:
        with self._writing(), self._engine.begin() as connection:
            statement = update(META).where(META.c.epoch == self._epoch).values(expires_at_us=now_us + LEASE_US)
            statement = statement.values(seen_at_us=now_us)
            if connection.execute(statement).rowcount != 1:
                raise Deposed(self._deposed_text())

    def _deposed_text(self) -> str:
        return f"another controller has taken over (our leadership was number {self._epoch})"

    # ---- commit --------------------------------------------------------------------------------------------------

    def commit(self, batch: Batch) -> None:
        """Make a batch durable, whole. A batch without rows is not written.

        Raises StorageWaits (the batch may be given again), Deposed or another StoreError (end).
        """
        if not batch.is_durable():
            return
        if not self._epoch or batch.sequence <= self._sequence:
            raise ValueError(f"batch {batch.sequence} after {self._sequence} in leadership {self._epoch}")
        work = self._work(batch)
        crash_point("commit:before")
        with self._writing():
            self._write(batch, work)
        self._sequence = batch.sequence
        self._next_job_id, self._next_request_id = batch.next_job_id, batch.next_request_id
        crash_point("commit:after")

    def _write(self, batch: Batch, work: _Work) -> None:
        if self._raw is not None:
            try:
                return self._write_once(batch, work)
            except self._dialect.error as error:
                if not self._dialect.is_away(error):
                    raise
                self._lose()
        self._raw = self._connect()
        if not self._is_committed(batch):
            self._write_once(batch, work)

    def _write_once(self, batch: Batch, work: _Work) -> None:
        with closing(self._raw.cursor()) as cursor:
            try:
                self._write_rows(cursor, batch, work)
            except BaseException:
                self._roll_back()
                raise
            try:
                self._raw.commit()
            except self._dialect.error as error:
                if self._dialect.is_away(error):
                    raise
                self._roll_back()
                if not self._is_committed(batch):
                    raise

    def _write_rows(self, cursor: Any, batch: Batch, work: _Work) -> None:
        fence = (batch.sequence, batch.next_job_id, batch.next_request_id, self._epoch, self._sequence)
        with self._dialect.pipeline(self._raw):
            cursor.execute(self._dialect.begin)
            cursor.execute(self._sql.fence, fence)
        if cursor.rowcount != 1:
            raise Deposed(self._deposed_text())
        crash_point("commit:begun")
        known = 0
        with closing(self._raw.cursor()) as updates:
            with self._dialect.pipeline(self._raw):
                for statement, params in work:
                    if statement is self._sql.update_jobs and params:
                        known = self._dialect.run(updates, statement, params)
                    elif params:
                        self._dialect.run(cursor, statement, params)
            if known and updates.rowcount != known:
                raise StoreError(f"{known - updates.rowcount} rows of known jobs are not in the database")
        crash_point("commit:before-commit")

    def _roll_back(self) -> None:
        # Some errors end the transaction by themselves; to ask for it again would be another error.
        if self._dialect.in_transaction(self._raw):
            self._raw.rollback()

    def _is_committed(self, batch: Batch) -> bool:
        """After a lost answer: is the batch in? Raises Deposed when the leadership is another's.

        The row is asked for as a writer: the server may still be at work on the COMMIT whose answer was lost.
        """
        with closing(self._raw.cursor()) as cursor:
            epoch, sequence = cursor.execute(self._sql.standing).fetchone()
        if epoch != self._epoch:
            raise Deposed(self._deposed_text())
        return bool(sequence == batch.sequence)

    def _connect(self) -> Any:
        """The driver's own connection: the pool has only this one, and keeps it."""
        handle = self._engine.raw_connection()
        try:
            return handle.dbapi_connection
        finally:
            handle.close()

    def _lose(self) -> None:
        """Forget the connection."""
        self._raw = None
        self._engine.dispose()

    def _work(self, batch: Batch) -> _Work:
        """The statements of a batch with their parameters; empty ones are skipped later."""
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
        # A request that was changed again before this batch was sealed belongs to nobody.
        requests = [rows.request_values(i, request, owners[i]) for i, request in batch.requests if i in owners]
        specs = {spec.spec_hash: spec for spec in batch.specs}  # a loop around sbatch sends the same one over and over
        sql = self._sql
        return [
            (sql.insert_requests, requests),
            (sql.insert_specs, [rows.spec_values(spec) for spec in specs.values()]),
            (sql.insert_jobs, new),
            (sql.replace_jobs, replaced),
            (sql.update_jobs, changed),
            (sql.replace_steps, [steprows.plain_values(step) for step in batch.steps if steprows.is_plain(step)]),
            (sql.replace_spread_steps, [steprows.spread_values(s) for s in batch.steps if not steprows.is_plain(s)]),
            (sql.replace_nodes, [rows.node_values(node) for node in batch.nodes]),
            (sql.replace_partitions, batch.partitions),
            (sql.replace_amendments, [rows.amendment_values(one, place) for place, one in batch.amendments]),
            (sql.delete_amendments, batch.amendments_gone),
            (sql.replace_budgets, [rows.budget_values(row) for row in batch.budgets]),
            (sql.replace_gpus, [rows.gpu_values(gpu) for gpu in batch.gpus]),
            (sql.delete_gpus, batch.gpus_gone),
            (sql.replace_qos, [rows.qos_values(record) for record in batch.qos]),
            (sql.delete_qos, [(name,) for name in batch.qos_gone]),
            (sql.insert_history, batch.history),
            (sql.replace_assocs, [rows.assoc_values(assoc) for assoc in batch.assocs]),
            (sql.replace_usage, batch.usage),
            (sql.replace_qos_usage, batch.qos_usage),
            (sql.replace_accounts, [rows.account_values(row) for row in batch.accounts]),
            (sql.replace_users, [rows.flagged_values(row) for row in batch.users]),
            (sql.replace_reservations, [rows.reservation_values(r) for r in batch.reservations]),
            (sql.delete_reservations, [(name,) for name in batch.reservations_gone]),
            (sql.replace_crontabs, [rows.crontab_values(crontab) for crontab in batch.crontabs]),
            (sql.delete_crontabs, [(uid,) for uid in batch.crontabs_gone]),
            (sql.replace_triggers, [rows.trigger_values(trigger) for trigger in batch.triggers]),
            (sql.delete_triggers, [(trigger_id,) for trigger_id in batch.triggers_gone]),
            (sql.insert_audit, batch.audit),
            (sql.insert_txns, batch.txns),
            (sql.replace_wckeys, [rows.flagged_values(row) for row in batch.wckeys]),
            (sql.replace_resources, [rows.flagged_values(row) for row in batch.resources]),
            (sql.replace_tres, batch.tres),
            (sql.replace_node_events, batch.node_events),
            (sql.insert_job_spans, batch.job_spans),
            (sql.replace_reservation_spans, batch.reservation_spans),
            (sql.replace_counters, batch.counters),
        ]

    # ---- reading -------------------------------------------------------------------------------------------------

    def load(self, now_us: int, min_job_age_us: int, submit_key_age_us: int) -> Loaded:
        """What the core starts with: the live queue, and what ended less than `min_job_age_us` ago."""
        with self._writing(), self._engine.begin() as connection:
            one_moment(connection)
            loaded = loader.load(connection, now_us - min_job_age_us, now_us - submit_key_age_us)
        return loaded._replace(seen_at_us=self._seen_at_us)

    def spec(self, spec_hash: bytes) -> SpecRow | None:
        """A submission's script, arguments and environment. From any thread."""
        with self._translated(), self._reader.connect() as connection:
            return loader.spec(connection, spec_hash)

    def history(self, job_id: int) -> list[HistoryRow]:
        """What happened to a job, oldest first. From any thread."""
        with self._translated(), self._reader.connect() as connection:
            return loader.history(connection, job_id)

    # ---- errors --------------------------------------------------------------------------------------------------

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
            raise kind(f"database {self._place}: {said}") from error
        except PoolTimeout as error:
            raise StoreError(f"database {self._place}: all connections for look-ups are in use") from error
