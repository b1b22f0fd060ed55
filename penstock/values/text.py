"""Checks on names and bytes that users send, and the way to show refused text in a message.

Names are printed on other people's terminals, so a control character in them is an attack or an accident: refused,
with its position. Data that only the job sees (script, arguments, environment) may hold any byte but NUL, which the
kernel cannot carry. Nothing is cleaned up or cut short silently, file name components apart: there a slash would
change the folder, so it is replaced, as the documentation of patterns says.
"""

from penstock.values.errors import BadValue

NAME_BYTES_MAX = 1024  # what a column and a terminal line can sensibly hold
LINE_CHARS_MAX = 2000  # some 25 lines of a terminal
SHOWN_CHARS_MAX = 60  # enough of a refused text to recognise it, short enough for one line

# U+2028/2029 break lines, U+202A-202E and U+2066-2069 reorder what is shown: as misleading as an escape sequence.
_UNSAFE_RANGES = ((0x00, 0x1F), (0x7F, 0x9F), (0x2028, 0x202E), (0x2066, 0x2069))


def _is_control(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in _UNSAFE_RANGES)


def clean_line(text: str) -> str:
    """A line for a terminal: what it would obey is shown as a number, and what nobody reads to its end is cut."""
    if len(text) > LINE_CHARS_MAX:
        text = f"{text[: LINE_CHARS_MAX // 2]}... ({len(text)} characters) ...{text[-LINE_CHARS_MAX // 4 :]}"
    if text.isprintable():
        return text
    return "".join(_numbered(c) if (_is_control(c) and c != "\t") or 0xD800 <= ord(c) <= 0xDFFF else c for c in text)


def _numbered(char: str) -> str:
    number = ord(char) - (0xDC00 if 0xDC80 <= ord(char) <= 0xDCFF else 0)  # a byte that is not UTF-8
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def shown(text: str) -> str:
    """`text` in quotes, made safe and short for a message."""
    cut = text[:SHOWN_CHARS_MAX]
    safe = "".join(
        f"\\x{ord(c):02x}" if _is_control(c) else c.encode("utf-8", "backslashreplace").decode("utf-8") for c in cut
    )
    return f"'{safe}'" if len(cut) == len(text) else f"'{safe}...' ({len(text)} characters)"


def check_name(text: str, what: str, limit: int = NAME_BYTES_MAX) -> str:
    """`text` itself if it is valid UTF-8 of at most `limit` bytes without control characters."""
    if len(text) > limit:  # before encoding: a character is at least one byte
        raise BadValue(f"Invalid {what}: {len(text)} characters, the limit is {limit} bytes")
    for position, char in enumerate("" if text.isprintable() else text):  # what is printable is none of these
        if 0xD800 <= ord(char) <= 0xDFFF:  # how undecodable bytes arrive from the command line
            raise BadValue(f"Invalid {what}: not valid UTF-8 at position {position}")
        if _is_control(char):
            raise BadValue(f"Invalid {what}: control character 0x{ord(char):02x} at position {position}")
    size = len(text.encode("utf-8"))
    if size > limit:
        raise BadValue(f"Invalid {what}: {size} bytes, the limit is {limit}")
    return text


def check_no_nul(data: bytes, what: str) -> bytes:
    """`data` itself if it holds no NUL byte."""
    position = data.find(0)
    if position >= 0:
        raise BadValue(f"Invalid {what}: NUL byte at position {position}; remove it, the system cannot pass it on")
    return data


def safe_component(text: str) -> str:
    """`text` as one component of a path: cannot leave its folder, cannot be hidden, cannot end the path early."""
    flat = text.replace("/", "_").replace("\0", "_")
    bare = flat.lstrip(".")
    return "_" * (len(flat) - len(bare)) + bare
