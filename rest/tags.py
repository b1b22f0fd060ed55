"""Entity tags (ETag, If-None-Match): what a caller has already is not sent again.

A tag is a digest of the request and of the controller's answers to it, so the same cluster seen by the same rights has the
same tag at every REST daemon. It is weak: the time of the answer is not counted.
"""

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.message import Message

_BYTES: Final = 16
#: Tags of one If-None-Match that are looked at.
_TAGS_MAX: Final = 64


class EntityTag:
    """The tag of one answer, which grows with the controller's replies."""

    def __init__(self, *request: str) -> None:
        self._digest = hashlib.blake2b(digest_size=_BYTES)
        for text in request:
            self.vary(text)

    def vary(self, text: str) -> None:
        """Counts a text on which the answer depends."""
        data = text.encode("utf-8", "surrogateescape")
        self._digest.update(b"%d:" % len(data) + data)

    def note(self, reply: "Message") -> bytes:
        """Counts a reply of the controller. Returns it as on the wire."""
        data = reply.SerializeToString(deterministic=True)
        self._digest.update(b"%d:" % len(data))
        self._digest.update(data)
        return data

    def text(self) -> str:
        """The tag as in the header."""
        return f'W/"{self._digest.hexdigest()}"'

    def is_among(self, header: str) -> bool:
        """Whether an If-None-Match names it, or any."""
        if not header:
            return False
        tags = [one.strip().removeprefix("W/") for one in header.split(",", _TAGS_MAX)]
        return "*" in tags or self.text().removeprefix("W/") in tags
