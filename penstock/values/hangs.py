"""Which steps may hang or wait for one of their tasks: from what each task last did, and from the lines of its GPUs.

Samples in, suspicions out; pure. A suspicion is no proof: it says what was observed, for how long, and of which tasks.

    stopped   a task is stopped by a signal (SIGSTOP), and others are not
    behind    the smaller part of the tasks uses no CPU while the others do
    alone     one task computes while all others (two at least) use no CPU: a straggler
    idle      no task of a step computes, reads or writes: all wait for each other, or for something outside
    silent    a step that wrote regularly has written nothing for SILENT_TIMES its longest pause
    spinning  GPUs are busy at low power, and the step reads and writes nothing: a collective that does not end

Each has to last for the site's time (PenstockHangAfter). A script is never `idle`: it waits for its steps.

Small, and without `typing`: stepd, which is forked by the thousand, keeps a `TaskActivity` for each task.
"""

from collections import namedtuple

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NamedTuple

    from penstock.values.timeline import Point

    class TaskState(NamedTuple):
        """What a task has been doing until now; times in seconds."""

        rank: int
        quiet_s: int  # since it used CPU
        still_s: int  # since it read or wrote anything
        silent_s: int  # since it wrote anything
        pause_s: int  # its longest time between two writes
        writes: int  # samples in which it had written
        stopped_s: int  # since a signal has stopped it; 0 = it is not stopped

    class Suspicion(NamedTuple):
        """What is suspected, of which tasks (none: of all), and the observation as a sentence."""

        kind: str
        ranks: tuple[int, ...]
        text: str


else:
    TaskState = namedtuple("TaskState", ("rank", "quiet_s", "still_s", "silent_s", "pause_s", "writes", "stopped_s"))
    Suspicion = namedtuple("Suspicion", ("kind", "ranks", "text"))

#: A task that uses less of a core between two samples uses no CPU.
BUSY_PERMILLE = 50
#: A task computes if it did so in this part of the time; one that did before counts neither way. Tasks that wait for each
#: other do not become quiet in the same sample, and the first of them is not behind.
COMPUTES_DIVISOR = 2
#: Samples with writes that make a step one that writes, and how much longer than its longest pause it has to be silent.
WRITES_MIN = 5
SILENT_TIMES = 10
#: Of GPUs that spin: utilisation at least, share of the line's highest power at most, bytes a second of the step at most.
SPIN_UTIL_PERMILLE = 900
SPIN_POWER_PERMILLE = 500
SPIN_BYTES_S = 64 * 1024
#: Ranks that a sentence names.
NAMED_MAX = 8
_UTIL, _POWER = 0, 2  # columns of a GPU's line (penstock.values.profile)
_READ, _WRITTEN = 2, 3  # of the processes' line


class TaskActivity:
    """When a task last did what. Counters may fall, when one of its processes has ended."""

    __slots__ = (
        "_at_s", "_cpu_ms", "_pause_s", "_read", "_writes", "_written",
        "computed_at_s", "moved_at_s", "stopped_at_s", "wrote_at_s",
    )  # fmt: skip

    def __init__(self, at_s: int = 0) -> None:
        self._at_s = at_s
        self.computed_at_s = at_s
        self.moved_at_s = at_s
        self.wrote_at_s = at_s
        self.stopped_at_s = -1  # it is not stopped
        self._cpu_ms = 0
        self._read = 0
        self._written = 0
        self._pause_s = 0
        self._writes = 0

    def add(self, at_s: int, cpu_ms: int, read: int, written: int, is_stopped: bool) -> None:
        """Adds a sample: all that the task has used and read and written until this second of the step."""
        passed_s = at_s - self._at_s
        if passed_s <= 0:
            return
        if cpu_ms - self._cpu_ms >= passed_s * BUSY_PERMILLE:
            self.computed_at_s = at_s
        if (read, written) != (self._read, self._written):
            self.moved_at_s = at_s
        if written != self._written:
            self._pause_s = max(self._pause_s, at_s - self.wrote_at_s)
            self.wrote_at_s = at_s
            self._writes += 1
        if not is_stopped:
            self.stopped_at_s = -1
        elif self.stopped_at_s < 0:
            self.stopped_at_s = self._at_s  # as the other times: since it was last seen otherwise
        self._at_s = at_s
        self._cpu_ms = cpu_ms
        self._read = read
        self._written = written

    def rest(self, at_s: int) -> None:
        """The whole step is suspended on orders: nothing is to be concluded from that time."""
        self._at_s = at_s
        self.computed_at_s = at_s
        self.moved_at_s = at_s
        self.wrote_at_s = at_s
        self.stopped_at_s = -1  # it is not stopped

    def state(self, rank: int) -> "TaskState":
        """What is known as of the last sample."""
        at_s = self._at_s
        stopped_s = max(at_s - self.stopped_at_s, 1) if self.stopped_at_s >= 0 else 0
        times = (at_s - self.computed_at_s, at_s - self.moved_at_s, at_s - self.wrote_at_s)
        return TaskState(rank, *times, self._pause_s, self._writes, stopped_s)


