"""Moments of answers, reported to callers: who has an answer names its moment, and need not be sent the same again.

A moment is a digest of all on which an answer depends: the question, what its caller may see, what is committed. So it is
equal only for equal answers, and one that a caller has from another user is just another moment. The key is of this
process: after a restart, whose counts begin again, no moment is known, and none shows what it was made of.
"""

import hashlib
import os
from typing import Final

_BYTES: Final = 16


class AnswerMoments:
    """The moments of one process."""

    def __init__(self) -> None:
        self._key = os.urandom(_BYTES)

    def of(self, *parts: object) -> bytes:
        """Returns the moment of these. Their `repr` must tell them apart."""
        text = repr(parts).encode("utf-8", "backslashreplace")
        return hashlib.blake2b(text, digest_size=_BYTES, key=self._key).digest()
