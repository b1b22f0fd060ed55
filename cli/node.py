"""`penstock node token NAME`: let a node or a login host join. Prints a token for one use within an hour; administrators only."""

import argparse
import sys

from penstock.client import Client
from penstock.errors import PenstockError


def main(argv: list[str]) -> int:
    """Run `penstock node ...`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="penstock node", description="Nodes of the cluster.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    token = commands.add_parser("token", help="print a one-use token with which a node may join")
    token.add_argument("name", metavar="NAME", help="the node's name, as in slurm.conf")
    token.add_argument(
        "--role", choices=("node", "login"), default="node", help="node (default), or login: a host where users log in"
    )
    options = parser.parse_args(argv)
    try:
        return _token(options.name, options.role)
    except PenstockError as error:
        print(f"penstock node: error: {error.text}", file=sys.stderr)  # noqa: T201
        if error.detail:
            print(f"penstock node: {error.detail}", file=sys.stderr)  # noqa: T201
        return 1


def _token(name: str, role: str) -> int:
    from penstock.v1.controller_pb2 import CreateNodeTokenRequest

    with Client.open() as client:
        reply = client.call("CreateNodeToken", CreateNodeTokenRequest(node_name=name, login_host=role == "login"))
    print(reply.token)  # noqa: T201
    login = " --login" if role == "login" else ""
    hint = f"good for one hour and one use: penstock noded{login} --node-name {name} --join TOKEN ... on {name}"
    print(hint, file=sys.stderr)  # noqa: T201
    return 0
