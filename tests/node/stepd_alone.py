"""A stepd without a launcher: `stepd_alone.py FOLDER FEED PACKETS`, the numbers of two sockets (test_stepd_leftovers.py)."""

import gc
import os
import signal
import socket
import sys
import traceback

from nodedaemon.cgroups import cgroup
from nodedaemon.daemon import launcher
from nodedaemon.stepd import plugs, stepd
from nodedaemon.stepd.context import LauncherContext


def serve(folder: str, feed: socket.socket, packets: socket.socket) -> None:
    """Runs steps from the feed, and then sends what is left of them to it."""
    said = ["nothing"]
    try:
        plugs.MAKERS[:] = launcher.MAKERS
        context = LauncherContext(
            steps_path=folder, steps_fd=os.open(folder, os.O_RDONLY), packets=packets,
            null_fd=os.open(os.devnull, os.O_RDWR), node_name="n1", cgroups=cgroup.NONE, is_root=False,
            contact_fd=os.memfd_create("contact"),
        )  # fmt: skip
        gc.collect()
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        gc.disable()
        status = stepd.run(context, feed)
        own = (
            "nodedaemon.stepd.supervisor",
            "nodedaemon.stepd.tasks",
            "nodedaemon.stepd.streams",
            "nodedaemon.base.orders",
        )
        left = [type(found).__qualname__ for found in gc.get_objects() if type(found).__module__ in own]
        said = [str(status), *sorted(left)]
    except Exception:  # whatever it is, the test shows it
        said = [traceback.format_exc()]
    feed.sendall(" ".join(said).encode())


if __name__ == "__main__":
    serve(sys.argv[1], *(socket.socket(fileno=int(number)) for number in sys.argv[2:]))
