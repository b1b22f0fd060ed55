"""noded's side of the launcher's start: two sockets and a small, isolated Python.

`-I -S`: no environment variable, user folder or site package can influence the code that runs as root there; it can
import only from the folder that this package was loaded from.
"""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass

from nodedaemon.base.nodeclock import NodeClock
from nodedaemon.cgroups.cgroup import Cgroups

#: Where an isolated Python finds this project.
IMPORTABLE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from nodedaemon.daemon.launcher import main; main(sys.argv[1:])"
)


@dataclass(frozen=True)
class LauncherHandle:
    """The launcher and noded's ends of the two sockets."""

    process: subprocess.Popen[bytes]
    orders: socket.socket
    packets: socket.socket


def start_launcher(
    spool_path: str, node_name: str, cgroups: Cgroups, cert_dir: str, clock: NodeClock
) -> LauncherHandle:
    """Starts the launcher in a session of its own, so that a Ctrl-C at noded's terminal does not reach the steps."""
    order_here, order_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    packet_here, packet_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    passed = (order_there.fileno(), packet_there.fileno())
    words = [*map(str, passed), spool_path, node_name, cgroups.encode().hex(), cert_dir, str(clock.base_us)]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, IMPORTABLE, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=passed,
        start_new_session=True,
        cwd="/",
    )
    order_there.close()
    packet_there.close()
    return LauncherHandle(process, order_here, packet_here)
