"""Makes equal values of many records one object: the oracle of sharing.pyx, and what is used where it was not built.

    share = PlainSharing(known, ("name", "work_dir"), ("std_out",), usual, set_field); share(record)

`known` has the values met so far, by themselves. A field of the first names gets the known value that equals its own; one of
the second names, which is mostly different, gets the previous record's if that is equal. A value that is the usual record's
is one object already; an equal one does not become it, since an encoder that omits defaults knows them as objects.
"""

from collections.abc import Callable, Sequence


class PlainSharing:
    """Shares the values of records of classes with the same fields. `set_field` (record, name, value) sets a field, also of
    a frozen record."""

    def __init__(
        self,
        known: dict[object, object],
        shared: Sequence[str],
        repeated: Sequence[str],
        usual: object,
        set_field: Callable[..., None],
    ) -> None:
        self._known = known
        self._shared = tuple(shared)
        self._names = (*shared, *repeated)
        self._usual = [getattr(usual, name) for name in self._names]
        self._last: list[object] = [None] * len(self._names)
        self._set = set_field

    def __call__(self, record: object) -> None:
        """Replaces values of the record, which nobody else uses yet, by equal ones."""
        for at, name in enumerate(self._names):
            value = getattr(record, name)
            before = self._last[at]
            if value is before or value is self._usual[at]:
                continue
            if type(value) is type(before) and value == before:
                found = before
            elif at < len(self._shared):
                found = self._known.setdefault(value, value)
                if type(found) is not type(value):  # as True and 1
                    found = value
            else:
                found = value
            self._last[at] = found
            if found is not value:
                self._set(record, name, found)
