"""`penstock config check [FILE]`: reads a configuration as the controller would, and says what is wrong with it.

Every problem is printed with its file and line, then every warning, then a summary. Of a parameter that is not used a
warning says what happens instead; --explain adds what it does in Slurm. --json prints all of it for programs. Nothing is
started, changed or contacted. Exit status: 0 usable, 78 (EX_CONFIG) not usable, 2 wrong use.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from penstock.cluster import own_conf_path
from penstock.config import DEFAULT_PATH, ConfigError, Loaded, load
from penstock.values.hostlist import compress

EX_CONFIG = 78

USAGE = f"""\
Usage: penstock config check [-q | --explain | --json] [FILE]

Reads FILE, the files that it includes and those beside it (gres.conf, cgroup.conf, topology.conf, ...), and
prints every problem with its file and line. Nothing is started or changed. Without FILE: that of the cluster of
`penstock up` if there is one, else $SLURM_CONF, {DEFAULT_PATH} or /etc/slurm/slurm.conf.

  -q, --quiet   print problems only
  --explain     also say what each parameter that is not used does in Slurm
  --json        print one JSON object: problems, warnings, ignored parameters, summary
  -h, --help    show this text

Exit status: 0 the configuration can be used, 78 it cannot, 2 wrong use.
"""
_OPTIONS = ("-q", "--quiet", "--explain", "--json")


def main(argv: Sequence[str]) -> int:
    """Runs the command; `argv` holds what follows `penstock config check`."""
    if any(word in ("-h", "--help") for word in argv):
        sys.stdout.write(USAGE)
        return 0
    options = {word for word in argv if word in _OPTIONS}
    names = [word for word in argv if word not in _OPTIONS]
    if len(names) > 1 or any(name.startswith("-") for name in names):
        sys.stderr.write("penstock config check: expected at most one FILE\n" + USAGE)
        return 2
    path = names[0] if names else own_conf_path()
    try:
        loaded = load(path)
    except ConfigError as error:
        if "--json" in options:
            problems = [{"file": one.file, "line": one.line, "text": one.text} for one in error.problems]
            _write_json({"usable": False, "problems": problems})
            return EX_CONFIG
        lines = [str(problem) for problem in error.problems]
        lines.append(f"{path}: not usable, {_number(len(error.problems), 'problem')}")
        _write(sys.stderr, "\n".join(lines) + "\n")
        return EX_CONFIG
    if "--json" in options:
        _write_json(_document(loaded))
    elif not options & {"-q", "--quiet"}:
        _write(sys.stdout, _report(path, loaded, "--explain" in options))
    return 0


def _write(stream: TextIO, text: str) -> None:
    """Writes text that may hold a file name of undecodable bytes."""
    stream.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _write_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _report(path: str, loaded: Loaded, explain: bool) -> str:
    """Warnings and a summary."""
    config = loaded.config
    does = {f"{one.where}: {one.text()}": one.does for one in loaded.ignored if one.does} if explain else {}
    lines = []
    for warning in loaded.warnings:
        lines.append(f"warning: {warning}")
        if warning in does:
            lines.append(f"  in Slurm: {does[warning]}")
    lines.append(f"{path}: usable, {_number(len(loaded.warnings), 'warning')}")
    lines.append(f"  cluster {config.cluster_name}, controller {config.controller_host}:{config.slurmctld_port}")
    cpus, gpus = _sizes(loaded)
    names = compress(node.name for node in config.nodes)
    lines.append(f"  {_number(len(config.nodes), 'node')} ({names}), {cpus} CPUs, {gpus} GPUs")
    for partition in config.partitions:
        default = ", default" if partition.is_default else ""
        lines.append(f"  partition {partition.name}: {_number(len(partition.nodes), 'node')}{default}")
    return "\n".join(lines) + "\n"


def _sizes(loaded: Loaded) -> tuple[int, int]:
    nodes = loaded.config.nodes
    gpus = sum(one.count for node in nodes for one in node.gres if one.name == "gpu")
    return sum(node.cpus for node in nodes), gpus


def _document(loaded: Loaded) -> dict[str, Any]:
    config = loaded.config
    cpus, gpus = _sizes(loaded)
    return {
        "usable": True,
        "files": list(loaded.files),
        "warnings": list(loaded.warnings),
        "ignored": [
            {
                "file": one.where.file,
                "line": one.where.line,
                "parameter": one.key,
                "word": one.word,
                "value": one.value,
                "in_slurm": one.does,
                "here": one.why,
            }
            for one in loaded.ignored
        ],
        "cluster": config.cluster_name,
        "nodes": len(config.nodes),
        "cpus": cpus,
        "gpus": gpus,
        "partitions": [
            {"name": one.name, "nodes": len(one.nodes), "default": one.is_default} for one in config.partitions
        ],
    }


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
