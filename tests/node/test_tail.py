"""A part of a step's output, as its supervisor reads it for a client: from real steps, and what is no output of anybody's."""

import asyncio
import os
import signal
from pathlib import Path

# Any: answers, whose values are of several types
from typing import Any

import pytest
from openway import open_way

from nodedaemon.base import proctree
from nodedaemon.base.orders import LaunchOrder, TaskOrder
from nodedaemon.cgroups.cgroup import NONE
from nodedaemon.stepd import tail
from nodedaemon.stepd.context import LauncherContext
from nodedaemon.stepd.tail import Tails
from penstock.eventloop import Loop
from penstock.values.outputtail import FROM_END, STDERR, STDOUT, TAIL_BYTES_MAX, question
from penstock.values.packing import load
from penstock.values.stepframes import StreamRole, asking_key
from tests.node.fakectl import BATCH, IO_KEY, cluster, eventually
from tests.node.streamclient import Client, Refused
from tests.node.test_steps import port_of

NOBODY = {"user_id": 65534, "group_id": 65534, "user_name": "nobody"}
END = question(STDOUT, FROM_END)


async def asked(controller: Any, job_id: int, text: str = END, key: bytes = IO_KEY, step_id: int = BATCH) -> Any:
    """The answer to one question, by a connection of its own."""

    def ask() -> Any:
        with Client(port_of(controller), (job_id, 1, step_id)) as client:
            client.hello(key, StreamRole.QUERY)
            return client.ask(text)

    return await asyncio.to_thread(ask)


def swap(out: Path, target: str) -> None:
    """Puts a link in the place of the output."""
    out.unlink()
    out.symlink_to(target)


def test_the_output_of_a_running_step_and_what_takes_its_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            where = {"io_key": IO_KEY, "work_dir": os.fsencode(tmp_path)}
            out, more, name = tmp_path / "out", tmp_path / "more", f"{tmp_path}/out"
            script = f"echo one; echo bad >&2; while [ ! -e {more} ]; do sleep 0.05; done; echo two; sleep 600"
            controller.launch(1, script, std_out=b"out", std_err=b"err", **where)
            await controller.started(1)
            await eventually(lambda: (tmp_path / "err").read_text() == "bad\n")
            assert await asked(controller, 1) == {"path": name, "at": 0, "size": 4, "data": b"one\n"}
            assert (await asked(controller, 1, question(STDERR, 1)))["data"] == b"ad\n"
            more.touch()
            await eventually(lambda: out.read_text() == "one\ntwo\n")
            assert await asked(controller, 1, question(STDOUT, 4)) == {
                "path": name,
                "at": 4,
                "size": 8,
                "data": b"two\n",
            }
            assert (await asked(controller, 1, question(STDOUT, 99)))["at"] == 0, "it was begun anew"
            denied = await asked(controller, 1, key=asking_key(IO_KEY))
            assert denied == {"error": tail.DENIED, "denied": 1}, "the key for figures is none for the output"
            for text in ("tail", "tail 3 0", "tail 1 x", "tail 1 --1", "tail 1 ²", f"tail 1 {10**20}"):
                with pytest.raises((EOFError, ConnectionResetError)):
                    await asked(controller, 1, text)
            hostile = b"\x1b]0;title\x07\x1b[31mred\x00\xff\xfe" * 10_000
            out.write_bytes(hostile)
            assert (await asked(controller, 1))["data"] == hostile[-TAIL_BYTES_MAX:]
            os.truncate(out, 1 << 40)
            huge = await asked(controller, 1)
            assert (huge["size"], huge["at"], huge["data"]) == (
                1 << 40,
                (1 << 40) - TAIL_BYTES_MAX,
                bytes(TAIL_BYTES_MAX),
            )
            for target, said in {
                "/dev/zero": "it is no regular file", "/dev/tty": "it is no regular file", str(tmp_path): "it is no regular file",
                "/proc/self/environ": "it is a file of the kernel", "/proc/1/environ": "it is a file of the kernel",
                "/sys/kernel/mm/transparent_hugepage/enabled": "it is a file of the kernel", "nothing": "No such file or directory",
            }.items():  # fmt: skip
                swap(out, target)
                assert await asked(controller, 1) == {"error": f"{name}: {said}"}, target
            swap(out, os.devnull)
            assert (await asked(controller, 1))["size"] == 0
            out.unlink()
            os.mkfifo(out)
            assert await asked(controller, 1) == {"error": f"{name}: it is no regular file"}
            with pytest.raises(OSError, match="No such device"):  # nobody has opened its other end
                os.open(out, os.O_WRONLY | os.O_NONBLOCK)
            out.unlink()
            out.write_text("found")
            asking = [asked(controller, 1) for _ in range(30)]
            assert {answer["data"] for answer in await asyncio.gather(*asking)} == {b"found"}
            controller.launch_step(2, ["sleep", "600"], **where)
            await controller.started(2)
            assert await asked(controller, 2, step_id=0) == {"error": tail.OF_CLIENT}

    asyncio.run(scenario())


