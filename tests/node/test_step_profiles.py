"""The node's part of profiles: lines of processes and GPUs, their files, their bounds, and the report before the end."""

import os
import stat
from pathlib import Path

import pytest

from nodedaemon.core.gpumessages import Sample
from nodedaemon.core.gpuusage import OnGpu, StepUse, UsageShare
from nodedaemon.core.messages import StepEnded
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon.gpu_profiles import NODE_BYTES_MAX, GpuProfiles
from nodedaemon.daemon.profiles import profile_report
from nodedaemon.spool import gpuprofile
from nodedaemon.stepd.profiling import COLUMNS, NAME, TASKS_BYTES_MAX, TASKS_MAX, TASKS_NAME, ProfileRecorder
from penstock.v1 import node_pb2
from penstock.values.profile import BYTES_MAX, GPU, HOST, TASK, ProfileLine, decode_profile
from penstock.values.profile import COLUMNS as LINES
from penstock.values.timeline import SampleLine

S = 1_000_000
KEY = StepKey(7, 0, -5)
END = StepEnded(KEY, 100 * S, 160 * S)


@pytest.fixture
def steps_fd(tmp_path: Path) -> int:
    (tmp_path / str(KEY)).mkdir()
    return os.open(tmp_path, os.O_RDONLY)


def lines_of(
    end: StepEnded, steps_fd: int, gpus: dict[str, SampleLine] | None = None, every_s: int = 15
) -> list[ProfileLine]:
    """What is reported; none without a report."""
    forwarded = profile_report(end, steps_fd, gpus or {}, every_s)
    if forwarded is None:
        return []
    report = node_pb2.Report.FromString(forwarded.body)
    assert (report.profile.key.job_id, report.profile.key.attempt, report.profile.key.step_id) == (7, 0, -5)
    assert len(forwarded.body) < BYTES_MAX + 100
    return decode_profile(report.profile.profile)


def recorded(tmp_path: Path, *moments: tuple[int, int, int | None, int, int]) -> None:
    recorder = ProfileRecorder()
    for moment in moments:
        recorder.add(*moment)
    folder_fd = os.open(tmp_path / str(KEY), os.O_RDONLY)
    recorder.save(folder_fd)
    os.close(folder_fd)


def test_rates_come_of_what_was_used_in_all(tmp_path: Path, steps_fd: int) -> None:
    assert len(LINES[HOST]) == COLUMNS and len(LINES[GPU]) == gpuprofile.COLUMNS
    recorded(
        tmp_path,
        (10 * S, 5_000, 2_000, 1_000_000, 0),
        (20 * S, 25_000, 3_000, 1_000_000, 50),
        (20 * S + 1, 26_000, 9_000, 0, 0),  # too soon after
        (30 * S, 24_000, 1_000, 900_000, 50),  # a counter that falls is one that stands
        (35 * S, 26_000, None, 1_000_000, 100),
    )
    (line,) = lines_of(END, steps_fd)
    assert [(point.at_ds, [value and value[0] for value in point.values]) for point in line.points] == [
        (100, [500, 2_000, 100_000, 0]),
        (200, [2_000, 3_000, 0, 5]),
        (300, [0, 1_000, 0, 0]),
        (350, [200, None, 0, 10]),
    ]
    assert stat.S_IMODE((tmp_path / str(KEY) / NAME).stat().st_mode) == 0o600


def tasks_recorded(tmp_path: Path, ranks: range, points: int = 3) -> ProfileRecorder:
    recorder = ProfileRecorder()
    for n in range(1, points + 1):
        recorder.add(10 * n * S, 1_000 * n, 10, 0, 0)
        recorder.add_tasks(10 * n * S, {rank: (100 * rank * n, 7 + rank, 10 * n, 0) for rank in ranks})
    folder_fd = os.open(tmp_path / str(KEY), os.O_RDONLY)
    recorder.save(folder_fd)
    os.close(folder_fd)
    return recorder


