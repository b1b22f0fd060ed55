"""Steps of srun: on several nodes, with a request of their own.

Steps that exist are batch steps: they have the defaults.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """New columns of `step`."""
    op.add_column("step", sa.Column("request", sa.LargeBinary()))
    op.add_column("step", sa.Column("parts", sa.Text()))
    op.add_column("step", sa.Column("spec_hash", sa.LargeBinary()))
    for name, kind, default in (
        ("step_key", sa.Text(), ""),
        ("node_list", sa.Text(), ""),
        ("nodes", sa.Integer(), "1"),
        ("cpus", sa.BigInteger(), "0"),
        ("tres_alloc", sa.Text(), ""),
        ("submit_at_us", sa.BigInteger(), "0"),
        ("time_limit_s", sa.BigInteger(), "-1"),
        ("cancelled_by_uid", sa.BigInteger(), "-1"),
        ("usage", sa.Text(), ""),
        ("note", sa.Text(), ""),
        ("ports", sa.Text(), ""),
    ):
        op.add_column("step", sa.Column(name, kind, nullable=False, server_default=default))
