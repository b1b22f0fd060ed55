"""The context that all stepds of one launcher share. A module of its own, so that launcher, stepd and task can all
import it.
"""

import os
import socket

from nodedaemon.base.nodeclock import NodeClock
from nodedaemon.cgroups.cgroup import Cgroups

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from ssl import SSLContext


class LauncherContext:
    """The shared context. Made once by the launcher; its stepds inherit it by fork."""

    __slots__ = (
        "cgroups", "clock", "contact_fd", "is_root", "node_name", "null_fd", "packets", "starter_fd", "steps_fd", "steps_path",
        "_tls", "_tls_of", "cert_dir",
    )  # fmt: skip

    def __init__(
        self,
        *,
        steps_path: str,
        steps_fd: int,
        packets: socket.socket,  # connected to noded
        null_fd: int,
        node_name: str,
        cgroups: Cgroups,
        is_root: bool,
        contact_fd: int = -1,  # time of the last contact with the controller (base/lease.py)
        cert_dir: str = "",
        starter_fd: int = -1,  # the program that starts tasks (instructions.py); -1 = stepds fork
        clock: NodeClock | None = None,  # the node's time; None = a new one
    ) -> None:
        self.clock = clock or NodeClock()
        self.starter_fd = starter_fd
        self.cert_dir = cert_dir  # of the node's certificate, for streams; "": they are without TLS
        self._tls: SSLContext | None = None
        self._tls_of = (0, 0)
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
        """True when `tls` would have to create a context first: it never did, or the certificate has been renewed."""
        return bool(self.cert_dir) and (self._tls is None or self._tls_of != self._certificate())

    def _certificate(self) -> tuple[int, int]:
        """Identifies the file: a renewed certificate replaces the old file."""
        try:
            status = os.stat(f"{self.cert_dir}/node.pem")
        except OSError:  # `tls` reports it, if it has no context yet
            return self._tls_of
        return status.st_ino, status.st_mtime_ns

    def tls(self) -> "SSLContext | None":
        """The TLS context of a step's streams, None where they are without. Created at the first call. Raises
        OSError."""
        if self.lacks_tls:
            found = self._certificate()
            try:
                self._tls = server_context(self.cert_dir)
                self._tls_of = found
            except OSError:  # key and certificate are being replaced
                if self._tls is None:
                    raise
        return self._tls


def server_context(folder: str) -> "SSLContext":
    """TLS 1.3 with the node's certificate. Raises OSError (SSLError is one)."""
    import ssl  # imported only when needed: every fork would pay for it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # clients do not reconnect often enough for resumption
    context.load_cert_chain(f"{folder}/node.pem", f"{folder}/node.key")
    return context
