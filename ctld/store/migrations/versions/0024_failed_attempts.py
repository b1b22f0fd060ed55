"""How many attempts of a job its nodes have ended: what MaxBatchRequeue counts."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """A column; the count restarts, as earlier requeues were counted whatever had caused them."""
    op.add_column("job", sa.Column("failed_attempts", sa.Integer(), nullable=False, server_default="0"))
