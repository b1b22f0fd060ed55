"""The outbox: events are durable with their cause, and kept until every receiver has them."""

import os
from pathlib import Path

import pytest

from ctld.core.records.effects import Batch, OutboxRow
from ctld.store import outbox
from ctld.store.committer import Store
from ctld.store.deadletters import DeadLetter, DeadLetters, dead_letters
from ctld.store.sidewriter import SideWriter


def batch(store: Store, *sequences: int) -> Batch:
    return Batch(
        store.sequence + 1, [], [], [], [], [], [], [], 1, 1, [], [], counters=[("x", store.sequence)],
        outbox=[OutboxRow(sequence, 5, "JOB", b'{"a":"\xc3\xa9"}') for sequence in sequences],
    )  # fmt: skip


def test_events_go_when_all_receivers_have_them(tmp_path: Path) -> None:
    address = str(tmp_path / "db")
    store = Store.open(address, "me")
    store.acquire_lease(1)
    writer = SideWriter(address, store.leads)
    with writer.begin() as connection:
        assert outbox.cursors(connection, ["a", "b"], 3) == {"a": 3, "b": 3}
    store.commit(batch(store, 4, 5))
    store.commit(batch(store, 6))
    with writer.read() as connection:
        assert outbox.page(connection, 4, 9) == [OutboxRow(n, 5, "JOB", b'{"a":"\xc3\xa9"}') for n in (5, 6)]
        assert [row.sequence for row in outbox.page(connection, 0, 2)] == [4, 5]
    with writer.begin() as connection:
        outbox.keep(connection, {"a": 6})
        assert len(outbox.page(connection, 0, 9)) == 3  # b has none yet
        outbox.keep(connection, {"b": 5})
        assert [row.sequence for row in outbox.page(connection, 0, 9)] == [6]
    with writer.begin() as connection:  # after a restart, without b and with a new one
        assert outbox.cursors(connection, ["a", "c"], 6) == {"a": 6, "c": 6}
    writer.close()
    store.close()


def test_the_oldest_go_unseen_beyond_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "ROWS_MAX", 2)
    address = str(tmp_path / "db")
    store = Store.open(address, "me")
    store.acquire_lease(1)
    writer = SideWriter(address, store.leads)
    with writer.begin() as connection:
        outbox.cursors(connection, ["a"], 0)
    store.commit(batch(store, 1, 2))
    with writer.begin() as connection:
        assert outbox.surplus(connection) == (0, {})
    store.commit(batch(store, 3, 4, 5))
    with writer.begin() as connection:
        outbox.keep(connection, {"a": 1})
        assert outbox.surplus(connection) == (3, {"a": 2})
        outbox.cut(connection, 3)
        assert [row.sequence for row in outbox.page(connection, 0, 9)] == [4, 5]
    writer.close()
    store.close()


def test_dead_letters_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = [DeadLetter(number, "webhook x", number, "job", "HTTP 400", "{}") for number in range(1, 60)]
    monkeypatch.setattr("ctld.store.deadletters.FILE_BYTES_MAX", 1_000)
    kept = DeadLetters(tmp_path)
    for letter in letters:
        kept.add(letter)
    found = list(dead_letters(tmp_path))
    assert found == letters[-len(found) :] and len(found) > 9
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 2 and all(
        path.stat().st_size <= 1_000 and path.stat().st_mode & 0o777 == 0o600 for path in paths
    )
    with paths[0].open("a") as file:
        file.write('{"at_us": 1, "rec')  # a crash
    assert list(dead_letters(tmp_path)) == found
    kept.add(letters[0])  # it does not continue the truncated line
    assert list(dead_letters(tmp_path))[-1] == letters[0]
    assert not list(dead_letters(tmp_path / "none"))


def test_a_dead_letter_for_which_there_is_half_the_room_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = DeadLetters(tmp_path)
    first, second = (DeadLetter(number, "webhook x", number, "job", "HTTP 400", "{}") for number in (1, 2))
    kept.add(first)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:20]))
        with pytest.raises(OSError, match="No space"):
            kept.add(second)
    kept.add(second)
    assert list(dead_letters(tmp_path)) == [first, second]
