"""Many calls from eight shells while the controller is killed again and again: each ends with a status of its own.

`python -m bench.manycalls --kills 20000` makes more of them.
"""

import subprocess

from livecluster import CTLD, LAUNCHERS, LiveCluster, command, is_installed
from patience import ANSWER_S

SHELLS, CALLS = 8, 100
#: Prints each status that is not 0, and at the end how many calls there were.
LOOP = 'i=0; while [ $i -lt %d ]; do "$@" >/dev/null 2>&1; s=$?; [ $s = 0 ] || echo $s; i=$((i+1)); done; echo calls $i'


def test_29_no_call_ends_by_a_signal_while_the_controller_is_killed():
    with LiveCluster(1) as cluster:
        cluster.sbatch("--hold", "--wrap", "true")  # the command server is there
        program = [str(LAUNCHERS / "sbatch")] if is_installed("sbatch") else command("sbatch")
        line = ["sh", "-c", LOOP % CALLS, "sh", *program, "--hold", "-o", "/dev/null", "--wrap", "true"]
        shells = [
            subprocess.Popen(line, env=cluster.environment(), stdout=subprocess.PIPE, text=True) for _ in range(SHELLS)
        ]
        while any(shell.poll() is None for shell in shells):
            cluster.kill(CTLD)
            cluster.start_controller()
        words = [word for shell in shells for word in shell.communicate(timeout=ANSWER_S)[0].splitlines()]
    assert words.count(f"calls {CALLS}") == SHELLS
    assert {word for word in words if not word.startswith("calls")} <= {"1"}
