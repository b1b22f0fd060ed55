"""Wckeys, licences that accounting knows, numbers of TRES, budgets of accounts; accounts, users and QOS that were deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0012"


def upgrade() -> None:
    """New tables, and new columns, each with the value that says nothing."""
    op.add_column("assoc", sa.Column("budget", sa.Text(), nullable=False, server_default=""))
    for table in ("account", "account_user", "qos"):
        op.add_column(table, sa.Column("deleted", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "wckey",
        sa.Column("wckey_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("deleted", sa.Integer(), nullable=False),
    )
    op.create_table(
        "resource",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("server", sa.Text(), primary_key=True),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("allowed_percent", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("manager", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("deleted", sa.Integer(), nullable=False),
    )
    op.create_table(
        "tres",
        sa.Column("tres_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text(), nullable=False),
    )
