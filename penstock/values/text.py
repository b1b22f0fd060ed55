"""Checks names and bytes that users send, and quotes refused text in messages.

Names are printed on other users' terminals, so a control character in them is an attack or an accident: it is refused,
with its position. Data that only the job sees (script, arguments, environment) may contain any byte but NUL, which the
kernel cannot pass on. Nothing is silently corrected or truncated, except components of file names: a slash would change
the folder, so it is replaced, as documented for file name patterns.
"""

import re
from functools import cache

from penstock.values.errors import BadValue

NAME_BYTES_MAX = 1024  # reasonable for a database column and a line of a terminal
LINE_CHARS_MAX = 2000  # about 25 lines of a terminal
SHOWN_CHARS_MAX = 60  # long enough to recognise a refused text, short enough for one line

# U+2028/2029 break lines; U+061C, U+200E/200F, U+202A-202E and U+2066-2069 reorder displayed text: as misleading as an
# escape sequence.
_UNSAFE_RANGES = ((0x00, 0x1F), (0x7F, 0x9F), (0x61C, 0x61C), (0x200E, 0x200F), (0x2028, 0x202E), (0x2066, 0x2069))


def _is_control(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in _UNSAFE_RANGES)


def clean_line(text: str) -> str:
    """Sanitises a line for a terminal: control characters are shown as numbers, and very long lines are truncated."""
    if len(text) > LINE_CHARS_MAX:
        text = f"{text[: LINE_CHARS_MAX // 2]}... ({len(text)} characters) ...{text[-LINE_CHARS_MAX // 4 :]}"
    if text.isprintable():
        return text
    return _unsafe_runs().sub(lambda found: found[0].translate(_as_numbers()), text)


@cache
def _unsafe_runs() -> re.Pattern[str]:
    """Characters that are refused or shown as numbers, as many as follow each other: a hostile text has no others, and a
    node may send megabytes of it."""
    ranges = "".join(f"{chr(low)}-{chr(high)}" for low, high in _UNSAFE_RANGES)
    return re.compile(f"[{ranges}\ud800-\udfff]+")


@cache
def _as_numbers() -> dict[int, str]:
    codes = (code for low, high in (*_UNSAFE_RANGES, (0xD800, 0xDFFF)) for code in range(low, high + 1))
    return {code: _numbered(chr(code)) for code in codes if code != ord("\t")}


#: ASCII control characters that terminals interpret; tabs and line breaks are layout.
_OBEYED = tuple(chr(n) for n in (*range(0x20), 0x7F) if n not in b"\t\n")
#: All control characters, and bytes that are not UTF-8, which a terminal with an 8-bit encoding would take for C1.
_OBEYED_AT_ALL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udc9f]")


def clean_block(text: str, kept: str = "") -> str:
    """Sanitises text for a terminal or a log: control characters are shown as numbers; tabs, line breaks and `kept`
    stay.

    A text without line breaks and tabs, the usual case, is recognised at once. Another one is searched for each such
    character, which is the fastest method if there is none: less than half a nanosecond per character, without a copy.
    """
    if text.isascii() and (text.isprintable() or not any(char in text for char in _OBEYED)):
        return text
    return _OBEYED_AT_ALL.sub(lambda found: found[0] if found[0] in kept else _numbered(found[0]), text)


def clean_line_breaks(text: str) -> str:
    """Returns the text as one line."""
    return text.replace("\n", "\\x0a")


def _numbered(char: str) -> str:
    number = ord(char) - (0xDC00 if 0xDC80 <= ord(char) <= 0xDCFF else 0)  # a byte that is not UTF-8
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def shown(text: str) -> str:
    """Returns `text` in quotes, made safe and short for a message."""
    cut = text[:SHOWN_CHARS_MAX]
    safe = (
        cut
        if cut.isprintable()
        else "".join(
            f"\\x{ord(c):02x}" if _is_control(c) else c.encode("utf-8", "backslashreplace").decode("utf-8") for c in cut
        )
    )
    return f"'{safe}'" if len(cut) == len(text) else f"'{safe}...' ({len(text)} characters)"


def unsafe(text: str, allowed: str = "") -> str:
    """Describes the first character that a text must not contain, and its position; "" = none. `allowed`: control
    characters that are accepted.
    """
    if text.isprintable():  # no refused character is printable, and most texts are printable
        return ""
    for found in _unsafe_runs().finditer(text):
        for position, char in enumerate(found[0], found.start()):
            if 0xD800 <= ord(char) <= 0xDFFF:  # undecodable bytes of the command line
                return f"not valid UTF-8 at position {position}"
            if char not in allowed:
                return f"control character 0x{ord(char):02x} at position {position}"
    return ""


def check_name(text: str, what: str, limit: int = NAME_BYTES_MAX) -> str:
    """Returns `text` if it is valid UTF-8 of at most `limit` bytes without control characters. Raises BadValue."""
    if len(text) > limit:  # before encoding: a character is at least one byte
        raise BadValue(f"Invalid {what}: {len(text)} characters, the limit is {limit} bytes")
    if problem := unsafe(text):
        raise BadValue(f"Invalid {what}: {problem}")
    size = len(text.encode("utf-8"))
    if size > limit:
        raise BadValue(f"Invalid {what}: {size} bytes, the limit is {limit}")
    return text


def check_no_nul(data: bytes, what: str) -> bytes:
    """Returns `data` if it contains no NUL byte. Raises BadValue."""
    position = data.find(0)
    if position >= 0:
        raise BadValue(f"Invalid {what}: NUL byte at position {position}; remove it, the system cannot pass it on")
    return data


def safe_component(text: str) -> str:
    """Returns `text` as one path component: it cannot leave its folder, be hidden, or end the path early."""
    flat = text.replace("/", "_").replace("\0", "_")
    bare = flat.lstrip(".")
    return "_" * (len(flat) - len(bare)) + bare
