"""`penstock config check [FILE]`: reads a configuration as the controller would, and says what is wrong with it.

Every problem is printed with its file and line, then every warning, then a summary. Nothing is started, changed or
contacted. Exit status: 0 usable, 78 (EX_CONFIG) not usable, 2 wrong use.
"""

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from penstock.config import DEFAULT_PATH, ConfigError, Loaded, load
from penstock.values.hostlist import compress

EX_CONFIG = 78

USAGE = f"""\
Usage: penstock config check [FILE]

Reads FILE (default: $SLURM_CONF, else {DEFAULT_PATH}), the files that it includes and the gres.conf
beside it, and prints every problem with its file and line. Nothing is started or changed.

  -q, --quiet   print problems only
  -h, --help    show this text

Exit status: 0 the configuration can be used, 78 it cannot, 2 wrong use.
"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; `argv` holds what follows `penstock config check`."""
    if any(word in ("-h", "--help") for word in argv):
        sys.stdout.write(USAGE)
        return 0
    quiet = any(word in ("-q", "--quiet") for word in argv)
    names = [word for word in argv if word not in ("-q", "--quiet")]
    if len(names) > 1 or any(name.startswith("-") for name in names):
        sys.stderr.write("penstock config check: expected at most one FILE\n" + USAGE)
        return 2
    path = names[0] if names else os.environ.get("SLURM_CONF") or DEFAULT_PATH
    try:
        loaded = load(path)
    except ConfigError as error:
        lines = [str(problem) for problem in error.problems]
        lines.append(f"{path}: not usable, {_number(len(error.problems), 'problem')}")
        _write(sys.stderr, "\n".join(lines) + "\n")
        return EX_CONFIG
    if not quiet:
        _write(sys.stdout, _report(path, loaded))
    return 0


def _write(stream: TextIO, text: str) -> None:
    """Writes text that may hold a file name of undecodable bytes."""
    stream.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _report(path: str, loaded: Loaded) -> str:
    """Warnings and a summary."""
    config = loaded.config
    lines = [f"warning: {warning}" for warning in loaded.warnings]
    lines.append(f"{path}: usable, {_number(len(loaded.warnings), 'warning')}")
    lines.append(f"  cluster {config.cluster_name}, controller {config.controller_host}:{config.slurmctld_port}")
    cpus = sum(node.cpus for node in config.nodes)
    gpus = sum(one.count for node in config.nodes for one in node.gres if one.name == "gpu")
    names = compress(node.name for node in config.nodes)
    lines.append(f"  {_number(len(config.nodes), 'node')} ({names}), {cpus} CPUs, {gpus} GPUs")
    for partition in config.partitions:
        default = ", default" if partition.is_default else ""
        lines.append(f"  partition {partition.name}: {_number(len(partition.nodes), 'node')}{default}")
    return "\n".join(lines) + "\n"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
