"""What every stepd of one launcher shares. A module of its own, so that launcher, stepd and task can all name it."""

import socket

from nodedaemon.cgroup import Cgroups

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from ssl import SSLContext


class Context:
    """Made once by the launcher; its stepds inherit it by fork."""

    __slots__ = (
        "cgroups", "contact_fd", "is_root", "node_name", "null_fd", "packets", "steps_fd", "steps_path", "tls",
    )  # fmt: skip

    def __init__(
        self,
        *,
        steps_path: str,
        steps_fd: int,
        packets: socket.socket,  # to noded
        null_fd: int,
        node_name: str,
        cgroups: Cgroups,
        is_root: bool,
        contact_fd: int = -1,  # when the controller was last in contact (lease.py)
        tls: "SSLContext | None" = None,
    ) -> None:
        self.tls = tls  # of streams; None: without
        self.steps_path = steps_path
        self.steps_fd = steps_fd
        self.packets = packets
        self.null_fd = null_fd
        self.node_name = node_name
        self.cgroups = cgroups
        self.is_root = is_root
        self.contact_fd = contact_fd
