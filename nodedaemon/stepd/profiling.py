"""The profile of a step's processes: a time line of cores, memory and disk I/O, kept by its stepd; of several tasks also one of
each.

The sampler (sampling.py) adds a point at each of its samples. While the step runs, its profile is answered with what noded
has written of its GPUs (spool/gpuprofile.py); at the end it is left in the step's folder, where noded reads it
(daemon/profiles.py). A step that is shorter than an interval leaves none.
"""

import contextlib
import os

from penstock.values.timeline import BYTES_MAX, SampleLine

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.values.timeline import Point

NAME = "profile"
#: The lines of tasks, in the form of spool/gpuprofile.py, by rank.
TASKS_NAME = "taskprofile"
COLUMNS = 4  # as penstock.values.profile says for HOST and TASK: that module is not needed before the end
_DS_US = 100_000
#: Samples of a step that leaves a profile, beside that of its end.
SAMPLES_MIN = 1
#: Tasks on a node that have lines of their own: of one task the step's line is its own.
TASKS_MIN, TASKS_MAX = 2, 64
#: Bytes of the lines of all tasks: those of many are coarser.
TASKS_BYTES_MAX = 16 * 1024


class _Course:
    """A time line, and the counts of its last point."""

    __slots__ = ("_before", "_bytes_max", "line")

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.line = SampleLine(COLUMNS)
        self._bytes_max = bytes_max
        self._before = (0, 0, 0, 0)  # us, CPU ms, bytes read and written

    def add(self, ran_us: int, cpu_ms: int, rss_kb: int | None, read: int, written: int) -> None:
        before_us, *before = self._before
        passed_us = ran_us - before_us
        if passed_us < _DS_US:
            return
        used_ms, read_more, written_more = (
            max(now - then, 0) for now, then in zip((cpu_ms, read, written), before, strict=True)
        )
        rates = (used_ms * 1_000_000 // passed_us, rss_kb, read_more * 1_000_000 // passed_us)
        self.line.add(ran_us // _DS_US, (*rates, written_more * 1_000_000 // passed_us), self._bytes_max)
        self._before = (ran_us, max(cpu_ms, before[0]), max(read, before[1]), max(written, before[2]))


class ProfileRecorder:
    """The time lines of one step."""

    def __init__(self) -> None:
        self._step = _Course()
        self._tasks: dict[int, _Course] = {}  # by rank

    def add(self, ran_us: int, cpu_ms: int, rss_kb: int | None, read: int, written: int) -> None:
        """Adds what the step has used until now. `ran_us`: since it began."""
        self._step.add(ran_us, cpu_ms, rss_kb, read, written)

    def add_tasks(self, ran_us: int, used: "Mapping[int, tuple[int, int | None, int, int]]") -> None:
        """Adds what each task has used until now, by rank: CPU ms, resident KiB, bytes read and written."""
        if not TASKS_MIN <= len(used) <= TASKS_MAX:
            return
        if not self._tasks:
            self._tasks = {rank: _Course(TASKS_BYTES_MAX // len(used)) for rank in used}
        for rank, figures in used.items():
            self._tasks[rank].add(ran_us, *figures)

    def points(self) -> "list[Point]":
        """The points of the step so far."""
        return self._step.line.points()

    def answer(self, folder_fd: int) -> bytes:
        """The profile so far, with the GPUs', as penstock.values.profile encodes it."""
        from nodedaemon.spool.gpuprofile import read_lines  # imported only on request
        from penstock.values.profile import GPU, HOST, TASK, encode_profile

        gpus = [(GPU, uuid, line) for uuid, line in read_lines(folder_fd, "").items()]
        tasks = [(TASK, str(rank), _copy(one.line)) for rank, one in self._tasks.items()]
        return encode_profile([(HOST, "", _copy(self._step.line)), *gpus, *tasks])

    def save(self, folder_fd: int) -> None:
        """Leaves the lines in the step's folder. A disk that is full loses the profile, and nothing else."""
        if self._step.line.count <= SAMPLES_MIN:
            return
        _write(folder_fd, NAME, self._step.line.data)
        if self._tasks:
            from nodedaemon.spool.gpuprofile import content  # imported only by steps of several tasks

            _write(folder_fd, TASKS_NAME, content({str(rank): one.line for rank, one in self._tasks.items()}))


def _copy(line: SampleLine) -> SampleLine:
    """Another line, which may be made coarser."""
    return SampleLine.restored(line.data, COLUMNS)


def _write(folder_fd: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        fd = os.open(name, flags, 0o600, dir_fd=folder_fd)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
