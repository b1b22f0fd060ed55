"""Amendments of the configuration by hand (penstock/values/amendment.py), and those that are not written yet."""

from collections.abc import Iterable

from penstock.values.amendment import Amendment

AmendmentKey = tuple[str, str]  # (kind, name)


class Amended:
    """The amendments in force, in their order."""

    def __init__(self) -> None:
        self.by_key: dict[AmendmentKey, Amendment] = {}
        self.dirty: dict[AmendmentKey, None] = {}  # including removed ones

    def load(self, amendments: Iterable[Amendment]) -> None:
        """Loads the amendments from the database."""
        self.by_key = {amendment.key: amendment for amendment in amendments}

    def change(self, new: Iterable[Amendment], dropped: Iterable[AmendmentKey]) -> None:
        """Applies a change of the configuration by hand, or of its file."""
        for key in dropped:
            if self.by_key.pop(key, None) is not None:
                self.dirty[key] = None
        for amendment in new:
            self.by_key[amendment.key] = amendment
            self.dirty[amendment.key] = None

    def rows(self) -> tuple[list[tuple[int, Amendment]], list[AmendmentKey]]:
        """Returns the rows to write, with their positions, and those to delete."""
        positions = {key: position for position, key in enumerate(self.by_key)}
        written = [(positions[key], self.by_key[key]) for key in self.dirty if key in positions]
        return written, [key for key in self.dirty if key not in positions]
