"""Contact and leases: who writes what when, what is believed, and when a step has to stop."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodedaemon import lease
from nodedaemon.lease import CONTACT_NAME, RESTING_NS, Contact, Lease, open_contact, read_contact

S = 1_000_000_000


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock in a list."""
    clock = [1_000 * S]
    monkeypatch.setattr(lease, "now_ns", lambda: clock[0])
    return clock


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def held(folder: int) -> int:
    fd = open_contact(folder)
    try:
        return read_contact(fd)
    finally:
        os.close(fd)


def test_contact_only_goes_forward_and_outlives_the_daemon(folder: int, now: list[int], tmp_path: Path) -> None:
    assert held(folder) == 0
    contact = Contact(folder)
    contact.renew(900 * S)
    contact.renew(800 * S)  # an answer that was long on its way
    assert held(folder) == 900 * S and (tmp_path / CONTACT_NAME).stat().st_mode & 0o777 == 0o600
    contact.close()
    again = Contact(folder)  # a restart is no contact
    assert held(folder) == 900 * S
    again.renew(850 * S)
    assert held(folder) == 900 * S


def test_rest_ends_with_contact_and_not_with_nobody(folder: int, now: list[int]) -> None:
    contact = Contact(folder)
    contact.rest()
    contact.nobody_there(950 * S)
    assert held(folder) == RESTING_NS
    assert held(folder) == RESTING_NS == read_contact(Contact(folder)._fd)  # over a restart, too
    contact.renew(960 * S)
    assert held(folder) == 960 * S
    contact.nobody_there(970 * S)
    assert held(folder) == 970 * S


def test_a_time_of_an_earlier_boot_is_not_believed(folder: int, now: list[int]) -> None:
    Contact(folder).renew(999 * S)
    now[0] = 10 * S
    Contact(folder)
    assert held(folder) == 0


def test_a_lease_runs_out_once(folder: int, now: list[int]) -> None:
    contact = Contact(folder)
    fd = open_contact(folder)
    held_lease = Lease(fd, 240, 30)
    now[0] += 239 * S
    assert held_lease.look() == 0
    contact.renew(now[0])
    now[0] += 239 * S
    assert held_lease.look() == 0 and not held_lease.has_lapsed
    now[0] += 1 * S
    assert held_lease.look() == signal.SIGTERM and held_lease.has_lapsed
    contact.renew(now[0])  # too late: the controller may have given the job away
    assert held_lease.look() == 0
    now[0] += 30 * S
    assert held_lease.look() == held_lease.look() == signal.SIGKILL
    os.close(fd)


def test_a_launch_is_contact(folder: int, now: list[int]) -> None:
    fd = open_contact(folder)
    Contact(folder).renew(500 * S)
    started = Lease(fd, 240, 30)
    now[0] += 239 * S
    assert started.look() == 0
    os.close(fd)


def test_a_resting_lease_never_ends(folder: int, now: list[int]) -> None:
    contact = Contact(folder)
    fd = open_contact(folder)
    resting = Lease(fd, 240, 30)
    contact.rest()
    now[0] += 86_400 * S
    assert resting.look() == 0
    os.close(fd)


def test_it_is_looked_at_often_enough_and_not_more(folder: int, now: list[int]) -> None:
    fd = open_contact(folder)
    running = Lease(fd, 240, 30)
    assert running.wait_s() == pytest.approx(15.0, abs=0.01)
    now[0] += 236 * S
    assert running.wait_s() == pytest.approx(4.0, abs=0.01)
    now[0] += 4 * S
    assert running.look() == signal.SIGTERM
    now[0] += 31 * S
    assert running.look() == signal.SIGKILL and running.wait_s() > 1  # killed, and not killed again without a pause
    os.close(fd)
