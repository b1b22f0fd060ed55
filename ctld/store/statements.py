"""The statements of a commit: SQLAlchemy writes their text once, the driver runs it.

Parameters are positional, in the order of the columns of the table (and of the key, in an update's condition); that the
compiled text agrees is checked here, once, when the store opens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Engine, Executable, Table, bindparam, delete, select, update
from sqlalchemy.sql.elements import CompilerElement

from ctld.core.step_model import PLAIN_COLUMNS
from ctld.store.dialect import Dialect
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
    PARTITION_STATE,
    QOS,
    QOS_USAGE,
    RESERVATION,
    RESERVATION_SPAN,
    RESOURCE,
    STEP,
    TRES,
    TXN,
    WCKEY,
)

#: Columns of a job that change during its life: from the first to before the second, after which comes what is fixed.
_LIFE_FROM, _LIFE_UNTIL = "array_task_id", "het_job_id"
#: And those that later versions have added at the end of the table.
_LIFE_TOO = ("assoc_id", "borrowed")


@dataclass(frozen=True)
class Statements:
    """Compiled text of everything a commit may run."""

    fence: str
    standing: str  # epoch and number of the last batch
    insert_jobs: str
    replace_jobs: str
    update_jobs: str
    insert_requests: str
    insert_specs: str
    replace_steps: str  # plain ones, by their first columns
    replace_spread_steps: str
    replace_nodes: str
    replace_partitions: str
    replace_amendments: str
    replace_budgets: str
    delete_amendments: str
    insert_history: str
    replace_assocs: str
    replace_usage: str
    replace_qos_usage: str
    replace_accounts: str
    replace_users: str
    replace_reservations: str
    delete_reservations: str
    replace_gpus: str
    delete_gpus: str
    replace_qos: str
    delete_qos: str
    replace_crontabs: str
    delete_crontabs: str
    replace_triggers: str
    delete_triggers: str
    insert_audit: str
    insert_txns: str
    replace_wckeys: str
    replace_resources: str
    replace_tres: str
    replace_node_events: str
    insert_job_spans: str
    replace_reservation_spans: str
    replace_counters: str


def _positional(engine: Engine, dialect: Dialect) -> Any:
    kind: Any = type(engine.dialect)
    return kind(paramstyle=dialect.paramstyle)


def compile_statements(engine: Engine, dialect: Dialect) -> Statements:
    """All statements for the engine's database."""

    def text(statement: Executable, order: Sequence[str]) -> str:
        assert isinstance(statement, CompilerElement)
        compiled: Any = statement.compile(dialect=_positional(engine, dialect))
        assert list(compiled.positiontup or ()) == list(order), compiled.positiontup
        return str(compiled)

    def insert(table: Table, columns: int | None = None, **keywords: Any) -> str:
        names = [c.name for c in _written(table)][:columns]
        statement = dialect.insert(table).values({name: bindparam(name) for name in names})
        if keywords.get("ignore"):
            statement = statement.on_conflict_do_nothing()
        if keywords.get("replace"):
            others = {name: statement.excluded[name] for name in names if not table.c[name].primary_key}
            statement = statement.on_conflict_do_update(index_elements=[c.name for c in table.primary_key], set_=others)
        return text(statement, names)

    def gone(table: Table, *keys: str) -> str:
        condition = [table.c[key] == bindparam(f"key_{key}") for key in keys]
        return text(delete(table).where(*condition), [f"key_{key}" for key in keys])

    names = list(JOB.c.keys())
    life = [*names[names.index(_LIFE_FROM) : names.index(_LIFE_UNTIL)], *_LIFE_TOO]
    change = update(JOB).values({name: bindparam(name) for name in life})
    change = change.where(JOB.c.job_id == bindparam("key_job_id"), JOB.c.attempt == bindparam("key_attempt"))
    return Statements(
        fence=text(_fence(), _FENCE_ORDER),
        standing=text(select(META.c.epoch, META.c.sequence).with_for_update(), ()),
        insert_jobs=insert(JOB),
        replace_jobs=insert(JOB, replace=True),
        update_jobs=text(change, [*life, "key_job_id", "key_attempt"]),
        insert_requests=insert(JOB_REQUEST),
        insert_specs=insert(JOB_SPEC, ignore=True),
        replace_steps=insert(STEP, PLAIN_COLUMNS, replace=True),
        replace_spread_steps=insert(STEP, replace=True),
        replace_nodes=insert(NODE, replace=True),
        replace_partitions=insert(PARTITION_STATE, replace=True),
        replace_amendments=insert(AMENDMENT, replace=True),
        replace_budgets=insert(BUDGET_USE, replace=True),
        delete_amendments=gone(AMENDMENT, "kind", "name"),
        insert_history=insert(JOB_HISTORY),
        replace_assocs=insert(ASSOC, replace=True),
        replace_usage=insert(ASSOC_USAGE, replace=True),
        replace_qos_usage=insert(QOS_USAGE, replace=True),
        replace_accounts=insert(ACCOUNT, replace=True),
        replace_users=insert(ACCOUNT_USER, replace=True),
        replace_reservations=insert(RESERVATION, replace=True),
        delete_reservations=gone(RESERVATION, "name"),
        replace_gpus=insert(GPU, replace=True),
        delete_gpus=gone(GPU, "node", "uuid"),
        replace_qos=insert(QOS, replace=True),
        delete_qos=gone(QOS, "name"),
        replace_crontabs=insert(CRONTAB, replace=True),
        delete_crontabs=gone(CRONTAB, "uid"),
        replace_triggers=insert(EVENT_TRIGGER, replace=True),
        delete_triggers=gone(EVENT_TRIGGER, "trigger_id"),
        insert_audit=insert(AUDIT),
        insert_txns=insert(TXN),
        replace_wckeys=insert(WCKEY, replace=True),
        replace_resources=insert(RESOURCE, replace=True),
        replace_tres=insert(TRES, replace=True),
        replace_node_events=insert(NODE_EVENT, replace=True),
        insert_job_spans=insert(JOB_SPAN, ignore=True),
        replace_reservation_spans=insert(RESERVATION_SPAN, replace=True),
        replace_counters=insert(COUNTER, replace=True),
    )


_FENCE_ORDER = ("sequence", "next_job_id", "next_request_id", "epoch", "previous")


def _fence() -> Executable:
    """Goes on only as the leader that wrote the batch before."""
    statement = update(META).values({name: bindparam(name) for name in _FENCE_ORDER[:3]})
    return statement.where(META.c.epoch == bindparam("epoch"), META.c.sequence == bindparam("previous"))


def _written(table: Table) -> list[Column[Any]]:
    """The columns that a row brings: all but the number that the database gives."""
    return [c for c in table.columns if c is not table.autoincrement_column]
