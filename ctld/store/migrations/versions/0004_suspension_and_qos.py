"""Suspension and preemption of jobs; records of QOS.

Rows that exist were never suspended or preempted: the columns begin at 0. `normal` is there from the beginning.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """New columns of `job`, and the table `qos`."""
    for name, kind in (
        ("suspended_by", sa.Integer()),
        ("suspended_us", sa.BigInteger()),
        ("suspended_at_us", sa.BigInteger()),
        ("preempt_at_us", sa.BigInteger()),
        ("preempt_end_at_us", sa.BigInteger()),
        ("preemptor_id", sa.BigInteger()),
    ):
        op.add_column("job", sa.Column(name, kind, nullable=False, server_default="0"))
    op.create_table(
        "qos",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("preempt", sa.Text(), nullable=False),
        sa.Column("preempt_mode", sa.Text(), nullable=False),
        sa.Column("grace_time_s", sa.BigInteger(), nullable=False),
        sa.Column("preempt_exempt_time_s", sa.BigInteger(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("usage_factor_ppm", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.execute(
        "INSERT INTO qos (name, description, priority, preempt, preempt_mode, grace_time_s, preempt_exempt_time_s,"
        " flags, usage_factor_ppm) VALUES ('normal', 'Normal QOS default', 0, '', '', 0, -1, '', 1000000)"
    )
