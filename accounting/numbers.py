"""Numbers for what the usage tables name often: TRES, and who has used (account, user, partition, wckey, QOS).

They are given in the transaction that needs them, and known afterwards. When that is rolled back, `forget`. The controller
numbers the TRES of its cluster; what only the history of jobs knows gets a number below 0, which it never gives.
"""

from typing import Any

from sqlalchemy import Connection, func, insert, select

from accounting.schema import TRES
from accounting.tables import FIXED_TRES, USAGE_KEY

#: What a job without --qos has.
DEFAULT_QOS = "normal"


class Numbers:
    """Of one database. Only one writer gives new ones."""

    def __init__(self, default_account: str) -> None:
        self._default_account = default_account
        self._tres: dict[str, int] = {}
        self._keys: dict[tuple[Any, ...], int] = {}

    def forget(self) -> None:
        """Read all of them again."""
        self._tres, self._keys = {}, {}

    def load(self, connection: Connection) -> "Numbers":
        """Read them, if that has to be done."""
        if not self._tres:
            self._tres = _tres(connection)
            self._keys = {tuple(key): number for number, *key in connection.execute(select(USAGE_KEY))}
        return self

    def tres(self, connection: Connection, name: str) -> int:
        """The number of a TRES; a new one gets the next."""
        number = self._tres.get(name)
        if number is None:
            self._tres = _tres(connection)  # the controller may have named it meanwhile
            number = self._tres.get(name)
        if number is None:
            number = min(0, *self._tres.values()) - 1
            connection.execute(insert(TRES).values(tres_id=number, name=name))
            self._tres[name] = number
        return number

    def key(self, connection: Connection, row: Any) -> int:
        """The number of a job row's owner."""
        key = (
            row.assoc_id, (row.account or self._default_account).lower(), row.user_name, row.user_id, row.partition,
            row.wckey, row.qos or DEFAULT_QOS,
        )  # fmt: skip
        number = self._keys.get(key)
        if number is None:
            number = (connection.execute(select(func.max(USAGE_KEY.c.key_id))).scalar() or 0) + 1
            names = [column.name for column in USAGE_KEY.columns][1:]
            connection.execute(insert(USAGE_KEY).values(key_id=number, **dict(zip(names, key, strict=True))))
            self._keys[key] = number
        return number


def _tres(connection: Connection) -> dict[str, int]:
    """By name; the controller's number counts before ours."""
    found = connection.execute(select(TRES).order_by(TRES.c.tres_id))
    return FIXED_TRES | {name: number for number, name in found}
