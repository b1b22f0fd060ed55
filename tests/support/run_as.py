"""Run a command of this tree as another user: `run_as.py UID NAME ARGUMENTS...`, started by root.

All modules that a command may import, also later, are loaded before root's rights are dropped: the tree and the virtual
environment may be where the other user cannot read. A warm process (warmstart.py) has loaded those of every command.
"""

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from typing import NoReturn

#: What commands load of the standard library and of others only when they need it.
LATER = ("google.protobuf", "grpc", "grp", "pwd", "encodings.idna", "getpass", "locale", "shlex", "traceback", "uuid")


def modules(name: str, words: list[str]) -> Iterator[str]:
    """The command and the rooms below it, without other commands; of `penstock`'s own the one that is named; the public
    package."""
    yield f"cli.{name}"
    if name == "penstock":
        yield from ("click", f"cli.subcommands.{words[0]}")
    for found in (*modules_of("cli", "commandserver", "subcommands"), *modules_of("penstock")):
        if found.ispkg or found.name.count(".") > 1 or not found.name.startswith("cli."):
            yield found.name


def all_modules() -> Iterator[str]:
    """What any command may import."""
    yield from (*LATER, "click")
    for found in (*modules_of("cli", "commandserver"), *modules_of("penstock")):
        yield found.name


def modules_of(package: str, *without: str) -> Iterator[pkgutil.ModuleInfo]:
    """All of a package, without some of its rooms."""
    root = importlib.import_module(package)
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if found.name.split(".")[1] not in without:
            yield found


def run(uid: int | None, name: str, *words: str) -> NoReturn:
    """Becomes that user, if any, and the command."""
    command = importlib.import_module(f"cli.{name}")
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    sys.argv = [name, *words]
    command.main()
    sys.exit()


def main() -> None:
    uid, name, *words = sys.argv[1:]
    for module in (*LATER, *modules(name, words)):
        importlib.import_module(module)
    run(int(uid), name, *words)


if __name__ == "__main__":
    main()
