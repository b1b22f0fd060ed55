"""--get-user-env: what a login shell sets, whatever its profile does beside that."""

import asyncio
import os
import pwd
from pathlib import Path

import pytest

from nodedaemon.stepd import loginenv
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


def test_a_script_has_it_below_what_was_submitted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            script = 'echo "$LOGNAME:$PATH:$SLURM_JOB_ID"'
            fields = {"work_dir": str(tmp_path).encode(), "login_environment": True}
            controller.launch(5, script, env=[b"PATH=/usr/bin:/bin:/mine"], **fields)
            assert (await controller.exited(5)).exit.code == 0
            name = pwd.getpwuid(os.getuid()).pw_name
            assert (tmp_path / "slurm-5.out").read_text() == f"{name}:/usr/bin:/bin:/mine:5\n"

    asyncio.run(scenario())
