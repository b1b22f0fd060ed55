"""A stepd serves many steps without a collector: whatever a step was made of must be gone with it."""

import gc
import os
import signal
import socket
import traceback

import pytest

from nodedaemon import cgroup, launcher, orders, plugs, stepd
from nodedaemon.context import Context
from nodedaemon.steprecord import NAME, STEPD, read_record

STEPS = 3
LIMIT_S = 30.0


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


def serve(folder: str, feed: socket.socket, packets: socket.socket) -> None:
    """In a process of its own: some steps, and then what is left of them, told to the feed."""
    said = ["nothing"]
    try:
        plugs.MAKERS[:] = launcher.MAKERS
        context = Context(
            steps_path=folder, steps_fd=os.open(folder, os.O_RDONLY), packets=packets,
            null_fd=os.open(os.devnull, os.O_RDWR), node_name="n1", cgroups=cgroup.NONE, is_root=False,
            contact_fd=os.memfd_create("contact"),
        )  # fmt: skip
        gc.collect()
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        gc.disable()
        status = stepd.run(context, feed)
        own = ("nodedaemon.supervisor", "nodedaemon.tasks", "nodedaemon.streams", "nodedaemon.orders")
        left = [type(found).__qualname__ for found in gc.get_objects() if type(found).__module__ in own]
        said = [str(status), *sorted(left)]
    except BaseException:
        said = [traceback.format_exc()]
        raise
    finally:
        feed.sendall(" ".join(said).encode())
        os._exit(0)


def read_record_of(folder):
    steps_fd = os.open(folder, os.O_RDONLY)
    try:
        return read_record(steps_fd, NAME)
    finally:
        os.close(steps_fd)


@pytest.mark.parametrize("make", [batch, of_srun])
def test_nothing_is_left_of_a_step(tmp_path, make):
    feed, there = socket.socketpair()
    feed.settimeout(LIMIT_S)
    packets, packets_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        feed.close()
        serve(str(tmp_path), there, packets_there)
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
    os.waitpid(child, 0)
    feed.close()
    packets.close()
