"""Personal tokens of users."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """A new table."""
    op.create_table(
        "personal_token",
        sa.Column("token_id", sa.Text(), primary_key=True),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Integer(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), nullable=False),
        sa.Column("ends_at_us", sa.BigInteger(), nullable=False),
        sa.Column("used_at_us", sa.BigInteger(), nullable=False),
        sa.Column("used_from", sa.Text(), nullable=False),
    )
