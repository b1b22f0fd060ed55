"""How the tasks of a step have ended: the messages in Slurm's words, and the exit status.

Tasks of one node that ended alike within a moment are told in one line: `srun: error: n1: tasks 0-3: Killed`. The status
is the highest exit code; a task that a signal ended counts 128 and the signal's number. A task of which nobody can tell
(its node is gone) counts as the step's own end does, as the controller knows it.
"""

import os
import signal
from collections.abc import Callable, Sequence

from penstock.values.exitcode import shell_status

RUNNING, EXITED, FAILED = "running", "exited", "exited abnormally"


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
    """What became of a task, by its wait status; "" when it succeeded."""
    if os.WIFSIGNALED(status):
        words = signal.strsignal(os.WTERMSIG(status)) or f"Signal {os.WTERMSIG(status)}"
        return words + (" (core dumped)" if os.WCOREDUMP(status) else "")
    code = os.WEXITSTATUS(status)
    return f"Exited with exit code {code}" if code else ""


def code_of(status: int) -> int:
    """The task's part in the exit status."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Outcome:
    """The ends of all tasks of a step."""

    def __init__(self, say: Callable[[str], None], *, tasks: int) -> None:
        self._say = say
        self._tasks = tasks
        self._ended: dict[int, int] = {}  # rank -> wait status
        self._untold: dict[tuple[str, str], list[int]] = {}  # (node, words) -> ranks
        self.lost = False  # of some tasks nobody at the nodes could tell the end
        self.code = 0

    def exited(self, node: str, task: int, status: int) -> None:
        """A task has ended."""
        if task in self._ended:
            return
        self._ended[task] = status
        self.code = max(self.code, code_of(status))
        words = words_of(status)
        if words:
            self._untold.setdefault((node, words), []).append(task)

    def node_failed(self, node: str, ranks: Sequence[int], text: str) -> None:
        """The tasks of a node of which nothing more will be heard."""
        lost = [rank for rank in ranks if rank not in self._ended]
        for rank in lost:
            self._ended[rank] = 1 << 8
        self.lost = self.lost or bool(lost)
        if lost or text:
            self.tell()
            self._say(f"error: {node}: {ranks_text(lost) + ': ' if lost else ''}{text or 'Node failure'}")
            self.code = max(self.code, 1)

    def step_ended(self, code: int, signal_no: int) -> None:
        """What the controller says of the step, where the nodes could not tell."""
        self.code = max(self.code, shell_status(code, signal_no))

    @property
    def untold(self) -> bool:
        """Some line is due."""
        return bool(self._untold)

    def tell(self) -> None:
        """Say what has gathered."""
        untold, self._untold = self._untold, {}
        for (node, words), ranks in untold.items():
            self._say(f"error: {node}: {ranks_text(ranks)}: {words}")

    @property
    def any_failed(self) -> bool:
        """Some task did not succeed."""
        return self.code != 0

    @property
    def all_ended(self) -> bool:
        return len(self._ended) >= self._tasks

    def state_lines(self, step: str) -> list[str]:
        """For Ctrl-C: which tasks are in which state."""
        groups: dict[str, list[int]] = {RUNNING: [], EXITED: [], FAILED: []}
        for rank in range(self._tasks):
            status = self._ended.get(rank)
            groups[RUNNING if status is None else FAILED if status else EXITED].append(rank)
        return [f"{step} {ranks_text(ranks)}: {state}" for state, ranks in groups.items() if ranks]
