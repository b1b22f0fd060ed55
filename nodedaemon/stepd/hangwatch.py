"""Watches one step for tasks that hang: the sampler's periodic samples become what is known of each task.

The rules are penstock.values.hangs'. What they find is told to noded whenever it begins, changes or ends, which limits what
it reports of a step that comes and goes; and answered to `penstock doctor`, which puts the tasks of all nodes together.
Lines of GPUs are looked at once in GPU_EVERY_S: they have to be decoded for it.

Where the site wants it (PenstockHangAction), a step of which something has been suspected for so long is sent a signal, once
until nothing is suspected of it any more.
"""

from nodedaemon.base.proctree import stat_fields
from penstock.values.hangs import TaskActivity, gpu_suspicion, task_suspicions

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable

    from nodedaemon.base.orders import LaunchOrder
    from nodedaemon.stepd.plugs import PluggedStep
    from penstock.values.hangs import Suspicion
    from penstock.values.packing import PackedValue
    from penstock.values.timeline import Point

GPU_EVERY_S = 60
#: Of the flight recorder of PyTorch's NCCL: where its files begin, unless the job says otherwise.
RECORDER = b"TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
_SWITCH = b"TORCH_NCCL_TRACE_BUFFER_SIZE"
_RECORDER_DEFAULT = b"/tmp/nccl_trace_rank_"  # a name that PyTorch has; it is not opened
_STOPPED = b"T"


class HangWatch:
    """The watch of one step. `begin`, `see` for each process, `take`: a sample."""

    def __init__(self, order: "LaunchOrder") -> None:
        self._after_s = 0 if order.pty_rows else order.hang_after_s  # who types at a terminal may pause
        self._is_script = order.kind == "batch"
        self._recorder = _recorder(order.environment)
        self._tasks: dict[int, TaskActivity] = {}
        self._seen: dict[int, list[int]] = {}  # by rank: bytes read and written, processes, stopped processes
        self._found: list[Suspicion] = []
        self._spins: Suspicion | None = None
        self._asked_gpus_at_s = 0
        self._signal = order.hang_signal
        self._grace_s = order.hang_grace_s
        self._suspected_at_s = 0  # since when something is
        self._is_signalled = False

    def begin(self) -> None:
        """Begins a sample."""
        self._seen = {}

    def see(self, rank: int, state: bytes, read: int, written: int) -> None:
        """Adds a process."""
        seen = self._seen.setdefault(rank, [0, 0, 0, 0])
        for index, value in enumerate((read, written, 1, state == _STOPPED)):
            seen[index] += value

    def take(self, step: "PluggedStep", cpu_ms: dict[int, int], host: "Callable[[], list[Point]]") -> None:
        """Ends a periodic sample. `host`: gives the line of the step's processes."""
        at_s = step.ran_us() // 1_000_000
        for rank, seen in self._seen.items():
            read, written, processes, stopped = seen
            task = self._tasks.setdefault(rank, TaskActivity())
            if step.is_frozen:
                task.rest(at_s)
            else:
                task.add(at_s, cpu_ms.get(rank, 0), read, written, stopped == processes)
        for rank in self._tasks.keys() - self._seen.keys():
            del self._tasks[rank]  # it has ended
        if self._after_s:
            self._judge(step, at_s, host)

    def _judge(self, step: "PluggedStep", at_s: int, host: "Callable[[], list[Point]]") -> None:
        if at_s - self._asked_gpus_at_s >= GPU_EVERY_S:
            self._asked_gpus_at_s = at_s
            self._spins = self._spinning(step, host)
        states = [task.state(rank) for rank, task in sorted(self._tasks.items())]
        found = task_suspicions(states, self._after_s, self._is_script)
        if self._spins is not None:
            found.append(self._spins)
        before, self._found = self._found, found
        if [one[:2] for one in found] != [one[:2] for one in before]:
            step.suspect(*self.found())
        if not found or not before:
            self._suspected_at_s = at_s
            self._is_signalled = False
        if found and self._signal and not self._is_signalled and at_s - self._suspected_at_s >= self._grace_s:
            self._is_signalled = True
            step.signal_hanging(self._signal, self.found()[1])

    def found(self) -> "tuple[str, str]":
        """What is suspected: the kinds, and a sentence for each; "" = nothing."""
        return ",".join(one.kind for one in self._found), "; ".join(one.text for one in self._found)

    def _spinning(self, step: "PluggedStep", host: "Callable[[], list[Point]]") -> "Suspicion | None":
        from nodedaemon.spool.gpuprofile import read_lines  # imported only where it is needed

        gpus = read_lines(step.folder_fd, "")
        return gpu_suspicion([line.points() for line in gpus.values()], host(), self._after_s) if gpus else None

    def answer(self, rank_of: "dict[int, int]") -> "dict[str, PackedValue]":
        """Answers `penstock doctor`. `rank_of`: the tasks' own processes."""
        pids: list[PackedValue] = [
            [rank, pid, fields[0].decode("ascii", "replace")]
            for pid, rank in rank_of.items()
            if (fields := stat_fields(pid)) is not None
        ]
        return {
            "after_s": self._after_s,
            "is_script": int(self._is_script),
            "tasks": [list(task.state(rank)) for rank, task in sorted(self._tasks.items())],
            "gpus": self._spins.text if self._spins is not None else "",
            "pids": pids,
            "recorder": self._recorder,
        }


def _recorder(environment: "dict[bytes, bytes]") -> bytes:
    """Where the flight recorder of NCCL writes, if the job has switched it on."""
    if environment.get(_SWITCH, b"0") == b"0" and RECORDER not in environment:
        return b""
    return environment.get(RECORDER, _RECORDER_DEFAULT)
