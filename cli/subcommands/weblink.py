"""A one-time link to the web interface of one's own cluster, for `penstock up --web`.

The controller issues a token to the caller, the REST daemon takes it over its Unix socket, where the kernel says who asks, and
answers with a secret that it exchanges for the token once. The secret is in the part of the address that browsers do not send.
"""

import http.client
import json
import socket
from pathlib import Path
from typing import Final

from cli.base.run import CommandError
from penstock.client import Client
from penstock.errors import PenstockError

#: A working day; afterwards `penstock up --web` makes another link.
TOKEN_LIFE_S: Final = 12 * 3600
LIMIT_S: Final = 10.0
NO_TOKENS: Final = (
    "this cluster takes no tokens, which the web interface needs: add AuthAltTypes=auth/jwt to {conf}, then "
    "`penstock down --keep-jobs` and `penstock up --web`"
)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=LIMIT_S)
        self._path = path

    def connect(self) -> None:
        """Opens it."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(LIMIT_S)
        self.sock.connect(str(self._path))


def login_link(client: Client, rest_socket: Path, port: int, conf: Path) -> str:
    """The address with its secret. Raises CommandError."""
    from penstock.v1.controller_pb2 import IssueTokenRequest

    try:
        token = client.call("IssueToken", IssueTokenRequest(lifespan_s=TOKEN_LIFE_S)).token
    except PenstockError as error:
        raise CommandError(f"{error.text}\n{NO_TOKENS.format(conf=conf)}") from error
    connection = _UnixConnection(rest_socket)
    try:
        connection.request("POST", "/web/link", headers={"X-SLURM-USER-TOKEN": token})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except OSError as error:
        raise CommandError(f"{rest_socket}: the REST daemon does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise CommandError(f"{rest_socket}: the REST daemon makes no login link: {text[:200]}")
    return f"http://127.0.0.1:{port}/#login={json.loads(text)['secret']}"
