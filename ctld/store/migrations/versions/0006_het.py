"""Heterogeneous jobs: which component of which job.

Existing jobs are not components.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """New columns of `job`."""
    op.add_column("job", sa.Column("het_job_id", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("job", sa.Column("het_offset", sa.Integer(), nullable=False, server_default="0"))
    op.create_index(
        "job_het",
        "job",
        ["het_job_id"],
        sqlite_where=sa.text("het_job_id > 0"),
        postgresql_where=sa.text("het_job_id > 0"),
    )
