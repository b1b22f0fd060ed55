"""A stepd serves many steps without a collector: whatever a step was made of must be gone with it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from patience import ANSWER_S

from nodedaemon.base import orders
from nodedaemon.spool.steprecord import NAME, STEPD, read_record
from nodedaemon.stepd import stepd

SERVER = Path(__file__).with_name("stepd_alone.py")

STEPS = 3


def batch(key: str) -> orders.LaunchOrder:
    return order_of(key, script=b"#!/bin/sh\ntrue\n", lease_s=100, lease_grace_s=10)


def of_srun(key: str) -> orders.LaunchOrder:
    tasks = [orders.TaskOrder(rank) for rank in range(2)]
    return order_of(key, kind="step", argv=[b"/bin/true"], tasks=tasks, sample_every_s=30, mpi="pmi2")


def order_of(key: str, **more) -> orders.LaunchOrder:
    return orders.LaunchOrder(
        key=key, user_id=os.getuid(), group_id=os.getgid(), user_name="u", environment={b"A": b"1"}, work_dir=b"/",
        std_out=b"/dev/null", **more,
    )  # fmt: skip


def read_record_of(folder):
    steps_fd = os.open(folder, os.O_RDONLY)
    try:
        return read_record(steps_fd, NAME)
    finally:
        os.close(steps_fd)


@pytest.mark.parametrize("make", [batch, of_srun])
def test_nothing_is_left_of_a_step(tmp_path, make):
    feed, there = socket.socketpair()
    feed.settimeout(ANSWER_S)
    packets, packets_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    files = (there.fileno(), packets_there.fileno())
    # A process of its own, as the launcher is one: in a fork of this one the collector would meet what earlier tests left.
    server = subprocess.Popen([sys.executable, str(SERVER), str(tmp_path), *map(str, files)], pass_fds=files)
    there.close()
    packets_there.close()
    for number in range(STEPS):
        key = f"{number}.1.0"
        (tmp_path / key).mkdir()
        feed.sendall(make(key).encode())
        assert feed.recv(1000) == stepd.DONE
        claim, end = read_record_of(tmp_path / key)
        assert (claim.by, end.failure, end.exit_code) == (STEPD, "", 0)
    feed.shutdown(socket.SHUT_WR)
    assert feed.recv(10000) == b"0"
    assert server.wait() == 0
    feed.close()
    packets.close()
