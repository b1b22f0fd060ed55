"""The controller's own tables, beside those it shares with accounting (accounting/schema.py, same METADATA).

`meta` has one row. It is the fence: every transaction updates it under the condition that this controller still leads
and that the previous batch was the last one, so two controllers on one database cannot both write.
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
    STEP_PROFILE,
    TRES,
    TXN,
    WCKEY,
)
from accounting.tables import JOB_SPAN, NODE_EVENT, RESERVATION_SPAN

#: The value of `meta.name` in a database of Penstock.
SCHEMA_NAME = "penstock"

NODE = Table(
    "node",
    METADATA,
    # made by tools/records: columns of node
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
    Column("resume_after_us", BigInteger, nullable=False, server_default="0"),  # of its automatic resumption; 0 = none
    Column("instance_id", Text, nullable=False, server_default=""),  # of a machine in a cloud
    Column("instance_type", Text, nullable=False, server_default=""),
    # end of what is made
)

#: The use of a budget in a period, in ctld.core.records.budget_book's amounts (as text: they are large), as of a
#: moment.
BUDGET_USE = Table(
    "budget_use",
    METADATA,
    # made by tools/records: columns of budget_use
    Column("assoc_id", BigInteger, primary_key=True),  # of the account
    Column("unit", Text, primary_key=True),
    Column("period", Text, primary_key=True),
    Column("start_us", BigInteger, primary_key=True),
    Column("end_us", BigInteger, nullable=False),  # 0 = never
    Column("used", Text, nullable=False),  # as of
    Column("at_us", BigInteger, nullable=False),
    # end of what is made
)

PARTITION_STATE = Table(
    "partition_state",
    METADATA,
    # made by tools/records: columns of partition_state
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),
    # end of what is made
)

TOKEN_REVOCATION = Table(
    "token_revocation",
    METADATA,
    # made by tools/records: columns of token_revocation
    Column("user_name", Text, primary_key=True),  # "" = everybody
    Column("at_us", BigInteger, nullable=False),
    # end of what is made
)

PERSONAL_TOKEN = Table(
    "personal_token",
    METADATA,
    # made by tools/records: columns of personal_token
    Column("token_id", Text, primary_key=True),  # the claim of the token that refers to it
    Column("user_name", Text, nullable=False),
    Column("name", Text, nullable=False),  # unique among those of its user
    Column("scope", Integer, nullable=False),  # penstock.values.scopes.Scope
    Column("created_at_us", BigInteger, nullable=False),
    Column("ends_at_us", BigInteger, nullable=False),
    Column("used_at_us", BigInteger, nullable=False),  # when a use was last noted; 0 = never
    Column("used_from", Text, nullable=False),  # the address of that use
    # end of what is made
)

#: Changes of the configuration by hand. `record` is JSON of penstock.values.amendment.Amendment.
AMENDMENT = Table(
    "amendment",
    METADATA,
    Column("kind", Text, primary_key=True),  # node, partition
    Column("name", Text, primary_key=True),
    Column("place", Integer, nullable=False),  # they are applied in this order
    Column("record", LargeBinary, nullable=False),
)

#: Present and future reservations; past ones are deleted. `record` is JSON of
#: ctld.core.records.reservation.Reservation.
RESERVATION = Table(
    "reservation",
    METADATA,
    # made by tools/records: columns of reservation
    Column("name", Text, primary_key=True),
    Column("resv_id", Integer, nullable=False),  # rises with each creation
    Column("start_at_us", BigInteger, nullable=False),
    Column("end_at_us", BigInteger, nullable=False),
    Column("flags", BigInteger, nullable=False),
    Column("record", LargeBinary, nullable=False),
    # end of what is made
)

#: Append-only. `history_id` orders rows of the same time.
JOB_HISTORY = Table(
    "job_history",
    METADATA,
    # made by tools/records: columns of job_history
    Column("history_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at_us", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("event", Text, nullable=False),
    Column("detail", Text, nullable=False),
    # end of what is made
)
Index("job_history_job", JOB_HISTORY.c.job_id)

QOS = Table(
    "qos",
    METADATA,
    # made by tools/records: columns of qos
    Column("name", Text, primary_key=True),
    Column("description", Text, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("preempt", Text, nullable=False),  # separated by commas
    Column("preempt_mode", Text, nullable=False),  # separated by commas
    Column("grace_time_s", BigInteger, nullable=False),
    Column("preempt_exempt_time_s", BigInteger, nullable=False),  # -1 = the cluster's
    Column("flags", Text, nullable=False),  # separated by commas
    Column("usage_factor_ppm", BigInteger, nullable=False),  # UsageFactor in millionths
    Column("limits", Text, nullable=False, server_default="{}"),  # JSON: penstock.values.limits.texts
    Column("usage_threshold_ppm", BigInteger, nullable=False, server_default="-1"),
    Column("limit_factor_ppm", BigInteger, nullable=False, server_default="-1"),  # LimitFactor likewise
    Column("qos_id", Integer, nullable=False, server_default="0"),  # Slurm's number of it; `normal` has 1
    Column("deleted", Integer, nullable=False, server_default="0"),
    # end of what is made
)

#: The usage of a QOS's jobs: JSON of ctld.core.state.spent_minutes.Spent. Written where limits are enforced, with the
#: jobs' rows.
QOS_USAGE = Table(
    "qos_usage",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("tres", Text, nullable=False),
)

#: GPUs that nodes have reported. `record` is JSON of ctld.core.records.gpu.Gpu.
GPU = Table(
    "gpu",
    METADATA,
    # made by tools/records: columns of gpu
    Column("node", Text, primary_key=True),
    Column("uuid", Text, primary_key=True),
    Column("slot", Integer, nullable=False),
    Column("state", Integer, nullable=False),  # penstock.values.gpustates
    Column("reason", Text, nullable=False),
    Column("record", LargeBinary, nullable=False),
    # end of what is made
)

#: One row a user; `jobs` and `disabled` are JSON of ctld.core.records.periodic.Crontab.
CRONTAB = Table(
    "crontab",
    METADATA,
    # made by tools/records: columns of crontab
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    Column("user_name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("jobs", Text, nullable=False),
    Column("disabled", Text, nullable=False),  # lines of entries whose job was cancelled
    Column("changed_at_us", BigInteger, nullable=False),
    # end of what is made
)

#: Triggers of strigger. `record` is JSON of ctld.core.records.periodic.Trigger.
EVENT_TRIGGER = Table(
    "event_trigger",
    METADATA,
    # made by tools/records: columns of event_trigger
    Column("trigger_id", BigInteger, primary_key=True, autoincrement=False),
    Column("uid", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),  # 0 = of no job
    Column("kinds", Integer, nullable=False),  # ctld.core.records.periodic.TriggerKind
    Column("record", LargeBinary, nullable=False),
    # end of what is made
)

#: Counters of numbers that are never reused: the last one assigned, by its kind. And when the database may last have
#: lost something (loader.LOSS), and from where on, while nodes are waited for (ctld.core.records.gap.OpenGap).
COUNTER = Table(
    "counter",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

#: Events for deliveries (ctld/delivery): written with the batch that is their cause, deleted when every receiver has them.
OUTBOX = Table(
    "outbox",
    METADATA,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),  # rises; the epoch, then a count
    Column("at_us", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),  # JSON
)

#: The last event that each receiver has.
DELIVERY_CURSOR = Table(
    "delivery_cursor",
    METADATA,
    Column("receiver", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
)

META = Table(
    "meta",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("name", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),  # of the last batch of this leadership
    Column("epoch", BigInteger, nullable=False),  # incremented with every leadership
    Column("holder", Text, nullable=False),  # "" = there never was a leader
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
    "DELIVERY_CURSOR",
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
    "OUTBOX",
    "PARTITION_STATE",
    "PERSONAL_TOKEN",
    "QOS",
    "QOS_USAGE",
    "RESERVATION",
    "RESERVATION_SPAN",
    "RESOURCE",
    "SCHEMA_NAME",
    "STEP",
    "STEP_PROFILE",
    "TOKEN_REVOCATION",
    "TRES",
    "TXN",
    "WCKEY",
]
