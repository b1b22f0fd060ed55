"""Numeric ids for the values that the usage tables repeat: TRES, and users of resources (account, user, partition,
wckey, QOS).

They are assigned in the transaction that needs them, and cached. After a rollback, call `forget`. The controller
numbers the TRES of its cluster; TRES that occur only in the history of jobs get numbers below 0, which it never
assigns.
"""

from sqlalchemy import Connection, func, insert, select

from accounting.dbrow import DbRow
from accounting.schema import TRES
from accounting.tables import FIXED_TRES, USAGE_KEY

#: QOS of a job without --qos.
DEFAULT_QOS = "normal"


class Numbers:
    """The ids of one database. Only one writer assigns new ones."""

    def __init__(self, default_account: str) -> None:
        self._default_account = default_account
        self._tres: dict[str, int] = {}
        self._keys: dict[tuple[object, ...], int] = {}

    def forget(self) -> None:
        """Empties the cache: all ids are read again."""
        self._tres = {}
        self._keys = {}

    def load(self, connection: Connection) -> "Numbers":
        """Reads the ids, unless they are cached."""
        if not self._tres:
            self._tres = _tres(connection)
            self._keys = {tuple(key): number for number, *key in connection.execute(select(USAGE_KEY))}
        return self

    def tres(self, connection: Connection, name: str) -> int:
        """The id of a TRES; a new one gets the next number."""
        number = self._tres.get(name)
        if number is None:
            self._tres = _tres(connection)  # the controller may have assigned it meanwhile
            number = self._tres.get(name)
        if number is None:
            number = min(0, *self._tres.values()) - 1
            connection.execute(insert(TRES).values(tres_id=number, name=name))
            self._tres[name] = number
        return number

    def key(self, connection: Connection, row: DbRow) -> int:
        """The id of a job row's owner."""
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
    """Returns the ids by name; the controller's number takes precedence over ours."""
    found = connection.execute(select(TRES).order_by(TRES.c.tres_id))
    return FIXED_TRES | {name: number for number, name in found}
