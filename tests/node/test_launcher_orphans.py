"""What ended stepds leave to the launcher: on purpose, where they ended well; else it is killed, with all below it.

The launcher runs in a process of its own, whose stepds are plain children that end as the test says.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from patience import ANSWER_S

ROOT = Path(__file__).resolve().parents[2]

#: `stepd(code, *leaves)` forks a stepd that forks what it leaves, waits until that is ready, and ends; the launcher has
#: not reaped anything before `reap`. What is left: "stays", "ends" (at once), or "ends and leaves" a process of its own.
HARNESS = """
import json, os, signal, socket, sys, time
from nodedaemon.base import proctree
from nodedaemon.daemon import launcher
proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
_, order_end = socket.socketpair()
_, packets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
made = launcher.Launcher(type("Context", (), {"packets": packets})(), order_end, -1)

def stay():
    signal.pause()

def fork(run):
    pid = os.fork()
    if pid == 0:
        run()
        os._exit(0)
    return pid

def leave(kind, tell):
    if kind == "stays":
        os.write(tell, b"%d\\n" % fork(stay))
    elif kind == "ends":
        fork(lambda: None)
    else:
        fork(lambda: os.write(tell, b"%d\\n" % fork(stay)))

def stepd(code, *kinds):
    heard, tell = os.pipe()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        theirs.close()
        for kind in kinds:
            leave(kind, tell)
        wait_zombies(os.getpid(), sum(kind != "stays" for kind in kinds))
        os._exit(code)
    os.close(tell)
    theirs.close()
    worker = made._workers[pid] = made._by_feed[ours.fileno()] = launcher.LauncherWorker(pid, ours)
    made._epoll.register(ours.fileno())
    worker.key = "1.1.-4"
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    data = b""
    while data.count(b"\\n") < sum(kind != "ends" for kind in kinds):
        data += os.read(heard, 4096)
    return [int(word) for word in data.split()]

def state(pid):
    fields = proctree.stat_fields(pid)
    return fields[0].decode() if fields else "gone"

def wait_zombies(pid, number):
    while sum(state(child) == "Z" for child in proctree.children(pid)) < number:
        time.sleep(0.001)

def reap():
    made._reap()

def await_end(pid):
    while state(pid) not in ("Z", "gone"):
        time.sleep(0.001)

def alive(*pids):
    return [state(pid) not in ("Z", "gone") for pid in pids]

try:
SCENARIO
finally:
    proctree.signal_descendants(os.getpid(), signal.SIGKILL)
"""


def run(scenario: str) -> object:
    """The scenario's answer, which it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", HARNESS.replace("SCENARIO", textwrap.indent(scenario, "    "))], cwd=ROOT, capture_output=True, text=True,
        timeout=ANSWER_S, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_an_epilog_leaves_is_left_alone_whatever_ends_beside_it() -> None:
    """Not known to the launcher: a process that has ended before its stepd was reaped."""
    assert (
        run(
            """
first = stepd(0, "stays", "ends")
reap()
second = stepd(0, "stays", "ends", "ends and leaves")
reap()
stepd(0, "ends", "ends")
reap()
print(json.dumps(alive(*first, *second)))
"""
        )
        == [True] * 3
    )


def test_what_a_failed_stepd_leaves_is_killed_with_all_below_it_and_nothing_else() -> None:
    assert run(
        """
kept = stepd(0, "stays")
reap()
lost = stepd(70, "stays", "stays", "ends and leaves", "ends")
reap()
for pid in lost:
    await_end(pid)
reap()
later = stepd(0, "stays", "ends")
reap()
print(json.dumps([alive(*kept, *later), alive(*lost)]))
"""
    ) == [[True, True], [False, False, False]]


def test_while_the_remains_of_one_do_not_die_what_others_leave_is_left_alone() -> None:
    """As a process that hangs in the kernel."""
    assert run(
        """
plain, proctree.signal_descendants = proctree.signal_descendants, lambda *arguments: 0
hangs = stepd(70, "stays")
reap()
proctree.signal_descendants = plain
left = stepd(0, "stays", "ends")
reap()
os.kill(hangs[0], signal.SIGKILL)
await_end(hangs[0])
reap()
reap()
print(json.dumps([alive(*left), sorted(made._lost), sorted(made._left) == sorted(left)]))
"""
    ) == [[True], [], True]
