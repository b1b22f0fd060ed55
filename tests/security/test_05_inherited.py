"""Issue 14, number 5 (what a job reaches of others): what processes inherit without being asked.

The kernel's session keyring: a process possesses all keys of the session keyring that it has inherited, those of other owners too: tickets of Kerberos and of
network file systems. Jobs inherited the daemon's, so a job read what root's login held when it started the daemon, and what the jobs
of all other users had put there.

Real time: a site gives its daemons a real-time policy, so that they answer on a busy machine. Each job inherited it, and could keep
all processors from everything else.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from openway import open_way
from patience import ANSWER_S

from ctld.runtime import become
from tests.node.fakectl import cluster, lines

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
NOBODY, DAEMON = 65534, 1

#: Calls of the kernel: on x86-64, and on machines with the generic table.
CALLS = """
import ctypes, os, sys
ADD_KEY, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
call, SESSION = ctypes.CDLL(None).syscall, -3
def add(name):
    if call(ADD_KEY, b"user", name, b"secret", 6, SESSION) < 0:
        sys.exit(f"no key {name}")
"""
#: Keeps a key in a session keyring of its own, and executes its words.
AS_LOGIN = CALLS + "call(KEYCTL, 1, None)\nadd(b'penstock-of-the-login')\nos.execvp(sys.argv[1], sys.argv[1:])\n"
#: Says the number of its session keyring and which keys it possesses, and adds one of its own.
JOB = (
    "#!/usr/bin/python3\n"
    + CALLS
    + "print(call(KEYCTL, 0, SESSION, 0))\n"
    + "names = [b'penstock-of-the-login', b'penstock-of-1', b'penstock-of-65534']\n"
    + "print([name for name in names if call(KEYCTL, 10, SESSION, b'user', name, 0) >= 0])\n"
    + "add(b'penstock-of-%d' % os.getuid())\n"
)


def test_05_a_job_has_the_keys_of_nobody_else(tmp_path: Path) -> None:
    open_way(tmp_path)
    tmp_path.chmod(0o777)

    async def scenario() -> None:
        async with cluster(tmp_path, prefix=[sys.executable, "-c", AS_LOGIN]) as (controller, _):
            for job, uid in enumerate((NOBODY, DAEMON, NOBODY), start=1):
                name = {NOBODY: "nobody", DAEMON: "daemon"}[uid]
                fields = {"user_id": uid, "group_id": uid, "user_name": name, "work_dir": os.fsencode(tmp_path)}
                controller.launch(job, JOB, **fields)
                assert (await controller.exited(job)).exit.code == 0
            said = [lines(tmp_path / f"slurm-{job}.out") for job in (1, 2, 3)]
            assert [keys for _, keys in said] == ["[]"] * 3
            assert len({number for number, _ in said}) == 3

    asyncio.run(scenario())


def test_05_a_program_of_a_user_has_none_of_the_controllers() -> None:
    """That of a trigger, and the one that sends mail."""
    reader, writer = os.pipe()
    try:
        switch = [sys.executable, "-I", "-S", become.__file__, str(writer), str(NOBODY), str(NOBODY), ""]
        program = [*switch, "/bin/grep", "-c", "penstock-of-the-login", "/proc/keys"]
        done = subprocess.run(
            [sys.executable, "-c", AS_LOGIN, *program],
            pass_fds=[writer],
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert (done.stdout, done.stderr) == ("0\n", "")


#: As systemd starts a daemon with CPUSchedulingPolicy=rr and IOSchedulingClass=realtime. Says so, or what the kernel refused.
IN_REAL_TIME = """
import ctypes, os, sys
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
ctypes.CDLL(None).syscall(251 if os.uname().machine == "x86_64" else 30, 1, 0, 1 << 13)
os.execvp(sys.argv[1], sys.argv[1:])
"""
#: The fields of the policy and of its priority, and the class of I/O.
POLICY = "chrt -p $$ | sed 's/.*: //'; ionice -p $$ | cut -d: -f1"


@pytest.fixture
def _real_time() -> None:
    """Skips where a container's root may not have it."""
    tried = subprocess.run([sys.executable, "-c", IN_REAL_TIME, "/bin/true"], capture_output=True, timeout=ANSWER_S)
    if b"PermissionError" in tried.stderr:
        pytest.skip("machine lacks real-time scheduling")


@pytest.mark.usefixtures("_real_time")
def test_05_no_job_inherits_real_time(tmp_path: Path) -> None:
    open_way(tmp_path)
    tmp_path.chmod(0o777)
    fields = {"user_id": NOBODY, "group_id": NOBODY, "user_name": "nobody", "work_dir": os.fsencode(tmp_path)}

    async def scenario() -> None:
        async with cluster(tmp_path, prefix=[sys.executable, "-c", IN_REAL_TIME]) as (controller, daemon):
            assert os.sched_getscheduler(daemon.process.pid) == os.SCHED_RR
            controller.launch(1, POLICY, **fields)
            assert (await controller.exited(1)).exit.code == 0
            controller.launch_step(2, ["sh", "-c", POLICY], spec={"std_out": b"step"}, **fields)
            assert (await controller.exited(2)).exit.code == 0
            assert lines(tmp_path / "slurm-1.out") == lines(tmp_path / "step") == ["SCHED_OTHER", "0", "none"]

    asyncio.run(scenario())


@pytest.mark.usefixtures("_real_time")
def test_05_no_program_of_a_user_does() -> None:
    reader, writer = os.pipe()
    try:
        switch = [sys.executable, "-I", "-S", become.__file__, str(writer), str(NOBODY), str(NOBODY), ""]
        done = subprocess.run(
            [sys.executable, "-c", IN_REAL_TIME, *switch, "/bin/sh", "-c", POLICY],
            pass_fds=[writer], capture_output=True, text=True, timeout=ANSWER_S,
        )  # fmt: skip
    finally:
        os.close(reader)
        os.close(writer)
    assert (done.stdout.split(), done.stderr) == (["SCHED_OTHER", "0", "none"], "")
