"""Moments of answers, reported to callers: who has an answer names its moment, and need not be sent the same again.

A moment is a digest of all on which an answer depends: the question, what its caller may see, what is committed. So it is
equal only for equal answers, and one that a caller has from another user is just another moment. The key is of this
process: after a restart, whose counts begin again, no moment is known, and none shows what it was made of.
"""

import hashlib
import os
from collections import OrderedDict
from typing import Final

_BYTES: Final = 16
#: Replies that are kept, and their bytes: those of 1,000 nodes with 8 GPUs each are some 2 MiB.
_REPLIES_MAX: Final = 8
_REPLIES_BYTES_MAX: Final = 8 * 1024 * 1024


class AnswerMoments:
    """The moments of one process."""

    def __init__(self) -> None:
        self._key = os.urandom(_BYTES)

    def of(self, *parts: object) -> bytes:
        """Returns the moment of these. Their `repr` must tell them apart."""
        text = repr(parts).encode("utf-8", "backslashreplace")
        return hashlib.blake2b(text, digest_size=_BYTES, key=self._key).digest()


class KeptReplies:
    """The last replies as on the wire, by their moments: many who ask at one moment, and may see the same, are sent the same.

    The caller has been admitted to the question before, and the moment is of what this caller may see. The least lately used go
    first; a reply of more than `bytes_max` is not kept.
    """

    def __init__(self, replies_max: int = _REPLIES_MAX, bytes_max: int = _REPLIES_BYTES_MAX) -> None:
        self._replies_max = replies_max
        self._bytes_max = bytes_max
        self._replies: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def find(self, moment: bytes) -> bytes | None:
        """Returns the reply of this moment."""
        if moment in self._replies:
            self._replies.move_to_end(moment)
        return self._replies.get(moment)

    def keep(self, moment: bytes, reply: bytes) -> bytes:
        """Keeps a reply. Returns it."""
        self._bytes += len(reply) - len(self._replies.pop(moment, b""))
        self._replies[moment] = reply
        while self._bytes > self._bytes_max or len(self._replies) > self._replies_max:
            self._bytes -= len(self._replies.popitem(last=False)[1])
        return reply
