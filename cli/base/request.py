"""Sends one request of sacctmgr or scontrol; a refusal becomes an error in that command's words."""

from typing import TYPE_CHECKING

from cli.base.refusal import split_message
from cli.base.run import CommandError
from penstock.client import Client, ReplyMessage
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client import Message


def request(client: Client, method: str, message: "Message", before: str) -> ReplyMessage:
    """Sends it as sacctmgr does: `before` and Slurm's words are one line, the explanation follows on one."""
    try:
        return client.call(method, message)
    except PenstockError as error:
        if not error.code:  # not the controller's
            raise
        words, detail = split_message(error)
        raise CommandError(f"{before}{words}", plain=True, detail=detail.replace("\n", " ")) from error


def request_once(name: str, method: str, message: "Message", what: str, again: str = "") -> ReplyMessage:
    """Sends it as scontrol does, over a connection of its own, and says of each error what failed. `again`: the prefix of
    the line that Slurm's command prints in addition."""
    with Client.open() as client:
        try:
            return client.call(method, message)
        except PenstockError as error:
            detail = f"\n{again} error: {error.text}" if again else ""
            detail += f"\n{name}: {error.detail}" if error.detail else ""
            raise CommandError(f"{what}: {error.text}{detail}", plain=True) from error
