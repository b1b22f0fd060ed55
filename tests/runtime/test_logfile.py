"""The log handler that writes in a thread: order, an end that waits, a stream that blocks or fails."""

import io
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ctld.main
import nodedaemon.main
from penstock import logfile
from penstock.logfile import BackgroundHandler


class Gated(io.StringIO):
    """A stream whose writes wait at a gate, or fail. `shown`: where they go instead."""

    def __init__(self, shown: io.StringIO | None = None) -> None:
        super().__init__()
        self.shown = shown
        self.gate = threading.Event()
        self.gate.set()
        self.failing = False

    def write(self, text: str) -> int:
        self.gate.wait()
        if self.failing:
            raise OSError(28, "No space left on device")
        return super().write(text) if self.shown is None else self.shown.write(text)


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.Logger("test")
    yield log
    for handler in log.handlers:
        handler.close()


def test_messages_are_written_in_order_before_the_end(log: logging.Logger) -> None:
    stream = Gated()
    handler = BackgroundHandler(stream, owns=False)
    log.addHandler(handler)
    for number in range(100):
        log.warning("message %d", number)
    handler.flush()
    assert stream.getvalue().splitlines() == [f"message {number}" for number in range(100)]
    log.warning("the last")
    handler.close()
    handler.close()
    assert stream.getvalue().endswith("the last\n") and not stream.closed


def test_messages_of_the_replaced_handler_come_first(log: logging.Logger) -> None:
    """Broke: two threads wrote to one file, and the end of the second waited for nothing of the first."""
    shown = io.StringIO()
    slow = Gated(shown)
    slow.gate.clear()
    old = BackgroundHandler(slow, owns=False)
    log.addHandler(old)
    log.warning("before")
    new = BackgroundHandler(Gated(shown), owns=False, after=old)
    log.addHandler(new)
    log.removeHandler(old)
    old.finish()
    log.warning("after")
    slow.gate.set()
    new.close()
    assert shown.getvalue().splitlines() == ["before", "after"]


def test_an_owned_stream_is_closed_with_everything_in_it(log: logging.Logger, tmp_path) -> None:
    path = tmp_path / "log"
    stream = path.open("w")
    handler = BackgroundHandler(stream, owns=True)
    log.addHandler(handler)
    log.warning("whole")
    handler.close()
    assert stream.closed and path.read_text() == "whole\n"


def test_nobody_waits_for_a_stream_that_stands_still(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "WAITING_MAX", 10)
    monkeypatch.setattr(logfile, "FLUSH_S", 0.01)
    stream = Gated()
    stream.gate.clear()
    handler = BackgroundHandler(stream, owns=False)
    log.addHandler(handler)
    for number in range(30):
        log.warning("message %d", number)
    handler.flush()
    assert stream.getvalue() == ""
    stream.gate.set()
    monkeypatch.setattr(logfile, "FLUSH_S", 60.0)
    handler.flush()
    log.warning("after")
    handler.close()
    shown = stream.getvalue().splitlines()
    dropped = int(next(line for line in shown if "were dropped" in line).split()[0])
    assert [line for line in shown if line.startswith("message")] == [f"message {n}" for n in range(30 - dropped)]
    assert 18 <= dropped <= 20 and shown[-1] == "after"  # the thread may have taken up to two before the queue was full


def test_a_full_disk_is_reported_when_it_has_room(log: logging.Logger) -> None:
    stream = Gated()
    handler = BackgroundHandler(stream, owns=False)
    log.addHandler(handler)
    stream.failing = True
    log.warning("lost")
    handler.flush()
    stream.failing = False
    log.warning("kept")
    handler.close()
    assert stream.getvalue() == "1 messages were dropped here: the log could not be written\nkept\n"


def refused_by_ctld(folder: Path) -> int:
    return ctld.main.main(["-f", str(folder / "slurm.conf")])


def refused_by_noded(folder: Path) -> int:
    return nodedaemon.main.main(["--node-name", "n1", "--spool", str(folder)])


@pytest.mark.parametrize("refuse", [refused_by_ctld, refused_by_noded])
def test_30_the_end_of_a_refused_start_is_its_reason(
    refuse: Callable[[Path], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was logged before stands before it, however late the log's thread runs."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none"))
    shown = io.StringIO()
    stream = Gated(shown)
    stream.gate.clear()
    handler = BackgroundHandler(stream, owns=False)

    def flush() -> None:
        stream.gate.set()
        BackgroundHandler.flush(handler)

    monkeypatch.setattr(handler, "flush", flush)
    monkeypatch.setattr("sys.stderr", shown)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        root.warning("logged")
        assert refuse(tmp_path) == 78
    finally:
        root.removeHandler(handler)
        stream.gate.set()
        handler.close()
    logged, *reason = shown.getvalue().splitlines()
    assert logged == "logged" and reason and all(line.startswith("penstock ") for line in reason)
