"""A scraper for tests: one HTTP request on a connection of its own, and its text parsed by Prometheus' own client."""

import asyncio
import ssl
from typing import NamedTuple

from patience import ANSWER_S
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text


class ScrapedPage(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: str

    def families(self) -> dict[str, Metric]:
        """The families by name, as Prometheus' client reads them."""
        is_open = self.headers["content-type"].startswith("application/openmetrics-text")
        parse = parse_open if is_open else parse_text
        return {family.name: family for family in parse(self.body)}

    def value(self, name: str, **labels: str) -> float:
        """The value of one sample."""
        found = [
            sample.value
            for family in self.families().values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        assert len(found) == 1, f"{name}{labels}: {found} in\n{self.body[-4000:]}"
        return found[0]


async def exchange(port: int, data: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Sends bytes, and returns all that comes until the other side closes the connection."""
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="127.0.0.1" if tls else None
        )
        try:
            writer.write(data)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


async def scrape(
    port: int, path: str, tls: ssl.SSLContext | None = None, method: str = "GET", **headers: str
) -> ScrapedPage:
    """One request; names of headers have `_` for `-`."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return parsed(await exchange(port, ("\r\n".join(lines) + "\r\n\r\n").encode(), tls))


def parsed(data: bytes) -> ScrapedPage:
    """Parses an answer, whose length must be as it says."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    if body:
        assert int(headers["content-length"]) == len(body)
    return ScrapedPage(int(first.split()[1]), headers, body.decode())
