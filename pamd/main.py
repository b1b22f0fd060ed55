"""`penstock pamd`: reads its options and slurm.conf, checks what it needs, listens, serves.

Exit status: 0 after a clean stop, 2 for wrong use, 78 for what an administrator must change first.
"""

import asyncio
import contextlib
import ctypes
import os
import pwd
import resource
import signal
import socket
import stat
import sys
from pathlib import Path
from typing import Final

from pamd.child import CheckSettings, check_password
from pamd.commandline import command_line
from pamd.listener import PasswordListener, listen
from pamd.service import PamVerdict, PasswordService
from penstock.aclient import AsyncClient
from penstock.calls import USER_TOKEN_VARIABLE
from penstock.cluster import candidate_paths
from penstock.conffind import cluster_of_conf
from penstock.config.load import DEFAULT_PATH, load
from penstock.config.problem import ConfigError
from penstock.daemonline import refuse, say
from penstock.errors import EXIT_CONFIG, BadSetup, PenstockError
from penstock.logs.daemonlog import DaemonLog, LogSettings
from penstock.passwordlogin import LoginQuestion
from penstock.v1.controller_pb2 import IssueTokenReply, IssueTokenRequest
from penstock.values.config import Config

NAME: Final = "penstock pamd"
#: PAM's service; it is no setting, so that nobody can have it ask the stack of another program.
SERVICE: Final = "penstock"
#: Where PAM looks for it. Without it PAM would ask the service "other", whose stack is made for nobody.
SERVICE_FOLDERS: Final = ("/etc/pam.d", "/usr/lib/pam.d")
#: Time for the controller to make a token.
TOKEN_TIMEOUT_S: Final = 5.0
NO_SERVICE: Final = (
    f"PAM has no service {SERVICE}: copy packaging/pam/{SERVICE} to /etc/pam.d, and adapt it to the site's stack"
)
LOG_PATTERN: Final = "[%(asctime)s] %(levelname)s %(name)s: %(message)s"
_PR_SET_DUMPABLE: Final = 4


def main(argv: list[str]) -> int:
    """Runs the daemon; returns the exit status."""
    options = command_line().parser().parse_args(argv)
    try:
        config_path = os.path.abspath(options.config or DEFAULT_PATH)
        config = load(config_path).config
        user = check_setup(config)
        if options.check:
            say(NAME, f"{config_path} and the PAM service {SERVICE} can be used")
            return 0
        forbid_dumps()
        os.environ.pop(USER_TOKEN_VARIABLE, None)  # its calls are root's, by the kernel's word
        cluster = cluster_of_conf(config_path, candidate_paths())
        wire = listen(Path(config.pam_socket), user.pw_uid, user.pw_gid)
        say(NAME, f"listening on unix:{config.pam_socket} for user {user.pw_name}")
        client = AsyncClient(cluster, retry=False, limited_max_s=0)
        daemon = PamDaemon(config, client, frozenset((0, user.pw_uid)))
        path = options.log_file and os.path.abspath(options.log_file)
        settings = LogSettings(path, options.log_format or "text")
        with contextlib.closing(DaemonLog("pamd", LOG_PATTERN, settings, logger="pamd")) as logs:
            asyncio.run(daemon.serve(wire, logs))
    except ConfigError as error:
        return refuse(NAME, str(error), EXIT_CONFIG)
    except OSError as error:
        return refuse(NAME, f"{os.fsdecode(error.filename or 'pamd')}: {error.strerror or error}", EXIT_CONFIG)
    except PenstockError as error:
        return refuse(NAME, f"{error.text}: {error.detail}" if error.detail else error.text, EXIT_CONFIG)
    return 0


def check_setup(config: Config) -> pwd.struct_passwd:
    """Returns the REST daemon's user. Raises BadSetup for what would let nobody log in, or anybody ask."""
    if os.geteuid() != 0:
        raise BadSetup("only root may check passwords of others: run it as root (packaging/penstock-pamd.service)")
    if not config.pam_user:
        raise BadSetup("PenstockPamUser is not set: it names the user that the REST daemon runs as")
    try:
        user = pwd.getpwnam(config.pam_user)
    except KeyError:
        raise BadSetup(f"PenstockPamUser={config.pam_user}: this machine has no such user") from None
    if not config.has_word("auth_alt_types", "auth/jwt"):
        raise BadSetup("AuthAltTypes=auth/jwt is not set: a login by password ends in a token (docs/security.md)")
    if len(os.fsencode(config.pam_socket)) > 107:  # size of sun_path without the terminating NUL
        raise BadSetup(f"PenstockPamSocket={config.pam_socket}: a socket's path may have 107 bytes")
    check_service()
    return user


def check_service(folders: tuple[str, ...] = SERVICE_FOLDERS) -> None:
    """Raises BadSetup unless PAM's service is there, and root's alone to change."""
    for folder in folders:
        try:
            found = os.stat(os.path.join(folder, SERVICE))
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
            raise BadSetup(f"{folder}/{SERVICE}: must be a file of root's that nobody else can write to")
        return
    raise BadSetup(NO_SERVICE)


def forbid_dumps() -> None:
    """No process of another user, and no core file, shows this one's memory. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_DUMPABLE")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class PamDaemon:
    """The parts of the daemon, and the loop that they run in."""

    def __init__(self, config: Config, client: AsyncClient, uids: frozenset[int]) -> None:
        self._client = client
        self._life_s = config.pam_token_life_s
        self._check = CheckSettings(SERVICE, config.pam_min_uid, config.pam_allow_users, config.pam_network)
        self._uids = uids

    async def serve(self, wire: socket.socket, logs: DaemonLog) -> None:
        """Serves until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        logs.handle_signals(loop)
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        service = PasswordService(self._ask, self._issue, loop.time, asyncio.sleep)
        server = await PasswordListener(service.answer, self._uids).serve(wire)
        async with self._client:
            await stopped.wait()
            server.close()  # what is being checked is cancelled with the loop, and its child killed

    async def _ask(self, question: LoginQuestion) -> PamVerdict:
        return await check_password(question, self._check)

    async def _issue(self, name: str) -> str:
        """A token of the user, made by the controller for root. Raises PenstockError."""
        request = IssueTokenRequest(for_user=name, lifespan_s=self._life_s)
        reply: IssueTokenReply = await self._client.call("IssueToken", request, TOKEN_TIMEOUT_S)
        return reply.token


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
