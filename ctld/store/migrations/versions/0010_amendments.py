"""What was changed of the configuration by hand, and what an administrator has said of nodes beside their state."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0008"


def upgrade() -> None:
    """A new table, and two columns of `node`."""
    op.create_table(
        "amendment",
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
    )
    op.add_column("node", sa.Column("extra", sa.Text(), nullable=False, server_default=""))
    op.add_column("node", sa.Column("resume_after_us", sa.BigInteger(), nullable=False, server_default="0"))
