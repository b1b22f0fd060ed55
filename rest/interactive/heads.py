"""Heads of requests and answers on the way through the proxy: what is refused, and what the other side must not see. Pure.

A head is parsed by h11 and written anew from what was parsed, with one length and for one message, so the program behind
sees the same borders as the proxy. What h11 is lenient about is refused before (`check_head`).
"""

import re
from collections.abc import Sequence
from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
HEAD_LINES_MAX: Final = 128
Headers = list[tuple[bytes, bytes]]

#: RFC 9110, 7.6.1, and those of proxies.
_HOP_BY_HOP: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
     b"transfer-encoding", b"upgrade")
)  # fmt: skip
#: What proves who a caller is to Penstock, or says where a request came from: the program must not have the one, and gets
#: no lies about the other.
_KEPT_BACK: Final = frozenset(
    (b"authorization", b"x-slurm-user-token", b"x-slurm-user-name", b"x-penstock-web", b"forwarded", b"expect",
     b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip")
)  # fmt: skip
#: Headers of answers whose effect is on the whole origin, which is that of all sessions.
_FOR_ORIGIN: Final = frozenset(
    (b"service-worker-allowed", b"clear-site-data", b"strict-transport-security", b"alt-svc", b"public-key-pins",
     b"origin-agent-cluster", b"nel", b"report-to", b"reporting-endpoints", b"set-cookie2")
)  # fmt: skip
#: Cookies of Penstock: of the web interface, and of sessions.
OWN_COOKIES: Final = b"penstock"
_COOKIE_BYTES_MAX: Final = 4096
_LINE: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*")
_TARGET: Final = re.compile(rb"/[\x21-\x7e]*")


class ProxyRefusal(Exception):
    """A head that is refused; `status` is of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def check_head(head: bytes) -> None:
    """Checks the head of a request, which ends in an empty line: one reading of it is possible. Raises ProxyRefusal."""
    lines = head.split(b"\r\n")[:-2]
    if len(lines) > HEAD_LINES_MAX:
        raise ProxyRefusal(431, f"the head has more than {HEAD_LINES_MAX} lines")
    words = lines[0].split(b" ")
    if len(words) != 3 or words[2] != b"HTTP/1.1":
        raise ProxyRefusal(400, "the request is none of HTTP/1.1")
    if not _TARGET.fullmatch(words[1]):  # no absolute form, no CONNECT
        raise ProxyRefusal(400, "the request names no path")
    names: list[bytes] = []
    for line in lines[1:]:
        if not _LINE.fullmatch(line):  # also a line that goes on (obs-fold), and space before the colon
            raise ProxyRefusal(400, "a line of the head is none of HTTP")
        names.append(line.partition(b":")[0].lower())
    for name in (b"host", b"content-length", b"transfer-encoding", b"origin", b"upgrade", b"authorization"):
        if names.count(name) > 1:
            raise ProxyRefusal(400, f"the head has {name.decode()} twice")
    if b"host" not in names:
        raise ProxyRefusal(400, "the head has no host")
    if b"content-length" in names and b"transfer-encoding" in names:
        raise ProxyRefusal(400, "the head has two lengths: content-length and transfer-encoding")


def one(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes:
    """The value of a header; empty = it is not there."""
    return next((value for key, value in headers if key == name), b"")


def is_upgrade(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the request asks for a WebSocket, the only upgrade that is passed on."""
    return one(headers, b"upgrade").lower() == b"websocket" and b"upgrade" in _listed(headers)


def cookie(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes:
    """The value of a cookie; the first one is that of the longest path."""
    for key, value in headers:
        for item in value.split(b";") if key == b"cookie" else ():
            found, _, text = item.strip().partition(b"=")
            if found == name:
                return text
    return b""


def for_program(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The headers of a request as the program gets them."""
    gone = _HOP_BY_HOP | _KEPT_BACK | _listed(headers)
    kept = [(name, value) for name, value in headers if name not in gone and name != b"cookie"]
    if one(headers, b"transfer-encoding"):
        kept.append((b"transfer-encoding", b"chunked"))
    cookies = [
        item.strip()
        for name, value in headers
        if name == b"cookie"
        for item in value.split(b";")
        if item.strip() and not item.strip().lower().startswith(OWN_COOKIES)
    ]
    if cookies:
        kept.append((b"cookie", b"; ".join(cookies)))
    return kept + _connection(is_upgrade(headers))


def for_browser(headers: Sequence[tuple[bytes, bytes]], base: str, is_switch: bool) -> Headers:
    """The headers of an answer as the browser gets them. `base`: the path of the session, which its cookies stay below."""
    gone = _HOP_BY_HOP | _FOR_ORIGIN | _listed(headers)
    kept = [(name, value) for name, value in headers if name not in gone and name != b"set-cookie"]
    for name, value in headers:
        if name == b"set-cookie" and (confined := confined_cookie(value, base.encode())):
            kept.append((name, confined))
    return kept + _connection(is_switch)


def confined_cookie(value: bytes, base: bytes) -> bytes:
    """A cookie that a program sets, for its own session alone; empty = it may not be set."""
    name, *attributes = value.split(b";")
    key = name.partition(b"=")[0].strip()
    if not key or b"=" not in name or len(value) > _COOKIE_BYTES_MAX or key.lower().startswith(OWN_COOKIES):
        return b""
    if key.lower().startswith(
        (b"__host-", b"__secure-")
    ):  # the former is for the whole origin, the latter may be toppled
        return b""
    kept, path = [name.strip()], base
    for attribute in attributes:
        word, _, text = attribute.strip().partition(b"=")
        if word.lower() == b"path" and text.strip().startswith(base):
            path = text.strip()
        elif word.lower() not in (b"path", b"domain", b"samesite", b"partitioned", b""):
            kept.append(attribute.strip())
    return b"; ".join([*kept, b"Path=" + path, b"SameSite=Lax"])


def _connection(is_switch: bool) -> Headers:
    if is_switch:
        return [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    return [(b"connection", b"close")]


def _listed(headers: Sequence[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """What Connection names: for this hop alone."""
    words = b",".join(value for name, value in headers if name == b"connection").split(b",")
    return (
        frozenset(word.strip().lower() for word in words) - {b""} - {b"host", b"content-length", b"cookie", b"origin"}
    )
