"""`penstock adopt`: an ssh session joins the extern step of a job of its user, or does not get in."""

import asyncio
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from nodedaemon import adopt
from nodedaemon.base.proctree import start_time
from nodedaemon.cgroups.cgroup import NONE
from nodedaemon.daemon.adoption import Adoption
from nodedaemon.spool.spool import Spool
from penstock.v1 import node_pb2
from tests.node.fakectl import EXTERN, cluster

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
NOBODY = {"user_id": 65534, "group_id": 65534, "user_name": "nobody"}


async def as_pam(spool: Path, user: str, *options: str) -> tuple[int, str]:
    """What pam_exec does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; from nodedaemon.adopt import main; sys.exit(main(sys.argv[1:]))",
        "--spool", str(spool), *options, env={**os.environ, "PAM_USER": user}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    return process.returncode or 0, said.decode()


def test_who_has_a_job_comes_in_and_belongs_to_it(tmp_path):
    async def scenario():
        settings = node_pb2.NodeSettings(prolog_flags=["CONTAIN"])
        async with cluster(tmp_path, settings=settings) as (controller, daemon):
            nobody = pwd.getpwuid(65534).pw_name
            status, said = await as_pam(daemon.spool, nobody)
            assert (status, said) == (1, "penstock adopt: uid 65534 has no job on this node\n")
            controller.hold(1, **NOBODY)
            await controller.step_started(1, EXTERN)
            session = await asyncio.create_subprocess_exec("sleep", "1000")
            answer = await asyncio.to_thread(adopt.ask, str(daemon.spool), 65534, session.pid, start_time(session.pid))
            assert answer.startswith("ok job 1")
            controller.terminate(1, step_id=EXTERN)
            await controller.step_exited(1, EXTERN)
            if "adopted" not in answer:
                assert await session.wait() == -9  # it ended with the job
            else:
                session.kill()
                await session.wait()
            assert (await as_pam(daemon.spool, nobody))[0] == 1
            assert await as_pam(daemon.spool, "root") == (0, "")
            assert "no such user" in (await as_pam(daemon.spool, "no-such-user"))[1]

    asyncio.run(scenario())


#: What sshd does for keyboard-interactive authentication: a child of the leader of the session asks, and ends.
ASKED_BY_A_CHILD = """
import os, sys
from nodedaemon.adopt import main
os.setsid()
asking = os.fork()
if asking == 0:
    adopt = os.fork()
    if adopt == 0:
        os._exit(main(sys.argv[1:]))
    os._exit(os.waitstatus_to_exitcode(os.waitpid(adopt, 0)[1]))
assert os.waitpid(asking, 0)[1] == 0
print("in", flush=True)
sys.stdin.read()
"""


def test_a_session_whose_child_has_asked_belongs_to_the_job(tmp_path: Path) -> None:
    """Broke: keyboard-interactive logins had the asking child adopted, and so stayed outside of all jobs."""

    async def scenario() -> None:
        settings = node_pb2.NodeSettings(prolog_flags=["CONTAIN"])
        async with cluster(tmp_path, settings=settings) as (controller, daemon):
            controller.hold(1, **NOBODY)
            await controller.step_started(1, EXTERN)
            session = await asyncio.create_subprocess_exec(
                sys.executable, "-c", ASKED_BY_A_CHILD, "--spool", str(daemon.spool),
                env={**os.environ, "PAM_USER": pwd.getpwuid(65534).pw_name, "PAM_SERVICE": "sshd"},
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert session.stdin is not None and session.stdout is not None
            assert await session.stdout.readline() == b"in\n"
            if "control groups none" in daemon.text():
                session.stdin.close()
            else:
                assert f"uid 65534: pid {session.pid} belongs to job 1" in daemon.text()
                controller.terminate(1, step_id=EXTERN)
            assert await session.wait() in (0, -9)  # it ended with the job, where there are control groups

    asyncio.run(scenario())


def test_init_is_put_into_no_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Broke: when the ssh daemon's process ended while PAM waited, our parent was init, and it was put into the job."""
    assert adopt.processes(1, adopt.SSHD) == []
    monkeypatch.setenv("PAM_USER", pwd.getpwuid(65534).pw_name)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert adopt.main([]) == 1
    assert capsys.readouterr().err == "penstock adopt: the process that asked has ended\n"
    adoption = Adoption("spool", cast(Spool, None), NONE, lambda: ())
    answers = [adoption.answer(65534, pid, start_time(pid)) for pid in (0, 1, os.getpid())]
    assert answers == [f"pid {pid} is no login" for pid in (0, 1, os.getpid())]


def test_other_services_are_not_looked_through() -> None:
    assert adopt.processes(os.getpid(), "crond") == [os.getpid()]


def test_only_root_may_ask_and_a_daemon_that_is_away_keeps_people_out(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (_, daemon):
            assert os.stat(daemon.spool / "adopt.sock").st_mode & 0o777 == 0o600
        nobody = pwd.getpwuid(65534).pw_name
        status, said = await as_pam(daemon.spool, nobody)
        assert status == 1 and "does not answer" in said
        assert (await as_pam(daemon.spool, nobody, "--allow-on-error"))[0] == 0

    asyncio.run(scenario())


def test_a_pam_session_sets_the_limits_or_says_why_not(tmp_path):
    """libpam reads /etc/pam.d, so a private copy is mounted there for the test's own processes."""
    etc = tmp_path / "pam.d"
    etc.mkdir()
    limits = tmp_path / "limits.conf"
    limits.write_text("* hard nofile 321\n* soft nofile 123\n")
    (etc / "slurm").write_text(
        f"auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_limits.so conf={limits}\n"
    )
    program = (
        "import resource; from nodedaemon.stepd import pam; pam.open_session('nobody');"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    mount = f'mount --bind {etc} /etc/pam.d && exec {sys.executable} -c "$0"'
    command = ["unshare", "--mount", "sh", "-c", mount, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(123, 321)\n", "")
    (etc / "slurm").write_text("session required pam_deny.so\nauth required pam_deny.so\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "PamError: PAM service slurm:" in done.stderr
