"""`penstock`: the entry point of the daemons, the per-user cluster and the administrator's tools.

One click application (penstock/commandline.py): a table maps each subcommand to its module, and only that module is
imported. The daemons are named by text like an entry point: they are separate programs installed beside the commands,
with their own errors (a log needs a traceback, a user does not); click knows their options from tables. The database
tool and the simulator are click groups of their own packages, and part of the application by their names.
"""

import os
import sys
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from cli.base.run import RemoteAnswer, run

if TYPE_CHECKING:
    from penstock.commandline import CommandGroup

#: click asks for completions by this variable.
COMPLETE = "_PENSTOCK_COMPLETE"
OWN = "A cluster of your own"
LOOK = "Jobs and the cluster"
MANAGE = "For administrators"
TRY = "Without a cluster"
DAEMONS = "Daemons"


class Subcommand(NamedTuple):
    """The implementation of a subcommand (one or two words)."""

    words: str
    target: str  # module:attribute: a click command; of a daemon a function, called with the words after it
    help: str
    section: str
    line: str = ""  # module:attribute, the function that returns a daemon's command line

    @property
    def is_daemon(self) -> bool:
        """Whether it parses its own arguments and reports its own errors."""
        return bool(self.line)


PROGRAMS = (
    Subcommand(
        "up",
        "cli.subcommands.local:up_command",
        "start a cluster of your own on this machine, or its daemons that do not run",
        OWN,
    ),
    Subcommand("down", "cli.subcommands.local:down_command", "stop that cluster; its jobs' records stay", OWN),
    Subcommand("status", "cli.subcommands.local:status_command", "show which of its daemons run", OWN),
    Subcommand("demo", "cli.subcommands.demo:command", "show a cluster at work in a temporary folder", OWN),
    Subcommand("run", "sdk.runcommand:command", "run a program as a job, and show its output", LOOK),
    Subcommand("submit", "rest.jobfiles.command:command", "submit the job that a file describes", LOOK),
    Subcommand("logs", "sdk.logscommand:command", "show the output of a job, also while it runs", LOOK),
    Subcommand("why", "cli.subcommands.why:command", "explain why a job waits, and what would start it sooner", LOOK),
    Subcommand(
        "seff", "cli.subcommands.seff:command", "show how well a job used its CPUs, memory, GPUs and time", LOOK
    ),
    Subcommand("profile", "cli.subcommands.profile:command", "show what a job's steps and GPUs did over time", LOOK),
    Subcommand("doctor", "cli.subcommands.doctor:command", "say whether a job's steps seem to hang, and why", LOOK),
    Subcommand("waste", "cli.subcommands.waste:command", "rank who left GPU hours unused", LOOK),
    Subcommand("gpus", "cli.subcommands.gpus:command", "list the GPUs of the cluster: state, jobs, reason", LOOK),
    Subcommand("fits", "cli.subcommands.fits:command", "list the largest jobs that would start now", LOOK),
    Subcommand("plan", "cli.subcommands.plan:command", "show which planned starts would move if nodes went", LOOK),
    Subcommand("budget", "cli.subcommands.budget:command", "list the budgets of accounts, and their usage", LOOK),
    Subcommand("token", "cli.subcommands.token:command", "personal tokens, for programs that act for you", LOOK),
    Subcommand("report", "cli.subcommands.report:command", "write the usage of the cluster as a page with plots", LOOK),
    Subcommand(
        "policy",
        "cli.subcommands.policy:command",
        "accounts, QOS and limits from one file: plan, apply, export",
        MANAGE,
    ),
    Subcommand(
        "config check", "cli.subcommands.configcheck:command", "read a slurm.conf and report its errors", MANAGE
    ),
    Subcommand(
        "config diff",
        "cli.subcommands.configdiff:command",
        "show what a reload would change, and which jobs it affects",
        MANAGE,
    ),
    Subcommand("ca", "cli.subcommands.ca:command", "the cluster's certificate authority (penstock ca init)", MANAGE),
    Subcommand("audit", "cli.subcommands.audit:command", "show the audit log, and verify that it is unchanged", MANAGE),
    Subcommand("node", "cli.subcommands.node:command", "join tokens for new nodes (penstock node token)", MANAGE),
    Subcommand(
        "db",
        "ctld.dbtool.main:command",
        "bring the database up to date, check it, copy it, move it, write it as text",
        MANAGE,
    ),
    Subcommand("sim", "sim.__main__:command", "run workloads through the scheduler in virtual time", TRY),
    Subcommand("completion", "cli.subcommands.completion:command", "print the completion script of a shell", TRY),
    Subcommand("ctld", "ctld.main:main", "the controller", DAEMONS, "ctld.commandline:command_line"),
    Subcommand("noded", "nodedaemon.main:main", "the node daemon", DAEMONS, "nodedaemon.commandline:command_line"),
    Subcommand("restd", "rest.main:main", "the REST daemon", DAEMONS, "rest.commandline:command_line"),
    Subcommand(
        "pamd", "pamd.main:main", "checks passwords for the REST daemon", DAEMONS, "pamd.commandline:command_line"
    ),
    Subcommand(
        "adopt",
        "nodedaemon.adopt:main",
        "put an ssh session into a job (for pam_exec)",
        DAEMONS,
        "nodedaemon.adopt:command_line",
    ),
)
#: Groups of subcommands.
GROUPS = {"config": ("check a configuration, or see what would change", MANAGE)}
GROUP_EXAMPLES = {
    "config": (
        ("penstock config check slurm.conf", "what is wrong with it"),
        ("penstock config diff slurm.conf", "what a reload would change"),
    )
}
EXAMPLES = (
    ("penstock up --nodes 2 --gpus-per-node 4:h200", "a cluster of your own with pretended GPUs"),
    ("penstock why 123", "why a job waits, and what would start it sooner"),
    ("penstock config check slurm.conf", "every problem of a configuration"),
)


