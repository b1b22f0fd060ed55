"""Run a command of this tree as another user: `run_as.py UID NAME ARGUMENTS...`, started by root.

The modules are loaded before root's rights are dropped, so the tree and the virtual environment may be where the other
user cannot read.
"""

import importlib
import os
import sys


def main() -> None:
    uid, name = int(sys.argv[1]), sys.argv[2]
    for module in (
        "penstock.client",
        "penstock.v1.controller_pb2",
        "penstock.v1.accounting_pb2",
        "google.protobuf",
        "grpc",
    ):
        importlib.import_module(module)
    for module in ("penstock.security.tls", "penstock.values.hostlist", "penstock.values.taskset", "pwd", "grp"):
        importlib.import_module(module)
    for module in ("session", "terminal", "watcher", "bcast", "multiprog", "wiring") if name == "srun" else ():
        importlib.import_module(f"cli.steps.{module}")
    command = importlib.import_module(f"cli.{name}")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    sys.argv = [name, *sys.argv[3:]]
    command.main()


if __name__ == "__main__":
    main()
