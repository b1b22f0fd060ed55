"""MPS: one control daemon for each GPU and user, from before the first step to after the last, over restarts.

The control daemon is a script that does what the real one is asked for: -d goes into the background when others can
talk to it, `quit` on the standard input of another one ends it. Its server ignores that, so that the keeper has to kill.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fakenvml import FakeNvml
from patience import ANSWER_S

from nodedaemon.base import proctree
from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.steps import StepKey
from nodedaemon.gpu import mps_keeper
from nodedaemon.gpu.mps import Mps
from penstock.v1 import common_pb2, node_pb2
from tests.node.fakectl import cluster, eventually, lines

CONTROL = """#!/bin/sh
here=$(dirname "$0"); cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" != -d ]; then
    exec cat >control
fi
if [ -s "$here/trouble" ]; then
    cat "$here/trouble"
    exit 1
fi
mkfifo control
setsid sh -c '
    (trap "" TERM; exec sleep 1000) & server=$!
    echo "begin $$ $server $(id -u) $(id -g) $(stat -c %a .) $CUDA_VISIBLE_DEVICES" >>"$0/story"
    : >"$CUDA_MPS_LOG_DIRECTORY/ready"
    read word <control
    echo "$word $$" >>"$0/story"
' "$here" </dev/null >/dev/null 2>&1 &
while [ ! -e "$CUDA_MPS_LOG_DIRECTORY/ready" ]; do sleep 0.01; done
"""


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.fixture
def fake(tmp_path, monkeypatch) -> FakeNvml:
    fake = FakeNvml(tmp_path / "state")
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture
def open_place():
    """A folder that every user can enter; pytest's own are closed again by each session that begins."""
    with tempfile.TemporaryDirectory(prefix="pstk-mps-", dir="/tmp") as name:
        os.chmod(name, 0o777)
        yield Path(name)


@pytest.fixture
def control(open_place):
    """The script; afterwards nothing of it is left running."""
    folder = open_place / "bin"
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "mps-control"
    path.write_text(CONTROL)
    path.chmod(0o755)
    yield path
    left = [pid for _, *pids in begun(path) for pid in pids if runs(pid)]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


def story(control: Path) -> list[list[str]]:
    return [line.split() for line in lines(control.parent / "story")]


def begun(control: Path) -> list[tuple[list[str], int, int]]:
    return [(words[3:], int(words[1]), int(words[2])) for words in story(control) if words[0] == "begin"]


def runs(pid: int) -> bool:
    fields = proctree.stat_fields(pid)
    return fields is not None and fields[0] != b"Z"


def settings(control: Path) -> node_pb2.NodeSettings:
    return node_pb2.NodeSettings(gpu=node_pb2.GpuSettings(mps_program=str(control)), kill_wait_s=1)


def shares(fake: FakeNvml, gpu: int = 0, units: int = 25) -> common_pb2.NodeAllocation:
    gres = common_pb2.GresIndices(name="mps", index=[gpu], units=[units], of=[100], uuid=[fake.uuid(gpu)])
    return common_pb2.NodeAllocation(node="n1", cpus=1, mem_mb=100, tasks=1, gres=[gres])


def job(folder: Path, name: str) -> str:
    """Says what it found, and ends when it is let go."""
    return (
        f"env | grep ^CUDA_MPS | sort > {folder}/{name}.env; ls $CUDA_MPS_PIPE_DIRECTORY >> {folder}/{name}.env\n"
        f": > {folder}/{name}.ready\nwhile [ ! -e {folder}/{name}.go ]; do sleep 0.02; done"
    )


