"""stepd: the supervisor of one step at a time. Forked warm by the launcher, which gives it its orders, it outlives
launcher and noded.

Its life: own session and sub-reaper; a control socket; then one order after the other from its feed, each handed to a
Supervisor (supervisor.py), and a message to the launcher when that is done. own.py has the state that outlives a step.
"""

import contextlib
import gc
import os
import signal
import socket

from nodedaemon.base import orders, proctree
from nodedaemon.base.folders import open_folder
from nodedaemon.stepd.context import LauncherContext
from nodedaemon.stepd.control import open_control
from nodedaemon.stepd.own import Own
from nodedaemon.stepd.supervisor import Supervisor
from penstock.crash import crash_point
from penstock.inherited import begin_empty_session_keyring, leave_real_time

#: Below the size at which malloc returns the memory to the kernel after each read.
_FEED_READ_BYTES = 64 * 1024
#: Message of a stepd to its launcher when a step is done.
DONE = b"."


def run(context: LauncherContext, feed: socket.socket) -> int:
    """Runs a stepd: one step after the other from its feed; returns its exit status, 0 = nothing is left undone."""
    os.setsid()
    leave_real_time()
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    os.dup2(context.null_fd, 2)  # readers of noded's output must not wait for the end of a job
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    own = Own(context, wake_read, *open_control(), feed)
    while own.await_order() and (framed := _read_order(feed)) is not None:
        key, body = framed
        try:
            stays = _supervise(own, key, body)
        except Exception as error:  # noqa: BLE001 (the last place that can report it; the step counts as lost)
            _complain(context, key, f"{type(error).__name__}: {error}")
            return os.EX_SOFTWARE
        if not stays:
            return 0
        try:
            feed.send(DONE)
        except OSError:  # the launcher is gone
            return 0
    return 0


def _read_order(feed: socket.socket) -> tuple[str, bytes] | None:
    """The next order as key and body; None when there will be no more."""
    data = bytearray()
    wanted = orders.ORDER_HEAD.size
    while len(data) < wanted:
        part = feed.recv(_FEED_READ_BYTES)
        if not part:
            return None
        data += part
        if wanted == orders.ORDER_HEAD.size <= len(data):
            wanted += sum(orders.ORDER_HEAD.unpack_from(data))
    body_at = orders.ORDER_HEAD.size + orders.ORDER_HEAD.unpack_from(data)[0]
    return data[orders.ORDER_HEAD.size : body_at].decode(), bytes(data[body_at:])


def _supervise(own: Own, key: str, body: bytes) -> bool:
    """Runs one step; True when this stepd may run another one."""
    try:
        folder_fd = open_folder(key, own.context.steps_fd)
    except FileNotFoundError:
        return True  # decided by noded, and swept
    crash_point("stepd.folder")
    order = orders.decode_launch(key, body)
    begin_empty_session_keyring()
    if order.kind == "extern":
        from nodedaemon.stepd.externstep import (
            ExternStep,
        )  # a module that only extern steps need is not loaded for others

        ExternStep(own, order, folder_fd).run()
        return False  # its namespaces have changed, and children of a prolog must not meet the next step
    own.step = step = Supervisor(own, order, folder_fd)
    try:
        step.run()
        stays = not step.leaves_a_process
    finally:
        step.close()
        own.step = None
        del step  # or the collector would find it in use
    if order.kind != "batch":
        gc.collect()  # clients and an exchange form reference cycles; the launcher's objects are frozen
    return stays


def _complain(context: LauncherContext, key: str, text: str) -> None:
    with contextlib.suppress(OSError):  # noded is not running: its successor finds a step without an end in its record
        context.packets.send(orders.trouble(key, text), socket.MSG_DONTWAIT)
