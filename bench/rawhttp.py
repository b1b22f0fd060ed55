"""A client of HTTP/1.1 that costs little beside what it measures: one connection, one request at a time, nothing is decoded."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple, Self

#: Bytes that are read at a time.
READ_BYTES = 1 << 18


class RawAnswer(NamedTuple):
    """An answer of the daemon. `body`: empty if it is only counted."""

    status: int
    headers: Mapping[str, str]
    size: int
    body: bytes


class RawHttp:
    """One connection to `host:port`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    @classmethod
    async def open(cls, address: str, token: str) -> Self:
        """Connects; every request has this token."""
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=READ_BYTES)
        return cls(reader, writer, f"Host: {address}\r\nX-SLURM-USER-TOKEN: {token}\r\n")

    def close(self) -> None:
        """Closes the connection."""
        self._writer.close()

    def send(self, method: str, path: str, body: bytes = b"", more: str = "") -> None:
        """Sends a request. `more`: lines of its head."""
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{kind}{more}\r\n".encode() + body)

    async def head(self) -> tuple[int, Mapping[str, str]]:
        """Reads status and headers of an answer."""
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, _, value in pairs}

    async def some(self) -> bytes:
        """Reads what has come; b"" at the end of the connection."""
        return await self._reader.read(READ_BYTES)

    async def ask(
        self, method: str, path: str, body: bytes = b"", more: str = "", *, is_kept: bool = False
    ) -> RawAnswer:
        """A request and its answer. `is_kept`: its body, too."""
        self.send(method, path, body, more)
        status, headers = await self.head()
        size = 0
        parts: list[bytes] = []
        async for part in self._parts(headers):
            size += len(part)
            if is_kept:
                parts.append(part)
        return RawAnswer(status, headers, size, b"".join(parts))

    async def _parts(self, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        if "transfer-encoding" not in headers:
            if left := int(headers.get("content-length", "0")):
                yield await self._reader.readexactly(left)
            return
        while size := int(await self._reader.readline(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
