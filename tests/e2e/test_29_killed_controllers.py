"""Many calls from eight shells while the controller, or the command server with its workers, is killed again and again: each
ends with a message and a status of its own.

`python -m bench.manycalls --kills 20000` makes more of them.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from livecluster import CTLD, LAUNCHERS, LiveCluster, command, is_installed
from patience import ANSWER_S

SHELLS, CALLS = 8, 24
#: A call without a command server is a start of Python.
SERVED_CALLS = 12
#: Processes of a command server that serves: it, and two workers.
SERVING = 3
POLL_S = 0.1
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

        def kill() -> None:
            cluster.kill(CTLD)
            cluster.start_controller()

        words = called(cluster, kill, CALLS)
    assert words.count(f"calls {CALLS}") == SHELLS
    assert {word for word in words if not word.startswith("calls")} <= {"1"}


@pytest.mark.skipif(not is_installed("sbatch"), reason="the commands of this tree are not installed: no command server")
def test_29_no_call_ends_by_a_signal_while_the_command_server_is_killed():
    """A command that it had begun says that it is not known what became of it; the others run without."""
    killed = 0
    with LiveCluster(1) as cluster:
        run = cluster.work / "run"
        run.mkdir(mode=0o700)

        def kill() -> None:
            nonlocal killed
            found = servers(run)
            if len(found) < SERVING:  # it serves nobody yet
                time.sleep(POLL_S)
                return
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1

        words = called(cluster, kill, SERVED_CALLS, XDG_RUNTIME_DIR=str(run))
        for pid in servers(run):
            os.kill(pid, signal.SIGKILL)
    assert killed > SHELLS
    assert words.count(f"calls {SERVED_CALLS}") == SHELLS
    assert {word for word in words if not word.startswith("calls")} <= {"1"}


def servers(run: Path) -> list[int]:
    """The processes of the command servers of that folder: each server, and its workers."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
            if b"commandserver" in words and os.fsencode(run) in words:
                found.append(int(folder.name))
    return found


def called(cluster: LiveCluster, kill: Callable[[], None], calls: int, **env: str) -> list[str]:
    """The words of all shells, of which each makes its calls, while something is killed until they are over."""
    programs = [
        shlex.join(map(os.fsdecode, [LAUNCHERS / name] if is_installed(name) else command(name)))
        for name in ("sbatch", "squeue")
    ]
    shells = [
        subprocess.Popen(
            ["sh", "-c", LOOP % calls, "sh", str(cluster.work / f"err{number}"), *programs],
            env=cluster.environment(**env),
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(SHELLS)
    ]
    while any(shell.poll() is None for shell in shells):
        kill()
    return [word for shell in shells for word in shell.communicate(timeout=ANSWER_S)[0].splitlines()]
