"""Processes whose end cannot be watched, because no descriptor is left: none runs on, and nobody waits for it forever."""

import asyncio
import errno
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path

# Any: a client that is never used
from typing import Any

import pytest
from patience import ANSWER_S

from nodedaemon.base import scripts
from nodedaemon.daemon import outputreaders
from nodedaemon.daemon.outputreaders import OutputReaders
from nodedaemon.launch.wire import NodeFacts
from nodedaemon.stepd.loginenv import login_environment
from tests.node.test_outputreaders import ticket

WHY = os.strerror(errno.EMFILE)


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes for which there was no descriptor: all, as long as the test does not undo it."""
    pids: list[int] = []

    def none_left(pid: int, flags: int = 0) -> int:
        pids.append(pid)
        raise OSError(errno.EMFILE, WHY)

    monkeypatch.setattr(os, "pidfd_open", none_left)
    return pids


@pytest.mark.parametrize("before", [None, lambda: None], ids=["spawned", "forked"])
def test_a_program_of_the_site_is_ended_and_fails(unwatched: list[int], before: Callable[[], None] | None) -> None:
    outcome = scripts.run(["/bin/sleep", "1000"], {}, 0, before)
    assert (outcome.failure, outcome.timed_out) == (f"/bin/sleep: {WHY}", False)
    with pytest.raises(ChildProcessError):  # it was reaped
        os.waitpid(unwatched[0], os.WNOHANG)


def test_a_program_without_a_pipe_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, WHY)

    monkeypatch.setattr(os, "pipe2", none_left)
    assert scripts.run(["/bin/true"], {}, 0).failure == f"/bin/true: {WHY}"


def test_a_login_shell_still_answers(unwatched: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd([*entry[:5], str(tmp_path), "/bin/sh"]))
    (tmp_path / ".profile").write_text("sleep 1000 & echo $! > $HOME/left; export FROM=profile\n")
    assert login_environment(os.getuid())[b"FROM"] == b"profile"
    assert not Path(f"/proc/{unwatched[0]}").exists()


def test_a_reader_of_output_gives_its_turn_back(
    unwatched: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "1000"] if not started else ["true"]))
        return started[-1]

    monkeypatch.setattr(outputreaders, "start_reader", start)

    async def scenario() -> None:
        readers = OutputReaders(NodeFacts("n1", "n1", ""), "")
        client: Any = None
        ended = asyncio.Event()
        readers.on_free = ended.set
        key = readers.announce(ticket(1, tmp_path))
        assert readers.serve(key, client) == f"no process can be started to read it: {WHY}"
        assert started[0].returncode is not None, "it was ended"
        monkeypatch.undo()
        monkeypatch.setattr(outputreaders, "start_reader", start)
        assert readers.serve(key, client) == "", "its turn is free, and its ticket still there"
        await asyncio.wait_for(ended.wait(), ANSWER_S)

    asyncio.run(scenario())
