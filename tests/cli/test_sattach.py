"""sattach as a process: it sees a step that somebody else owns, types into it, and never touches it."""

import os
import pty
import signal
import subprocess
from collections.abc import Callable

import pytest
from patience import ANSWER_S

from penstock.values.packing import unpack
from penstock.values.stepframes import FrameKind, StreamRole, frame
from tests.cli.test_srun_wire import END, ERR, Scene, data, exited
from tests.cli.test_srun_wire import installed as installed_once
from tests.cli.test_srun_wire import make as make_scene
from tests.cli.test_srun_wire import make_plain as make_plainly

#: The fixtures of another module, by their names there.
scenes, make_plain, installed = make_scene, make_plainly, installed_once


@pytest.fixture
def make(scenes: Callable[..., Scene]) -> Callable[..., Scene]:
    def one(**what: int) -> Scene:
        scene = scenes(**what)
        scene.command = "sattach"
        return scene

    return one


def test_it_sees_what_there_is_and_ends_as_the_step_does(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2, tasks=2)
    scene.nodes[0].play(data(0, "one\ntwo\n"), exited(0), exited(1), END)
    scene.nodes[1].play(data(3, "three\n", ERR), exited(2), exited(3, 7), END)
    status, out, err = scene.run("-l", "12.1")
    assert (status, out) == (7, "0: one\n0: two\n")
    assert err == "3: three\nsattach: error: n2: task 3: Exited with exit code 7\n"
    assert scene.of("CancelJobs") == []
    assert scene.nodes[0].roles == [StreamRole.VIEWER]


def test_filters(make: Callable[..., Scene]) -> None:
    scene = make(tasks=2)
    scene.nodes[0].play(
        data(0, "no\n"), data(1, "yes\n"), data(0, "no\n", ERR), data(1, "no\n", ERR), exited(0), exited(1), END
    )
    assert scene.run("--output-filter=1", "--error-filter", "none", "12.1") == (0, "yes\n", "")
    assert scene.run("--output-filter=2", "12.1") == (
        1, "", "sattach: error: --output-filter=2: there are 2 tasks\n",
    )  # fmt: skip


def test_what_is_typed_goes_to_the_tasks(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2)
    process = scene.start("--input-filter=1", "12.1", stdin=subprocess.PIPE)
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    _, _, task, payload = scene.nodes[1].wait_for(FrameKind.STDIN)
    assert (task, payload) == (1, b"hello\n")
    process.stdin.close()
    for rank, node in enumerate(scene.nodes):
        node.play(exited(rank), END)
    assert process.wait(ANSWER_S) == 0
    assert scene.nodes[0].of(FrameKind.STDIN) == []
    assert b"" not in scene.nodes[1].of(FrameKind.STDIN)  # the end of our input is not the end of theirs
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_leaving_does_not_touch_the_step(make: Callable[..., Scene], number: int) -> None:
    scene = make()
    scene.nodes[0].play(data(0, "there\n"))
    process = scene.start("12.1")
    assert process.stdout.readline() == b"there\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=ANSWER_S)
    assert (process.returncode, out, err) == (128 + number, b"", b"")
    assert scene.nodes[0].of(FrameKind.SIGNAL) == [] and scene.of("CancelJobs") == []


def test_a_connection_that_broke_shows_nothing_twice(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.nodes[0].cut_at = 60
    lines = [f"line {n}\n" for n in range(20)]
    scene.nodes[0].play(*(data(0, line) for line in lines), exited(0), END)
    assert scene.run("12.1") == (0, "".join(lines), "")


def test_layout(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2, tasks=2)
    assert scene.run("--layout", "12.1") == (
        0,
        "Job step layout:\n"
        "\t4 tasks, 2 nodes (n[1-2])\n"
        "\n"
        "\tNode 0 (n1), 2 task(s): 0 1 \n"
        "\tNode 1 (n2), 2 task(s): 2 3 \n",
        "",
    )


def test_a_terminal_is_the_task_s(make: Callable[..., Scene]) -> None:
    scene = make()
    parent, child = pty.openpty()
    process = scene.start("--pty", "12.1", stdin=child, stdout=child, stderr=child)
    assert len(unpack(scene.nodes[0].wait_for(FrameKind.WINDOW)[3])) == 2
    os.write(parent, b"\x03")  # a key like any other
    assert scene.nodes[0].wait_for(FrameKind.STDIN)[3] == b"\x03"
    scene.nodes[0].play(frame(FrameKind.DATA, b"bye\r\n", 0, 1), exited(0), END)
    assert process.wait(ANSWER_S) == 0
    os.close(parent)
    os.close(child)


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        ([], "sattach: error: too many parameters\n"),
        (
            ["12"],
            "sattach: error: Failed to parse stepid from command line options\n",
        ),
        (
            ["x"],
            "sattach: error: Failed to parse stepid from command line options\nsattach: Invalid",
        ),
        (["12.1", "13.1"], "sattach: error: too many parameters\n"),
        (["--output-filter=x", "12.1"], "sattach: error: Invalid --output-filter specification\n"),
    ],
)
def test_mistakes(make: Callable[..., Scene], argv: list[str], err: str) -> None:
    status, out, shown = make().run(*argv)
    used = "Usage: sattach [options] <jobid.stepid>\n" if "parameters" in err or "stepid" in err else ""
    assert (status, out) == (1, used) and shown.startswith(err)
