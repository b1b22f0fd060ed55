"""`penstock`: one name for the daemons, the per-user cluster and the administrator's tools.

A table says which module answers; only that module is imported. The daemons are named by text like an entry point, not
imported: they are other programs that happen to be installed beside the commands, and they keep their own errors (a log
wants a traceback, a person does not).
"""

import importlib
import sys
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from cli.run import Answered, CommandError, run

USAGE = "Usage: penstock COMMAND [OPTIONS]"


class Program(NamedTuple):
    """What one word (or two) of the command line stands for."""

    words: str
    target: str  # module:function, called with the words behind
    help: str
    is_daemon: bool = False


PROGRAMS = (
    Program("up", "cli.local:up", "start a cluster of your own on this machine, or what is not running of it"),
    Program("down", "cli.local:down", "stop that cluster; its jobs' records stay"),
    Program("status", "cli.local:status", "say which of its daemons run"),
    Program("demo", "cli.demo:main", "show a cluster at work in a temporary folder"),
    Program("why", "cli.why:main", "say why a job waits, and what would start it sooner"),
    Program("seff", "cli.seff:body", "say how well a job used its CPUs, memory, GPUs and time"),
    Program("gpus", "cli.gpus:main", "list the GPUs of the cluster: state, jobs, reason"),
    Program("fits", "cli.fits:main", "list the largest jobs that would start now"),
    Program("budget", "cli.budget:main", "list the budgets of accounts, and what is used of them"),
    Program("ctld", "ctld.main:main", "the controller", is_daemon=True),
    Program(
        "db",
        "ctld.dbtool.main:main",
        "bring the database up to date, check it, copy it, move it, write it as text",
        is_daemon=True,
    ),
    Program("noded", "nodedaemon.main:main", "the node daemon", is_daemon=True),
    Program("sim", "sim.__main__:main", "run workloads through the scheduler in virtual time", is_daemon=True),
    Program("adopt", "nodedaemon.adopt:main", "put an ssh session into a job (for pam_exec)", is_daemon=True),
    Program("report", "cli.report:main", "use of the cluster as a page with plots"),
    Program("policy", "cli.policy:main", "accounts, QOS and limits from one file: plan, apply, export"),
    Program("config check", "cli.configcheck:main", "read a slurm.conf and say what is wrong with it"),
    Program("config diff", "cli.configdiff:main", "say what a reload would change, and which jobs it touches"),
    Program("ca", "cli.ca:main", "the cluster's certificate authority (penstock ca init)"),
    Program("audit", "cli.audit:main", "show the audit log, and verify that nobody has changed it"),
    Program("node", "cli.node:main", "join tokens for new nodes (penstock node token)"),
)


def help_text() -> str:
    """What `penstock --help` shows."""
    lines = [f"  {p.words:<14}{p.help}" for p in PROGRAMS]
    return "\n".join(
        [USAGE, "", *lines, "", "`penstock COMMAND --help` tells more. Jobs: sbatch, squeue, scancel, sacct, sinfo."]
    )


def choose(argv: list[str]) -> tuple[Program, list[str]]:
    """The program that the first words name, and what is left for it."""
    from cli.options import VERSION_TEXT

    if not argv or argv[0] in ("-h", "--help", "help"):
        raise Answered(help_text())
    if argv[0] in ("-V", "--version"):
        raise Answered(VERSION_TEXT)
    for program in PROGRAMS:
        words = program.words.split()
        if argv[: len(words)] == words:
            return program, argv[len(words) :]
    siblings = [p.words for p in PROGRAMS if p.words.split()[0] == argv[0]]
    if siblings:
        raise CommandError(f"after {argv[0]} comes: {', '.join(s.partition(' ')[2] for s in siblings)}")
    text = f'penstock: unrecognized command {argv[0]!r}\nTry "penstock --help" for more information'
    raise CommandError(text, plain=True)


def load(program: Program) -> Callable[[list[str]], int]:
    """Import the module that answers, and nothing else."""
    module, _, function = program.target.partition(":")
    handler: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
    return handler


def body(argv: list[str]) -> int:
    """Answer one command line."""
    program, rest = choose(argv)
    return load(program)(rest)


def main() -> NoReturn:
    """Entry point. A daemon is called outside of the commands' error handling."""
    daemon = next((p for p in PROGRAMS if p.is_daemon and sys.argv[1:2] == [p.words]), None)
    if daemon:
        sys.exit(load(daemon)(sys.argv[2:]))
    run("penstock", body)


if __name__ == "__main__":
    main()