def task_suspicions(tasks: "Sequence[TaskState]", after_s: int, is_script: bool = False) -> "list[Suspicion]":
    """What is suspected of a step with these tasks; of a script, whose steps have their own, only what can be said of it."""
    if after_s <= 0 or all(task.stopped_s for task in tasks):  # suspended, if not empty
        return []
    stopped = [task for task in tasks if task.stopped_s >= after_s]
    if stopped:
        return [_said("stopped", stopped, f"stopped by a signal for {min(one.stopped_s for one in stopped)} s")]
    quiet = [task for task in tasks if task.quiet_s >= after_s]
    busy = [task for task in tasks if task.quiet_s * COMPUTES_DIVISOR < after_s]
    if quiet and len(quiet) <= len(busy):
        since_s = min(one.quiet_s for one in quiet)
        return [_said("behind", quiet, f"no CPU used for {since_s} s, while {len(busy)} of {len(tasks)} tasks compute")]
    if quiet and len(busy) == 1 and len(quiet) == len(tasks) - 1:
        since_s = min(one.quiet_s for one in quiet)
        return [_said("alone", busy, f"alone computes; the other {len(quiet)} tasks have used no CPU for {since_s} s")]
    if len(quiet) == len(tasks) and not is_script and all(task.still_s >= after_s for task in tasks):
        since_s = min(min(task.quiet_s, task.still_s) for task in tasks)
        return [Suspicion("idle", (), f"no task has computed, read or written anything for {since_s} s")]
    writers = [task for task in tasks if task.writes >= WRITES_MIN]
    silent_s = min(task.silent_s for task in tasks)
    longest_s = max((task.pause_s for task in writers), default=0)
    if writers and silent_s >= max(after_s, SILENT_TIMES * longest_s):
        return [
            Suspicion("silent", (), f"nothing was written for {silent_s} s; before, never for more than {longest_s} s")
        ]
    return []


def gpu_suspicion(gpus: "Sequence[Sequence[Point]]", host: "Sequence[Point]", after_s: int) -> "Suspicion | None":
    """Whether the GPUs of a step spin: all of them, over the whole of the last `after_s` seconds."""
    shares = [_spin_permille(line, after_s) for line in gpus]
    if not shares or None in shares or not host or after_s <= 0:
        return None
    for point in _window(host, after_s):
        if any((value := point.values[column]) is None or value[0] > SPIN_BYTES_S for column in (_READ, _WRITTEN)):
            return None
    share = max(share for share in shares if share is not None) // 10
    text = f"{len(gpus)} GPUs are busy at no more than {share} % of their highest power for {after_s} s, without I/O"
    return Suspicion("spinning", (), text)


def _spin_permille(line: "Sequence[Point]", after_s: int) -> "int | None":
    """The share of its highest power that a GPU draws while it spins; None = it does not, or that is not known."""
    window = _window(line, after_s)
    if not window or line[-1].at_ds < 2 * after_s * 10:  # without a time before it there is nothing to compare with
        return None
    top = max((point.values[_POWER][1] for point in line if point.values[_POWER] is not None), default=0)  # type: ignore[index]  # not None, as asked
    highest = 0
    for point in window:
        util, power = point.values[_UTIL], point.values[_POWER]
        if util is None or power is None or util[0] < SPIN_UTIL_PERMILLE:
            return None
        highest = max(highest, power[1])
    share = highest * 1000 // top if top else 1000
    return share if share <= SPIN_POWER_PERMILLE else None


def _window(line: "Sequence[Point]", after_s: int) -> "list[Point]":
    """The points that stand for the last so many seconds."""
    since_ds = line[-1].at_ds - after_s * 10 if line else 0
    return [point for point in line if point.at_ds > since_ds]


def _said(kind: str, tasks: "Sequence[TaskState]", text: str) -> "Suspicion":
    ranks = tuple(sorted(task.rank for task in tasks))
    more = f" and {len(ranks) - NAMED_MAX} more" if len(ranks) > NAMED_MAX else ""
    names = ",".join(map(str, ranks[:NAMED_MAX]))
    return Suspicion(kind, ranks, f"{'tasks' if len(ranks) > 1 else 'task'} {names}{more}: {text}")
