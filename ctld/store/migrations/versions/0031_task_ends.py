"""How the tasks of a step ended."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """A column that says: nothing is known but the step's own end."""
    op.add_column("step", sa.Column("task_ends", sa.Text(), nullable=True))
