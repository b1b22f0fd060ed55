"""The instance of a node in a cloud: its id and its type."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Two columns, empty until an administrator sets them."""
    for name in ("instance_id", "instance_type"):
        op.add_column("node", sa.Column(name, sa.Text(), nullable=False, server_default=""))
