"""How this machine's users reach the controller: a socket that gives them tokens, and a cluster file that says where.

    SPOOL/auth.sock      tokens for whoever connects, by the kernel's word (penstock/security/authd.py)
    SPOOL/ca.pem         whom to trust: the certificate folder itself is closed to users
    SPOOL/cluster.json   both, and the controller's address; jobs find it by PENSTOCK_CLUSTER

The tokens are signed with this host's own certificate. With a node's, the controller believes them only for users who
have a job there at that moment; with a login host's for everybody. The controller's host is the one that this daemon was
told itself: it is known to be reached from here. Its port for commands comes with each registration.

A daemon whose --cluster-file names somebody else's (several nodes of `penstock up` on one machine) has none of this.
Without a socket (its path is too long, say) jobs run all the same; their commands say that there are no tokens.
"""

import asyncio
import logging
import os
import signal
import time
from pathlib import Path
from typing import Final

from penstock.client import split_address
from penstock.cluster import ClusterFile, read_cluster, write_cluster
from penstock.errors import BadSetup, PenstockError
from penstock.security.authd import AuthServer
from penstock.security.ca import Credentials, load_credentials
from penstock.security.keyfiles import write_public
from penstock.security.tokens import TokenIssuer

log = logging.getLogger("penstock.noded")

CLUSTER_FILE: Final = "cluster.json"
AUTH_SOCKET: Final = "auth.sock"
CA_FILE: Final = "ca.pem"
#: Users pass through the folder to the socket, and can list or change nothing.
FOLDER_MODE: Final = 0o711


class LocalAuth:
    """The socket and the file in one folder. Belongs to one event loop."""

    def __init__(self, folder: Path, credentials: Credentials, controller: str) -> None:
        """controller: HOST:PORT as this daemon was told; only the host is used when `tell` names the port."""
        self._folder = folder
        self._credentials = credentials
        self._host, self._port = split_address(controller)
        # Wall clock, as it is now: the controller compares it with its own.
        self._server = AuthServer(folder / AUTH_SOCKET, TokenIssuer(credentials), lambda: time.time_ns() // 1000)
        self._serves = False

    def start(self) -> None:
        """Give tokens from now on. Raises BadSetup when the path cannot be used."""
        self._server.start()
        self._serves = True

    def close(self) -> None:
        """No more tokens; the file stays, for what runs on."""
        self._server.close()

    def tell(self, command_port: int = 0) -> None:
        """Write the cluster file, unless it says the same already. Raises BadSetup and OSError."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        wanted = ClusterFile(
            cluster_name=self._credentials.identity.cluster,
            host=self._host,
            auth_socket=str(self._folder / AUTH_SOCKET) if self._serves else "",
            address=f"{host}:{command_port or self._port}",
            ca=str(self._folder / CA_FILE),
            path=str(self._folder / CLUSTER_FILE),
        )
        write_public(self._folder / CA_FILE, self._credentials.ca_pem)
        if _held(wanted.path) != wanted:
            write_cluster(wanted.path, wanted)


def _held(path: str) -> ClusterFile | None:
    try:
        return read_cluster(path)
    except (FileNotFoundError, PenstockError):  # one that cannot be used is written anew
        return None


def of_node(spool: str, cert_dir: str, controller: str) -> LocalAuth:
    """A node daemon's. Raises BadSetup when the certificates cannot be used."""
    credentials = load_credentials(Path(cert_dir), "node", None)  # one that has run out is the controller's to refuse
    return LocalAuth(Path(spool).absolute(), credentials, controller)


def serve_logins(folder: Path, cert_dir: Path, controller: str) -> None:
    """The whole life of the daemon of a login host: tokens until SIGTERM or SIGINT. Raises BadSetup."""
    credentials = load_credentials(cert_dir, "login", time.time_ns() // 1000)
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        os.chmod(folder, FOLDER_MODE)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be used: {error.strerror}; choose another with --spool") from error

    async def serve() -> None:
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, told.set)
        local = LocalAuth(folder.absolute(), credentials, controller)
        local.start()
        try:
            local.tell()
            log.info("login host %s: users of %s get tokens", credentials.identity.name, folder / CLUSTER_FILE)
            await told.wait()
        finally:
            local.close()

    asyncio.run(serve())
