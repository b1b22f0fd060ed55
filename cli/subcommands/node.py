"""`penstock node token NAME`: lets a node or a login host join. Prints a token for one use within an hour;
administrators only.
"""

import sys

import click

from cli.subcommands.documents import documents, errors_as, put, write
from penstock.client import Client
from penstock.commandline import CommandGroup, CommandLine, invoke

NAME = "penstock node"

command = CommandGroup(
    "node",
    help="Nodes of the cluster.",
    wrong_use=2,
    edge=errors_as(NAME),
    examples=(("penstock node token n7", "a token for a new node"),),
)


def main(argv: list[str]) -> int:
    """Run `penstock node ...`; its status."""
    return invoke(command, NAME, argv)


@command.command(
    "token",
    cls=CommandLine,
    help="Print a one-use token with which the node NAME, as in slurm.conf, may join.",
    examples=(
        ("penstock node token n1 | ssh n1 penstock noded --join - ...", "a node joins"),
        ("penstock node token --role login front1", "a host where users log in"),
    ),
)
@documents
@click.option(
    "--role",
    type=click.Choice(["node", "login"]),
    default="node",
    show_default=True,
    help="Role of the host; login: a host where users log in.",
)
@click.argument("name")
def token(name: str, role: str, language: str) -> int:
    """Requests a token from the controller."""
    from penstock.v1.controller_pb2 import CreateNodeTokenRequest

    with Client.open() as client:
        reply = client.call("CreateNodeToken", CreateNodeTokenRequest(node_name=name, login_host=role == "login"))
    if language:
        return write({"name": name, "role": role, "token": reply.token}, language)
    put(reply.token)
    login = " --login" if role == "login" else ""
    called = f"penstock noded{login} --node-name {name} --join - ..."
    sys.stdout.flush()
    sys.stderr.write(f"good for one hour and one use: on {name}, {called} takes it on standard input\n")
    return 0