def test_two_jobs_of_a_user_share_one_and_the_last_ends_it(tmp_path, fake, control):
    async def scenario():
        async with cluster(tmp_path, "--gpus=", settings=settings(control)) as (controller, daemon):
            where = {"work_dir": str(tmp_path).encode(), "allocation": shares(fake)}
            controller.launch(1, job(tmp_path, "a"), **where)
            controller.launch(2, job(tmp_path, "b"), **where)
            await controller.started(1)
            await controller.started(2)
            await eventually(lambda: (tmp_path / "a.ready").exists() and (tmp_path / "b.ready").exists())
            folder = daemon.spool / "mps" / f"{os.getuid()}.{fake.uuid(0)}"
            assert lines(tmp_path / "a.env") == lines(tmp_path / "b.env") == [
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25",
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=35942M",
                f"CUDA_MPS_PIPE_DIRECTORY={folder}/pipe",
                "control",
            ]  # fmt: skip
            assert [facts for facts, *_ in begun(control)] == [
                [str(os.getuid()), str(os.getgid()), "700", fake.uuid(0)]
            ]
            (tmp_path / "a.go").touch()
            assert (await controller.exited(1)).exit.code == 0
            _, pid, server = begun(control)[0]
            assert runs(pid) and runs(server)
            (tmp_path / "b.go").touch()
            await controller.exited(2)
            await eventually(lambda: not folder.exists())
            assert not runs(pid) and not runs(server)
            assert [words[0] for words in story(control)] == ["begin", "quit"]

    run(scenario())


def test_each_gpu_has_its_own_and_whole_gpus_need_none(tmp_path, fake, control):
    async def scenario():
        async with cluster(tmp_path, "--gpus=", settings=settings(control)) as (controller, daemon):
            where = {"work_dir": str(tmp_path).encode()}
            for number in (0, 1):
                controller.launch(number + 1, job(tmp_path, f"j{number}"), allocation=shares(fake, number), **where)
                await controller.started(number + 1)
            gres = common_pb2.GresIndices(name="gpu", index=[0], uuid=[fake.uuid(0)])
            whole = common_pb2.NodeAllocation(node="n1", cpus=1, mem_mb=100, tasks=1, gres=[gres])
            controller.launch(3, "env | grep -c CUDA_MPS", allocation=whole, **where)
            await controller.exited(3)
            assert lines(tmp_path / "slurm-3.out") == ["0"]
            assert sorted(facts[-1] for facts, *_ in begun(control)) == [fake.uuid(0), fake.uuid(1)]
            for number in (0, 1):
                (tmp_path / f"j{number}.go").touch()
                await controller.exited(number + 1)
            await eventually(lambda: list((daemon.spool / "mps").iterdir()) == [])

    run(scenario())


def test_it_outlives_the_daemon_and_ends_with_its_steps(tmp_path, fake, control):
    async def scenario():
        async with cluster(tmp_path, "--gpus=", settings=settings(control)) as (controller, daemon):
            where = {"work_dir": str(tmp_path).encode()}
            controller.launch(1, job(tmp_path, "a"), allocation=shares(fake), **where)
            controller.launch(2, job(tmp_path, "b"), allocation=shares(fake, 1), **where)
            await controller.started(1)
            await controller.started(2)
            await daemon.kill()
            (tmp_path / "b.go").touch()  # ends while nobody is there
            await eventually(lambda: len(begun(control)) == 2)
            await daemon.start()
            await controller.connected()
            await controller.exited(2)
            base = daemon.spool / "mps"
            mine = base / f"{os.getuid()}.{fake.uuid(0)}"
            await eventually(lambda: list(base.iterdir()) == [mine])
            controller.launch(3, job(tmp_path, "c"), allocation=shares(fake), **where)
            await controller.started(3)
            assert len(begun(control)) == 2  # the one that is there
            for name, number in (("a", 1), ("c", 3)):
                (tmp_path / f"{name}.go").touch()
                await controller.exited(number)
            await eventually(lambda: list(base.iterdir()) == [])

    run(scenario())


