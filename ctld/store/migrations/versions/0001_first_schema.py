"""The first schema.

Written out instead of taken from METADATA, which continues to change: a migration never does.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """All tables, and the one row of `meta`."""
    _job()
    _job_indexes()
    _of_jobs()
    _of_the_controller()
    op.execute(
        "INSERT INTO meta (id, name, sequence, epoch, holder, expires_at_us, next_job_id, next_request_id,"
        " created_at_us) VALUES (1, 'penstock', 0, 0, '', 0, 1, 1, 0)"
    )


def _job() -> None:
    op.create_table(
        "job",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("array_job_id", sa.BigInteger(), nullable=False),
        sa.Column("request_id", sa.BigInteger(), nullable=False),
        sa.Column("spec_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("submit_at_us", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("qos", sa.Text(), nullable=False),
        sa.Column("nodes_req", sa.Integer(), nullable=False),
        sa.Column("cpus_req", sa.BigInteger(), nullable=False),
        sa.Column("tres_req", sa.Text(), nullable=False),
        sa.Column("array_task_id", sa.Integer(), nullable=True),
        sa.Column("array_tasks", sa.Text(), nullable=True),
        sa.Column("array_throttle", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("end_state", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("reason_detail", sa.Text(), nullable=False),
        sa.Column("hold", sa.Integer(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("dependency", sa.Text(), nullable=False),
        sa.Column("eligible_at_us", sa.BigInteger(), nullable=False),
        sa.Column("start_at_us", sa.BigInteger(), nullable=False),
        sa.Column("end_at_us", sa.BigInteger(), nullable=False),
        sa.Column("time_limit_s", sa.BigInteger(), nullable=False),
        sa.Column("alloc", sa.Text(), nullable=False),
        sa.Column("batch_node", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=False),
        sa.Column("exit_signal", sa.Integer(), nullable=False),
        sa.Column("derived_code", sa.Integer(), nullable=False),
        sa.Column("derived_signal", sa.Integer(), nullable=False),
        sa.Column("cancelled_by_uid", sa.BigInteger(), nullable=False),
        sa.Column("failed_node", sa.Text(), nullable=False),
        sa.Column("admin_comment", sa.Text(), nullable=False),
        sa.Column("tres_alloc", sa.Text(), nullable=False),
        sa.Column("nodes_alloc", sa.Integer(), nullable=False),
        sa.Column("cpus_alloc", sa.BigInteger(), nullable=False),
        sa.Column("node_list", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
    )


def _job_indexes() -> None:
    op.create_index(
        "job_active",
        "job",
        ["job_id", "attempt"],
        unique=False,
        sqlite_where=sa.text("state < 10"),
        postgresql_where=sa.text("state < 10"),
    )
    op.create_index(
        "job_array",
        "job",
        ["array_job_id"],
        unique=False,
        sqlite_where=sa.text("array_job_id > 0"),
        postgresql_where=sa.text("array_job_id > 0"),
    )
    op.create_index(
        "job_end",
        "job",
        ["end_at_us"],
        unique=False,
        sqlite_where=sa.text("end_at_us > 0"),
        postgresql_where=sa.text("end_at_us > 0"),
    )
    op.create_index("job_name", "job", ["name"], unique=False)
    op.create_index(
        "job_user_end",
        "job",
        ["user_id", "end_at_us"],
        unique=False,
        sqlite_where=sa.text("end_at_us > 0"),
        postgresql_where=sa.text("end_at_us > 0"),
    )


def _of_jobs() -> None:
    op.create_table(
        "job_request",
        sa.Column(
            "request_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("submit_key", sa.Text(), nullable=False),
        sa.Column("submitted_at_us", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index("job_request_submitted", "job_request", ["submitted_at_us"], unique=False)
    op.create_table(
        "job_spec",
        sa.Column("spec_hash", sa.LargeBinary(), nullable=False),
        sa.Column("script", sa.LargeBinary(), nullable=False),
        sa.Column("argv", sa.LargeBinary(), nullable=False),
        sa.Column("environment", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("spec_hash"),
    )
    op.create_table(
        "step",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("start_at_us", sa.BigInteger(), nullable=False),
        sa.Column("end_at_us", sa.BigInteger(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=False),
        sa.Column("exit_signal", sa.Integer(), nullable=False),
        sa.Column("user_cpu_us", sa.BigInteger(), nullable=False),
        sa.Column("system_cpu_us", sa.BigInteger(), nullable=False),
        sa.Column("max_rss_kb", sa.BigInteger(), nullable=False),
        sa.Column("max_vmsize_kb", sa.BigInteger(), nullable=False),
        sa.Column("disk_read_bytes", sa.BigInteger(), nullable=False),
        sa.Column("disk_write_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "step_id"),
    )


def _of_the_controller() -> None:
    op.create_table(
        "job_history",
        sa.Column(
            "history_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("history_id"),
    )
    op.create_index("job_history_job", "job_history", ["job_id"], unique=False)
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires_at_us", sa.BigInteger(), nullable=False),
        sa.Column("next_job_id", sa.BigInteger(), nullable=False),
        sa.Column("next_request_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "node",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("flags", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("reason_uid", sa.BigInteger(), nullable=False),
        sa.Column("reason_at_us", sa.BigInteger(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("spool_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("last_busy_at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "partition_state",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
