"""The kernel's log: what was written of GPUs while nobody listened, and from where on reading goes on."""

import os
from pathlib import Path

import pytest

from nodedaemon.core.gpumessages import Xid
from nodedaemon.gpu.kmsg import KMSG, Kmsg, collapse, sequence

S = 1_000_000


def record(number: int, xid: int | None = None, pid: int = 7) -> str:
    text = "usb 1-1: new device" if xid is None else f"NVRM: Xid (PCI:0000:19:00): {xid}, pid={pid}, name=python"
    return f"6,{number},{number * S},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:19:00.0\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.write_text(record(3) + record(5, 13) + record(6, 63) + record(9))
    return path


def numbers(found: list[Xid]) -> list[tuple[int, int]]:
    return [(xid.sequence, xid.xid) for xid in found]


@pytest.mark.parametrize(
    ("after", "xids"),
    [(-1, [(5, 13), (6, 63)]), (5, [(6, 63)]), (9, []), (None, [])],
    ids=["all", "some", "none", "first"],
)
def test_what_was_not_seen_is_told(log: Path, after: int | None, xids: list[tuple[int, int]]) -> None:
    """None: at the first start of all, from when on nothing is missed."""
    kmsg = Kmsg(str(log))
    found = kmsg.catch_up(after)
    kmsg.close()
    assert numbers(found) == xids and kmsg.last == 9
    assert all((xid.bus_id, xid.pid) == ("0000:19:00", 7) for xid in found)


def test_what_comes_after_that_is_not_missed_either(log: Path) -> None:
    kmsg = Kmsg(str(log))
    kmsg.catch_up(9)
    with open(log, "a") as file:
        file.write(record(10, 48))
    assert numbers(kmsg.catch_up(9)) == [(10, 48)]
    kmsg.close()


def test_a_log_that_may_not_be_read_says_nothing(tmp_path: Path) -> None:
    kmsg = Kmsg(str(tmp_path / "none"))
    assert not kmsg.is_open and kmsg.catch_up(-1) == [] and kmsg.last == -1
    kmsg.close()


def test_a_pipe_is_not_read_before_its_time(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    kmsg = Kmsg(str(path))
    assert kmsg.catch_up(-1) == [] and kmsg.is_open
    kmsg.close()


def test_this_machines_log_is_numbered() -> None:
    """Where it can be read, the daemon's first start finds its end."""
    kmsg = Kmsg(KMSG)
    assert kmsg.catch_up(None) == []
    assert kmsg.last >= 0 or not kmsg.is_open or not Path(KMSG).is_char_device()
    kmsg.close()


@pytest.mark.parametrize("line", [" SUBSYSTEM=pci", "", "x", "6", "6,x,1,-;text", " 6,5,4,-;"])
def test_lines_that_are_no_records_have_no_number(line: str) -> None:
    assert sequence(line) == -1
    assert sequence(f"6,17,4,-;{line}") == 17


def test_what_is_repeated_at_once_counts_once() -> None:
    told = [
        Xid(at, 13, bus_id=bus, pid=pid)
        for at, bus, pid in ((0, "a", 1), (5, "a", 1), (6, "b", 1), (7, "a", 2), (S, "a", 1))
    ]
    assert [(one.at_us, one.bus_id, one.pid) for one in collapse(told, S)] == [
        (0, "a", 1), (6, "b", 1), (7, "a", 2), (S, "a", 1),
    ]  # fmt: skip