def test_the_last_lines_of_a_script_that_was_followed(tmp_path: Path) -> None:
    """Its end is reported at once; its supervisor answers a little longer, and that of a script that nobody followed does not."""

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            where = {"io_key": IO_KEY, "work_dir": os.fsencode(tmp_path)}
            script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo Traceback; exit 1"
            controller.launch(1, script, std_out=b"out", **where)
            controller.launch(2, script, std_out=b"other", **where)
            await controller.started(1)
            await controller.started(2)
            assert (await asked(controller, 1))["size"] == 0
            (tmp_path / "go").touch()
            assert (await controller.exited(1)).exit.code == (await controller.exited(2)).exit.code == 1
            assert (await asked(controller, 1))["data"] == b"Traceback\n"
            with pytest.raises(Refused):
                await asked(controller, 2)
            controller.launch(3, "true", **where)
            await controller.exited(3)
            assert (await asked(controller, 1, question(STDOUT, 4)))["data"] == b"eback\n"
            controller.forget(1)
            await controller.until(lambda: len(controller.acks) == 4)
            assert (await asked(controller, 1))["size"] == 10

    asyncio.run(scenario())


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_reads_as_the_user(tmp_path: Path) -> None:
    """What the user may not read is not read, though the daemon is root; what root may not pass, but the user may, is."""
    open_way(tmp_path)

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            mine, secret = tmp_path / "mine", tmp_path / "secret"
            mine.mkdir(mode=0o700)
            os.chown(mine, 65534, 65534)
            secret.write_text("of root")
            secret.chmod(0o600)
            where = {"io_key": IO_KEY, "work_dir": os.fsencode(mine), "std_out": os.fsencode(mine / "out"), **NOBODY}
            controller.launch(1, "umask 077; id -u; exec sleep 600", **where)
            await controller.started(1)
            await eventually(lambda: (mine / "out").read_text())
            assert (await asked(controller, 1))["data"] == b"65534\n"
            for target in (secret, Path("/etc/shadow")):
                swap(mine / "out", str(target))
                assert await asked(controller, 1) == {"error": f"{mine}/out: Permission denied"}
            secret.chmod(0o640)  # its group is root's: the reader has none of root's groups
            swap(mine / "out", str(secret))
            assert await asked(controller, 1) == {"error": f"{mine}/out: Permission denied"}

    asyncio.run(scenario())


class ReadStep:
    """The readings of a step of this process's user, without a supervisor."""

    def __init__(self, folder: Path, context: LauncherContext) -> None:
        self.loop = Loop()
        order = LaunchOrder(key="7.1.0", user_id=os.getuid(), group_id=os.getgid(), user_name="u", script=b"",
                            work_dir=os.fsencode(folder), std_out=b"")  # fmt: skip
        order.private_tmp, order.private_folders = "base", [f"{folder}/private"]
        self.tails = Tails(self.loop, order, context)
        self.answers: list[Any] = []

    def ask(self, path: Path, at: int = 0) -> None:
        task = TaskOrder(0, std_out=os.fsencode(path))
        self.tails.ask(question(STDOUT, at), [task], True, lambda answer: self.answers.append(load(answer)))

    def turn_until(self, count: int) -> list[Any]:
        while len(self.answers) < count:
            self.loop.turn()
        return self.answers

    def reap(self) -> None:
        assert self.tails.reaped(os.waitpid(self.tails.pid, 0)[0])


