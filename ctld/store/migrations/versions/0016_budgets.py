"""What is used of budgets, and which jobs run on what other accounts lend."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0014"


def upgrade() -> None:
    """A table, and a column that says no."""
    op.create_table(
        "budget_use",
        sa.Column("assoc_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("assoc_id", "unit", "period", "start_us"),
    )
    op.add_column("job", sa.Column("borrowed", sa.Integer(), nullable=False, server_default="0"))
