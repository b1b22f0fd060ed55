"""Records of single GPUs: identity, state, history.

Nodes name them when they register, so the table begins empty.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """A new table."""
    op.create_table(
        "gpu",
        sa.Column("node", sa.Text(), primary_key=True),
        sa.Column("uuid", sa.Text(), primary_key=True),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
    )
