"""Entity tags (ETag, If-None-Match): what a caller has already is not sent again.

A tag is a digest of the request and of the controller's answers to it, so the same cluster seen by the same rights has the
same tag at every REST daemon. It is weak: the time of the answer is not counted.

To make a tag the whole answer is needed. So that a poller of jobs costs no list, the daemon keeps the moment of each tag: what
the controller said when it began that answer (ListJobsReply.moment), and compares with its own for whoever asks now. Moments
are compared by the controller alone, and differ between callers who may see different jobs: a tag of another user's answer
opens nothing. One that is not kept any more, or not by this daemon, costs a list, as before.
"""

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from google.protobuf.message import Message

_BYTES: Final = 16
#: Tags of one If-None-Match that are looked at.
_TAGS_MAX: Final = 64
#: Tags whose moments are kept: some 200 bytes each.
_MOMENTS_MAX: Final = 4096


class EntityTag:
    """The tag of one answer, which grows with the controller's replies. `is_whole`: no reply changes it any more."""

    def __init__(self, *request: str, is_whole: bool = False) -> None:
        self._is_whole = is_whole
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
        if self._is_whole:
            return data
        self._digest.update(b"%d:" % len(data))
        self._digest.update(data)
        return data

    def text(self) -> str:
        """The tag as in the header."""
        return f'W/"{self._digest.hexdigest()}"'

    def is_among(self, header: str) -> bool:
        """Whether an If-None-Match names it, or any."""
        tags = tags_of(header)
        return "*" in tags or self.text().removeprefix("W/") in tags


def tags_of(header: str) -> list[str]:
    """The tags of an If-None-Match, without the mark of weak ones."""
    return [one.strip().removeprefix("W/") for one in header.split(",", _TAGS_MAX)] if header else []


class KnownAnswer(NamedTuple):
    """An answer that a caller says it has. `moment`: b"" = none is known."""

    tag: str = ""
    moment: bytes = b""


class KeptMoments:
    """The moments of tags that were given lately, by the question that each answers; the least lately used go first."""

    def __init__(self, tags_max: int = _MOMENTS_MAX) -> None:
        self._tags_max = tags_max
        self._moments: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def keep(self, question: str, tag: str, moment: bytes) -> None:
        """Keeps one."""
        self._moments[question, tag.removeprefix("W/")] = moment
        self._moments.move_to_end((question, tag.removeprefix("W/")))
        if len(self._moments) > self._tags_max:
            self._moments.popitem(last=False)

    def known(self, question: str, header: str) -> KnownAnswer:
        """The first answer to the question that an If-None-Match names, and whose moment is kept."""
        for tag in tags_of(header):
            moment = self._moments.get((question, tag))
            if moment is not None:
                self._moments.move_to_end((question, tag))
                return KnownAnswer(f"W/{tag}", moment)
        return KnownAnswer()
