"""Texts of items that were sent lately: a poller's list has few items that have changed since.

    text = texts.of(form, data, make)

An item's text depends on its form, which is that of one path and version, and on the bytes of the controller's message that
it is made of, as the caller got them: who may not see a job never has its bytes. The least lately used go first.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable

#: Bytes of a digest: who can name jobs chooses what is digested, and must find no two that have the same one.
_DIGEST_BYTES = 32


class KeptTexts:
    """The texts of one daemon. `bytes_max`: of all of them."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._texts: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self.size = 0

    def of(self, form: str, data: bytes, make: Callable[[], bytes]) -> bytes:
        """The text of these bytes in a form of that name; made if it is not kept."""
        key = form, hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
        found = self._texts.get(key)
        if found is not None:
            self._texts.move_to_end(key)
            return found
        made = self._texts[key] = make()
        self.size += len(made)
        while self.size > self._bytes_max:
            _, gone = self._texts.popitem(last=False)
            self.size -= len(gone)
        return made

    def of_list(self, form: str, bytes_max: int) -> Callable[[bytes, Callable[[], bytes]], bytes]:
        """`of` for the items of one list: of a list with more bytes than these, the texts of the first are kept."""
        left = bytes_max

        def kept(data: bytes, make: Callable[[], bytes]) -> bytes:
            nonlocal left
            left -= len(data)
            return self.of(form, data, make) if left > 0 else make()

        return kept
