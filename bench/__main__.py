"""`python -m bench`: all parts one after the other, a table, bench/out/main.json. `make bench` runs it."""

import argparse
import sys
import time
from pathlib import Path

from bench.parts import PARTS, QUICK, Effort, Figures, ratios, run_part
from bench.report import document, machine, table, write

OUT = Path(__file__).parent / "out" / "main.json"
#: The peer is a comparison, MPICH and the browser are third-party: a run without them is still complete.
OPTIONAL = frozenset({"slurm", "slurm-step", "slurm-shells", "slurm-shells-queued", "mpi", "web"})


def main() -> int:
    """Runs the parts; 0 when every required part gave its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures Penstock on this machine.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that it works")
    parser.add_argument("--out", type=Path, default=OUT, help="where the JSON goes (%(default)s)")
    asked = parser.parse_args()
    if unknown := [name for name in asked.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    about = machine()
    figures, reasons = run(asked.parts or list(PARTS), QUICK if asked.quick else Effort())
    write(asked.out, document(figures, reasons, about))
    print(table(figures, reasons))
    print(f"{about['python_build']}\nwritten to {asked.out}")
    return 1 if reasons.keys() - OPTIONAL else 0


def run(names: list[str], effort: Effort) -> tuple[Figures, dict[str, str]]:
    """The figures of the parts, and the errors of those without figures."""
    figures: Figures = {}
    reasons: dict[str, str] = {}
    for name in names:
        began = time.monotonic()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        found, why = run_part(name, effort)
        print(why or f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        figures |= found
        if why:
            reasons[name] = why
    return figures | ratios(figures), reasons


if __name__ == "__main__":
    sys.exit(main())
