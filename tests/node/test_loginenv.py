"""--get-user-env: what a login shell sets, whatever its profile does beside that."""

import asyncio
import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.stepd import loginenv, task
from nodedaemon.stepd.loginenv import LoginError, login_environment
from tests.node.fakectl import cluster


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a home folder of ours and /bin/sh."""
    entry = pwd.getpwuid(os.getuid())
    fields = {"pw_dir": str(tmp_path), "pw_shell": "/bin/sh"}
    names = ("pw_name", "pw_passwd", "pw_uid", "pw_gid", "pw_gecos", "pw_dir", "pw_shell")
    changed = pwd.struct_passwd([fields.get(name, getattr(entry, name)) for name in names])
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: changed)
    return tmp_path


def test_the_profile_counts_and_what_it_prints_does_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEFT_OVER", "from the daemon")
    (home / ".profile").write_text(
        "echo noise=1; echo loud >&2; sleep 1000 &\n"
        "FROM='two\nlines'; export FROM; export SLURM_JOB_ID=7; PATH=$HOME/bin:$PATH\n"
    )
    env = login_environment(os.getuid())
    assert (env[b"FROM"], env[b"HOME"]) == (b"two\nlines", os.fsencode(home))
    assert env[b"PATH"].startswith(os.fsencode(home / "bin"))
    assert not {b"noise", b"SLURM_JOB_ID", b"LEFT_OVER", b"_", b"SHLVL"} & env.keys()


@pytest.mark.parametrize(("profile", "said"), [
    ("exec sleep 1000", "the login shell did not answer within 0.2 s"),
    ("exit 3", "the login shell ended without an answer"),
    ("exec yes", "the login shell prints more than 1048576 bytes"),
])  # fmt: skip
def test_a_bad_profile(home: Path, monkeypatch: pytest.MonkeyPatch, profile: str, said: str) -> None:
    if "sleep" in profile:
        monkeypatch.setattr(loginenv, "DEADLINE_S", 0.2)
    (home / ".profile").write_text(profile)
    with pytest.raises(LoginError) as caught:
        login_environment(os.getuid())
    assert str(caught.value) == said


def test_a_shell_that_is_not_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd([*entry[:6], "/no/sh"]))
    with pytest.raises(LoginError, match=r"^/no/sh: No such file or directory$"):
        login_environment(os.getuid())


def test_a_shell_that_is_ended_may_remove_its_lock(home: Path) -> None:
    (home / ".profile").write_text("trap 'rm $HOME/lock; exit 1' TERM; : > $HOME/lock; : > $HOME/held; yes")
    with pytest.raises(LoginError, match="prints more than"):
        login_environment(os.getuid())
    assert (home / "held").exists() and not (home / "lock").exists()


def an_order(**environment: bytes) -> LaunchOrder:
    """An order of this user whose own variables are `environment`."""
    own = {name.encode(): value for name, value in environment.items()}
    return cast("Any", SimpleNamespace(environment=own, user_id=os.getuid()))


def test_what_was_submitted_covers_the_shells(home: Path) -> None:
    (home / ".profile").write_text("export FROM=profile MINE=profile")
    order = an_order(MINE=b"submitted")
    task.log_in(order)
    assert (order.environment[b"FROM"], order.environment[b"MINE"]) == (b"profile", b"submitted")


def test_the_job_runs_without_it_and_is_told_why(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / ".profile").write_text("exit 3")
    order = an_order(MINE=b"submitted")
    task.log_in(order)
    assert order.environment == {b"MINE": b"submitted"}
    told = "slurmstepd: error: no login environment: the login shell ended without an answer\n"
    assert capfd.readouterr().err == told


def test_a_script_starts_whatever_its_profile_does(tmp_path: Path) -> None:
    """The profile is that of the machine's user: it may hang, and then the script's file says so first."""

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            script = 'echo "$LOGNAME:$PATH:$SLURM_JOB_ID"'
            fields = {"work_dir": str(tmp_path).encode(), "login_environment": True}
            controller.launch(5, script, env=[b"PATH=/usr/bin:/bin:/mine"], **fields)
            assert (await controller.exited(5)).exit.code == 0
            name = pwd.getpwuid(os.getuid()).pw_name
            *told, printed = (tmp_path / "slurm-5.out").read_text().splitlines()
            assert printed == f"{name}:/usr/bin:/bin:/mine:5"
            assert all(line.startswith("slurmstepd: error: no login environment: ") for line in told)

    asyncio.run(scenario())
