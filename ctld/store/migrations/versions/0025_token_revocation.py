"""Revocations of users' JSON web tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """A new table."""
    op.create_table(
        "token_revocation",
        sa.Column("user_name", sa.Text(), primary_key=True),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
    )
