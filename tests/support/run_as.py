"""Run a command of this tree as another user: `run_as.py UID NAME ARGUMENTS...`, started by root.

All modules that a command may import, also later, are loaded before root's rights are dropped: the tree and the virtual
environment may be where the other user cannot read.
"""

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator

#: What commands load of the standard library and of others only when they need it.
LATER = ("google.protobuf", "grpc", "grp", "pwd", "encodings.idna", "getpass", "locale", "shlex", "traceback", "uuid")


def modules(name: str, words: list[str]) -> Iterator[str]:
    """The command and the rooms below it, without other commands; of `penstock`'s own the one that is named; the public
    package."""
    yield f"cli.{name}"
    if name == "penstock":
        yield from ("click", f"cli.subcommands.{words[0]}")
    for package, without in (("cli", ("commandserver", "subcommands")), ("penstock", ())):
        root = importlib.import_module(package)
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            in_room = found.ispkg or found.name.count(".") > 1
            if (in_room or package == "penstock") and found.name.split(".")[1] not in without:
                yield found.name


def main() -> None:
    uid, name = int(sys.argv[1]), sys.argv[2]
    for module in (*LATER, *modules(name, sys.argv[3:])):
        importlib.import_module(module)
    command = importlib.import_module(f"cli.{name}")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    sys.argv = [name, *sys.argv[3:]]
    command.main()


if __name__ == "__main__":
    main()
