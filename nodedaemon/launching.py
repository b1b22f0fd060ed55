"""noded's side of the launcher's start: two sockets and a small, isolated Python.

`-I -S`: no environment variable, no user folder and no site package decides what runs as root there; the one folder
that this package was loaded from is all it can import from.
"""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass

from nodedaemon.cgroup import Cgroups

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from nodedaemon.launcher import main; main(sys.argv[1:])"


@dataclass(frozen=True)
class LauncherHandle:
    """The launcher and noded's ends of the two sockets."""

    process: subprocess.Popen[bytes]
    orders: socket.socket
    packets: socket.socket


def start_launcher(spool_path: str, node_name: str, cgroups: Cgroups, cert_dir: str) -> LauncherHandle:
    """Start the launcher in a session of its own: a Ctrl-C at noded's terminal is not for the steps."""
    order_here, order_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    packet_here, packet_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    passed = (order_there.fileno(), packet_there.fileno())
    words = [*map(str, passed), spool_path, node_name, cgroups.encode().hex(), cert_dir]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=passed,
        start_new_session=True,
        cwd="/",
    )
    order_there.close()
    packet_there.close()
    return LauncherHandle(process, order_here, packet_here)
