"""When a job gave nodes back, and which nodes it had before."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Two columns, empty for jobs that have never been resized."""
    op.add_column("job", sa.Column("resized_at_us", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("job_span", sa.Column("node_list", sa.Text(), nullable=False, server_default=""))
