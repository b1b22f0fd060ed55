"""Times of nodes, suspensions and reservations, and usage rolled up by hour, day and month (accounting/tables.py)."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0016"

_CLUSTER = (
    ("count", sa.BigInteger), ("count_seconds", sa.BigInteger), ("down_seconds", sa.BigInteger),
    ("planned_down_seconds", sa.BigInteger), ("alloc_seconds", sa.BigInteger), ("alloc_micros", sa.Integer),
    ("wanted_seconds", sa.BigInteger), ("wanted_micros", sa.Integer),
)  # fmt: skip


def upgrade() -> None:
    """New tables, and when the controller was last seen."""
    _facts()
    _usage()
    op.add_column("meta", sa.Column("seen_at_us", sa.BigInteger(), nullable=False, server_default="0"))


def _big(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text(), nullable=False)


def _small(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer(), nullable=False)


def _facts() -> None:
    op.create_table(
        "node_event",
        _text("node"), _big("start_at_us"), _big("end_at_us"), _text("state"), _text("reason"), _big("reason_uid"),
        _text("tres"),
        sa.PrimaryKeyConstraint("node", "start_at_us"),
    )  # fmt: skip
    op.create_index("node_event_end", "node_event", ["end_at_us"])
    op.create_table(
        "job_span",
        _big("job_id"), _small("attempt"), _big("start_at_us"), _big("end_at_us"), _text("tres"),
        sa.PrimaryKeyConstraint("job_id", "attempt", "start_at_us", "end_at_us"),
    )  # fmt: skip
    op.create_index("job_span_end", "job_span", ["end_at_us"])
    op.create_table(
        "reservation_span",
        _big("resv_id"), _big("start_at_us"), _big("end_at_us"), _text("name"), _big("flags"), _text("nodes"),
        _text("tres"), _text("who"),
        sa.PrimaryKeyConstraint("resv_id", "start_at_us"),
    )  # fmt: skip
    op.create_index("reservation_span_end", "reservation_span", ["end_at_us"])


def _usage() -> None:
    op.create_table(
        "usage_key",
        sa.Column("key_id", sa.Integer(), primary_key=True, autoincrement=False),
        _big("assoc_id"), _text("account"), _text("user_name"), _big("user_id"), _text("partition"), _text("wckey"),
        _text("qos"),
    )  # fmt: skip
    for name in ("usage_hour", "usage_day", "usage_month"):
        op.create_table(
            name,
            _big("start_at_us"), _small("tres_id"), _small("key_id"), _big("seconds"), _small("micros"),
            sa.PrimaryKeyConstraint("start_at_us", "tres_id", "key_id"),
            sqlite_with_rowid=False,
        )  # fmt: skip
    op.create_table(
        "cluster_hour",
        _big("start_at_us"), _small("tres_id"),
        *(sa.Column(name, kind(), nullable=False, server_default="0") for name, kind in _CLUSTER),
        sa.PrimaryKeyConstraint("start_at_us", "tres_id"),
        sqlite_with_rowid=False,
    )  # fmt: skip
    op.create_table(
        "rollup_open",
        _big("job_id"), _small("attempt"), _big("counted_to_us"), _small("key_id"),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
    )  # fmt: skip
    op.create_table(
        "rollup_mark",
        sa.Column("name", sa.Text(), primary_key=True),
        _big("value"),
    )  # fmt: skip
