"""The head of a request: what is refused before it is read, and what llhttp (httptools) finds in it.

    end = HEAD_END.search(data)
    refusal_of_head(data, end)              # (431, "the head has more than ...")
    head = RequestHead(data[: end.end()])
    head.is_request, head.method, head.url

llhttp is strict about the lines of a head, but reads other protocols, too, and heads without a host: these are no requests
here. Nobody has checked a request yet when its head is read, and each line takes time: heads of many lines are refused before.
"""

import re
from typing import Final

import httptools

from rest.body import BODY_IS_CHUNKED

HEAD_BYTES_MAX: Final = 64 * 1024
#: Lines of a head; browsers and proxies send some 30.
HEAD_LINES_MAX: Final = 128
HEAD_END: Final = re.compile(rb"\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"[A-Z-]+ [\x21-\x7e]+ HTTP/1\.[01]\r\n")


class RequestHead:
    """What llhttp finds in a whole head. `is_request`: it is one of HTTP/1.1 or 1.0, and nothing else may be read."""

    def __init__(self, data: bytes) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_request = False
        self.keeps_alive = False
        self.body_bytes = 0
        self.expects_continue = False
        self.version = ""
        self.method = ""
        self._parser: httptools.HttpRequestParser | None = None  # while it reads: it holds this object, too
        if _REQUEST_LINE.match(data):
            self._read(data)

    def _read(self, data: bytes) -> None:
        self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # nothing else is spoken here: it is a request as others
            pass
        except httptools.HttpParserError:
            return
        finally:
            self._parser = None
        hosts = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":  # one of digits, else llhttp had refused it
                self.body_bytes = int(value)
            elif name == b"expect" and value.lower() == b"100-continue":
                self.expects_continue = self.version == "1.1"
        self.is_request = bool(self.version) and (hosts == 1 or (hosts == 0 and self.version == "1.0"))

    def on_url(self, url: bytes) -> None:
        """Called by the parser, as are the others."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head."""
        self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The end of the head: the parser forgets it with the end of the message."""
        assert self._parser is not None
        self.version = self._parser.get_http_version()
        self.method = self._parser.get_method().decode("ascii")
        self.keeps_alive = self.version == "1.1" and self._parser.should_keep_alive()


def refusal_of_head(data: bytes, end: re.Match[bytes] | None) -> tuple[int, str] | None:
    """Why the head that the data begin with is not parsed, a status and a text; None = it is. `end`: where the head ends."""
    head = data[: end.start()] if end is not None else data
    if head.count(b"\n") > HEAD_LINES_MAX or len(head) > HEAD_BYTES_MAX:
        return 431, f"the head has more than {HEAD_LINES_MAX} lines or {HEAD_BYTES_MAX} bytes"
    return (406, BODY_IS_CHUNKED) if end is not None and b"\ntransfer-encoding" in head.lower() else None
