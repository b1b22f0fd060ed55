"""Coverage-guided fuzzing of the parsers with atheris: `make fuzz`, or a fixed number of runs in the tests.

    python tests/support/fuzz.py [--target NAME] [--runs N | --seconds S] [--findings FOLDER]

The first byte of an input chooses the target unless one is named. An input that breaks a parser is printed, kept in
FOLDER and ends the run with a status other than 0. With --runs the seed is fixed, so that two runs do the same.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

import atheris  # noqa: E402

with atheris.instrument_imports(include=["penstock.values", "penstock.config", "cli"]):
    from fuzztargets import BY_NAME, NO_CLUSTER, TARGETS, call, text_of


def main() -> None:
    """Read the line, write the first inputs, hand over to the fuzzer (which ends the process)."""
    parser = argparse.ArgumentParser(description="fuzz the parsers")
    parser.add_argument("--target", choices=sorted(BY_NAME))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--findings", default=".")
    options = parser.parse_args()
    os.environ["PENSTOCK_CLUSTER"] = NO_CLUSTER
    targets = [BY_NAME[options.target]] if options.target else list(TARGETS)

    def one(data: bytes) -> None:
        if data:
            target = targets[data[0] % len(targets)]
            call(target, text_of(data[1:]))

    with tempfile.TemporaryDirectory() as corpus:
        for number, target in enumerate(targets):
            for order, seed in enumerate(target.seeds):
                Path(corpus, f"{number}-{order}").write_bytes(bytes([number]) + seed.encode())
        limit = f"-runs={options.runs}" if options.runs else f"-max_total_time={options.seconds}"
        found = Path(options.findings).resolve()
        flags = [limit, "-seed=1", "-max_len=512", "-timeout=20", f"-artifact_prefix={found}/", "-print_final_stats=0"]
        atheris.Setup([sys.argv[0], *flags, corpus], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
