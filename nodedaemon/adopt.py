"""`penstock adopt`: who logs in to a node by ssh belongs to a job there, or does not get in. For pam_exec(8).

    account  required  pam_exec.so quiet /opt/penstock/bin/penstock adopt

PAM tells the user by PAM_USER; the process that asks, our parent, is the ssh daemon's for this session. The node daemon
puts it into the extern step of the user's newest job on this node, so that it ends with the job and counts for it.

Exit status: 0 = come in, 1 = no. Users without a job here stay out; root always comes in and is left alone. What goes
wrong on our side (no node daemon, say) keeps people out, too: `--allow-on-error` turns that round.
"""

import argparse
import os
import pwd
import socket
import sys
from typing import Final

from nodedaemon import proctree

SOCKET_NAME: Final = "adopt.sock"
ANSWER_BYTES_MAX: Final = 512
ANSWER_S: Final = 10.0
DEFAULT_SPOOL: Final = "/var/spool/penstock/noded"


def main(argv: list[str]) -> int:
    """Run `penstock adopt ...`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="penstock adopt", description="Puts an ssh session into a job (pam_exec).")
    parser.add_argument("--spool", default=DEFAULT_SPOOL, help=f"folder of the node daemon (default {DEFAULT_SPOOL})")
    parser.add_argument(
        "--allow-on-error", action="store_true", help="let users in when the node daemon does not answer"
    )
    options = parser.parse_args(argv)
    user = os.environ.get("PAM_USER", "")
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        return _refuse(f"no such user: {user or '(PAM_USER is not set)'}")
    if uid == 0:
        return 0
    pid = os.getppid()
    try:
        answer = ask(options.spool, uid, pid, proctree.start_time(pid))
    except OSError as error:
        _refuse(f"the node daemon of {options.spool} does not answer: {error.strerror or error}")
        return 0 if options.allow_on_error else 1
    return 0 if answer.startswith("ok") else _refuse(answer)


def ask(spool: str, uid: int, pid: int, pid_start: int) -> str:
    """What the node daemon says: "ok ..." or why not. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(os.path.join(spool, SOCKET_NAME))
        connection.sendall(f"{uid} {pid} {pid_start}\n".encode())
        return connection.recv(ANSWER_BYTES_MAX).decode("utf-8", "replace").strip()


def _refuse(text: str) -> int:
    print(f"penstock adopt: {text}", file=sys.stderr)  # noqa: T201 (the command's answer)
    return 1