def test_each_of_several_tasks_has_a_line(tmp_path: Path, steps_fd: int) -> None:
    assert len(LINES[TASK]) == COLUMNS
    recorder = tasks_recorded(tmp_path, range(4, 6))
    host, *tasks = lines_of(END, steps_fd)
    assert (host.kind, [(one.kind, one.name) for one in tasks]) == (HOST, [(TASK, "4"), (TASK, "5")])
    assert [[value and value[0] for value in point.values] for point in tasks[1].points] == [[50, 12, 1, 0]] * 3
    folder_fd = os.open(tmp_path / str(KEY), os.O_RDONLY)
    assert decode_profile(recorder.answer(folder_fd)) == [host, *tasks]
    os.close(folder_fd)
    assert stat.S_IMODE((tmp_path / str(KEY) / TASKS_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("tasks", [1, TASKS_MAX + 1])
def test_one_task_alone_and_very_many_have_no_lines(tmp_path: Path, steps_fd: int, tasks: int) -> None:
    tasks_recorded(tmp_path, range(tasks))
    assert [line.kind for line in lines_of(END, steps_fd)] == [HOST]


def test_lines_of_many_tasks_are_bounded(tmp_path: Path, steps_fd: int) -> None:
    """A long step of as many tasks as may be: each has a coarser line, over its whole time."""
    recorder = tasks_recorded(tmp_path, range(TASKS_MAX), points=1_500)
    assert (tmp_path / str(KEY) / TASKS_NAME).stat().st_size < TASKS_BYTES_MAX + 16 * TASKS_MAX
    tasks = [line for line in lines_of(END, steps_fd) if line.kind == TASK]
    assert len(tasks) == TASKS_MAX and {line.points[-1].at_ds for line in tasks} == {150_000}
    assert len(recorder.points()) == 1_500


def test_lines_of_tasks_that_are_none(tmp_path: Path, steps_fd: int) -> None:
    """Without root the folder is the user's own: names that are no ranks, and too many lines, are left out."""
    recorded(tmp_path, (10 * S, 1, 1, 1, 0), (20 * S, 2, 2, 2, 0))
    line = SampleLine(COLUMNS)
    line.add(10, (1, 1, 1, 1))
    for names in (["x", "-1", "\x07", "9" * 200 + "x"], [str(n) for n in range(TASKS_MAX + 1)]):
        (tmp_path / str(KEY) / TASKS_NAME).write_bytes(gpuprofile.content(dict.fromkeys(names, line)))
        assert [one.kind for one in lines_of(END, steps_fd)] == [HOST]


def test_a_short_step_leaves_none(tmp_path: Path, steps_fd: int) -> None:
    recorded(tmp_path, (3 * S, 5_000, 2_000, 0, 0))  # its end alone
    assert not (tmp_path / str(KEY) / NAME).exists()
    line = SampleLine(gpuprofile.COLUMNS)
    line.add(10, (500, 1, 1, 1, 0))
    assert lines_of(END, steps_fd, {"GPU-1": line}) == [ProfileLine(GPU, "GPU-1", line.points())]
    short = StepEnded(KEY, 100 * S, 114 * S)
    assert lines_of(short, steps_fd, {"GPU-1": line}) == []
    never = StepEnded(KEY, 0, 160 * S)
    assert lines_of(never, steps_fd, {"GPU-1": line}) == []
    assert lines_of(END, steps_fd) == []


@pytest.mark.parametrize("content", [b"\xff", b"\x01\x02\x00" * 9, b"\x01" * 200_000])
def test_a_file_that_is_no_line_is_none(tmp_path: Path, steps_fd: int, content: bytes) -> None:
    """Without root the folder is the user's own, who may write anything there."""
    (tmp_path / str(KEY) / NAME).write_bytes(content)
    assert lines_of(END, steps_fd) == []
    (tmp_path / str(KEY) / gpuprofile.NAME).write_bytes(content)
    assert gpuprofile.read_lines(steps_fd, str(KEY)) == {}


def test_links_and_pipes_are_not_opened(tmp_path: Path, steps_fd: int) -> None:
    for name in (NAME, gpuprofile.NAME):
        os.mkfifo(tmp_path / str(KEY) / name)
    assert lines_of(END, steps_fd) == [] and gpuprofile.read_lines(steps_fd, str(KEY)) == {}
    for name in (NAME, gpuprofile.NAME):
        (tmp_path / str(KEY) / name).unlink()
        (tmp_path / str(KEY) / name).symlink_to("/dev/zero")
    assert lines_of(END, steps_fd) == [] and gpuprofile.read_lines(steps_fd, str(KEY)) == {}


# ---- GPUs


def sample(at_s: int, uuid: str = "GPU-1", **fields: object) -> Sample:
    known = {"util_percent": 50, "energy_mj": 300_000 * at_s, "temperature_c": 60, "throttle": 4, **fields}
    return Sample(uuid, at_s * S, **known)  # type: ignore[arg-type]  # each field by its name


def use(*uuids: str) -> StepUse:
    gpus = {uuid: OnGpu(util_last=80, memory_kb=1000) for uuid in uuids}
    return StepUse(KEY, 100 * S, 0, tuple(UsageShare(uuid) for uuid in uuids), gpus)


def test_a_poll_is_a_point_of_each_gpu_that_the_step_holds(tmp_path: Path, steps_fd: int) -> None:
    profiles, uses = GpuProfiles(steps_fd), {KEY: use("GPU-1", "GPU-2")}
    profiles.begin(KEY, ["GPU-1", "GPU-2"])
    profiles.take(110 * S, [sample(110), sample(110, "GPU-2", error=15)], uses)
    profiles.take(120 * S, [sample(120, throttle=0x48), sample(120, "GPU-2", util_percent=None, energy_mj=None)], uses)
    again = GpuProfiles(steps_fd)
    again.restore(KEY)  # a later daemon
    uses[KEY].shares = (UsageShare("GPU-1"),)  # the job has given the other one back
    again.take(130 * S, [sample(130), sample(130, "GPU-2")], uses)
    found = {
        uuid: [(p.at_ds, [v and v[0] for v in p.values]) for p in line.points()]
        for uuid, line in again.end(KEY).items()
    }
    assert found == {
        "GPU-1": [
            (100, [800, 1000, None, 60, 0]),
            (200, [800, 1000, 300_000, 60, 1000]),
            (300, [800, 1000, None, 60, 0]),
        ],
        "GPU-2": [(200, [None, 1000, None, 60, 1000 * 0])],
    }
    assert again.end(KEY) == {}
    again.take(140 * S, [sample(140)], uses)  # a step that has ended, or wants no profile
    assert again.end(KEY) == {}


def test_lines_of_a_node_are_bounded(steps_fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodedaemon.daemon.gpu_profiles.NODE_BYTES_MAX", 4_000)
    profiles = GpuProfiles(steps_fd)
    uuids = [f"GPU-{number}" for number in range(8)]
    uses = {KEY: use(*uuids)}
    profiles.begin(KEY, uuids)
    for at_s in range(101, 300):
        profiles.take(at_s * S, [sample(at_s, uuid, temperature_c=at_s % 90) for uuid in uuids], uses)
    lines = profiles.end(KEY)
    assert sum(line.size for line in lines.values()) <= 4_000 < NODE_BYTES_MAX
    assert {line.at_ds for line in lines.values()} == {1990}


def test_a_folder_that_is_gone_changes_nothing(tmp_path: Path, steps_fd: int) -> None:
    (tmp_path / str(KEY)).rmdir()
    profiles = GpuProfiles(steps_fd)
    profiles.begin(KEY, ["GPU-1"])
    profiles.take(110 * S, [sample(110)], {KEY: use("GPU-1")})
    assert profiles.end(KEY)["GPU-1"].count == 1
