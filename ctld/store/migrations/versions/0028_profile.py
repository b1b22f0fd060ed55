"""Profiles of steps."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """A new table."""
    op.create_table(
        "step_profile",
        sa.Column("job_id", sa.BigInteger(), primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True),
        sa.Column("step_id", sa.BigInteger(), primary_key=True),
        sa.Column("node", sa.Text(), primary_key=True),
        sa.Column("profile", sa.LargeBinary(), nullable=False),
    )
