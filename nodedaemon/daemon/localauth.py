"""Access of this machine's users to the controller: a socket that gives them tokens, and a cluster file with the
addresses.

    SPOOL/auth.sock      tokens for each caller, identified by the kernel (penstock/security/authd.py)
    SPOOL/ca.pem         the CA to trust: the certificate folder itself is closed to users
    SPOOL/cluster.json   both, and the controller's address; jobs find it by PENSTOCK_CLUSTER

The tokens are signed with this host's own certificate. With a node's, the controller accepts them only for users who
have a job there at that moment; with a login host's for all users. The controller's host is the one this daemon was
given: it is known to be reachable from here. Its port for commands comes with each registration.

A daemon whose --cluster-file names another's (several nodes of `penstock up` on one machine) has none of this.
Without a socket (its path is too long, say) jobs run all the same; their commands say that there are no tokens.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nodedaemon.daemon.renewal import Renewal, wall_us
from penstock.clusterfile import ClusterFile, read_cluster, split_address, write_cluster
from penstock.errors import BadSetup, PenstockError
from penstock.logs.daemonlog import DaemonLog
from penstock.security.authd import AuthServer
from penstock.security.ca import Credentials, load_credentials
from penstock.security.keyfiles import write_public
from penstock.security.renew import end_us, ended_text
from penstock.security.tokens import TokenIssuer
from penstock.threads import prepare_loop

log = logging.getLogger("penstock.noded")

CLUSTER_FILE: Final = "cluster.json"
AUTH_SOCKET: Final = "auth.sock"
CA_FILE: Final = "ca.pem"
#: Users pass through the folder to the socket, and can list or change nothing.
FOLDER_MODE: Final = 0o711


class LocalAuth:
    """The socket and the file in one folder. Belongs to one event loop."""

    def __init__(
        self, folder: Path, credentials: Credentials, controller: str, cli_filters: tuple[str, ...] = ()
    ) -> None:
        """controller: HOST:PORT as given to this daemon; only the host is used when `write_cluster_file` names the port.
        `cli_filters`: as this machine's slurm.conf names them."""
        self._cli_filters = cli_filters
        self._folder = folder
        self._credentials = credentials
        self._host, self._port = split_address(controller)
        # Wall clock, read now: the controller compares it with its own.
        self._server = AuthServer(folder / AUTH_SOCKET, TokenIssuer(credentials), lambda: time.time_ns() // 1000)
        self._serves = False

    def start(self) -> None:
        """Starts giving tokens. Raises BadSetup when the path cannot be used."""
        self._server.start()
        self._serves = True

    def renewed(self, credentials: Credentials) -> None:
        """Signs with another certificate from now on."""
        self._credentials = credentials
        self._server.sign_with(TokenIssuer(credentials))

    def close(self) -> None:
        """Stops giving tokens; the file stays, for running jobs."""
        self._server.close()

    def write_cluster_file(self, command_port: int = 0) -> None:
        """Writes the cluster file, unless it has the same content already. Raises BadSetup."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        wanted = ClusterFile(
            cluster_name=self._credentials.identity.cluster,
            host=self._host,
            auth_socket=str(self._folder / AUTH_SOCKET) if self._serves else "",
            address=f"{host}:{command_port or self._port}",
            ca=str(self._folder / CA_FILE),
            path=str(self._folder / CLUSTER_FILE),
            cli_filters=self._cli_filters,
        )
        write_public(self._folder / CA_FILE, self._credentials.ca_pem)
        if _held(wanted.path) != wanted:
            try:
                write_cluster(wanted.path, wanted)
            except OSError as error:
                raise BadSetup(f"{wanted.path}: cannot be written: {error.strerror}") from error


def _held(path: str) -> ClusterFile | None:
    try:
        return read_cluster(path)
    except (OSError, PenstockError):  # a damaged file is replaced
        return None


def of_node(spool: str, cert_dir: str, controller: str, cli_filters: tuple[str, ...] = ()) -> LocalAuth:
    """The LocalAuth of a node daemon. Raises BadSetup when the certificates cannot be used."""
    credentials = load_credentials(Path(cert_dir), "node", None)  # an expired certificate is the controller's to refuse
    return LocalAuth(Path(spool).absolute(), credentials, controller, cli_filters)


def serve_logins(
    folder: Path, cert_dir: Path, controller: str, logs: DaemonLog, on_start: Callable[[], None] = lambda: None,
    cli_filters: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """Runs the daemon of a login host: tokens until SIGTERM or SIGINT. `on_start`: called when it serves. Raises BadSetup."""
    credentials = load_credentials(cert_dir, "login", None)
    if wall_us() > end_us(credentials.certificate):
        raise BadSetup(ended_text(credentials.identity, credentials.certificate))
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        os.chmod(folder, FOLDER_MODE)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be used: {error.strerror}; choose another with --spool") from error

    async def serve() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        prepare_loop(loop)
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, stopped.set)
        logs.handle_signals(loop)
        local = LocalAuth(folder.absolute(), credentials, controller, cli_filters)
        local.start()
        renewing = loop.create_task(Renewal(cert_dir, "login", controller, local.renewed).run())
        try:
            local.write_cluster_file()
            on_start()
            log.info("login host %s: users of %s get tokens", credentials.identity.name, folder / CLUSTER_FILE)
            await stopped.wait()
        finally:
            renewing.cancel()
            local.close()

    asyncio.run(serve())
