"""Crontabs of users, and the triggers of strigger. Both tables begin empty."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Two new tables."""
    op.create_table(
        "crontab",
        sa.Column("uid", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("jobs", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Text(), nullable=False),
        sa.Column("changed_at_us", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "event_trigger",
        sa.Column("trigger_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("kinds", sa.Integer(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
    )
