"""The outcome of a step's tasks: the messages in Slurm's words, and the exit status.

Tasks of one node that ended the same way within a moment are reported in one line: `srun: error: n1: tasks 0-3:
Killed`. The status is the highest exit code; a task that a signal ended counts 128 plus the signal's number. A task
with an unknown end (its node is gone) counts as the step's end recorded by the controller.
"""

import os
import signal
from collections.abc import Callable, Sequence

from penstock.values.exitcode import shell_status

RUNNING = "running"
EXITED = "exited"
FAILED = "exited abnormally"
COMPLETED = "Completed"


def ranks_text(ranks: Sequence[int]) -> str:
    """`task 0`, `tasks 0-3,5`."""
    parts: list[str] = []
    ordered = sorted(ranks)
    start = 0
    for at in range(1, len(ordered) + 1):
        if at == len(ordered) or ordered[at] != ordered[at - 1] + 1:
            low, high = ordered[start], ordered[at - 1]
            parts.append(f"{low}" if low == high else f"{low}-{high}")
            start = at
    return f"task{'s' if len(ordered) > 1 else ''} {','.join(parts)}"


def words_of(status: int) -> str:
    """Describes a task's end, by its wait status; "" when it succeeded."""
    if os.WIFSIGNALED(status):
        words = signal.strsignal(os.WTERMSIG(status)) or f"Signal {os.WTERMSIG(status)}"
        return words + (" (core dumped)" if os.WCOREDUMP(status) else "")
    code = os.WEXITSTATUS(status)
    return f"Exited with exit code {code}" if code else ""


def code_of(status: int) -> int:
    """The task's part in the exit status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class StepOutcome:
    """The ends of all tasks of a step."""

    def __init__(self, say: Callable[[str], None], *, tasks: int, title: str = "", reports_once: bool = False) -> None:
        """`title`: the step's name, to report each end, also a successful one (-v); "" = only failures.
        `reports_once`: of successive ends with the same status, only the first is reported.
        """
        self._say = say
        self._title = title
        self._tasks = tasks
        self._reports_once = reports_once
        self._reported = -1  # the wait status reported last
        self._ended: dict[int, int] = {}  # rank -> wait status
        self._pending: dict[tuple[str, int], list[int]] = {}  # (node, wait status) -> ranks
        self.lost = False  # the ends of some tasks are unknown to the nodes
        self.code = 0

    def exited(self, node: str, task: int, status: int) -> None:
        """Records the end of a task."""
        if task in self._ended:
            return
        self._ended[task] = status
        self.code = max(self.code, code_of(status))
        if self._title or words_of(status):
            self._pending.setdefault((node, status), []).append(task)

    def node_failed(self, node: str, ranks: Sequence[int], text: str) -> None:
        """Records the loss of a node with the tasks that have not reported their end."""
        lost = [rank for rank in ranks if rank not in self._ended]
        for rank in lost:
            self._ended[rank] = 1 << 8
        self.lost = self.lost or bool(lost)
        if lost or text:
            self.report()
            self._say(f"error: {node}: {ranks_text(lost) + ': ' if lost else ''}{text or 'Node failure'}")
            self.code = max(self.code, 1)

    def step_ended(self, code: int, signal_no: int) -> None:
        """Records the controller's outcome of the step, for tasks with an unknown end."""
        self.code = max(self.code, shell_status(code, signal_no))

    @property
    def has_pending(self) -> bool:
        """Whether messages are pending."""
        return bool(self._pending)

    def report(self) -> None:
        """Prints the pending messages."""
        pending = self._pending
        self._pending = {}
        for (node, status), ranks in pending.items():
            if self._reports_once and status == self._reported:
                continue
            self._reported = status
            if self._title:
                count = f"{len(ranks)} task{'s' if len(ranks) > 1 else ''}"
                self._say(f"Received task exit notification for {count} of {self._title} (status=0x{status:04x}).")
            words = words_of(status)
            self._say(f"{'error: ' if words else ''}{node}: {ranks_text(ranks)}: {words or COMPLETED}")

    @property
    def any_failed(self) -> bool:
        """Whether some task did not succeed."""
        return self.code != 0

    @property
    def all_ended(self) -> bool:
        return len(self._ended) >= self._tasks

    def state_lines(self, step: str) -> list[str]:
        """For Ctrl-C: the tasks by state."""
        groups: dict[str, list[int]] = {RUNNING: [], EXITED: [], FAILED: []}
        for rank in range(self._tasks):
            status = self._ended.get(rank)
            groups[RUNNING if status is None else FAILED if status else EXITED].append(rank)
        return [f"{step} {ranks_text(ranks)}: {state}" for state, ranks in groups.items() if ranks]
