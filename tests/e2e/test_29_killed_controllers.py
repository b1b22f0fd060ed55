"""Many calls from eight shells while the controller is killed again and again: each ends with a message and a status of its own.

`python -m bench.manycalls --kills 20000` makes more of them.
"""

import os
import shlex
import subprocess

from livecluster import CTLD, LAUNCHERS, LiveCluster, command, is_installed
from patience import ANSWER_S

SHELLS, CALLS = 8, 100
#: Prints each status that is not 0, "silent" with one that came without a message, and at the end how many calls there were.
#: Words: a file, and the two commands by turns.
LOOP = """
err=$1 sbatch=$2 squeue=$3; i=0
while [ $i -lt %d ]; do
    if [ $((i %% 2)) = 0 ]; then eval "$sbatch --hold -o /dev/null --wrap true" >/dev/null 2>"$err"; s=$?
    else eval "$squeue -h" >/dev/null 2>"$err"; s=$?; fi
    [ $s = 0 ] || echo $s; [ $s = 0 ] || [ -s "$err" ] || echo silent
    i=$((i+1))
done
echo calls $i
"""


def test_29_no_call_ends_by_a_signal_while_the_controller_is_killed():
    with LiveCluster(1) as cluster:
        cluster.sbatch("--hold", "--wrap", "true")  # the command server is there
        programs = [
            shlex.join(map(os.fsdecode, [LAUNCHERS / name] if is_installed(name) else command(name)))
            for name in ("sbatch", "squeue")
        ]
        shells = [
            subprocess.Popen(
                ["sh", "-c", LOOP % CALLS, "sh", str(cluster.work / f"err{number}"), *programs],
                env=cluster.environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(SHELLS)
        ]
        while any(shell.poll() is None for shell in shells):
            cluster.kill(CTLD)
            cluster.start_controller()
        words = [word for shell in shells for word in shell.communicate(timeout=ANSWER_S)[0].splitlines()]
    assert words.count(f"calls {CALLS}") == SHELLS
    assert {word for word in words if not word.startswith("calls")} <= {"1"}
