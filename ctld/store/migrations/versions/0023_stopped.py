"""Whether a running job was sent SIGSTOP."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """A column; no job is known to be stopped."""
    op.add_column("job", sa.Column("stopped", sa.Integer(), nullable=False, server_default="0"))
