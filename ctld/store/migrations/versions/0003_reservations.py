"""Reservations."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """The table of reservations."""
    op.create_table(
        "reservation",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("resv_id", sa.Integer(), nullable=False),
        sa.Column("start_at_us", sa.BigInteger(), nullable=False),
        sa.Column("end_at_us", sa.BigInteger(), nullable=False),
        sa.Column("flags", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
