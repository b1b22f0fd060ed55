"""Days and months of the cluster, nodes of maintenances, and numbers that are given once.

Days and months are filled from the hours by the next roll-ups (accounting/clusterdays.py): the beginning of a day
depends on the time zone, which is in the configuration and not in the database.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0013"

_SHARES = ("alloc_", "down_", "planned_down_", "idle_", "planned_", "over_")


def upgrade() -> None:
    """New tables; the number of the last reservation that anything tells of."""
    for name in ("cluster_day", "cluster_month"):
        op.create_table(
            name,
            sa.Column("start_at_us", sa.BigInteger(), nullable=False),
            sa.Column("tres_id", sa.Integer(), nullable=False),
            _amount("count", sa.BigInteger()),
            *(
                _amount(f"{prefix}{unit}", kind())
                for prefix in _SHARES
                for unit, kind in (("seconds", sa.BigInteger), ("micros", sa.Integer))
            ),
            sa.PrimaryKeyConstraint("start_at_us", "tres_id"),
            sqlite_with_rowid=False,
        )
    op.add_column("reservation_span", sa.Column("node_tres", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "counter",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("value", sa.BigInteger(), nullable=False),
    )
    op.execute(
        "INSERT INTO counter (name, value) SELECT 'reservation', COALESCE(MAX(resv_id), 0) FROM "
        "(SELECT resv_id FROM reservation UNION ALL SELECT resv_id FROM reservation_span) AS known"
    )


def _amount(name: str, kind: "sa.types.TypeEngine[int]") -> "sa.Column[int]":
    return sa.Column(name, kind, nullable=False, server_default="0")
