"""A table from ids to small numbers: the oracle of idtable.pyx, and what is used where it was not built.

    table = PlainIdTable(); table.put(4711, 12); table.get(4711)

For numbers of each of very many jobs. Ids are from 1 to 2**63 - 1, numbers from 0 to 2**31 - 1.
"""

ID_MAX = 2**63 - 1
NUMBER_MAX = 2**31 - 1


class PlainIdTable:
    """The table. It has a length, and `in` asks for an id."""

    def __init__(self) -> None:
        self._found: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: int) -> bool:
        return key in self._found

    def get(self, key: int) -> int:
        """Returns the number of an id; -1: it is not there."""
        return self._found.get(key, -1)

    def put(self, key: int, number: int) -> None:
        """Adds an id, or replaces its number. Raises ValueError for an id or a number out of range."""
        if not (0 < key <= ID_MAX and 0 <= number <= NUMBER_MAX):
            raise ValueError(f"id {key}, number {number}: out of range")
        self._found[key] = number

    def drop(self, key: int) -> int:
        """Removes an id. Returns its number; -1: it was not there."""
        return self._found.pop(key, -1)

    def ids(self) -> list[int]:
        """Returns the ids in ascending order."""
        return sorted(self._found)