@pytest.mark.parametrize(
    ("program", "trouble", "words"),
    [
        ("/no/such/mps", "", "MPS: /no/such/mps: not found; PenstockMpsProgram in slurm.conf says where it is"),
        ("", "Cannot find MPS server binary", "exit status 1: Cannot find MPS server binary"),
    ],
)
def test_without_it_the_launch_fails_with_words(tmp_path, fake, control, program, trouble, words):
    (control.parent / "trouble").write_text(trouble)

    async def scenario():
        told = settings(Path(program) if program else control)
        async with cluster(tmp_path, "--gpus=", settings=told) as (controller, daemon):
            controller.launch(1, "true", allocation=shares(fake), work_dir=str(tmp_path).encode())
            end = await controller.exited(1)
            assert words in end.failure and not end.untried and not end.start_at_us
            await eventually(lambda: list((daemon.spool / "mps").iterdir()) == [])

    run(scenario())


def test_one_that_has_died_is_started_again_for_the_next(tmp_path, fake, control):
    async def scenario():
        async with cluster(tmp_path, "--gpus=", settings=settings(control)) as (controller, daemon):
            where = {"work_dir": str(tmp_path).encode(), "allocation": shares(fake)}
            controller.launch(1, job(tmp_path, "a"), **where)
            await controller.started(1)
            _, pid, server = begun(control)[0]
            os.kill(server, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            folder = daemon.spool / "mps" / f"{os.getuid()}.{fake.uuid(0)}"
            await eventually(lambda: not folder.exists())  # the keeper has nothing to keep
            controller.launch(2, job(tmp_path, "b"), **where)
            await controller.started(2)
            assert len(begun(control)) == 2
            for name, number in (("a", 1), ("b", 2)):
                (tmp_path / f"{name}.go").touch()
                await controller.exited(number)
            await eventually(lambda: not folder.exists())

    run(scenario())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_it_runs_as_the_user_who_alone_may_enter(open_place, fake, control):
    uid = gid = 65534

    async def scenario():
        async with cluster(open_place, "--gpus=", settings=settings(control)) as (controller, daemon):
            daemon.spool.chmod(0o711)
            script = job(open_place, "a")
            controller.launch(
                1, script, user_id=uid, group_id=gid, user_name="nobody", allocation=shares(fake),
                work_dir=str(open_place).encode(),
            )  # fmt: skip
            await controller.started(1)
            await eventually(lambda: (open_place / "a.ready").exists())
            assert begun(control)[0][0][:3] == [str(uid), str(gid), "700"]
            folder = daemon.spool / "mps" / f"{uid}.{fake.uuid(0)}"
            assert [(path.name, path.stat().st_uid) for path in sorted(folder.iterdir())] == [
                ("keeper", 0), ("log", uid), ("of-1.1.-5", 0), ("pipe", uid),
            ]  # fmt: skip
            (open_place / "a.go").touch()
            assert (await controller.exited(1)).exit.code == 0
            await eventually(lambda: not folder.exists())

    run(scenario())


def test_what_its_user_has_nested_is_removed_at_any_depth(tmp_path: Path) -> None:
    """Broke: the keeper, and a launch that removed the remains of an earlier one, ended by a RecursionError."""
    folder = tmp_path / "1.GPU-1"
    folder.mkdir()
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1500):
        os.mkdir("pipe", dir_fd=fd)
        below = os.open("pipe", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    mps_keeper.remove(str(folder))
    assert not folder.exists()


def test_a_spool_that_takes_no_folder_fails_the_launch(tmp_path: Path) -> None:
    """Broke: the launch was neither continued nor failed."""

    async def scenario() -> None:
        said = asyncio.get_running_loop().create_future()
        with ThreadPoolExecutor(1) as executor:
            mps = Mps(str(tmp_path / "missing" / "mps"), executor, lambda *_: None, lambda _, why: said.set_result(why))
            mps.bring(StepKey(1, 1, 0), LaunchOrder(key="1.1.0", user_id=1, group_id=1, user_name="u", mps_gpu="GPU-1"))
            async with asyncio.timeout(ANSWER_S):
                assert await said == "MPS: its keeper cannot be started: No such file or directory"

    run(scenario())