def application() -> "CommandGroup":
    """Builds the whole application. No command is imported."""
    import click

    from penstock import SLURM_VERSION, __version__
    from penstock.commandline import CommandGroup, Entry

    entries: dict[str, Entry] = {}
    below: dict[str, list[Entry]] = {}
    for program in PROGRAMS:
        word, _, second = program.words.partition(" ")
        if second:
            below.setdefault(word, []).append(Entry(second, program.target, program.help))
            entries[word] = Entry(word, "", *GROUPS[word])
        else:
            entries[word] = Entry(word, program.target, program.help, program.section, program.line)
    text = f"Penstock {__version__}, with the interface of Slurm {SLURM_VERSION}"
    version = click.Option(
        ["-V", "--version"], is_flag=True, expose_value=False, is_eager=True, callback=_version(text),
        help="Show the version and exit.",
    )  # fmt: skip
    app = CommandGroup(
        "penstock",
        entries=list(entries.values()),
        params=[version],
        examples=EXAMPLES,
        is_helpful=True,
        help="A private cluster, the daemons, and tools for which Slurm has no command.",
        epilog="Jobs: sbatch, squeue, scancel, sacct, sinfo. `penstock COMMAND --help` describes a command.",
    )
    for word, found in below.items():
        about = f"{GROUPS[word][0].capitalize()}."
        app.add_command(CommandGroup(word, entries=found, examples=GROUP_EXAMPLES[word], help=about, wrong_use=2))
    return app


def _version(text: str) -> "object":
    def print_version(context: object, option: object, is_given: bool) -> None:
        if is_given:
            raise RemoteAnswer(text)

    return print_version


def body(argv: list[str]) -> int:
    """Runs one command line."""
    from penstock.commandline import invoke

    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        return shell_complete(application(), {}, "penstock", COMPLETE, instruction)
    return invoke(application(), "penstock", [] if argv == ["help"] else argv)


def main() -> NoReturn:
    """Entry point. A daemon runs outside of the commands' error handling, and without click."""
    daemon = next((p for p in PROGRAMS if p.is_daemon and sys.argv[1:2] == [p.words]), None)
    if daemon:
        import gc
        import importlib

        module, _, function = daemon.target.partition(":")
        gc.disable()  # modules are many objects and hardly any garbage: looking for it takes a tenth of the import
        start = getattr(importlib.import_module(module), function)
        gc.freeze()
        gc.enable()
        sys.exit(start(sys.argv[2:]))
    run("penstock", body)


if __name__ == "__main__":
    main()
