"""Limits and QOS of associations, associations of partitions, coordinators; the association and wckey of a job.

Jobs of earlier versions have no association of their own in their row: it is found by account and user.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_COLUMNS: dict[str, dict[str, str | int]] = {
    "job": {"wckey": "", "assoc_id": 0},
    "assoc": {"partition": "", "limits": "{}", "qos": "", "default_qos": "", "created_at_us": 0},
    "account": {"coordinators": ""},
    "account_user": {"admin_level": 0, "default_wckey": ""},
    "qos": {"limits": "{}", "usage_threshold_ppm": -1, "limit_factor_ppm": -1, "qos_id": 0},
}
_SMALL = ("admin_level", "qos_id")


def upgrade() -> None:
    """New columns, each with the value that says nothing."""
    for table, columns in _COLUMNS.items():
        for name, nothing in columns.items():
            kind = sa.Text() if isinstance(nothing, str) else sa.Integer() if name in _SMALL else sa.BigInteger()
            op.add_column(table, sa.Column(name, kind, nullable=False, server_default=str(nothing)))
