"""The controller's renewal of its lease, on a database that completes nothing for a while."""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import ANSWER_S

from ctld.metrics import Metrics
from ctld.runtime import lease
from ctld.runtime.storage import Storage


def test_a_write_that_does_not_end_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lease, "LEASE_RENEW_S", 0.01)
    ended = threading.Event()
    renewals: list[int] = []

    def renew(now_us: int) -> None:
        ended.wait()
        renewals.append(now_us)

    async def scenario() -> None:
        executor = ThreadPoolExecutor(1)
        storage = Storage(Metrics(), MemoryError, ConnectionError)
        keeper = lease.LeaseKeeper(
            renew, lambda: 7, executor, storage, lambda: True, lambda *why: pytest.fail(str(why))
        )
        keeper.start()
        async with asyncio.timeout(ANSWER_S):
            while "has not completed a write" not in caplog.text:
                await asyncio.sleep(0.01)
            ended.set()
            while len(renewals) < 2:
                await asyncio.sleep(0.01)
        keeper.stop()
        executor.shutdown()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert caplog.text.count("has not completed a write") == 1
    assert caplog.text.count("completes writes again") == 1
