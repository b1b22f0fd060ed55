"""Parses the wire protocols on PMI_FD to commands: PMI-1 lines, PMI-1 blocks (mcmd) and PMI-2 messages.

    PMI-1   cmd=get kvsname=step key=PMI_process_mapping\\n
    mcmd    mcmd=spawn\\nnprocs=2\\n...endcmd\\n
    PMI-2   six digits with the length of what follows, then cmd=kvs-get;thrid=0x1;key=card;

Rules
    - The first byte of a message identifies its protocol, so both are served on one descriptor: a PMI-2 client opens with a
      PMI-1 line (cmd=init) and continues in PMI-2.
    - An answer is in the protocol of its request. In PMI-2 the thread id is returned unchanged.
    - Keys and values are bytes; nothing is decoded. The value of a PMI-1 put is the rest of its line. A semicolon
      within a PMI-2 value is doubled.

Sources: the message lists in MPICH's documentation (PMI 1.2 and 2.0) and RFC 13 of the Flux framework.
"""

#: A put in PMI-1 is a line of 1 kB; a PMI-2 message is limited as in MPICH.
MESSAGE_BYTES_MAX = 64 * 1024
_LENGTH_BYTES = 6
#: Everything after it, including blanks, is its value: it is the last attribute of its line.
_REST = b"value="

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Iterable


class BadMessage(Exception):
    """Data that is no message of any protocol: nothing after it can be parsed."""


class Message:
    """A command: `version` is the protocol it came in (1 or 2)."""

    __slots__ = ("name", "version", "words")

    def __init__(self, version: int, words: dict[bytes, bytes]) -> None:
        self.version = version
        self.name = words.pop(b"cmd", b"")
        self.words = words

    def get(self, name: bytes, default: bytes = b"") -> bytes:
        """Returns an attribute's value."""
        return self.words.get(name, default)


class PmiReader:
    """Assembles messages: `feed`, then `take` until it returns None."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> None:
        """Adds received data."""
        self._buffer += data

    def take(self) -> Message | None:
        """The next whole message, or None. Raises BadMessage."""
        buffer = self._buffer
        if not buffer:
            return None
        if buffer[:1].isdigit() or buffer[:1] == b" ":
            return self._take_framed()
        if not buffer.startswith(b"mcmd="[: len(buffer)]):
            return self._take_line()
        end = buffer.find(b"\nendcmd\n")
        if end < 0:
            return self._partial()
        self._buffer = buffer[end + len(b"\nendcmd\n") :]
        lines = (line.partition(b"=") for line in buffer[:end].split(b"\n"))
        return Message(1, {b"cmd" if name == b"mcmd" else name: value for name, _, value in lines})

    def _partial(self) -> Message | None:
        if len(self._buffer) > MESSAGE_BYTES_MAX:
            raise BadMessage(f"a message of more than {MESSAGE_BYTES_MAX} bytes")
        return None

    def _take_line(self) -> Message | None:
        line, newline, rest = self._buffer.partition(b"\n")
        if not newline:
            return self._partial()
        self._buffer = rest
        if not line.startswith(b"cmd="):
            raise BadMessage(f"expected cmd=, got {line[:40]!r}")
        words: dict[bytes, bytes] = {}
        head, is_put, value = line.partition(b" " + _REST)
        for word in head.split():
            name, _, text = word.partition(b"=")
            words[name] = text
        if is_put:
            words[b"value"] = value
        return Message(1, words)

    def _take_framed(self) -> Message | None:
        head = self._buffer[:_LENGTH_BYTES]
        if len(head) < _LENGTH_BYTES:
            return None
        if not head.strip().isdigit() or int(head) > MESSAGE_BYTES_MAX:
            raise BadMessage(f"a length of {head!r}")
        end = _LENGTH_BYTES + int(head)
        if len(self._buffer) < end:
            return None
        body = self._buffer[_LENGTH_BYTES:end]
        self._buffer = self._buffer[end:]
        return Message(2, dict(_pairs(body)))


def _pairs(body: bytes) -> "Iterable[tuple[bytes, bytes]]":
    """Returns name and value of each attribute of a PMI-2 message."""
    at = 0
    while at < len(body):
        equals = body.find(b"=", at)
        if equals < 0:
            if body[at:].strip(b"; \n\0"):
                raise BadMessage(f"a word without a value: {body[at : at + 40]!r}")
            return
        end = equals + 1
        while (end := body.find(b";", end)) >= 0 and body[end + 1 : end + 2] == b";":
            end += 2
        stop = end if end >= 0 else len(body)
        yield body[at:equals].strip(), body[equals + 1 : stop].replace(b";;", b";")
        at = stop + 1


def encode(version: int, name: bytes, words: "Iterable[tuple[bytes, bytes]]") -> bytes:
    """Encodes a message."""
    if version == 1:
        return b" ".join([b"cmd=" + name, *(word + b"=" + value for word, value in words)]) + b"\n"
    pairs = ((word, value.replace(b";", b";;")) for word, value in words)
    body = b"".join([b"cmd=" + name + b";", *(word + b"=" + value + b";" for word, value in pairs)])
    return b"%6d" % len(body) + body
