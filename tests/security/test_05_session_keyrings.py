"""Issue 14, number 5 (what a job reaches of others): the kernel's session keyrings.

The attack: a process possesses all keys of the session keyring that it has inherited, whoever owns them: tickets of Kerberos and of
network file systems. Jobs inherited the daemon's, so a job read what root's login held when it started the daemon, and what the jobs
of all other users had put there.
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
