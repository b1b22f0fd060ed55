"""When a job began to end: its end time until its resources are released."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """A column; 0 for jobs that are ending now, which have no end time until they have ended."""
    op.add_column("job", sa.Column("completing_at_us", sa.BigInteger(), nullable=False, server_default="0"))
