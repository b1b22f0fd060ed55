"""The endpoint: answers, access, and clients that are slow, silent, many or wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import ANSWER_S

from penstock.exporter import endpoint as module
from penstock.exporter.access import AccessVerdict, ScrapeAccess, networks_of
from penstock.exporter.endpoint import CONNECTIONS_MAX, MetricsEndpoint, MetricsPage
from penstock.exporter.exposition import MetricFamily, MetricType, gauge, labels
from penstock.exporter.request import HEAD_BYTES_MAX, BadHead, parse_request
from tests.observe.scraping import exchange, parsed, scrape

OPEN = ScrapeAccess()
TOKEN = b"0123456789abcdef0123456789abcdef"


class Counting:
    """A page that counts how often it is made."""

    def __init__(self) -> None:
        self.made = 0
        self.go = asyncio.Event()
        self.go.set()

    async def families(self) -> list[MetricFamily]:
        await self.go.wait()
        self.made += 1
        return [gauge("made", "how often", self.made)]


@contextlib.asynccontextmanager
async def served(access: ScrapeAccess = OPEN, **pages: Any) -> AsyncIterator[int]:
    """An endpoint with these pages; yields its port."""
    endpoint = MetricsEndpoint({f"/metrics/{name}": page for name, page in pages.items()}, lambda: access)
    port = await endpoint.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        endpoint.stop()


def test_a_page_is_made_once_for_many_scrapers_and_again_when_it_is_old(monkeypatch):
    monkeypatch.setattr(module, "KEPT_S", 3600.0)

    async def body() -> None:
        page = Counting()
        page.go.clear()
        async with served(a=MetricsPage("page a", page.families)) as port:
            asked = [asyncio.ensure_future(scrape(port, "/metrics/a")) for _ in range(8)]
            await asyncio.sleep(0)
            page.go.set()
            assert {(one.status, one.value("made")) for one in await asyncio.gather(*asked)} == {(200, 1.0)}
            assert (await scrape(port, "/metrics/a?x=1")).value("made") == 1
            monkeypatch.setattr(module, "KEPT_S", 0.0)
            assert (await scrape(port, "/metrics/a")).value("made") == 2

    asyncio.run(body())


def test_the_format_is_negotiated_and_head_has_no_body():
    async def body() -> None:
        async with served(a=MetricsPage("page a", Counting().families)) as port:
            plain = await scrape(port, "/metrics/a")
            assert plain.headers["content-type"].startswith("text/plain; version=0.0.4") and "# EOF" not in plain.body
            wanted = "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5"
            opened = await scrape(port, "/metrics/a", Accept=wanted)
            assert opened.headers["content-type"].startswith("application/openmetrics-text")
            assert opened.body.endswith("# EOF\n") and opened.value("made") == 2
            head = await scrape(port, "/metrics/a", method="HEAD")
            assert head.status == 200 and head.body == "" and int(head.headers["content-length"]) > 0
            listed = await scrape(port, "/metrics")
            assert listed.status == 200 and listed.body == "/metrics/a: page a\n"
            missing = await scrape(port, "/metrics/b")
            assert missing.status == 404 and missing.body == "there are /metrics/a\n"

    asyncio.run(body())


def test_a_connection_serves_several_requests():
    async def body() -> None:
        async with served(a=MetricsPage("page a", Counting().families)) as port, asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(b"GET /metrics/a HTTP/1.1\r\nHost: x\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"200 OK" in head and b"keep-alive" in head
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                assert b"made" in await reader.readexactly(length)
            writer.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("access", "authorization", "verdict"),
    [
        (ScrapeAccess(), "", AccessVerdict.ADMITTED),
        (ScrapeAccess(TOKEN), "", AccessVerdict.NO_TOKEN),
        (ScrapeAccess(TOKEN), f"Bearer {TOKEN.decode()}x", AccessVerdict.NO_TOKEN),
        (ScrapeAccess(TOKEN), f"Basic {TOKEN.decode()}", AccessVerdict.NO_TOKEN),
        (ScrapeAccess(TOKEN), "Bearer \u00e9", AccessVerdict.NO_TOKEN),
        (ScrapeAccess(TOKEN), f"bearer  {TOKEN.decode()} ", AccessVerdict.TRUSTED),
        (ScrapeAccess(TOKEN, networks_of(("10.0.0.0/8",))), f"Bearer {TOKEN.decode()}", AccessVerdict.FORBIDDEN),
        (ScrapeAccess(b"", networks_of(("10.0.0.0/8", "127.0.0.1"))), "", AccessVerdict.ADMITTED),
    ],
)
def test_access(access, authorization, verdict):
    assert access.judge("127.0.0.1", authorization) is verdict


def test_an_allow_list_knows_mapped_addresses_and_scopes():
    access = ScrapeAccess(b"", (ip_network("10.0.0.0/8"), ip_network("fe80::/10")))
    assert access.judge("::ffff:10.1.1.1", "") is AccessVerdict.ADMITTED
    assert access.judge("fe80::1%eth0", "") is AccessVerdict.ADMITTED
    assert (
        access.judge("11.0.0.1", "") is access.judge("nonsense", "") is access.judge("", "") is AccessVerdict.FORBIDDEN
    )


def test_a_hidden_page_is_for_the_token_alone():
    async def body() -> None:
        page = MetricsPage("page a", Counting().families, lambda: "PrivateData=jobs hides this")
        async with served(a=page) as port:
            refused = await scrape(port, "/metrics/a")
            assert refused.status == 403 and refused.body == "PrivateData=jobs hides this\n"
        async with served(ScrapeAccess(TOKEN), a=page) as port:
            nobody = await scrape(port, "/metrics/a")
            assert nobody.status == 401 and nobody.headers["www-authenticate"] == "Bearer"
            trusted = await scrape(port, "/metrics/a", Authorization=f"Bearer {TOKEN.decode()}")
            assert trusted.status == 200 and trusted.value("made") == 1

    asyncio.run(body())


def test_a_page_that_fails_is_an_error_and_not_the_end(caplog):
    async def fails() -> list[MetricFamily]:
        raise KeyError("secret")

    async def body() -> None:
        async with served(a=MetricsPage("page a", fails), b=MetricsPage("page b", Counting().families)) as port:
            failed = await scrape(port, "/metrics/a")
            assert failed.status == 500 and "secret" not in failed.body
            assert (await scrape(port, "/metrics/b")).status == 200

    asyncio.run(body())
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics/a HTTP/2.0\r\n\r\n", 400),
        (b"GET /metrics/a HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"POST /metrics/a HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics/a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET /metrics/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET /metrics/a HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
        (b"GET " + b"/" * HEAD_BYTES_MAX * 4, 431),
        (b"\x00" * 64 + b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
    ],
)
def test_wrong_requests_get_one_answer_and_the_connection_ends(data, status):
    async def body() -> None:
        async with served(a=MetricsPage("page a", Counting().families)) as port:
            assert parsed(await exchange(port, data)).status == status
            assert (await scrape(port, "/metrics/a")).status == 200

    asyncio.run(body())


@given(st.binary(max_size=300))
def test_a_head_of_any_bytes_is_a_request_or_refused(data):
    with contextlib.suppress(BadHead):
        request = parse_request(data + b"\r\n\r\n")
        assert request.method in ("GET", "HEAD") and "?" not in request.path


def test_silent_clients_are_closed_in_favour_of_others(monkeypatch):
    monkeypatch.setattr(module, "HEAD_TIMEOUT_S", 3600.0)

    async def body() -> None:
        async with served(a=MetricsPage("page a", Counting().families)) as port, asyncio.timeout(ANSWER_S):
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX + 8)]
            for _ in range(3):
                assert (await scrape(port, "/metrics/a")).status == 200
            first = silent[0][0]
            assert await first.read() == b""  # the one that was idle for the longest
            for _, writer in silent:
                writer.close()

    asyncio.run(body())


def test_a_client_that_sends_its_head_slowly_is_closed(monkeypatch):
    monkeypatch.setattr(module, "HEAD_TIMEOUT_S", 0.05)

    async def body() -> None:
        async with served(a=MetricsPage("page a", Counting().families)) as port:
            assert await exchange(port, b"GET /metrics/a HTTP/1.1\r\nX:") == b""

    asyncio.run(body())


def test_a_client_that_does_not_read_is_closed_and_holds_little(monkeypatch):
    large = [(labels({"n": "x" * 1000 + str(i)}), i) for i in range(20_000)]

    async def families() -> list[MetricFamily]:
        return [MetricFamily("large", MetricType.GAUGE, "text", large)]

    async def body() -> None:
        endpoint = MetricsEndpoint({"/metrics/a": MetricsPage("page a", families)}, ScrapeAccess)
        port = await endpoint.start("127.0.0.1", 0)
        async with asyncio.timeout(ANSWER_S):
            whole = await scrape(port, "/metrics/a")
            assert whole.status == 200 and len(whole.body) > 20_000_000
            monkeypatch.setattr(module, "SEND_TIMEOUT_S", 0.01)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
            writer.write(b"GET /metrics/a HTTP/1.1\r\n\r\n")
            while not endpoint.connections:
                await asyncio.sleep(0)
            await asyncio.wait(list(endpoint.connections))  # it gives the client up
            writer.transport.resume_reading()  # type: ignore[attr-defined]  # a socket's transport has it
            got = 0
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(1 << 16):
                    got += len(data)
            assert got < 20_000_000
            writer.close()
        endpoint.stop()

    asyncio.run(body())
