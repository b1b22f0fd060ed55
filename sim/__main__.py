"""`penstock sim`: a table says which module answers; only that module is imported."""

import importlib
import sys

#: word -> module:function, called with the words behind; and what `--help` says.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("sim.run:main", "a workload log through one or more policies"),
    "compare": ("sim.compare:main", "two results side by side"),
    "openb": ("sim.openb_cli:main", "place pods with parts of GPUs: the lists of Alibaba's GPU cluster"),
    "worlds": ("sim.worlds_cli:main", "seeded fault worlds: crashes, losses and restarts, watched by oracles"),
    "policy": ("sim.policyplay:main", "jobs under two policies, for penstock policy plan (JSON on stdin)"),
    "replay": ("sim.flight:main", "step a controller's flight record again"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help"):
        lines = [f"  {name:<12}{text}" for name, (_, text) in COMMANDS.items()]
        sys.stdout.write("\n".join(["Usage: penstock sim COMMAND [OPTIONS]", "", *lines, ""]))
        return 0
    if words[0] not in COMMANDS:
        sys.stderr.write(f"penstock sim: error: no command {words[0]!r}; there are: {', '.join(COMMANDS)}\n")
        return 1
    module, _, function = COMMANDS[words[0]][0].partition(":")
    return int(getattr(importlib.import_module(module), function)(words[1:]) or 0)


if __name__ == "__main__":
    sys.exit(main())
