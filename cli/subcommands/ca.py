"""`penstock ca`: creates the cluster's certificate authority, and certificates by hand.

`init` makes the CA and the controller's certificate, on the controller's machine. `issue` makes a certificate where
the CA's key is: for a login host, or for a node that cannot join with a token. All other certificates are issued and
renewed over the network automatically. `list` shows the issued certificates, their end dates, and the denied ones.
"""

import os
import socket
import time
from pathlib import Path

import click

from cli.base.format import aligned
from cli.base.run import CommandError
from cli.subcommands.documents import documents, errors_as, put, write
from penstock.commandline import CommandGroup, CommandLine, invoke
from penstock.errors import BadSetup, PenstockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.security.issued import Issued

#: Nodes and login hosts renew their certificates 30 days before the end; with fewer days left renewal has failed.
SOON_S = 14 * 86_400


NAME = "penstock ca"
FOLDER = click.Path(path_type=Path)
command = CommandGroup(
    "ca",
    help="The cluster's own certificate authority.",
    wrong_use=2,
    edge=errors_as(NAME),
    examples=(
        ("penstock ca list", "the certificates in force"),
        ("penstock ca issue --dir ca --role login --name front1 --out front1-certs", "one for a login host"),
    ),
)


def main(argv: list[str]) -> int:
    """Run `penstock ca ...`; its status."""
    return invoke(command, NAME, argv)


def _errors(error: BadSetup) -> CommandError:
    return CommandError(error.text, error.exit_status)


@command.command(
    "init",
    cls=CommandLine,
    help="Make the CA and the controller's certificate.",
    examples=(
        ("penstock ca init --cluster c1 --dir /var/lib/penstock/ctld/ca --host ctl.example.org", "on its machine"),
    ),
)
@documents
@click.option("--cluster", metavar="NAME", required=True, help="ClusterName of slurm.conf.")
@click.option("--dir", "folder", type=FOLDER, metavar="FOLDER", required=True, help="Folder ca in StateSaveLocation.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name or address of the controller; may be given several times (default: this machine's "
    "name, localhost, 127.0.0.1 and ::1).",
)
def init(cluster: str, folder: Path, hosts: tuple[str, ...], language: str) -> int:
    """Make them."""
    from penstock.security.ca import create_ca, issue_to_folder

    now_us = time.time_ns() // 1000
    name = socket.gethostname()
    names = tuple(dict.fromkeys(hosts or (name, "localhost", "127.0.0.1", "::1")))
    try:
        authority = create_ca(folder, cluster, now_us)
        issue_to_folder(authority, folder, "controller", name.partition(".")[0], now_us, names)
    except BadSetup as error:
        raise _errors(error) from error
    if language:
        return write({"cluster": cluster, "folder": str(folder), "hosts": list(names)}, language)
    put(f"CA of cluster {cluster} made in {folder}; keep ca.key safe")
    return os.EX_OK


@command.command(
    "issue",
    cls=CommandLine,
    help="Make a key and a certificate for a login host or a node, by hand.",
    examples=(("penstock ca issue --dir ca --role login --name front1 --out front1-certs", "where the CA's key is"),),
)
@documents
@click.option("--dir", "folder", type=FOLDER, metavar="FOLDER", required=True, help="Where the CA is.")
@click.option("--role", type=click.Choice(["login", "node"]), required=True, help="Role of the owner.")
@click.option("--name", required=True, help="The host's or node's name.")
@click.option("--out", type=FOLDER, metavar="FOLDER", required=True, help="Where to put key and certificates.")
def issue(folder: Path, role: str, name: str, out: Path, language: str) -> int:
    """Make them."""
    from penstock.security.ca import issue_to_folder, load_ca

    try:
        issue_to_folder(load_ca(folder), out, role, name, time.time_ns() // 1000)
    except BadSetup as error:
        raise _errors(error) from error
    if language:
        return write({"role": role, "name": name, "folder": str(out)}, language)
    put(f"{role}.key, {role}.pem and ca.pem for {name} made in {out}")
    return os.EX_OK


@command.command(
    "list",
    cls=CommandLine,
    help="Show the certificates that were issued.",
    examples=(("penstock ca list", "those in force"), ("penstock ca list --all", "and those that were")),
)
@documents
@click.option("--dir", "folder", type=FOLDER, metavar="FOLDER", help="Where the CA is (default: this machine's).")
@click.option("--all", "is_all", is_flag=True, help="Also expired and renewed ones.")
def listing(folder: Path | None, is_all: bool, language: str) -> int:
    """Show them."""
    try:
        found = _rows(folder or _folder_here(), is_all)
    except BadSetup as error:
        raise _errors(error) from error
    if language:
        keys = ("role", "name", "ends", "state", "serial")
        return write({"certificates": [dict(zip(keys, row, strict=True)) for row in found]}, language)
    for line in aligned([("ROLE", "NAME", "ENDS", "STATE", "SERIAL"), *found]):
        put(line)
    return os.EX_OK


def _rows(folder: Path, is_all: bool) -> list[tuple[str, str, str, str, str]]:
    from penstock.security import issued
    from penstock.security.ca import load_denied

    if not (folder / "ca.pem").exists():
        raise BadSetup(f"{folder}: there is no CA here; --dir is the folder ca in StateSaveLocation")
    now_s = int(time.time())
    entries = issued.read(folder)
    denied = load_denied(folder / "denied.json")
    renewed = {entry.renews for entry in entries}
    renewed |= {
        entry.serial for entry in [e for e in entries if e.role == "controller"][:-1]
    }  # only its newest is shown
    rows = []
    for entry in entries:
        state = _state(entry, entry.number in denied, now_s, entry.serial in renewed)
        if is_all or state in ("", "ends soon", "denied"):
            end = time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.end_s))
            rows.append((entry.role, entry.name, end, state or "valid", entry.serial))
    return rows


def _state(entry: "Issued", is_denied: bool, now_s: int, is_renewed: bool) -> str:
    """The state in a word; "" = in force."""
    if entry.end_s < now_s:
        return "ended"
    if is_denied:
        return "denied"
    if is_renewed:
        return "renewed"
    return "ends soon" if entry.end_s - now_s < SOON_S else ""


def _folder_here() -> Path:
    """The CA's folder of the controller used by this machine's commands, if that runs on this machine."""
    from penstock.cluster import find_cluster

    try:
        ca = find_cluster().ca
    except PenstockError as error:
        raise BadSetup(f"{error.text}: say where the CA is with --dir") from error
    if not ca:
        raise BadSetup("the cluster file names no ca: say where the CA is with --dir")
    beside = Path(ca).parent  # the controller's copy for users lies beside the folder
    return beside / "ca" if (beside / "ca").is_dir() else beside
