"""Layers of hierarchical resources that a job holds."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """A column that says: none."""
    op.add_column("job", sa.Column("licenses_alloc", sa.Text(), nullable=False, server_default=""))