@pytest.fixture
def step(tmp_path: Path) -> ReadStep:
    (tmp_path / "out").write_text("text")
    nothing_is_sent: Any = None
    context = LauncherContext(
        steps_path="", steps_fd=-1, packets=nothing_is_sent, null_fd=-1, node_name="n1", cgroups=NONE, is_root=False
    )
    return ReadStep(tmp_path, context)


def test_a_file_system_that_does_not_answer_holds_nobody_up(
    tmp_path: Path, step: ReadStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is killed; until it is gone the next question is answered at once, and the step may end without it."""
    monkeypatch.setattr(os, "pread", lambda *_: signal.pause())
    monkeypatch.setattr(tail, "TAIL_READ_S", 0.05)
    monkeypatch.setattr(proctree, "descendants", lambda _: iter([step.tails.pid]))
    step.ask(tmp_path / "out")
    step.ask(tmp_path / "out", 2)
    assert [one["error"] for one in step.turn_until(2)] == [f"{tmp_path}/out: {tail.NO_ANSWER}"] * 2
    step.ask(tmp_path / "out")
    assert step.answers[2] == {"error": f"{tmp_path}/out: {tail.STILL_HELD}"} and step.tails.is_left_alone
    assert step.tails.pid != os.getpid() and not step.tails.reaped(0)
    step.reap()
    assert not step.tails.is_left_alone
    monkeypatch.undo()
    step.ask(tmp_path / "out", 2)
    assert step.turn_until(4)[3]["data"] == b"xt"
    step.reap()


def test_equal_questions_share_a_reading_and_others_wait_their_turn(tmp_path: Path, step: ReadStep) -> None:
    for number in range(200):
        step.ask(tmp_path / "out", number % 2)
    first = step.tails.pid
    assert [one["data"] for one in step.turn_until(100)] == [b"text"] * 100
    step.reap()
    assert step.tails.pid not in (0, first) and [one["data"] for one in step.turn_until(200)[100:]] == [b"ext"] * 100
    step.reap()
    for number in range(tail.ASKED_MAX + 1):
        step.ask(tmp_path / "out", number)
    assert step.answers[200:] == [{"error": "too many questions wait"}]
    os.kill(step.tails.pid, signal.SIGKILL)  # as its user may
    step.tails.close()
    assert len(step.answers) == 200 + tail.ASKED_MAX + 1 and step.answers[-1]["error"].endswith(tail.HAS_ENDED)
    step.ask(tmp_path / "out")
    assert step.answers[-1] == {"error": tail.HAS_ENDED}
    step.reap()
    assert step.tails.pid == 0


def test_after_the_end_a_private_folder_is_not_the_nodes(tmp_path: Path, step: ReadStep) -> None:
    """The job's own has gone with it: what is there under its name is another file."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/out").write_text("of the node")
    step.ask(tmp_path / "out")
    assert step.tails.is_followed
    step.turn_until(1)
    step.reap()
    step.tails.close()

    def turn() -> None:
        step.ask(tmp_path / "x/../private/out")
        step.ask(tmp_path / "out", 2)
        step.turn_until(3)
        step.reap()

    step.tails.serve_after_end(turn, lambda: len(step.answers) > 1)
    assert step.answers[1:] == [
        {"error": f"{tmp_path}/x/../private/out: {tail.IN_PRIVATE}"}, {"path": f"{tmp_path}/out", "at": 2, "size": 4, "data": b"xt"},
    ]  # fmt: skip
    step.ask(tmp_path / "out")
    assert step.answers[3] == {"error": tail.HAS_ENDED}
