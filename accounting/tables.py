"""Tables of usage: the times that the job rows do not have, and the usage computed from both.

Facts, written by the controller in the transaction of their cause
    - `node_event`: an interval in which a node or the controller was down; and the cluster's capacity from a time on.
    - `job_span`: a past allocation of an attempt, or an interval in which it was suspended. Most jobs have none.
    - `reservation_span`: an interval for which resources were reserved. It outlives the reservation.
Computed from them by accounting/rolling.py only
    - `usage_hour`, `usage_day`, `usage_month`: amounts of a TRES times seconds, by owner (`usage_key`) and start.
    - `cluster_hour`: the cluster's capacity, and the parts of it that were allocated, down, planned down or waited for.
    - `cluster_day`, `cluster_month`: the division of the cluster's time, the sums of their hours.
    - `rollup_open`, `rollup_mark`: the progress of the roll-up.

An amount is `seconds` + `micros` / 1,000,000: whole seconds and the rest, since a month of a large cluster's memory in
megabyte-microseconds does not fit into 64 bits. `micros` is always from 0 to 999,999, so that sums stay exact.
Rules as in accounting/schema.py.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from accounting.schema import METADATA

#: `node` "" = the cluster. For it: `state` "" = its capacity is `tres` from then on; DOWN = the controller was down.
NODE_EVENT = Table(
    "node_event",
    METADATA,
    # made by tools/records: columns of node_event
    Column("node", Text, primary_key=True),  # "" = the cluster
    Column("start_at_us", BigInteger, primary_key=True),
    Column("end_at_us", BigInteger, nullable=False),  # 0 = it continues
    Column("state", Text, nullable=False),  # DOWN, DRAIN, FAIL, DOWN+DRAIN, ...
    Column("reason", Text, nullable=False),
    Column("reason_uid", BigInteger, nullable=False),
    Column("tres", Text, nullable=False),
    # end of what is made
)
Index("node_event_end", NODE_EVENT.c.end_at_us)

#: `tres` "" = suspended from start to end. Else the attempt's allocation until `end_at_us`, from the change before or
#: its start (`start_at_us` is 0 then); after the last of these the job row has the allocation.
JOB_SPAN = Table(
    "job_span",
    METADATA,
    # made by tools/records: columns of job_span
    Column("job_id", BigInteger, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("start_at_us", BigInteger, primary_key=True),
    Column("end_at_us", BigInteger, primary_key=True),
    Column("tres", Text, nullable=False),  # "" = it was suspended
    Column("node_list", Text, nullable=False, server_default=""),  # of a resize: the nodes that it had until then
    # end of what is made
)
Index("job_span_end", JOB_SPAN.c.end_at_us)

RESERVATION_SPAN = Table(
    "reservation_span",
    METADATA,
    # made by tools/records: columns of reservation_span
    Column("resv_id", BigInteger, primary_key=True),
    Column("start_at_us", BigInteger, primary_key=True),
    Column("end_at_us", BigInteger, nullable=False),  # as planned, until it ends in another way
    Column("name", Text, nullable=False),
    Column("flags", BigInteger, nullable=False),
    Column("nodes", Text, nullable=False),  # a compressed hostlist
    Column("tres", Text, nullable=False),
    Column("who", Text, nullable=False),  # users and accounts, separated by commas
    Column("node_tres", Text, nullable=False, server_default=""),  # of nodes of which as much is kept, a line
    # end of what is made
)
Index("reservation_span_end", RESERVATION_SPAN.c.end_at_us)

#: Owners of usage: one row for each combination that has ever run.
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

#: `count_seconds`: the capacity. `wanted`: the demand of waiting jobs that might have run. All are amounts times
#: seconds; those from the controller's events are rounded down, by less than a second an hour.
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

#: The division of the cluster's time (accounting/rollup.py: Shares), by day and month. `reported` is the sum of all
#: but the last.
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

#: Attempts that are counted until `counted_to_us` and had not ended by then.
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

#: Suspensions that ended before this are purged.
SUSPEND_PURGED_MARK = "suspend_purged_us"
#: Progress of purging steps: the end of the last job that was handled.
STEPS_PURGED_MARK = "steps_purged_us"

#: Slurm's numbers of the TRES that every cluster has. The controller numbers others (ctld/core/queue/tres.py).
FIXED_TRES = {
    "cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "fs/disk": 6, "vmem": 7, "pages": 8,
}  # fmt: skip
