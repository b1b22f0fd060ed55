"""`penstock ca`: make the cluster's certificate authority, and certificates by hand.

`init` makes the CA and the controller's certificate, on the controller's machine. `issue` makes a certificate where
the CA's key is: for a login host, or for a node that cannot join with a token. Everything else happens over the
network by itself.
"""

import argparse
import os
import socket
import sys
import time
from pathlib import Path

from penstock.errors import BadSetup


def main(argv: list[str]) -> int:
    """Run `penstock ca ...`; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except BadSetup as error:
        print(f"penstock ca: error: {error.text}", file=sys.stderr)  # noqa: T201
        return error.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock ca", description="The cluster's own certificate authority.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="make the CA and the controller's certificate")
    init.add_argument("--cluster", required=True, metavar="NAME", help="ClusterName of slurm.conf")
    init.add_argument("--dir", required=True, type=Path, metavar="FOLDER", help="the folder ca in StateSaveLocation")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name or address under which the controller is reached; may be given several times "
        "(default: this machine's name, localhost, 127.0.0.1 and ::1)",
    )
    init.set_defaults(run=_init)
    issue = commands.add_parser("issue", help="make a key and a certificate for a login host or a node, by hand")
    issue.add_argument("--dir", required=True, type=Path, metavar="FOLDER", help="where the CA is")
    issue.add_argument("--role", required=True, choices=("login", "node"))
    issue.add_argument("--name", required=True, help="the host's or node's name")
    issue.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="where to put key and certificates")
    issue.set_defaults(run=_issue)
    return parser


def _init(options: argparse.Namespace) -> int:
    from penstock.security.ca import create_ca, issue_to_folder

    now_us = time.time_ns() // 1000
    name = socket.gethostname()
    hosts = tuple(dict.fromkeys(options.host or (name, "localhost", "127.0.0.1", "::1")))
    authority = create_ca(options.dir, options.cluster, now_us)
    issue_to_folder(authority, options.dir, "controller", name.partition(".")[0], now_us, hosts)
    print(f"CA of cluster {options.cluster} made in {options.dir}; keep ca.key safe")  # noqa: T201
    return os.EX_OK


def _issue(options: argparse.Namespace) -> int:
    from penstock.security.ca import issue_to_folder, load_ca

    issue_to_folder(load_ca(options.dir), options.out, options.role, options.name, time.time_ns() // 1000)
    print(f"{options.role}.key, {options.role}.pem and ca.pem for {options.name} made in {options.out}")  # noqa: T201
    return os.EX_OK
