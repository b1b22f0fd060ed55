"""The programs of triggers as real processes: who they are, what they are given, and when they are ended."""

import asyncio
import getpass
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from openway import open_way
from patience import ANSWER_S

from ctld.core.records.effects import RunTrigger
from ctld.core.records.events import TriggerEnded
from ctld.runtime.lookups import Lookups
from ctld.runtime.triggers import TriggerRunner


class Inbox:
    """As much of a runtime as the runner sees."""

    def __init__(self) -> None:
        self.handlers: dict[type, Any] = {}
        self.posted: list[Any] = []
        self.there = asyncio.Event()

    def post(self, event: Any) -> None:
        self.posted.append(event)
        self.there.set()


def run(effect: RunTrigger, timeout_s: int = 30) -> list[Any]:
    async def once() -> list[Any]:
        inbox = Inbox()
        TriggerRunner(inbox, "test", Lookups(), timeout_s)  # type: ignore[arg-type]  # a stand-in for the runtime
        inbox.handlers[RunTrigger](effect)
        async with asyncio.timeout(ANSWER_S):
            await inbox.there.wait()
        return inbox.posted

    return asyncio.run(once())


def mine(program: str, argument: str = "n[1-2]") -> RunTrigger:
    return RunTrigger(4, os.getuid(), os.getgid(), getpass.getuser(), program, argument)


def script(folder: Path, text: str) -> Path:
    path = folder / "tell"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_it_gets_its_words_and_an_environment_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    path = script(tmp_path, f'{{ for word in "$@"; do echo "$word"; done; pwd; env | sort; }} > {tmp_path}/out')
    assert run(mine(f"{path} 'two words' x")) == [TriggerEnded(4)]
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[:4] == ["two words", "x", "n[1-2]", "/"]
    names = {line.partition("=")[0] for line in lines[4:]}
    assert names - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "USER", "LOGNAME", "SLURM_CLUSTER_NAME"}


@pytest.mark.parametrize("program", ["/no/such/program", "/tmp", "/bin/false", "'/bin/true", "/bin/sh -c 'kill -9 $$'"])
def test_the_core_hears_of_every_end(program: str, caplog: pytest.LogCaptureFixture) -> None:
    assert run(mine(program)) == [TriggerEnded(4)]
    assert "trigger 4 of " in caplog.text


def test_the_deadline_ends_all_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Both processes hold the FIFO open for writing, so its end says that neither is left.
    os.mkfifo(tmp_path / "alive")
    path = script(tmp_path, f"exec 3> {tmp_path}/alive; sleep 1000 & wait")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(mine(str(path)), timeout_s=1) == [TriggerEnded(4)]
        assert "did not end within 1 s" in caplog.text
        os.set_blocking(alive, True)
        assert os.read(alive, 1) == b""
    finally:
        os.close(alive)


def test_a_controller_that_is_not_root_runs_nobody_elses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ctld.runtime.triggers.os.geteuid", lambda: 12345)
    path = script(tmp_path, f"touch {tmp_path}/ran")
    assert run(mine(str(path))) == [TriggerEnded(4)]
    assert not (tmp_path / "ran").exists()


@pytest.mark.root
def test_it_is_the_user_who_set_it_and_nobody_else(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    open_way(tmp_path)
    tmp_path.chmod(0o777)
    path = script(
        tmp_path, f"{{ id -u; id -g; id -G; grep -E '^(Uid|Gid|CapEff)' /proc/self/status; umask; }} > {tmp_path}/who"
    )
    run(RunTrigger(4, nobody.pw_uid, nobody.pw_gid, "nobody", str(path), "7"))
    uid, gid = str(nobody.pw_uid), str(nobody.pw_gid)
    lines = (tmp_path / "who").read_text().splitlines()
    assert lines[:3] == [uid, gid, " ".join(map(str, os.getgrouplist("nobody", nobody.pw_gid)))]
    assert lines[3].split()[1:] == [uid] * 4 and lines[4].split()[1:] == [gid] * 4
    assert int(lines[5].split()[1], 16) == 0 and lines[6] == "0022"


@pytest.mark.root
def test_a_program_that_only_root_can_reach_is_not_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nobody = pwd.getpwnam("nobody")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    path = script(private, f"touch {tmp_path}/ran")
    run(RunTrigger(4, nobody.pw_uid, nobody.pw_gid, "nobody", str(path), "7"))
    assert not (tmp_path / "ran").exists() and "Permission denied" in caplog.text
