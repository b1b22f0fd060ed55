"""`penstock sim`: a table maps each subcommand to its module; only that module is imported."""

import sys

from penstock.commandline import CommandGroup, Entry, invoke
from sim.edge import run_with_errors

#: word -> module:attribute, a click command; and its help text.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("sim.run:command", "a workload log through one or more policies"),
    "compare": ("sim.compare:command", "two results side by side"),
    "openb": ("sim.openb_cli:command", "place pods with fractions of GPUs: the lists of Alibaba's GPU cluster"),
    "worlds": ("sim.worlds_cli:command", "seeded fault worlds: crashes, losses and restarts, watched by oracles"),
    "order": ("sim.order:command", "a log under policies, for penstock restd (JSON on stdin)"),
    "policy": ("sim.policyplay:command", "jobs under two policies, for penstock policy plan (JSON on stdin)"),
    "replay": ("sim.flight:command", "replay a controller's flight record"),
}
command = CommandGroup(
    "sim",
    entries=[Entry(word, target, text) for word, (target, text) in COMMANDS.items()],
    edge=run_with_errors,
    is_helpful=True,
    help="Run workloads through the scheduler in virtual time.",
    examples=(
        ("penstock sim run --trace jobs.txt --conf slurm.conf", "your own log, as sacct -P printed it"),
        ("penstock sim worlds --seed 24 --steps 60 --verbose", "one fault world"),
    ),
)


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; its exit status."""
    words = sys.argv[1:] if argv is None else argv
    return invoke(command, "penstock sim", words)


if __name__ == "__main__":
    sys.exit(main())
