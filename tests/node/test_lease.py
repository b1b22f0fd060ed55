"""Contact and leases: who writes what when, what is believed, and when a step has to stop."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodedaemon.base import lease
from nodedaemon.base.lease import CONTACT_NAME, RESTING_NS, Lease, open_contact, read_contact
from nodedaemon.spool.contact import ControllerContact

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
    contact = ControllerContact(folder)
    contact.renew(900 * S)
    contact.renew(800 * S)  # an answer that was long on its way
    contact.flush()
    assert held(folder) == 900 * S and (tmp_path / CONTACT_NAME).stat().st_mode & 0o777 == 0o600
    contact.close()
    again = ControllerContact(folder)  # a restart is no contact
    assert held(folder) == 900 * S
    again.renew(850 * S)
    again.flush()
    assert held(folder) == 900 * S


def test_rest_ends_with_contact_and_not_with_nobody(folder: int, now: list[int]) -> None:
    contact = ControllerContact(folder)
    contact.rest()
    contact.no_controller(950 * S)
    contact.flush()
    assert held(folder) == RESTING_NS
    ControllerContact(folder).close()  # over a restart, too
    assert held(folder) == RESTING_NS
    contact.renew(960 * S)
    contact.flush()
    assert held(folder) == 960 * S
    contact.no_controller(970 * S)
    contact.flush()
    assert held(folder) == 970 * S


def test_a_time_of_an_earlier_boot_is_not_believed(folder: int, now: list[int]) -> None:
    earlier = ControllerContact(folder)
    earlier.renew(999 * S)
    earlier.close()
    now[0] = 10 * S
    ControllerContact(folder)
    assert held(folder) == 0


def test_a_lease_runs_out_once(folder: int, now: list[int]) -> None:
    contact = ControllerContact(folder)
    fd = open_contact(folder)
    held_lease = Lease(fd, 240, 30)
    now[0] += 239 * S
    assert held_lease.signal_due() == 0
    contact.renew(now[0])
    contact.flush()
    now[0] += 239 * S
    assert held_lease.signal_due() == 0 and not held_lease.has_lapsed
    now[0] += 1 * S
    assert held_lease.signal_due() == signal.SIGTERM and held_lease.has_lapsed
    contact.renew(now[0])  # too late: the controller may have given the job away
    contact.flush()
    assert held_lease.signal_due() == 0
    now[0] += 30 * S
    assert held_lease.signal_due() == held_lease.signal_due() == signal.SIGKILL
    os.close(fd)


def test_a_launch_is_contact(folder: int, now: list[int]) -> None:
    fd = open_contact(folder)
    contact = ControllerContact(folder)
    contact.renew(500 * S)
    contact.close()
    started = Lease(fd, 240, 30)
    now[0] += 239 * S
    assert started.signal_due() == 0
    os.close(fd)


def test_a_resting_lease_never_ends(folder: int, now: list[int]) -> None:
    contact = ControllerContact(folder)
    fd = open_contact(folder)
    resting = Lease(fd, 240, 30)
    contact.rest()
    contact.flush()
    now[0] += 86_400 * S
    assert resting.signal_due() == 0
    os.close(fd)


def test_it_is_looked_at_often_enough_and_not_more(folder: int, now: list[int]) -> None:
    fd = open_contact(folder)
    running = Lease(fd, 240, 30)
    assert running.wait_s() == pytest.approx(15.0, abs=0.01)
    now[0] += 236 * S
    assert running.wait_s() == pytest.approx(4.0, abs=0.01)
    now[0] += 4 * S
    assert running.signal_due() == signal.SIGTERM
    now[0] += 31 * S
    assert (
        running.signal_due() == signal.SIGKILL and running.wait_s() > 1
    )  # killed, and not killed again without a pause
    os.close(fd)
