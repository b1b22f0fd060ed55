"""sbcast: what the step on the nodes does with its input, and what the command asks for."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import ANSWER_S

from cli.sbcast import target_of
from cli.steps.copier import SCRIPT
from penstock.values.stepframes import FrameKind
from tests.cli.test_srun_wire import END, ERR, Scene, data, exited
from tests.cli.test_srun_wire import make_plain as make_scene

scenes = make_scene


@pytest.fixture
def scene(scenes: Callable[..., Scene]) -> Scene:
    made = scenes(nodes=2)
    made.command = "sbcast"
    return made


def receive(target: Path, content: bytes, **more: str) -> tuple[int, str]:
    """The script as a task runs it. Statuses and error output."""
    fields = {"size": str(len(content)), "mode": "0755", "time": "", "force": "0", "folder": "0"} | more
    words = [
        str(target),
        "unique",
        fields["size"],
        fields["mode"],
        fields["time"],
        fields["force"],
        "sbcast",
        fields["folder"],
    ]
    done = subprocess.run(
        ["/bin/sh", "-c", SCRIPT, "sbcast", *words],
        input=content,
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "SLURMD_NODENAME": "n1"},
    )
    return done.returncode, done.stderr.decode()


def test_a_file_comes_whole_with_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "it's a $name"
    assert receive(target, b"\0\xff" * 100_000, mode="0640") == (0, "")
    assert target.read_bytes() == b"\0\xff" * 100_000
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [target]
    assert receive(tmp_path / "empty", b"") == (0, "")
    assert (tmp_path / "empty").read_bytes() == b""


def test_times_are_kept_if_so_asked(tmp_path: Path) -> None:
    assert receive(tmp_path / "f", b"x", time="1700000000.250000000") == (0, "")
    assert (tmp_path / "f").stat().st_mtime_ns == 1_700_000_000_250_000_000


def test_what_is_there_stays_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")
    assert receive(target, b"new") == (1, f"sbcast: error: REQUEST_FILE_BCAST(n1): {target}: File exists\n")
    assert target.read_bytes() == b"old"
    assert receive(target, b"old") == (0, "")  # the other node of a shared folder
    assert receive(target, b"new", force="1") == (0, "")
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_half_a_file_is_no_file(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")
    status, err = receive(target, b"ne", size="3", force="1")
    assert (status, err) == (1, f"sbcast: error: REQUEST_FILE_BCAST(n1): {target}: only a part of it arrived\n")
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]


def test_errors_are_named(tmp_path: Path) -> None:
    head = "sbcast: error: REQUEST_FILE_BCAST(n1): "
    assert receive(tmp_path / "no" / "f", b"x") == (1, f"{head}{tmp_path}/no: No such file or directory\n")
    assert receive(tmp_path / "no" / "f", b"x", folder="1") == (0, "")
    (tmp_path / "folder").mkdir()
    status, err = receive(tmp_path / "folder", b"x", force="1")
    assert (status, err) == (1, f"{head}{tmp_path}/folder: Is a directory\n")


def test_the_step_it_asks_for(scene: Scene) -> None:
    source = scene.folder / "data"
    source.write_bytes(b"content")
    source.chmod(0o750)
    os.utime(source, ns=(0, 1_600_000_000_500_000_000))
    process = scene.start("-fp", str(source), "sub/", env={"SLURM_JOB_ID": "12"})
    for rank, node in enumerate(scene.nodes):
        node.wait_until(lambda: node.of(FrameKind.STDIN)[-1:] == [b""])
        assert b"".join(node.of(FrameKind.STDIN)) == b"content"
        node.play(exited(rank), END)
    assert process.wait(ANSWER_S) == 0
    request = scene.created
    assert (request.job_id, request.step.overlap, request.step.ntasks_per_node) == (12, True, 1)
    target = os.fsencode(scene.folder) + b"/sub/slurm_bcast_12_data"
    assert list(request.spec.argv)[4] == target
    assert list(request.spec.argv)[6:10] == [b"7", b"0750", b"1600000000.500000000", b"1"]


def test_a_node_that_fails_is_told_once(scene: Scene) -> None:
    (scene.folder / "data").write_bytes(b"content")
    process = scene.start("--jobid=12.1", "data", "/there", env={})
    scene.nodes[0].play(data(0, "sbcast: error: REQUEST_FILE_BCAST(n1): /there: File exists\n", ERR), exited(0, 1), END)
    scene.nodes[1].play(exited(1), END)
    _, err = process.communicate(timeout=ANSWER_S)
    assert process.returncode == 1
    assert "sbcast: error: REQUEST_FILE_BCAST(n1): /there: File exists\n" in err.decode()
    assert "Exited with" not in err.decode()
    assert scene.created.step.nodes_required == "n2"  # those of the step that was named


@pytest.mark.parametrize(
    ("argv", "env", "err"),
    [
        (
            ["data"],
            {"SLURM_JOB_ID": "12"},
            'Need two file names, have 1 names\nTry "sbcast --help" for more information\n',
        ),
        (
            ["data", "x"],
            {},
            "sbcast: error: Need a job id to run this command.  Run from within a Slurm job or use the --jobid option.\n",
        ),
        (["nothing", "x"], {"SLURM_JOB_ID": "12"}, "sbcast: error: nothing: No such file or directory\n"),
        (["/", "x"], {"SLURM_JOB_ID": "12"}, "sbcast: error: Can't open `/`: not a regular file\n"),
        (["-jx", "data", "x"], {}, "sbcast: error: Invalid job id x: "),
        (["-Fx", "data", "x"], {}, 'sbcast: error: Invalid numeric value "x" for --fanout.'),
    ],
)
def test_mistakes(scene: Scene, argv: list[str], env: dict[str, str], err: str) -> None:
    (scene.folder / "data").write_bytes(b"content")
    status, out, shown = scene.run(*argv, env=env)
    assert (status, out) == (1, "") and shown.startswith(err)


def test_where_it_goes() -> None:
    assert target_of("/a/b", "c", b"/w", 5) == b"/w/c"
    assert target_of("/a/b", "/c", b"/w", 5) == b"/c"
    assert target_of("/a/b", "/c/", b"/w", 5) == b"/c/slurm_bcast_5_b"
