"""The file of a workload log: its lines, compressed or not, and the errors of all readers."""

import codecs
import gzip
import io
import zlib

from penstock.values.errors import BadValue

#: A log of ten million jobs; a larger file is probably not a log.
TRACE_BYTES_MAX = 4 * 1024**3
GZIP = b"\x1f\x8b"
#: What a text begins with -> its encoding, as programs of Windows write it.
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class TraceError(BadValue):
    """A log that cannot be read: file, line (0 = the whole file), what is wrong, what to do."""

    def __init__(self, path: str, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}" if line else f"{path}: {text}")


def lines_of(path: str, data: bytes) -> list[str]:
    """The lines of a file's contents, compressed or not. `path`: for errors. Raises TraceError."""
    try:
        if data.startswith(GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                data = stream.read(TRACE_BYTES_MAX + 1)
        if len(data) > TRACE_BYTES_MAX:
            raise TraceError(path, 0, f"more than {TRACE_BYTES_MAX} bytes; split it and use --window for parts")
        return _text(path, data).splitlines()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(path, 0, f"broken gzip file ({error}); fetch it again") from None


def _text(path: str, data: bytes) -> str:
    """The text of a file in UTF-8 or UTF-16, with or without a byte order mark."""
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    if encoding == "utf-8" and len(data) > 1 and 0 in data[:2]:  # the first character of a log is ASCII
        encoding = "utf-16-be" if data[0] == 0 else "utf-16-le"
    try:
        return data.decode(encoding, errors="surrogateescape" if encoding == "utf-8" else "strict")
    except UnicodeDecodeError as error:
        raise TraceError(path, 0, f"not a text in UTF-8 or UTF-16 ({error.reason} at byte {error.start})") from None
