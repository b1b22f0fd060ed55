"""What associations and QOS have used by TRES, for limits on minutes."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0015"


def upgrade() -> None:
    """A column and a table; nothing is known of the time before."""
    op.add_column("assoc_usage", sa.Column("tres", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "qos_usage",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("tres", sa.Text(), nullable=False),
    )
