"""`penstock config diff`: what a reload would change, and which jobs it would touch.

Without arguments the controller reads its files again, compares, and changes nothing: what would be refused, what would
change, what would become of jobs. With two files (or one, against the file that this machine uses) only these are
compared, and nobody is asked. Exit status: 0 nothing differs, 1 something does, 78 a file cannot be used or a reload
would be refused, 2 wrong use.
"""

import json
import sys
from collections.abc import Sequence

from penstock.cluster import own_conf_path
from penstock.config import ConfigError, changes, load
from penstock.errors import PenstockError

EX_CONFIG = 78

USAGE = """\
Usage: penstock config diff [--json]                what `scontrol reconfigure` would do to the running controller
       penstock config diff [--json] [OLD] NEW      how two files differ; OLD: the file of this machine

Nothing is changed. Exit status: 0 nothing differs, 1 something does, 78 it would be refused, 2 wrong use.
"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; `argv` holds what follows `penstock config diff`."""
    if any(word in ("-h", "--help") for word in argv):
        sys.stdout.write(USAGE)
        return 0
    names = [word for word in argv if word != "--json"]
    if len(names) > 2 or any(name.startswith("-") for name in names):
        sys.stderr.write("penstock config diff: expected at most two files\n" + USAGE)
        return 2
    found = _of_files(names) if names else _of_controller()
    if found is None:
        return EX_CONFIG
    if "--json" in argv:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        _print(found)
    return EX_CONFIG if found["problems"] else int(any(found.values()))


def _of_files(names: list[str]) -> dict[str, list[str]] | None:
    old, new = (own_conf_path(), names[0]) if len(names) == 1 else names
    try:
        before, after = load(old), load(new)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return None
    return {"problems": [], "changes": changes(before.config, after.config), "jobs": []}


def _of_controller() -> dict[str, list[str]] | None:
    from penstock.client import Client
    from penstock.v1.controller_pb2 import ReconfigureRequest

    try:
        with Client.open() as client:
            reply = client.call("Reconfigure", ReconfigureRequest(dry_run=True))
    except PenstockError as error:
        sys.stderr.write(f"penstock config diff: error: {error.text}\n")
        return None
    return {"problems": list(reply.problems), "changes": list(reply.changes), "jobs": list(reply.jobs)}


def _print(found: dict[str, list[str]]) -> None:
    titles = (("problems", "it would be refused:"), ("changes", "changes:"), ("jobs", "jobs:"))
    lines = []
    for name, title in titles:
        if found[name]:
            lines += [title, *(f"  {line}" for line in found[name])]
    sys.stdout.write("\n".join(lines or ["nothing would change"]) + "\n")
