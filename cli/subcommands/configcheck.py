"""`penstock config check [FILE]`: reads a configuration as the controller would, and reports its errors.

Every problem is printed with its file and line, then every warning, then a summary. For an unused parameter a warning
describes Penstock's behaviour; --explain adds its meaning in Slurm. A submit filter whose file the controller could not
load is a warning, too: it starts without it, and refuses submissions. --json prints all of it as a document. Nothing is
started, changed or contacted. Exit status: 0 usable, 78 (EX_CONFIG) not usable, 2 wrong use.
"""

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

import click

from cli.subcommands.documents import documents, write
from penstock.cluster import own_conf_path
from penstock.commandline import CommandLine, invoke
from penstock.config import DEFAULT_PATH, ConfigError, Loaded, load
from penstock.config.filterfiles import filter_warnings
from penstock.config.kafkafile import kafka_warnings
from penstock.values.hostlist import compress

if TYPE_CHECKING:
    from cli.base.document import Json

EX_CONFIG = 78


@click.command(
    cls=CommandLine,
    wrong_use=2,
    help=f"""Reads FILE, the files that it includes and those beside it (gres.conf, cgroup.conf, topology.conf, ...), and
prints every problem with its file and line. Nothing is started or changed. Without FILE: that of the cluster of `penstock
up` if there is one, else $SLURM_CONF, {DEFAULT_PATH} or /etc/slurm/slurm.conf.""",
    epilog="Exit status: 0 the configuration can be used, 78 it cannot, 2 wrong use.",
    examples=(
        ("penstock config check /etc/penstock/slurm.conf", "before the controller is started with it"),
        ("penstock config check --explain slurm.conf", "also the meaning of unused parameters in Slurm"),
    ),
)
@documents
@click.option("-q", "--quiet", is_flag=True, help="Print problems only.")
@click.option("--explain", is_flag=True, help="Also describe what each unused parameter does in Slurm.")
@click.argument("file", required=False)
def command(file: str | None, quiet: bool, explain: bool, language: str) -> int:
    """Reads the configuration and prints its problems."""
    path = file or own_conf_path()
    try:
        loaded = load(path)
    except ConfigError as error:
        if language:
            problems = [{"file": one.file, "line": one.line, "text": one.text} for one in error.problems]
            write({"usable": False, "problems": problems}, language)
            return EX_CONFIG
        lines = [str(problem) for problem in error.problems]
        lines.append(f"{path}: not usable, {_number(len(error.problems), 'problem')}")
        _write(sys.stderr, "\n".join(lines) + "\n")
        return EX_CONFIG
    beside = [*filter_warnings(loaded.config, os.path.dirname(path)), *kafka_warnings(loaded.config)]
    loaded = replace(loaded, warnings=(*loaded.warnings, *beside))
    if language:
        return write(_document(loaded), language)
    if not quiet:
        _write(sys.stdout, _report(path, loaded, explain))
    return 0


def main(argv: list[str]) -> int:
    """Run `penstock config check ...`; its status."""
    return invoke(command, "penstock config check", argv)


def _write(stream: TextIO, text: str) -> None:
    """Writes text that may contain a file name of undecodable bytes."""
    stream.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))


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


def _document(loaded: Loaded) -> "Json":
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
