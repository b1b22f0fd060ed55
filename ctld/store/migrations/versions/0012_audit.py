"""The audit log, and transactions of accounting."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Two tables that begin empty."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "audit",
        sa.Column("audit_id", number, primary_key=True, autoincrement=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
    )
    op.create_index("audit_at", "audit", ["at_us"])
    op.create_table(
        "txn",
        sa.Column("txn_id", number, primary_key=True, autoincrement=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("action", "actor", "whom", "info", "accounts", "users")
        ),
    )
    op.create_index("txn_at", "txn", ["at_us"])
