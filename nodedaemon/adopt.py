"""`penstock adopt`: admits an ssh login to a node only if its user has a job there, and adds it to that job. For
pam_exec(8).

    account  required  pam_exec.so quiet /opt/penstock/bin/penstock adopt

PAM passes the user in PAM_USER; our parent is the ssh daemon's process for this session. The node daemon
puts it into the extern step of the user's newest job on this node, so that it ends with the job and counts for it.
For keyboard-interactive authentication sshd asks PAM in a child, which ends before the session begins. The session
descends from that child's parent, the leader of their session (setsid(2)), so the leader is put there, too. Other
services are not looked through: a child of cron is in the session of the whole daemon.

Exit status: 0 = login allowed, 1 = denied. Users without a job here are denied; root is always allowed and not moved.
An error on our side (no node daemon, say) denies the login, too, unless `--allow-on-error` is given.
"""

import os
import pwd
import socket
import sys
from typing import Final

from nodedaemon.base import proctree
from nodedaemon.base.folders import ADOPT_SOCKET_NAME
from penstock.daemonline import DaemonLine, DaemonOption
from penstock.values.names import why_no_login

ANSWER_BYTES_MAX: Final = 512
ANSWER_S: Final = 10.0
SSHD: Final = "sshd"
DEFAULT_SPOOL: Final = "/var/spool/penstock/noded"


EXAMPLES = """Example, a line of /etc/pam.d/sshd:
  account required pam_exec.so quiet /opt/penstock/bin/penstock adopt"""


def command_line() -> DaemonLine:
    """The whole command line."""
    return DaemonLine(
        "penstock adopt",
        "Puts an ssh session into a job (pam_exec).",
        (
            DaemonOption(("--spool",), f"folder of the node daemon (default {DEFAULT_SPOOL})", "DIR", DEFAULT_SPOOL),
            DaemonOption(("--allow-on-error",), "let users in when the node daemon does not answer"),
        ),
        EXAMPLES,
    )


def main(argv: list[str]) -> int:
    """Runs `penstock adopt ...`; returns the exit status."""
    options = command_line().parser().parse_args(argv)
    user = os.environ.get("PAM_USER", "")
    try:
        uid = pwd.getpwnam("" if why_no_login(user) else user).pw_uid  # sshd passes on what its client has sent
    except KeyError:
        return _refuse(f"no such user: {user[:64] or '(PAM_USER is not set)'}")
    if uid == 0:
        return 0
    pids = processes(os.getppid(), os.environ.get("PAM_SERVICE", ""))
    if not pids:
        return _refuse("the process that asked has ended")
    try:
        answers = [ask(options.spool, uid, pid, proctree.start_time(pid)) for pid in pids]
    except OSError as error:
        _refuse(f"the node daemon of {options.spool} does not answer: {error.strerror or error}")
        return 0 if options.allow_on_error else 1
    denials = [answer for answer in answers if not answer.startswith("ok")]
    return _refuse(denials[0]) if denials else 0


def processes(parent: int, service: str) -> list[int]:
    """The processes of a login whose PAM module has `parent` run us; none = that one has ended, and init is our parent."""
    if parent <= 1:
        return []
    try:
        leader = os.getsid(parent) if service == SSHD else parent
    except ProcessLookupError:
        return []
    return [parent] if leader in (0, 1, parent) else [leader, parent]


def ask(spool: str, uid: int, pid: int, pid_start: int) -> str:
    """Returns the node daemon's answer: "ok ..." or the reason for a denial. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(os.path.join(spool, ADOPT_SOCKET_NAME))
        connection.sendall(f"{uid} {pid} {pid_start}\n".encode())
        return connection.recv(ANSWER_BYTES_MAX).decode("utf-8", "replace").strip()


def _refuse(text: str) -> int:
    print(f"penstock adopt: {text}", file=sys.stderr)  # noqa: T201 (the command's answer)
    return 1
