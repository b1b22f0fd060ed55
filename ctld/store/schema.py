"""The controller's own tables, beside those it shares with accounting (accounting/schema.py, same METADATA).

`meta` has one row. It is the fence: every transaction changes it under the condition that this controller still leads
and that the batch before was the last one, so two controllers on one database can not both write.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from accounting.schema import (
    ACCOUNT,
    ACCOUNT_USER,
    ASSOC,
    ASSOC_USAGE,
    AUDIT,
    ENDED_FROM,
    JOB,
    JOB_REQUEST,
    JOB_SPEC,
    METADATA,
    RESOURCE,
    STEP,
    TRES,
    TXN,
    WCKEY,
)
from accounting.tables import JOB_SPAN, NODE_EVENT, RESERVATION_SPAN

#: What `meta.name` says in a database of ours.
SCHEMA_NAME = "penstock"

NODE = Table(
    "node",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("flags", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("reason_uid", BigInteger, nullable=False),
    Column("reason_at_us", BigInteger, nullable=False),
    Column("comment", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("spool_id", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("last_busy_at_us", BigInteger, nullable=False),
    Column("extra", Text, nullable=False, server_default=""),
    Column("resume_after_us", BigInteger, nullable=False, server_default="0"),  # 0 = not by itself
)

#: What was used of a budget in a period, in ctld.core.budget_book's amounts (as text: they are large), as of a moment.
BUDGET_USE = Table(
    "budget_use",
    METADATA,
    Column("assoc_id", BigInteger, primary_key=True, autoincrement=False),  # of the account
    Column("unit", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("start_us", BigInteger, primary_key=True, autoincrement=False),
    Column("end_us", BigInteger, nullable=False),  # 0 = never
    Column("used", Text, nullable=False),
    Column("at_us", BigInteger, nullable=False),
)

PARTITION_STATE = Table(
    "partition_state",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),
)

#: What was changed of the configuration by hand. `record` is JSON of penstock.values.amendment.Amendment.
AMENDMENT = Table(
    "amendment",
    METADATA,
    Column("kind", Text, primary_key=True),  # node, partition
    Column("name", Text, primary_key=True),
    Column("place", Integer, nullable=False),  # they are applied in this order
    Column("record", LargeBinary, nullable=False),
)

#: Reservations that are or will be; one that is over is gone. `record` is JSON of ctld.core.model.Reservation.
RESERVATION = Table(
    "reservation",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("resv_id", Integer, nullable=False),  # rises with each creation
    Column("start_at_us", BigInteger, nullable=False),
    Column("end_at_us", BigInteger, nullable=False),
    Column("flags", BigInteger, nullable=False),
    Column("record", LargeBinary, nullable=False),
)

#: Append-only. `history_id` orders what has the same time.
JOB_HISTORY = Table(
    "job_history",
    METADATA,
    Column("history_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at_us", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("event", Text, nullable=False),
    Column("detail", Text, nullable=False),
)
Index("job_history_job", JOB_HISTORY.c.job_id)

QOS = Table(
    "qos",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("description", Text, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("preempt", Text, nullable=False),  # comma list
    Column("preempt_mode", Text, nullable=False),  # comma list; "" = the cluster's
    Column("grace_time_s", BigInteger, nullable=False),
    Column("preempt_exempt_time_s", BigInteger, nullable=False),  # -1 = the cluster's
    Column("flags", Text, nullable=False),  # comma list
    Column("usage_factor_ppm", BigInteger, nullable=False),
    Column("limits", Text, nullable=False, server_default="{}"),  # JSON: penstock.values.limits.texts
    Column("usage_threshold_ppm", BigInteger, nullable=False, server_default="-1"),
    Column("limit_factor_ppm", BigInteger, nullable=False, server_default="-1"),
    Column("qos_id", Integer, nullable=False, server_default="0"),
    Column("deleted", Integer, nullable=False, server_default="0"),
)

#: What the jobs of a QOS have used: JSON of ctld.core.spent.Spent. Written where limits are enforced, with the jobs' rows.
QOS_USAGE = Table(
    "qos_usage",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("tres", Text, nullable=False),
)

#: GPUs that nodes have named. `record` is JSON of ctld.core.gpu_model.Gpu.
GPU = Table(
    "gpu",
    METADATA,
    Column("node", Text, primary_key=True),
    Column("uuid", Text, primary_key=True),
    Column("slot", Integer, nullable=False),
    Column("state", Integer, nullable=False),  # penstock.values.gpustates
    Column("reason", Text, nullable=False),
    Column("record", LargeBinary, nullable=False),
)

#: One row a user; `jobs` and `disabled` are JSON of ctld.core.periodic.Crontab.
CRONTAB = Table(
    "crontab",
    METADATA,
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    Column("user_name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("jobs", Text, nullable=False),
    Column("disabled", Text, nullable=False),
    Column("changed_at_us", BigInteger, nullable=False),
)

#: Triggers of strigger. `record` is JSON of ctld.core.periodic.Trigger.
EVENT_TRIGGER = Table(
    "event_trigger",
    METADATA,
    Column("trigger_id", BigInteger, primary_key=True, autoincrement=False),
    Column("uid", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),  # 0 = of no job
    Column("kinds", Integer, nullable=False),  # ctld.core.periodic.TriggerKind
    Column("record", LargeBinary, nullable=False),
)

#: Numbers that are given once and never again, though what had them is gone: the last one given, by its kind.
COUNTER = Table(
    "counter",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

META = Table(
    "meta",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("name", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),  # of the last batch of this leadership
    Column("epoch", BigInteger, nullable=False),  # rises with every leadership
    Column("holder", Text, nullable=False),  # "" = nobody has ever led
    Column("expires_at_us", BigInteger, nullable=False),
    Column("next_job_id", BigInteger, nullable=False),
    Column("next_request_id", BigInteger, nullable=False),
    Column("created_at_us", BigInteger, nullable=False),
    Column("seen_at_us", BigInteger, nullable=False, server_default="0"),  # when a leader last renewed its lease
)

__all__ = [
    "ACCOUNT",
    "ACCOUNT_USER",
    "AMENDMENT",
    "ASSOC",
    "ASSOC_USAGE",
    "AUDIT",
    "BUDGET_USE",
    "COUNTER",
    "CRONTAB",
    "ENDED_FROM",
    "EVENT_TRIGGER",
    "GPU",
    "JOB",
    "JOB_HISTORY",
    "JOB_REQUEST",
    "JOB_SPAN",
    "JOB_SPEC",
    "META",
    "METADATA",
    "NODE",
    "NODE_EVENT",
    "PARTITION_STATE",
    "QOS",
    "QOS_USAGE",
    "RESERVATION",
    "RESERVATION_SPAN",
    "RESOURCE",
    "SCHEMA_NAME",
    "STEP",
    "TRES",
    "TXN",
    "WCKEY",
]
