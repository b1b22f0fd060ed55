"""What every stepd of one launcher shares. A module of its own, so that launcher, stepd and task can all name it."""

import socket

from nodedaemon.cgroup import Cgroups

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from ssl import SSLContext


class Context:
    """Made once by the launcher; its stepds inherit it by fork."""

    __slots__ = (
        "cgroups", "contact_fd", "is_root", "node_name", "null_fd", "packets", "steps_fd", "steps_path",
        "_tls", "cert_dir",
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
        cert_dir: str = "",
    ) -> None:
        self.cert_dir = cert_dir  # of the node's certificate, for streams; "": they go without TLS
        self._tls: SSLContext | None = None
        self.steps_path = steps_path
        self.steps_fd = steps_fd
        self.packets = packets
        self.null_fd = null_fd
        self.node_name = node_name
        self.cgroups = cgroups
        self.is_root = is_root
        self.contact_fd = contact_fd

    @property
    def lacks_tls(self) -> bool:
        """True when `tls` would have to be made first."""
        return bool(self.cert_dir) and self._tls is None

    def tls(self) -> "SSLContext | None":
        """For a step's streams, None where they go without. Made when it is first asked for. Raises OSError."""
        if self.lacks_tls:
            from nodedaemon.stream_server import server_context

            self._tls = server_context(self.cert_dir)
        return self._tls
