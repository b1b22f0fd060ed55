"""Deliveries over a real outbox, with receivers of the test's own: what is stored when, and what waits."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace

# Any: stand-ins for the runtime and a receiver
from typing import Any

import pytest
from patience import ANSWER_S

from ctld.core.records.effects import Batch, OutboxRow
from ctld.delivery import deliverer
from ctld.delivery.deliverer import UNKEPT_MAX, Deliveries
from ctld.delivery.receivers import NotDelivered, Retry
from ctld.runtime.lookups import Lookups
from ctld.store.committer import Store
from ctld.store.deadletters import DeadLetters, dead_letters
from ctld.store.errors import StorageFull
from ctld.store.sidewriter import SideWriter
from penstock.values.config import Config


class Taker:
    """A receiver that takes all events but those of `refused`."""

    name = "taker"
    kinds = frozenset(("JOB",))

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.taken: list[int] = []

    def wants(self, event: OutboxRow) -> bool:
        return True

    async def deliver(self, event: OutboxRow) -> None:
        if event.sequence in self.refused:
            raise NotDelivered("HTTP 400", Retry.REFUSED)
        self.taken.append(event.sequence)

    def close(self) -> None:
        pass


def delivered(
    folder: Path, patch: pytest.MonkeyPatch, taker: Taker, count: int, story: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Runs `story` beside deliveries of that many events, numbered from 1."""
    address = str(folder / "db")
    store = Store.open(address, "me")
    store.acquire_lease(1)
    runtime: Any = SimpleNamespace(
        core=SimpleNamespace(state=SimpleNamespace(epoch=0)), snapshot=SimpleNamespace(jobs={}), clock_us=lambda: 1,
        before_commit=[], observers=[],
    )  # fmt: skip
    patch.setattr(deliverer, "receivers_of", lambda config, lookups: [taker])
    patch.setattr(deliverer, "STORE_PAUSE_S", 0.01)

    async def run() -> None:
        deliveries = Deliveries(runtime, address, store.leads, folder, Lookups())
        await deliveries.use(Config())
        rows = [OutboxRow(number, 1, "JOB", b"{}") for number in range(1, count + 1)]
        batch = Batch(store.sequence + 1, [], [], [], [], [], [], [], 1, 1, [], [], counters=[("x", 1)], outbox=rows)
        await asyncio.to_thread(store.commit, batch)
        runtime.observers[0](batch)
        async with asyncio.timeout(ANSWER_S):
            await story()
        await deliveries.stop()

    asyncio.run(run())
    store.close()


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_no_more_is_sent_than_can_be_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk: a controller that is killed there sends all again that was not stored."""
    taker = Taker()
    is_full = True
    tried = 0
    keep = deliverer.store_progress

    def full(writer: SideWriter, moved: dict[str, int]) -> None:
        nonlocal tried
        tried += 1
        if is_full:
            raise StorageFull("no space")
        keep(writer, moved)

    monkeypatch.setattr(deliverer, "store_progress", full)

    async def story() -> None:
        nonlocal is_full
        await until(lambda: tried > 3)
        assert len(taker.taken) == UNKEPT_MAX
        is_full = False
        await until(lambda: len(taker.taken) == 1000)
        assert taker.taken == list(range(1, 1001))

    delivered(tmp_path, monkeypatch, taker, 1000, story)


def test_what_is_given_up_waits_until_its_letter_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker = Taker(2)
    failures = 0
    add = DeadLetters.add

    def full(letters: DeadLetters, letter: Any) -> None:
        nonlocal failures
        failures += 1
        if failures < 4:
            assert taker.taken == [1]
            raise OSError(errno.ENOSPC, "No space left on device")
        add(letters, letter)

    monkeypatch.setattr(DeadLetters, "add", full)

    async def story() -> None:
        await until(lambda: taker.taken == [1, 3])

    delivered(tmp_path, monkeypatch, taker, 3, story)
    assert failures == 4
    assert [letter.sequence for letter in dead_letters(tmp_path)] == [2]
