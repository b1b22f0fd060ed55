"""What may take part in the life of a step beside its tasks and its streams: an exchange for MPI, a sampler, a lease.

A plug is made for a step by `plugs_of` and told what happens, in this order: `open`; for each task `child_environment`,
`child_fds` (in stepd, before the fork) and `forked`; `began`; `reaped` and `ended`; `close`. In between it may watch
descriptors and set timers on `step.loop`, send frames by `step.hub.send`, and end the step by `step.fail`.

What comes of it travels in the exit record: whatever `close` returns is put into `End.more`.
"""

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable

    from nodedaemon.orders import LaunchOrder
    from nodedaemon.supervisor import Supervisor
    from nodedaemon.tasks import Task
    from penstock.values.packing import Value


class Plug:
    """Takes part in nothing. `words` are those of QUESTION frames that it answers."""

    words: tuple[str, ...] = ()

    def open(self, step: "Supervisor") -> None:
        """The step is claimed; no task runs yet. May raise OSError: the step fails."""

    def child_environment(self, task: "Task") -> dict[bytes, bytes]:
        """Variables for a task that is about to be forked."""
        return {}

    def child_fds(self, task: "Task") -> list[int]:
        """Descriptors that the task's program shall inherit, under these numbers."""
        return []

    def forked(self, task: "Task") -> None:
        """The task's process exists: close in stepd what is the child's."""

    def began(self) -> None:
        """All tasks run."""

    def ended(self, task: "Task") -> None:
        """A task has been reaped."""

    def reaped(self, pid: int, used: "resource.struct_rusage") -> None:
        """A process of the step, not only a task, has been reaped. Before `ended`."""

    def exchange(self, payload: bytes) -> None:
        """An EXCHANGE frame from the owner."""

    def answer(self, word: str) -> "dict[str, Value]":
        """The answer to a QUESTION."""
        return {}

    def close(self) -> "dict[str, Value]":
        """All processes of the step are gone."""
        return {}


#: Who looks at an order and may bring a plug. Modules are imported by the launcher, before any fork.
MAKERS: "list[Callable[[LaunchOrder], Plug | None]]" = []


def plugs_of(order: "LaunchOrder") -> list[Plug]:
    """The plugs of a step."""
    return [plug for make in MAKERS if (plug := make(order)) is not None]
