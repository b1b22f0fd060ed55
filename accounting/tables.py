"""Tables of usage: what the job rows do not say, and what is made of both.

Facts, written by the controller in the transaction of their cause
    - `node_event`: a time in which a node was not up, or the controller away; and what the cluster had since when.
    - `job_span`: what an attempt held until it changed, or a time in which it was suspended. A plain job has none.
    - `reservation_span`: a time for which resources were reserved. It outlives the reservation.
Made from them by accounting/rolling.py, and by nobody else
    - `usage_hour`, `usage_day`, `usage_month`: amounts of a TRES times seconds, by whom (`usage_key`) and since when.
    - `cluster_hour`: what the cluster had, and what of it was given, down, planned down or waited for.
    - `cluster_day`, `cluster_month`: how the cluster's time was used, the sums of their hours.
    - `rollup_open`, `rollup_mark`: how far that has come.

An amount is `seconds` + `micros` / 1,000,000: whole seconds and the rest, since a month of a large cluster's memory in
megabyte-microseconds does not fit into 64 bits. `micros` is always from 0 to 999,999, so that sums stay exact.
Rules as in accounting/schema.py.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from accounting.schema import METADATA

#: `node` "" = the cluster. Of it: `state` "" = it had `tres` since then; DOWN = the controller was away.
NODE_EVENT = Table(
    "node_event",
    METADATA,
    Column("node", Text, nullable=False),
    Column("start_at_us", BigInteger, nullable=False),
    Column("end_at_us", BigInteger, nullable=False),  # 0 = it goes on
    Column("state", Text, nullable=False),  # DOWN, DRAIN, FAIL, DOWN+DRAIN, ...
    Column("reason", Text, nullable=False),
    Column("reason_uid", BigInteger, nullable=False),
    Column("tres", Text, nullable=False),
    PrimaryKeyConstraint("node", "start_at_us"),
)
Index("node_event_end", NODE_EVENT.c.end_at_us)

#: `tres` "" = suspended from start to end. Else it is what the attempt held until `end_at_us`, since the change before
#: or its start (`start_at_us` is 0 then); after the last of these it held what its job row says.
JOB_SPAN = Table(
    "job_span",
    METADATA,
    Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("start_at_us", BigInteger, nullable=False),
    Column("end_at_us", BigInteger, nullable=False),
    Column("tres", Text, nullable=False),
    PrimaryKeyConstraint("job_id", "attempt", "start_at_us", "end_at_us"),
)
Index("job_span_end", JOB_SPAN.c.end_at_us)

RESERVATION_SPAN = Table(
    "reservation_span",
    METADATA,
    Column("resv_id", BigInteger, nullable=False),
    Column("start_at_us", BigInteger, nullable=False),
    Column("end_at_us", BigInteger, nullable=False),  # as planned, until it ends in another way
    Column("name", Text, nullable=False),
    Column("flags", BigInteger, nullable=False),
    Column("nodes", Text, nullable=False),  # a compressed hostlist
    Column("tres", Text, nullable=False),
    Column("who", Text, nullable=False),  # users and accounts, with commas
    # of a maintenance: what of each node, as a line of `hostlist tres` for those of which as much is kept
    Column("node_tres", Text, nullable=False, server_default=""),
    PrimaryKeyConstraint("resv_id", "start_at_us"),
)
Index("reservation_span_end", RESERVATION_SPAN.c.end_at_us)

#: Who has used: one row for each combination that has ever run.
USAGE_KEY = Table(
    "usage_key",
    METADATA,
    Column("key_id", Integer, primary_key=True, autoincrement=False),
    Column("assoc_id", BigInteger, nullable=False),
    Column("account", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("partition", Text, nullable=False),
    Column("wckey", Text, nullable=False),
    Column("qos", Text, nullable=False),
)


def _usage(name: str) -> Table:
    return Table(
        name,
        METADATA,
        Column("start_at_us", BigInteger, nullable=False),
        Column("tres_id", Integer, nullable=False),
        Column("key_id", Integer, nullable=False),
        Column("seconds", BigInteger, nullable=False),
        Column("micros", Integer, nullable=False),
        PrimaryKeyConstraint("start_at_us", "tres_id", "key_id"),
        sqlite_with_rowid=False,
    )


USAGE_HOUR = _usage("usage_hour")
USAGE_DAY = _usage("usage_day")
USAGE_MONTH = _usage("usage_month")

#: `count_seconds`: what the cluster had. `wanted`: what jobs waited for that might have run. All are amounts times
#: seconds; those that the controller's events give are rounded down, which is less than a second an hour.
CLUSTER_HOUR = Table(
    "cluster_hour",
    METADATA,
    Column("start_at_us", BigInteger, nullable=False),
    Column("tres_id", Integer, nullable=False),
    Column("count", BigInteger, nullable=False, server_default="0"),  # at the end of the hour
    Column("count_seconds", BigInteger, nullable=False, server_default="0"),
    Column("down_seconds", BigInteger, nullable=False, server_default="0"),
    Column("planned_down_seconds", BigInteger, nullable=False, server_default="0"),
    Column("alloc_seconds", BigInteger, nullable=False, server_default="0"),
    Column("alloc_micros", Integer, nullable=False, server_default="0"),
    Column("wanted_seconds", BigInteger, nullable=False, server_default="0"),
    Column("wanted_micros", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("start_at_us", "tres_id"),
    sqlite_with_rowid=False,
)

#: How the time of the cluster was divided (accounting/rollup.py: Shares): what is kept by day and month. `reported` is
#: the sum of all but the last.
CLUSTER_SHARES = ("alloc_", "down_", "planned_down_", "idle_", "planned_", "over_")


def _cluster(name: str) -> Table:
    return Table(
        name,
        METADATA,
        Column("start_at_us", BigInteger, nullable=False),
        Column("tres_id", Integer, nullable=False),
        Column("count", BigInteger, nullable=False, server_default="0"),  # at the end of its last hour
        *(
            Column(f"{prefix}{unit}", kind, nullable=False, server_default="0")
            for prefix in CLUSTER_SHARES
            for unit, kind in (("seconds", BigInteger), ("micros", Integer))
        ),
        PrimaryKeyConstraint("start_at_us", "tres_id"),
        sqlite_with_rowid=False,
    )


#: An hour belongs to the local day and month that it begins in.
CLUSTER_DAY = _cluster("cluster_day")
CLUSTER_MONTH = _cluster("cluster_month")

#: Attempts that are counted until `counted_to_us` and had not ended there.
ROLLUP_OPEN = Table(
    "rollup_open",
    METADATA,
    Column("job_id", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("counted_to_us", BigInteger, nullable=False),
    Column("key_id", Integer, nullable=False),
    PrimaryKeyConstraint("job_id", "attempt"),
)

#: Named numbers: see accounting/rolling.py.
ROLLUP_MARK = Table(
    "rollup_mark",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

#: Suspensions that were over before this are purged.
SUSPEND_PURGED_MARK = "suspend_purged_us"
#: How far steps are purged: the end of the last job that was looked at.
STEPS_PURGED_MARK = "steps_purged_us"

#: Slurm's numbers of the TRES that every cluster has. The controller gives numbers to others (ctld/core/tres.py).
FIXED_TRES = {
    "cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "fs/disk": 6, "vmem": 7, "pages": 8,
}  # fmt: skip
