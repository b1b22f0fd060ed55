"""Runs very many served commands, and reports how each of them ended.

    python -m bench.manycalls --calls 200000 --submissions 5000
    python -m bench.manycalls --kills 20000

Some shells start commands in loops, as workflow engines do, on a cluster of their own, and count the exit statuses.
It measures nothing; it looks for what goes wrong once in some thousand calls, best on a machine that is busy with other
things too. All calls but the submissions need no controller (`squeue --version`), so that the launcher, the command server and
its workers are what is tried. Status 0 when all calls had status 0; every other status is counted in the output.
"""

import argparse
import collections
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from bench.local import Local, private_cluster
from bench.shells import SHELLS, WARM_UP_CALLS, WORDS

#: How long a controller that is killed again and again runs and does not.
UP_S, DOWN_S = 3.0, 0.5
#: One line a status that is not 0, when it comes; a line with `done` and the number of calls at the end.
LOOP = "i=0; while [ $i -lt {calls} ]; do {command} >/dev/null; s=$?; [ $s = 0 ] || echo $s; i=$((i+1)); done; echo done $i"


def main() -> int:
    """0 = every call ended with status 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.manycalls", description="Counts how served commands end.")
    parser.add_argument("--calls", type=int, default=20_000, help="calls that need no controller (%(default)s)")
    parser.add_argument("--submissions", type=int, default=1_000, help="calls of sbatch (%(default)s)")
    parser.add_argument("--shells", type=int, default=SHELLS, help="shells at a time (%(default)s)")
    parser.add_argument(
        "--kills", type=int, default=0, help="only so many calls of sbatch, with a controller that is killed"
    )
    asked = parser.parse_args()
    if asked.kills:
        with private_cluster(1, 4) as cluster, restarts(cluster) as count:
            statuses = run_all(cluster, "sbatch", WORDS, asked.kills, asked.shells)
        print(f"the controller was killed {count[0]} times")
        return 0 if statuses.keys() <= {0, 1} else 1
    with private_cluster(1, 4) as cluster:
        run_all(cluster, "sbatch", WORDS, WARM_UP_CALLS, asked.shells)
        submitted = run_all(cluster, "sbatch", WORDS, asked.submissions, asked.shells)
        asking_nobody = run_all(cluster, "squeue", ["--version"], asked.calls, asked.shells)
    return 0 if (submitted + asking_nobody).keys() <= {0} else 1


@contextlib.contextmanager
def restarts(cluster: Local) -> Iterator[list[int]]:
    """Kills the controller and starts it again, until the block ends. Yields how often, in a list of one number."""
    over = threading.Event()
    count = [0]

    def restart() -> None:
        while not over.wait(UP_S):
            os.kill(cluster.controller_pid(), signal.SIGKILL)
            count[0] += 1
            over.wait(DOWN_S)
            cluster.run("penstock", "up")

    killer = threading.Thread(target=restart)
    killer.start()
    try:
        yield count
    finally:
        over.set()
        killer.join()


def run_all(cluster: Local, name: str, words: list[str], calls: int, shells: int) -> collections.Counter[int]:
    """How often each status came."""
    line = LOOP.format(calls=calls // shells, command=shlex.join(cluster.command(name, *words)))
    began = time.monotonic()
    running = [
        subprocess.Popen(["sh", "-c", line], env=cluster.env, stdout=subprocess.PIPE, text=True) for _ in range(shells)
    ]
    said = [word for shell in running for word in shell.communicate()[0].splitlines()]
    statuses = collections.Counter(int(word) for word in said if word.isdigit())
    statuses[0] = sum(int(word.split()[1]) for word in said if word.startswith("done")) - statuses.total()
    took_s = time.monotonic() - began
    counted = ", ".join(f"{count} with status {status}" for status, count in sorted(statuses.items()))
    print(f"{name} {shlex.join(words)}: {counted}; {took_s:.0f} s", flush=True)
    return statuses


if __name__ == "__main__":
    sys.exit(main())
