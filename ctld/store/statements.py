"""The SQL statements of a commit: SQLAlchemy writes their text once, the driver runs it.

Parameters are positional, in the order of the columns of the table (and of the key, in an update's condition), or all
rows are one parameter, where the database supports that. The compiled text is checked for this order once in a process
for each database system, when its first store opens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Any: SQLAlchemy's compiled statements, whose parts used here have no types
from typing import Any

from sqlalchemy import Column, Engine, Executable, Table, bindparam, delete, select, update
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.elements import CompilerElement

from ctld.core.records.step import PLAIN_COLUMNS
from ctld.store.dialect_type import ROWS, Dialect, Many
from ctld.store.rows import JOB_LIFE_COLUMNS
from ctld.store.schema import (
    ACCOUNT,
    ACCOUNT_USER,
    AMENDMENT,
    ASSOC,
    ASSOC_USAGE,
    AUDIT,
    BUDGET_USE,
    COUNTER,
    CRONTAB,
    EVENT_TRIGGER,
    GPU,
    JOB,
    JOB_HISTORY,
    JOB_REQUEST,
    JOB_SPAN,
    JOB_SPEC,
    META,
    NODE,
    NODE_EVENT,
    OUTBOX,
    PARTITION_STATE,
    PERSONAL_TOKEN,
    QOS,
    QOS_USAGE,
    RESERVATION,
    RESERVATION_SPAN,
    RESOURCE,
    STEP,
    STEP_PROFILE,
    TOKEN_REVOCATION,
    TRES,
    TXN,
    WCKEY,
)


@dataclass(frozen=True)
class Statements:
    """Compiled text of all statements of a commit."""

    fence: str
    last_batch: str  # epoch and number of the last batch
    insert_jobs: Many
    replace_jobs: Many
    update_jobs: Many
    insert_requests: Many
    insert_specs: Many
    replace_steps: Many  # plain ones, by their first columns
    replace_spread_steps: Many
    replace_nodes: Many
    replace_partitions: Many
    replace_amendments: Many
    replace_budgets: Many
    delete_amendments: Many
    insert_history: Many
    replace_assocs: Many
    replace_usage: Many
    replace_qos_usage: Many
    replace_accounts: Many
    replace_users: Many
    replace_reservations: Many
    delete_reservations: Many
    replace_gpus: Many
    delete_gpus: Many
    replace_qos: Many
    delete_qos: Many
    replace_crontabs: Many
    delete_crontabs: Many
    replace_triggers: Many
    delete_triggers: Many
    insert_audit: Many
    insert_txns: Many
    replace_wckeys: Many
    replace_resources: Many
    replace_tres: Many
    replace_node_events: Many
    insert_job_spans: Many
    replace_profiles: Many
    replace_reservation_spans: Many
    replace_counters: Many
    replace_token_revocations: Many
    replace_personal_tokens: Many
    delete_personal_tokens: Many
    insert_outbox: Many


class _Compiler:
    """Writes statements as text, for one database system."""

    def __init__(self, kind: type[DefaultDialect], dialect: Dialect) -> None:
        self._dialect = dialect
        self._positional = kind(paramstyle=dialect.paramstyle)

    def text(self, statement: Executable, order: Sequence[str]) -> str:
        """Returns the statement's text with the driver's own marks for parameters, in this order."""
        assert isinstance(statement, CompilerElement)
        compiled: Any = statement.compile(dialect=self._positional)
        assert list(compiled.positiontup or ()) == list(order), compiled.positiontup
        return str(compiled)

    def values(self, columns: Sequence[Column[object]], prefix: str = "") -> tuple[dict[str, Any], list[str]]:
        """Returns the values of the columns, and the order of parameters: one for each, or all in one."""
        if self._dialect.given is None:
            names = [prefix + column.name for column in columns]
            return {column.name: bindparam(name) for column, name in zip(columns, names, strict=True)}, names
        given = self._dialect.given(columns)
        return {column.name: one for column, one in zip(columns, given.c, strict=True)}, [ROWS]

    def insert(self, table: Table, columns: int | None = None, **keywords: object) -> Many:
        """Inserts rows of a table's first columns. ignore: except existing ones; replace: overwriting existing ones."""
        news, order = self.values(_written(table)[:columns])
        statement = self._dialect.insert(table)
        if self._dialect.given is None:
            statement = statement.values(news)
        else:
            statement = statement.from_select(list(news), select(*news.values()))
        if keywords.get("ignore"):
            statement = statement.on_conflict_do_nothing()
        if not keywords.get("replace"):
            return Many(self.text(statement, order))
        keys = [column.name for column in table.primary_key]
        assert keys == list(news)[: len(keys)]
        others = {name: statement.excluded[name] for name in news if name not in keys}
        statement = statement.on_conflict_do_update(index_elements=keys, set_=others)
        return Many(self.text(statement, order), slice(len(keys)))

    def delete_rows(self, table: Table, *keys: str) -> Many:
        """Deletes rows."""
        found, order = self.values([table.c[key] for key in keys], "key_")
        return Many(self.text(delete(table).where(*(table.c[key] == one for key, one in found.items())), order))

    def change_jobs(self) -> Many:
        """Updates the columns that change in a job's life."""
        life = JOB_LIFE_COLUMNS
        keys = ("job_id", "attempt")
        news, order = self.values([*(JOB.c[name] for name in life), *(JOB.c[key] for key in keys)])
        change = update(JOB).values({name: news[name] for name in life})
        change = change.where(*(JOB.c[key] == news[key] for key in keys))
        return Many(self.text(change, order), slice(-len(keys), None))


