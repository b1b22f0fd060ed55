"""What was changed of the configuration by hand (penstock/values/amendment.py), and what of it is not written yet."""

from collections.abc import Iterable

from penstock.values.amendment import Amendment

AmendmentKey = tuple[str, str]  # (kind, name)


class Amended:
    """The amendments in force, in their order."""

    def __init__(self) -> None:
        self.by_key: dict[AmendmentKey, Amendment] = {}
        self.dirty: dict[AmendmentKey, None] = {}  # those that are gone too

    def load(self, amendments: Iterable[Amendment]) -> None:
        """As the database has them."""
        self.by_key = {amendment.key: amendment for amendment in amendments}

    def change(self, new: Iterable[Amendment], dropped: Iterable[AmendmentKey]) -> None:
        """The configuration has been changed by hand, or its file counts again."""
        for key in dropped:
            if self.by_key.pop(key, None) is not None:
                self.dirty[key] = None
        for amendment in new:
            self.by_key[amendment.key] = amendment
            self.dirty[amendment.key] = None

    def rows(self) -> tuple[list[tuple[int, Amendment]], list[AmendmentKey]]:
        """What must be written, with places in the order, and what must be deleted."""
        places = {key: place for place, key in enumerate(self.by_key)}
        written = [(places[key], self.by_key[key]) for key in self.dirty if key in places]
        return written, [key for key in self.dirty if key not in places]
