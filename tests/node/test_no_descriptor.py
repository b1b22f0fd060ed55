"""Processes whose end cannot be watched, because no descriptor is left: none runs on, and nobody waits for it forever."""

import asyncio
import errno
import os
import pwd
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

# Any: a client that is never used
from typing import Any

import pytest
from patience import ANSWER_S

from nodedaemon.base import proctree, scripts
from nodedaemon.core.messages import StepEnded
from nodedaemon.core.steps import NodeStep, StepKey, StepState
from nodedaemon.daemon import orphans, outputreaders, supervisors
from nodedaemon.daemon.outputreaders import OutputReaders
from nodedaemon.daemon.supervisors import Supervisors
from nodedaemon.launch.wire import NodeFacts
from nodedaemon.spool.steprecord import STEPD, Claim
from nodedaemon.stepd import control
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


def test_a_running_step_is_adopted_when_there_is_a_descriptor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At a daemon's start: first none for its process, then none to see which process that is, then none to ask it. Meanwhile the
    step is taken for neither lost nor ended; at last its end is noticed."""
    monkeypatch.setattr(supervisors, "ADOPT_AGAIN_S", 0.01)
    real_pidfd, real_open = os.pidfd_open, os.open
    failed: list[str] = []

    def without(what: str, real: Callable[..., Any], is_meant: Callable[..., bool] = lambda *_, **__: True) -> Any:
        def call(*args: Any, **keywords: Any) -> Any:
            if is_meant(*args) and failed.count(what) < 2:
                failed.append(what)
                raise OSError(errno.EMFILE, WHY)
            return real(*args, **keywords)

        return call

    async def scenario() -> None:
        stepd = subprocess.Popen(["sleep", "1000"])
        claim = Claim(STEPD, stepd.pid, proctree.start_time(stepd.pid), os.getuid(), 1, b"")
        step = NodeStep(StepKey(1, 1, 0), 1)
        step.state = StepState.RUNNING
        records: list[Any] = [(claim, None)]
        ended, posted = asyncio.Event(), list[object]()
        spool: Any = SimpleNamespace(
            read=lambda key: records[-1], was_rebooted=False, is_new=False, steps_fd=-1, path="/", folders=list,
            sweep=lambda keys: None,
        )  # fmt: skip
        machine: Any = SimpleNamespace(live_steps=lambda: [step], steps={step.key: step})
        launcher: Any = SimpleNamespace(process=SimpleNamespace(pid=0))
        cgroups: Any = None

        def post(event: object) -> None:
            posted.append(event)
            ended.set()

        monkeypatch.setattr(orphans, "clear", lambda *_: True)
        found = Supervisors(spool, launcher, cgroups, ThreadPoolExecutor(1), post, lambda: 1)
        monkeypatch.setattr(os, "pidfd_open", without("pidfd", real_pidfd))
        path = f"/proc/{stepd.pid}/stat"
        monkeypatch.setattr(os, "open", without("stat", real_open, lambda name, *_: name == path))
        asked = asyncio.Event()

        def connected(where: bytes) -> None:
            if failed.count("socket") < 2:
                failed.append("socket")
                raise OSError(errno.EMFILE, WHY)
            asked.set()

        monkeypatch.setattr(control, "connected", connected)
        await found.adopt(machine)
        await asyncio.wait_for(asked.wait(), ANSWER_S)
        assert failed == ["pidfd", "pidfd", "stat", "stat", "socket", "socket"] and posted == []
        assert caplog.text.count("step 1.1.0: not adopted yet: ") == 6
        records.append((claim, StepEnded(step.key, 1, 2)))
        stepd.kill()
        stepd.wait()
        await asyncio.wait_for(ended.wait(), ANSWER_S)
        assert posted == [StepEnded(step.key, 1, 2)]

    asyncio.run(scenario())


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
