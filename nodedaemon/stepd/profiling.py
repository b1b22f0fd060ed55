"""The profile of a step's processes: a time line of cores, memory and disk I/O, kept by its stepd.

The sampler (sampling.py) adds a point at each of its samples. While the step runs, its profile is answered with what noded
has written of its GPUs (spool/gpuprofile.py); at the end it is left in the step's folder, where noded reads it
(daemon/profiles.py). A step that is shorter than an interval leaves none.
"""

import contextlib
import os

from penstock.values.timeline import SampleLine

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from penstock.values.timeline import Point

NAME = "profile"
COLUMNS = 4  # as penstock.values.profile says for HOST: that module is not needed before the end
_DS_US = 100_000
#: Samples of a step that leaves a profile, beside that of its end.
SAMPLES_MIN = 1


class ProfileRecorder:
    """The time line of one step."""

    def __init__(self) -> None:
        self._line = SampleLine(COLUMNS)
        self._before = (0, 0, 0, 0)  # us, CPU ms, bytes read and written

    def add(self, ran_us: int, cpu_ms: int, rss_kb: int | None, read: int, written: int) -> None:
        """Adds what the step has used until now. `ran_us`: since it began."""
        before_us, *before = self._before
        passed_us = ran_us - before_us
        if passed_us < _DS_US:
            return
        used_ms, read_more, written_more = (
            max(now - then, 0) for now, then in zip((cpu_ms, read, written), before, strict=True)
        )
        rates = (used_ms * 1_000_000 // passed_us, rss_kb, read_more * 1_000_000 // passed_us)
        self._line.add(ran_us // _DS_US, (*rates, written_more * 1_000_000 // passed_us))
        self._before = (ran_us, max(cpu_ms, before[0]), max(read, before[1]), max(written, before[2]))

    def points(self) -> "list[Point]":
        """The points so far."""
        return self._line.points()

    def answer(self, folder_fd: int) -> bytes:
        """The profile so far, with the GPUs', as penstock.values.profile encodes it."""
        from nodedaemon.spool.gpuprofile import read_lines  # imported only on request
        from penstock.values.profile import GPU, HOST, encode_profile

        gpus = [(GPU, uuid, line) for uuid, line in read_lines(folder_fd, "").items()]
        return encode_profile([(HOST, "", SampleLine.restored(self._line.data, COLUMNS)), *gpus])

    def save(self, folder_fd: int) -> None:
        """Leaves the line in the step's folder. A disk that is full loses the profile, and nothing else."""
        if self._line.count <= SAMPLES_MIN:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            fd = os.open(NAME, flags, 0o600, dir_fd=folder_fd)
            try:
                os.write(fd, self._line.data)
            finally:
                os.close(fd)
