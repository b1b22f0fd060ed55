"""A step's supervisor in the test's own process, without a launcher: tests give it orders and ended children."""

import os
import socket
import types
from typing import Any

from nodedaemon.base import orders
from nodedaemon.cgroups.cgroup import NONE
from nodedaemon.stepd.context import LauncherContext
from nodedaemon.stepd.supervisor import Supervisor
from penstock.eventloop import Loop


def supervisor(is_root: bool = False, **order: Any) -> Supervisor:
    """The supervisor of a batch script (`order`: more of its launch order) that nobody has started."""
    context = LauncherContext(
        steps_path="/nowhere", steps_fd=-1, packets=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), null_fd=-1,
        node_name="n1", cgroups=NONE, is_root=is_root,
    )  # fmt: skip
    own: Any = types.SimpleNamespace(context=context, loop=Loop(), pid=os.getpid())
    return Supervisor(own, orders.LaunchOrder(**({"key": "1.1.-5"} | order)), -1)
