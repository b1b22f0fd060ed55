"""How many of a job's tasks have a trace."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """A column that says: each."""
    op.add_column("job", sa.Column("trace_one_in", sa.Integer(), nullable=False, server_default="1"))
