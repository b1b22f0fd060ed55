"""The profile of a step on one node: its time lines, as one byte string of at most BYTES_MAX.

A line is of the step's processes (HOST), of those of one of its tasks (TASK, named by its rank) or of one of its GPUs (GPU,
named by its UUID). The node makes the bytes when the
step ends, or when asked before; the controller stores them unread; who shows a profile reads them, with bounds for all that
a node could have sent: bytes before and after they are inflated, lines, lengths, points, values.

Pure.
"""

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.values.packing import Damaged, pack, unpack
from penstock.values.timeline import BYTES_MAX as LINE_BYTES_MAX
from penstock.values.timeline import Point, SampleLine, decode

HOST: Final = "host"
GPU: Final = "gpu"
TASK: Final = "task"
#: The columns of a line, by its kind. Rates are since the point before; `throttled`: how often the hardware slowed it down.
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    HOST: ("cpu_milli", "mem_kb", "read_bytes_s", "write_bytes_s"),
    TASK: ("cpu_milli", "mem_kb", "read_bytes_s", "write_bytes_s"),
    GPU: ("util_permille", "mem_kb", "power_mw", "temperature_c", "throttled_permille"),
}
#: Bytes of a profile: of a step on one node. With its report around it, it is below a record of the node's journal.
BYTES_MAX: Final = 63 * 1024
#: Lines of a profile: a node has at most some dozens of GPUs, and parts of them.
LINES_MAX: Final = 257
NAME_CHARS_MAX: Final = 96
#: Bytes of a profile that is inflated: LINES_MAX full lines would be more, and are never sent.
INFLATED_BYTES_MAX: Final = 4 * 1024 * 1024
_VERSION: Final = b"1"
_PARTS: Final = 3  # of a line: kind, name, points


class ProfileLine(NamedTuple):
    """One line, decoded."""

    kind: str
    name: str  # of a GPU its UUID
    points: Sequence[Point]


def encode_profile(lines: Sequence[tuple[str, str, SampleLine]], bytes_max: int = BYTES_MAX) -> bytes:
    """The profile of these lines (kind, name, points), which are made coarser until they fit. Empty without a point."""
    kept = [one for one in lines if one[2].count][:LINES_MAX]
    while kept:
        parts = [part for kind, name, line in kept for part in (kind.encode(), name.encode(), line.data)]
        data = zlib.compress(pack([_VERSION, *parts]))
        if len(data) <= bytes_max and sum(map(len, parts)) <= INFLATED_BYTES_MAX // 2:
            return data
        longest = max(line.count for _, _, line in kept)
        if longest == 1:
            kept = kept[: len(kept) // 2]
        for _, _, line in kept:
            if line.count * 2 > longest:
                line.halve()
    return b""


def decode_profile(data: bytes) -> list[ProfileLine]:
    """The lines of a profile that came from anywhere. Raises Damaged. Lines of kinds of later versions are left out."""
    if len(data) > BYTES_MAX:
        raise Damaged(f"a profile of more than {BYTES_MAX} bytes")
    try:
        inflater = zlib.decompressobj()
        inflated = inflater.decompress(data, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise Damaged("a profile that cannot be inflated") from error
    if not inflater.eof or inflater.unused_data:
        raise Damaged("a profile that is too large, or cut short")
    version, *parts = unpack(inflated) or [b""]
    if version != _VERSION or len(parts) % _PARTS or len(parts) > LINES_MAX * _PARTS:
        raise Damaged("a profile in a form that is not known")
    found = []
    for kind, name, points in zip(parts[::_PARTS], parts[1::_PARTS], parts[2::_PARTS], strict=True):
        columns = COLUMNS.get(_text(kind))
        if columns is None:
            continue
        if len(points) > LINE_BYTES_MAX * 2:
            raise Damaged("a time line of too many bytes")
        found.append(ProfileLine(_text(kind), _text(name), decode(points, len(columns))))
    return found


def _text(data: bytes) -> str:
    """A short name without control characters. Raises Damaged."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise Damaged("a name in a profile is no plain text") from error
    if len(text) > NAME_CHARS_MAX or not text.isprintable():
        raise Damaged("a name in a profile is too long, or no plain text")
    return text
