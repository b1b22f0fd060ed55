"""Tables that the queue and accounting share: a job and its accounting record are one row.

The controller alone writes them (ctld.store); accounting reads. All tables of the database are in `METADATA`, those
that are the controller's own are added by ctld/store/schema.py. Changes of a table come with a migration
(ctld/store/migrations), and a test compares the two. Columns of stored records are declared in tools/records, which
writes them here.

Rules
    - Times are whole microseconds since 1970 (UTC); 0 = has not happened.
    - States are the numbers of penstock.values.states; the active ones are a range of them, so that one partial index
      contains exactly the live queue and a restart never reads history.
    - Values that queries filter by are columns; values that are only shown are JSON.
    - No foreign keys: one writer writes the rows of a batch in one transaction, and checks would cost a lookup each.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
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


def _partial(name: str, *columns: ColumnElement[object], where: ColumnElement[bool]) -> Index:
    """A partial index. `where` is an option of SQLite here; `for_postgresql` makes it one of PostgreSQL, too."""
    return Index(name, *columns, sqlite_where=where, info={"where": where})


def for_postgresql(index: Index) -> Index:
    """Gives an index its condition for PostgreSQL.

    Not done when the tables are declared: SQLAlchemy imports a dialect to check its options, and that of PostgreSQL
    takes 3 MB and a fortieth of the time of the imports, for nothing where the database is SQLite.
    """
    if "where" in index.info:
        index.dialect_options["postgresql"]["where"] = index.info["where"]
    return index


JOB = Table(
    "job",
    METADATA,
    # made by tools/records: columns of job
    Column("job_id", BigInteger, primary_key=True),
    Column("attempt", Integer, primary_key=True),  # 0 = first run; SLURM_RESTART_COUNT
    Column("array_job_id", BigInteger, nullable=False),  # 0 = not of an array
    Column("request_id", BigInteger, nullable=False),
    Column("spec_hash", LargeBinary, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("group_id", BigInteger, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("group_name", Text, nullable=False),
    Column("submit_at_us", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("qos", Text, nullable=False),
    Column("nodes_req", Integer, nullable=False),
    Column("cpus_req", BigInteger, nullable=False),
    Column("tres_req", Text, nullable=False),
    Column("array_task_id", Integer),
    Column("array_tasks", Text),  # as 0-9,12
    Column("array_throttle", Integer, nullable=False),  # %limit, 0 = none
    Column("partition", Text, nullable=False),  # where it runs, or the first of the list it may run in
    Column("state", Integer, nullable=False),
    Column("end_state", Integer),  # while COMPLETING: its later state
    Column("reason", Text, nullable=False),
    Column("reason_detail", Text, nullable=False),
    Column("hold", Integer, nullable=False),
    Column("priority", BigInteger, nullable=False),  # higher first; 0 = held
    Column("dependency", Text, nullable=False),  # the unmet terms
    Column("eligible_at_us", BigInteger, nullable=False),  # 0 = not yet
    Column("start_at_us", BigInteger, nullable=False),  # 0 = not started
    Column("end_at_us", BigInteger, nullable=False),  # 0 = not ended
    Column("time_limit_s", BigInteger, nullable=False),  # -1 = UNLIMITED
    Column("alloc", Text, nullable=False),  # JSON: [[node, cpus, mem_mb, tasks, [[name, type, hex mask], ...]], ...]
    Column("batch_node", Text, nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("exit_signal", Integer, nullable=False),
    Column("derived_code", Integer, nullable=False),
    Column("derived_signal", Integer, nullable=False),
    Column("cancelled_by_uid", BigInteger, nullable=False),  # -1 = no user
    Column("failed_node", Text, nullable=False),
    Column("admin_comment", Text, nullable=False),
    Column("tres_alloc", Text, nullable=False),
    Column("nodes_alloc", Integer, nullable=False),
    Column("cpus_alloc", BigInteger, nullable=False),
    Column("node_list", Text, nullable=False),  # a compressed hostlist
    Column("suspended_by", Integer, nullable=False, server_default="0"),
    Column("suspended_us", BigInteger, nullable=False, server_default="0"),
    Column("suspended_at_us", BigInteger, nullable=False, server_default="0"),
    Column("preempt_at_us", BigInteger, nullable=False, server_default="0"),
    Column("preempt_end_at_us", BigInteger, nullable=False, server_default="0"),  # when its GraceTime ends
    Column("preemptor_id", BigInteger, nullable=False, server_default="0"),
    Column("het_job_id", BigInteger, nullable=False, server_default="0"),
    Column("het_offset", Integer, nullable=False, server_default="0"),
    Column("wckey", Text, nullable=False, server_default=""),
    Column("assoc_id", BigInteger, nullable=False, server_default="0"),
    Column("borrowed", Integer, nullable=False, server_default="0"),
    Column("completing_at_us", BigInteger, nullable=False, server_default="0"),
    Column("resized_at_us", BigInteger, nullable=False, server_default="0"),
    Column("stopped", Integer, nullable=False, server_default="0"),
    Column("failed_attempts", Integer, nullable=False, server_default="0"),
    Column("licenses_alloc", Text, nullable=False, server_default=""),
    Column("trace_one_in", Integer, nullable=False, server_default="1"),
    # end of what is made
)
# Each index is partial where that leaves out rows that no query looks for there: every entry costs time at every
# submission or end.
_partial("job_active", JOB.c.job_id, JOB.c.attempt, where=JOB.c.state < _ENDED_FROM)
_partial("job_end", JOB.c.end_at_us, where=JOB.c.end_at_us > _ZERO)
_partial("job_user_end", JOB.c.user_id, JOB.c.end_at_us, where=JOB.c.end_at_us > _ZERO)
Index("job_name", JOB.c.name)
_partial("job_array", JOB.c.array_job_id, where=JOB.c.array_job_id > _ZERO)
_partial("job_het", JOB.c.het_job_id, where=JOB.c.het_job_id > _ZERO)

#: The request of a job, stored once: all tasks of an array share it, and a change makes a new one.
JOB_REQUEST = Table(
    "job_request",
    METADATA,
    Column("request_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, nullable=False),  # the job for which it was made
    Column("submit_key", Text, nullable=False),  # of that job; "" = the job was not submitted, but split off an array
    Column("submitted_at_us", BigInteger, nullable=False),
    Column("request", LargeBinary, nullable=False),  # JSON of ctld.core.records.job.JobRequest
)
Index("job_request_submitted", JOB_REQUEST.c.submitted_at_us)

#: The bulky part of a submission, stored once for equal content.
JOB_SPEC = Table(
    "job_spec",
    METADATA,
    # made by tools/records: columns of job_spec
    Column("spec_hash", LargeBinary, primary_key=True),
    Column("script", LargeBinary, nullable=False),
    Column("argv", LargeBinary, nullable=False),  # each string followed by a NUL
    Column("environment", LargeBinary, nullable=False),  # likewise
    # end of what is made
)

STEP = Table(
    "step",
    METADATA,
    # made by tools/records: columns of step
    Column("job_id", BigInteger, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("step_id", BigInteger, primary_key=True),
    Column("name", Text, nullable=False),
    Column("state", Integer, nullable=False),
    Column("node", Text, nullable=False),  # the node that runs it, or the first of them
    Column("epoch", BigInteger, nullable=False),  # leadership term in which it was launched
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
    Column("request", LargeBinary),  # JSON of ctld.core.records.step.StepRequest
    Column("parts", Text),  # JSON, one for each node: see ctld/store/stepparts.py; NULL = on `node` alone
    Column("spec_hash", LargeBinary),  # arguments and environment of its tasks
    Column("step_key", Text, nullable=False, server_default=""),  # the same key is the same step
    Column("node_list", Text, nullable=False, server_default=""),  # a compressed hostlist; "" = `node`
    Column("nodes", Integer, nullable=False, server_default="1"),
    Column("cpus", BigInteger, nullable=False, server_default="0"),  # 0 = all that the job has there
    Column("tres_alloc", Text, nullable=False, server_default=""),
    Column("submit_at_us", BigInteger, nullable=False, server_default="0"),
    Column("time_limit_s", BigInteger, nullable=False, server_default="-1"),  # -1 = none of its own
    Column("cancelled_by_uid", BigInteger, nullable=False, server_default="-1"),  # -1 = no user
    Column("usage", Text, nullable=False, server_default=""),  # JSON of what was sampled (steps/usage.py); "" = nothing
    Column("note", Text, nullable=False, server_default=""),  # the cause of its end: "TIME LIMIT", "CANCELLED", ...
    Column("ports", Text, nullable=False, server_default=""),  # separated by commas
    Column("task_ends", Text),  # JSON
    # end of what is made
)

#: Time lines of a step on a node: written once, before its end, read by `penstock profile` alone.
STEP_PROFILE = Table(
    "step_profile",
    METADATA,
    # made by tools/records: columns of step_profile
    Column("job_id", BigInteger, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("step_id", BigInteger, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("profile", LargeBinary, nullable=False),  # penstock.values.profile
    # end of what is made
)

#: An account's or a user's place in the tree of shares. Deleted rows stay, so that a number is never reused.
ASSOC = Table(
    "assoc",
    METADATA,
    # made by tools/records: columns of assoc
    Column("assoc_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("account", Text, nullable=False),
    Column("user_name", Text, nullable=False),  # "" = the account itself
    Column("parent", Text, nullable=False),  # the account above; of a user's association its account
    Column("shares", BigInteger, nullable=False),  # PARENT_SHARES = as the parent
    Column("priority", BigInteger, nullable=False),
    Column("made_by_itself", Integer, nullable=False),  # created implicitly for a job, not added by sacctmgr
    Column("deleted", Integer, nullable=False),
    Column("partition", Text, nullable=False, server_default=""),
    Column("limits", Text, nullable=False, server_default="{}"),  # JSON: penstock.values.limits.texts
    Column("qos", Text, nullable=False, server_default=""),  # separated by commas
    Column("default_qos", Text, nullable=False, server_default=""),  # "" = as the account above
    Column("created_at_us", BigInteger, nullable=False, server_default="0"),
    Column("budget", Text, nullable=False, server_default=""),  # of an account: penstock.values.budgets
    # end of what is made
)

#: Usage charged to an association itself, in 1/10,000 billing seconds, decayed to `at_us`. Written when a job starts
#: or ends, in the same transaction; later decay is computed.
ASSOC_USAGE = Table(
    "assoc_usage",
    METADATA,
    # made by tools/records: columns of assoc_usage
    Column("assoc_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("usage", BigInteger, nullable=False),  # decay.USAGE_ONE = one billing second
    Column("at_us", BigInteger, nullable=False),
    Column("tres", Text, nullable=False, server_default=""),  # JSON, by TRES
    # end of what is made
)

ACCOUNT = Table(
    "account",
    METADATA,
    # made by tools/records: columns of account
    Column("name", Text, primary_key=True),
    Column("description", Text, nullable=False),
    Column("organization", Text, nullable=False),
    Column("coordinators", Text, nullable=False, server_default=""),  # separated by commas
    Column("deleted", Integer, nullable=False, server_default="0"),
    # end of what is made
)

#: Users that an administrator has added. (`user` is a keyword of SQL.)
ACCOUNT_USER = Table(
    "account_user",
    METADATA,
    # made by tools/records: columns of account_user
    Column("name", Text, primary_key=True),
    Column("default_account", Text, nullable=False),
    Column("admin_level", Integer, nullable=False, server_default="0"),
    Column("default_wckey", Text, nullable=False, server_default=""),
    Column("deleted", Integer, nullable=False, server_default="0"),
    # end of what is made
)

#: Wckeys that users may give to their jobs; one for each name and user. Deleted rows stay.
WCKEY = Table(
    "wckey",
    METADATA,
    # made by tools/records: columns of wckey
    Column("wckey_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("deleted", Integer, nullable=False),
    # end of what is made
)

#: Licences that accounting knows, of a server outside of the cluster.
RESOURCE = Table(
    "resource",
    METADATA,
    # made by tools/records: columns of resource
    Column("name", Text, primary_key=True),
    Column("server", Text, primary_key=True),
    Column("total", BigInteger, nullable=False),
    Column("allowed_percent", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("manager", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("deleted", Integer, nullable=False),
    # end of what is made
)

#: Numbers of kinds of TRES. A number is never reused for another kind.
TRES = Table(
    "tres",
    METADATA,
    # made by tools/records: columns of tres
    Column("tres_id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),  # cpu, gres/gpu:h200, license/matlab@server
    # end of what is made
)

#: The audit log: append-only, and never purged. `record` is the text that was hashed (ctld.core.records.audit).
AUDIT = Table(
    "audit",
    METADATA,
    # made by tools/records: columns of audit
    Column("audit_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("record", Text, nullable=False),
    Column("hash", Text, nullable=False),  # hexadecimal
    # end of what is made
)
Index("audit_at", AUDIT.c.at_us)

#: Changes of accounting as sacctmgr show transaction lists them.
TXN = Table(
    "txn",
    METADATA,
    # made by tools/records: columns of txn
    Column("txn_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("action", Text, nullable=False),  # Add Users, Modify Associations, ...
    Column("actor", Text, nullable=False),
    Column("whom", Text, nullable=False),
    Column("info", Text, nullable=False),
    Column("accounts", Text, nullable=False),  # separated by commas
    Column("users", Text, nullable=False),  # separated by commas
    # end of what is made
)
Index("txn_at", TXN.c.at_us)


def split_strings(joined: bytes) -> tuple[bytes, ...]:
    """Splits `argv` and `environment` as stored to strings."""
    return tuple(joined.split(b"\0")[:-1])


def join_strings(strings: tuple[bytes, ...]) -> bytes:
    """Joins strings, each followed by a NUL, so that an empty string and no string differ. None may contain a NUL."""
    return b"".join(text + b"\0" for text in strings)
