"""Issue 26, number 8: who writes, at the time of each write, to what is a user's.

A real node daemon with a library under it that looks at each call which changes a file: the uid with which the kernel judges it,
and the owner of what the descriptor, or the path, leads to (whowrites.c). Batch scripts, steps with files, a terminal, PMI and
PMIx, prologs and epilogs of tasks, notices, a task that the kernel dumps. X11 and containers are refused (docs/steps.md).
"""

import asyncio
import os
import resource
from pathlib import Path

# Any: the fields of a launch message
from typing import Any

import pytest
from openway import open_way
from whowrites import NotedWrite, WhoWrites

from tests.node.fakectl import cluster, eventually, lines
from tests.node.streamclient import Client
from tests.node.test_noded_root import attached
from tests.node.test_step_mpi import TALK, python

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
NOBODY = 65534
NOTE = "slurmstepd: error: *** JOB 1 CANCELLED ***"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WhoWrites:
    open_way(tmp_path)
    made = WhoWrites(tmp_path / "notes")
    env = made.env()
    monkeypatch.setenv("LD_PRELOAD", env["LD_PRELOAD"])
    monkeypatch.setenv("WHOWRITES_LOG", env["WHOWRITES_LOG"])
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the user's."""
    mine = tmp_path / "nobody"
    mine.mkdir()
    os.chown(mine, NOBODY, NOBODY)
    return mine


def as_nobody(folder: Path, **fields: Any) -> dict[str, Any]:
    who = {"user_id": NOBODY, "group_id": NOBODY, "user_name": "nobody"}
    return {**who, "work_dir": os.fsencode(folder), **fields}


def of(notes: WhoWrites, path: Path) -> list[NotedWrite]:
    return [one for one in notes.all() if one.path == str(path)]


def test_the_library_sees_root_write(tmp_path: Path, notes: WhoWrites, folder: Path) -> None:
    """Else the tests below would prove nothing: a shell under it, as root and as the user."""
    preloaded = notes.env()
    env = os.environ | {"LD_PRELOAD": preloaded["LD_PRELOAD"], "WHOWRITES_LOG": preloaded["WHOWRITES_LOG"]}
    for prefix in ([], ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]):
        words = [*prefix, "sh", "-c", f"echo x >{folder}/file; rm {folder}/file; chmod 700 {folder}"]
        os.waitpid(os.posix_spawnp(words[0], words, env), 0)
    seen = {(one.fsuid, one.owner, one.path.rpartition("/")[2]) for one in notes.all()}
    assert {(0, NOBODY, "file"), (NOBODY, NOBODY, "file")} <= seen
    assert notes.of_root()


def test_a_batch_script_and_its_notices(tmp_path: Path, notes: WhoWrites, folder: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            streams = {"std_out": b"out-%j", "std_err": b"err-%j"}
            controller.launch(1, "echo hello; exec sleep 600", **as_nobody(folder, **streams))
            await controller.started(1)
            controller.terminate(1, grace_ms=1000, note=NOTE)
            await controller.exited(1)
            await eventually(lambda: any("CANCELLED" in line for line in lines(folder / "err-1")))

    asyncio.run(scenario())
    assert notes.of_root() == []
    assert of(notes, folder / "err-1")[-1] == NotedWrite("write", NOBODY, NOBODY, str(folder / "err-1"))


def test_steps_with_files_programs_around_tasks_and_a_core(tmp_path: Path, notes: WhoWrites, folder: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            program = folder / "around"
            program.write_text(f"#!/bin/sh\necho $SLURM_SCRIPT_CONTEXT >>{folder}/said\n")
            program.chmod(0o755)
            around = {"task_prolog": os.fsencode(program), "task_epilog": os.fsencode(program)}
            spec = {"std_out": b"out-%t", "std_err": b"err-%t", **around}
            controller.launch_step(
                1, ["sh", "-c", "echo hello; echo bad >&2"], ranks=(0, 1), spec=spec, **as_nobody(folder)
            )
            await attached(controller, 1)
            assert lines(folder / "out-1")[-1] == "hello" and len(lines(folder / "said")) == 4
            limits = {"CORE": resource.RLIM_INFINITY if resource.RLIM_INFINITY > 0 else (1 << 40)}
            controller.launch_step(2, ["sh", "-c", "kill -SEGV $$"], **as_nobody(folder, rlimits=limits))
            await attached(controller, 2)
            end = await controller.step_exited(2, 0)
            assert end.exit.signal or end.exit.code
            controller.launch_step(3, ["true"], spec={"std_out": b"/root/out"}, **as_nobody(folder))
            await attached(controller, 3)
            assert (await controller.step_exited(3, 0)).failure == "cannot open stdout: /root/out: Permission denied"

    asyncio.run(scenario())
    assert notes.of_root() == []


def test_a_terminal(tmp_path: Path, notes: WhoWrites, folder: Path) -> None:
    """Its end at the supervisor is root's own; the user's end is the user's, and root does not touch it then."""

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            script = "stat -c %u:%a $(tty); read word; echo got $word; echo through the name >$(tty)"
            controller.launch_step(1, ["sh", "-c", script], spec={"pty": True}, **as_nobody(folder))
            await controller.step_started(1, 0)
            client = await attached_with(controller, b"typed\n")
            said = client.output[0, 1].decode().split()  # what was typed is in it, wherever the terminal had it
            assert f"{NOBODY}:620" in said and "got" in said and said[-3:] == ["through", "the", "name"]

    asyncio.run(scenario())
    assert notes.of_root() == []


async def attached_with(controller: Any, text: bytes) -> Client:
    """Follows a step to its END, after it was given some input."""
    from penstock.values.stepframes import NO_TASK, FrameKind, StreamRole
    from tests.node.fakectl import IO_KEY

    def follow() -> Client:
        client = Client(controller.registrations[-1].stream_port, (1, 1, 0))
        client.hello(IO_KEY, StreamRole.OWNER)
        client.send(FrameKind.STDIN, text, NO_TASK)
        client.until(FrameKind.END)
        return client

    return await asyncio.to_thread(follow)


@pytest.mark.parametrize("mpi", ["pmi2", "pmix"])
def test_mpi(tmp_path: Path, notes: WhoWrites, folder: Path, mpi: str) -> None:
    """PMI has no files; the PMIx server is a process of the user's, whatever library it finds."""

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            argv = python(TALK) if mpi == "pmi2" else ["true"]
            controller.launch_step(1, argv, ranks=(0, 1), spec={"mpi": mpi}, **as_nobody(folder))
            client = await attached(controller, 1)
            if mpi == "pmi2":
                assert b"v1" in client.output[0, 1]

    asyncio.run(scenario())
    assert notes.of_root() == []
