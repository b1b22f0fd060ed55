"""The launcher keeps idle stepds for the next storm, and lets most of them go when it is quiet."""

import socket

import pytest

from nodedaemon import launcher


@pytest.fixture
def quiet():
    """A launcher with 20 idle stepds that are only sockets, and our ends of these."""
    order_end, noded = socket.socketpair()
    made = launcher.Launcher(None, order_end, -1)
    far_ends = []
    for pid in range(1, 21):
        ours, theirs = socket.socketpair()
        worker = made._workers[pid] = made._by_feed[ours.fileno()] = launcher.Worker(pid, ours)
        made._epoll.register(ours.fileno())
        made._idle.append(worker)
        far_ends.append(theirs)
    yield made, far_ends
    for end in (*far_ends, noded, order_end):
        end.close()
    launcher.signal.set_wakeup_fd(-1)


def test_most_idle_stepds_are_told_to_end(quiet):
    made, far_ends = quiet
    made._let_go()
    assert len(made._idle) == launcher.IDLE_KEPT == len(made._by_feed)
    for end in far_ends[: launcher.IDLE_KEPT]:
        end.setblocking(False)
        with pytest.raises(BlockingIOError):
            end.recv(1)
    assert all(end.recv(1) == b"" for end in far_ends[launcher.IDLE_KEPT :])
    assert len(made._workers) == 20  # they are reaped when they have ended


def test_it_waits_for_quiet_only_while_there_is_something_to_let_go(quiet):
    made, _ = quiet
    made._let_go()
    kept = list(made._idle)
    made._let_go()
    assert made._idle == kept
