"""Accounts, users, their shares and what they have used."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Four tables, empty: the root of the tree is not a row."""
    op.create_table(
        "assoc",
        sa.Column("assoc_id", _ID, autoincrement=False, nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=False),
        sa.Column("shares", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("made_by_itself", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("assoc_id"),
    )
    op.create_table(
        "assoc_usage",
        sa.Column("assoc_id", _ID, autoincrement=False, nullable=False),
        sa.Column("usage", sa.BigInteger(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("assoc_id"),
    )
    op.create_table(
        "account",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("organization", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "account_user",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("default_account", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