#: By database system.
_COMPILED: dict[Dialect, Statements] = {}


def compile_statements(engine: Engine, dialect: Dialect) -> Statements:
    """Returns all statements for the engine's database."""
    kind = type(engine.dialect)
    assert issubclass(kind, DefaultDialect)
    if dialect not in _COMPILED:
        _COMPILED[dialect] = _compile(kind, dialect)
    return _COMPILED[dialect]


def _compile(kind: type[DefaultDialect], dialect: Dialect) -> Statements:
    compiler = _Compiler(kind, dialect)
    text = compiler.text
    insert = compiler.insert
    delete_rows = compiler.delete_rows
    return Statements(
        fence=text(_fence(), _FENCE_ORDER),
        last_batch=text(select(META.c.epoch, META.c.sequence).with_for_update(), ()),
        insert_jobs=insert(JOB),
        replace_jobs=insert(JOB, replace=True),
        update_jobs=compiler.change_jobs(),
        insert_requests=insert(JOB_REQUEST),
        insert_specs=insert(JOB_SPEC, ignore=True),
        replace_steps=insert(STEP, PLAIN_COLUMNS, replace=True),
        replace_spread_steps=insert(STEP, replace=True),
        replace_nodes=insert(NODE, replace=True),
        replace_partitions=insert(PARTITION_STATE, replace=True),
        replace_amendments=insert(AMENDMENT, replace=True),
        replace_budgets=insert(BUDGET_USE, replace=True),
        delete_amendments=delete_rows(AMENDMENT, "kind", "name"),
        insert_history=insert(JOB_HISTORY),
        replace_assocs=insert(ASSOC, replace=True),
        replace_usage=insert(ASSOC_USAGE, replace=True),
        replace_qos_usage=insert(QOS_USAGE, replace=True),
        replace_accounts=insert(ACCOUNT, replace=True),
        replace_users=insert(ACCOUNT_USER, replace=True),
        replace_reservations=insert(RESERVATION, replace=True),
        delete_reservations=delete_rows(RESERVATION, "name"),
        replace_gpus=insert(GPU, replace=True),
        delete_gpus=delete_rows(GPU, "node", "uuid"),
        replace_qos=insert(QOS, replace=True),
        delete_qos=delete_rows(QOS, "name"),
        replace_crontabs=insert(CRONTAB, replace=True),
        delete_crontabs=delete_rows(CRONTAB, "uid"),
        replace_triggers=insert(EVENT_TRIGGER, replace=True),
        delete_triggers=delete_rows(EVENT_TRIGGER, "trigger_id"),
        insert_audit=insert(AUDIT),
        insert_txns=insert(TXN),
        replace_wckeys=insert(WCKEY, replace=True),
        replace_resources=insert(RESOURCE, replace=True),
        replace_tres=insert(TRES, replace=True),
        replace_node_events=insert(NODE_EVENT, replace=True),
        insert_job_spans=insert(JOB_SPAN, ignore=True),
        replace_profiles=insert(STEP_PROFILE, replace=True),
        replace_reservation_spans=insert(RESERVATION_SPAN, replace=True),
        replace_counters=insert(COUNTER, replace=True),
        replace_token_revocations=insert(TOKEN_REVOCATION, replace=True),
        replace_personal_tokens=insert(PERSONAL_TOKEN, replace=True),
        delete_personal_tokens=delete_rows(PERSONAL_TOKEN, "token_id"),
        insert_outbox=insert(OUTBOX),
    )


_FENCE_ORDER = ("sequence", "new_epoch", "next_job_id", "next_request_id", "ours", "previous")


def _fence() -> Executable:
    """Returns the condition of the leader that wrote the previous batch."""
    values: dict[str, object] = {name: bindparam(name) for name in ("sequence", "next_job_id", "next_request_id")}
    statement = update(META).values(values | {"epoch": bindparam("new_epoch")})
    return statement.where(META.c.epoch == bindparam("ours"), META.c.sequence == bindparam("previous"))


def _written(table: Table) -> list[Column[object]]:
    """Returns the columns of a row, except the number that the database assigns."""
    return [c for c in table.columns if c is not table.autoincrement_column]
