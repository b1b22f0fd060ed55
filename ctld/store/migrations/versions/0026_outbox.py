"""Events for deliveries, and how far each receiver has come."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Two new tables."""
    op.create_table(
        "outbox",
        sa.Column("sequence", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "delivery_cursor",
        sa.Column("receiver", sa.Text(), primary_key=True),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
    )
