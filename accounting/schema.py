"""Tables that the queue and accounting share: a job's end and the record it is charged from are one row.

The controller alone writes them (ctld.store); accounting reads. All tables of the database are in `METADATA`, those
that are the controller's own are added by ctld/store/schema.py. Changes of a table come with a migration
(ctld/store/migrations), and a test compares the two.

Rules
    - Times are whole microseconds since 1970 (UTC); 0 = has not happened.
    - States are the numbers of penstock.values.states; what counts as active is a range of them, so that one partial
      index holds exactly the live queue and a restart never reads history.
    - What can be asked for in a query is a column; what is only shown is JSON.
    - No foreign keys: one writer writes rows of one batch in one transaction, and checks would cost it a lookup each.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    literal_column,
)

from penstock.values.states import JobState

METADATA = MetaData()

#: The first state number that is an end: `state < ENDED_FROM` is the condition of the partial index, so it must be
#: written in queries as this very number and not as a bound parameter.
ENDED_FROM = int(JobState.COMPLETED)
_ENDED_FROM: ColumnElement[int] = literal_column(str(ENDED_FROM))
_ZERO: ColumnElement[int] = literal_column("0")

JOB = Table(
    "job",
    METADATA,
    Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("array_job_id", BigInteger, nullable=False),
    Column("request_id", BigInteger, nullable=False),
    Column("spec_hash", LargeBinary, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("group_id", BigInteger, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("group_name", Text, nullable=False),
    Column("submit_at_us", BigInteger, nullable=False),
    # from the request
    Column("name", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("qos", Text, nullable=False),
    Column("nodes_req", Integer, nullable=False),
    Column("cpus_req", BigInteger, nullable=False),
    Column("tres_req", Text, nullable=False),
    # what changes in a job's life
    Column("array_task_id", Integer),
    Column("array_tasks", Text),  # pending tasks that the row stands for, as 0-9,12
    Column("array_throttle", Integer, nullable=False),
    Column("partition", Text, nullable=False),
    Column("state", Integer, nullable=False),
    Column("end_state", Integer),
    Column("reason", Text, nullable=False),
    Column("reason_detail", Text, nullable=False),
    Column("hold", Integer, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("dependency", Text, nullable=False),
    Column("eligible_at_us", BigInteger, nullable=False),
    Column("start_at_us", BigInteger, nullable=False),
    Column("end_at_us", BigInteger, nullable=False),
    Column("time_limit_s", BigInteger, nullable=False),
    Column("alloc", Text, nullable=False),  # JSON: [[node, cpus, mem_mb, tasks, [[name, type, hex mask], ...]], ...]
    Column("batch_node", Text, nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("exit_signal", Integer, nullable=False),
    Column("derived_code", Integer, nullable=False),
    Column("derived_signal", Integer, nullable=False),
    Column("cancelled_by_uid", BigInteger, nullable=False),
    Column("failed_node", Text, nullable=False),
    Column("admin_comment", Text, nullable=False),
    Column("tres_alloc", Text, nullable=False),
    # from the allocation
    Column("nodes_alloc", Integer, nullable=False),
    Column("cpus_alloc", BigInteger, nullable=False),
    Column("node_list", Text, nullable=False),  # a compressed hostlist
    # suspension and preemption
    Column("suspended_by", Integer, nullable=False, server_default="0"),
    Column("suspended_us", BigInteger, nullable=False, server_default="0"),
    Column("suspended_at_us", BigInteger, nullable=False, server_default="0"),
    Column("preempt_at_us", BigInteger, nullable=False, server_default="0"),
    Column("preempt_end_at_us", BigInteger, nullable=False, server_default="0"),
    Column("preemptor_id", BigInteger, nullable=False, server_default="0"),
    # of a heterogeneous job; they never change
    Column("het_job_id", BigInteger, nullable=False, server_default="0"),
    Column("het_offset", Integer, nullable=False, server_default="0"),
    # of accounting
    Column("wckey", Text, nullable=False, server_default=""),  # from the request
    Column("assoc_id", BigInteger, nullable=False, server_default="0"),  # changes with account and partition
    Column("borrowed", Integer, nullable=False, server_default="0"),  # it runs on what other accounts lend
    PrimaryKeyConstraint("job_id", "attempt"),
)
# Each index is partial where that keeps rows out of it that no query looks for there: every entry is paid for at
# every submission or end.
Index("job_active", JOB.c.job_id, JOB.c.attempt, sqlite_where=JOB.c.state < _ENDED_FROM,
      postgresql_where=JOB.c.state < _ENDED_FROM)  # fmt: skip
Index("job_end", JOB.c.end_at_us, sqlite_where=JOB.c.end_at_us > _ZERO, postgresql_where=JOB.c.end_at_us > _ZERO)
Index("job_user_end", JOB.c.user_id, JOB.c.end_at_us, sqlite_where=JOB.c.end_at_us > _ZERO,
      postgresql_where=JOB.c.end_at_us > _ZERO)  # fmt: skip
Index("job_name", JOB.c.name)
Index("job_array", JOB.c.array_job_id, sqlite_where=JOB.c.array_job_id > _ZERO,
      postgresql_where=JOB.c.array_job_id > _ZERO)  # fmt: skip

Index("job_het", JOB.c.het_job_id, sqlite_where=JOB.c.het_job_id > _ZERO,
      postgresql_where=JOB.c.het_job_id > _ZERO)  # fmt: skip

#: What a user asked for, written once: all tasks of an array share it, and a change makes a new one.
JOB_REQUEST = Table(
    "job_request",
    METADATA,
    Column("request_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, nullable=False),  # the job for which it was made
    Column("submit_key", Text, nullable=False),  # of that job; "" = the job was not submitted, but split off an array
    Column("submitted_at_us", BigInteger, nullable=False),
    Column("request", LargeBinary, nullable=False),  # JSON of ctld.core.model.JobRequest
)
Index("job_request_submitted", JOB_REQUEST.c.submitted_at_us)

#: The bulky part of a submission, once by content.
JOB_SPEC = Table(
    "job_spec",
    METADATA,
    Column("spec_hash", LargeBinary, primary_key=True),
    Column("script", LargeBinary, nullable=False),
    Column("argv", LargeBinary, nullable=False),  # each string followed by a NUL
    Column("environment", LargeBinary, nullable=False),  # likewise
)

STEP = Table(
    "step",
    METADATA,
    Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("step_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("state", Integer, nullable=False),
    Column("node", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("tasks", Integer, nullable=False),
    Column("start_at_us", BigInteger, nullable=False),
    Column("end_at_us", BigInteger, nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("exit_signal", Integer, nullable=False),
    Column("user_cpu_us", BigInteger, nullable=False),
    Column("system_cpu_us", BigInteger, nullable=False),
    Column("max_rss_kb", BigInteger, nullable=False),
    Column("max_vmsize_kb", BigInteger, nullable=False),
    Column("disk_read_bytes", BigInteger, nullable=False),
    Column("disk_write_bytes", BigInteger, nullable=False),
    # of steps of srun and of holders; a batch step has the defaults
    Column("request", LargeBinary),  # JSON of ctld.core.step_model.StepRequest
    Column("parts", Text),  # JSON, one for each node: see ctld/store/steprows.py; NULL = on `node` alone
    Column("spec_hash", LargeBinary),
    Column("step_key", Text, nullable=False, server_default=""),
    Column("node_list", Text, nullable=False, server_default=""),  # a compressed hostlist; "" = `node`
    Column("nodes", Integer, nullable=False, server_default="1"),
    Column("cpus", BigInteger, nullable=False, server_default="0"),  # 0 = all that the job has there
    Column("tres_alloc", Text, nullable=False, server_default=""),
    Column("submit_at_us", BigInteger, nullable=False, server_default="0"),
    Column("time_limit_s", BigInteger, nullable=False, server_default="-1"),
    Column("cancelled_by_uid", BigInteger, nullable=False, server_default="-1"),
    Column("usage", Text, nullable=False, server_default=""),  # JSON: what was sampled, by metric
    Column("note", Text, nullable=False, server_default=""),  # what ended it
    Column("ports", Text, nullable=False, server_default=""),  # with commas
    PrimaryKeyConstraint("job_id", "attempt", "step_id"),
)

#: An account's or a user's place in the tree of shares. What was deleted stays, so that a number is never given twice.
ASSOC = Table(
    "assoc",
    METADATA,
    Column("assoc_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("account", Text, nullable=False),
    Column("user_name", Text, nullable=False),  # "" = the account itself
    Column("parent", Text, nullable=False),
    Column("shares", BigInteger, nullable=False),  # -1 = parent
    Column("priority", BigInteger, nullable=False),
    Column("made_by_itself", Integer, nullable=False),
    Column("deleted", Integer, nullable=False),
    Column("partition", Text, nullable=False, server_default=""),  # "" = for jobs in any
    Column("limits", Text, nullable=False, server_default="{}"),  # JSON: penstock.values.limits.texts
    Column("qos", Text, nullable=False, server_default=""),  # with commas; "" = as the account above
    Column("default_qos", Text, nullable=False, server_default=""),
    Column("created_at_us", BigInteger, nullable=False, server_default="0"),
    Column("budget", Text, nullable=False, server_default=""),  # of an account: penstock.values.budgets
)

#: What was charged to an association itself, in 1/10,000 billing seconds, as it counted at `at_us`. Written when a job
#: starts or ends, in the transaction of that; what time makes of it is computed.
ASSOC_USAGE = Table(
    "assoc_usage",
    METADATA,
    Column("assoc_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("usage", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column(
        "tres", Text, nullable=False, server_default=""
    ),  # JSON: by TRES (ctld.core.spent), where limits are enforced
)

ACCOUNT = Table(
    "account",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("description", Text, nullable=False),
    Column("organization", Text, nullable=False),
    Column("coordinators", Text, nullable=False, server_default=""),  # with commas
    Column("deleted", Integer, nullable=False, server_default="0"),
)

#: Users that somebody has added. (`user` is a word of SQL.)
ACCOUNT_USER = Table(
    "account_user",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("default_account", Text, nullable=False),
    Column("admin_level", Integer, nullable=False, server_default="0"),  # ctld.core.events.Role
    Column("default_wckey", Text, nullable=False, server_default=""),
    Column("deleted", Integer, nullable=False, server_default="0"),
)

#: Wckeys that users may give to their jobs; one for each name and user. What was deleted stays.
WCKEY = Table(
    "wckey",
    METADATA,
    Column("wckey_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("deleted", Integer, nullable=False),
)

#: Licences that accounting knows: of a server outside of the cluster.
RESOURCE = Table(
    "resource",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("server", Text, primary_key=True),
    Column("total", BigInteger, nullable=False),
    Column("allowed_percent", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("manager", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("deleted", Integer, nullable=False),
)

#: Numbers of kinds of TRES. A number is never given to another kind.
TRES = Table(
    "tres",
    METADATA,
    Column("tres_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
)

#: The audit log: append-only, and never purged. `record` is the text that was hashed (ctld.core.audit).
AUDIT = Table(
    "audit",
    METADATA,
    Column("audit_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("record", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
Index("audit_at", AUDIT.c.at_us)

#: Changes of accounting in the words of sacctmgr show transaction.
TXN = Table(
    "txn",
    METADATA,
    Column("txn_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("whom", Text, nullable=False),
    Column("info", Text, nullable=False),
    Column("accounts", Text, nullable=False),  # with commas
    Column("users", Text, nullable=False),  # with commas
)
Index("txn_at", TXN.c.at_us)


def split_strings(joined: bytes) -> tuple[bytes, ...]:
    """`argv` and `environment` as stored, back to strings."""
    return tuple(joined.split(b"\0")[:-1])


def join_strings(strings: tuple[bytes, ...]) -> bytes:
    """Each string followed by a NUL: an empty string and no string stay apart. None of them may hold a NUL."""
    return b"".join(text + b"\0" for text in strings)
