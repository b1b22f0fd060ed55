"""The interface of a step's extensions, beside its tasks and its streams: an exchange for MPI, a sampler, a lease.

A plug is made for a step by `plugs_of` and its methods are called in this order: `open`; for each task
`child_environment`, `child_fds` (in stepd, before the fork) and `forked`; `began`; `reaped` and `ended`; `close`. In
between it may watch descriptors and set timers on `step.loop`, send frames by `step.hub.send`, and end the step by
`step.fail`.

The result of `close` is stored in the exit record, in `StepEnd.more`.
"""

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable
    from typing import Protocol

    from nodedaemon.base.orders import LaunchOrder
    from nodedaemon.cgroups.cgroup import StepGroups
    from nodedaemon.stepd.context import LauncherContext
    from nodedaemon.stepd.streams import StreamHub
    from nodedaemon.stepd.taskrecord import Task
    from penstock.eventloop import Loop
    from penstock.values.packing import PackedValue

    class PluggedTasks(Protocol):
        """The step's tasks on this node."""

        @property
        def have_ended(self) -> bool: ...

    class PluggedStep(Protocol):
        """The interface of its step for a plug, which is the Supervisor."""

        loop: Loop
        groups: StepGroups

        @property
        def hub(self) -> StreamHub: ...
        @property
        def context(self) -> LauncherContext: ...
        @property
        def folder_fd(self) -> int: ...
        @property
        def tasks(self) -> PluggedTasks: ...
        def fail(self, text: str) -> None: ...
        def ran_us(self) -> int: ...
        @property
        def is_frozen(self) -> bool: ...
        def suspect(self, kind: str, text: str) -> None: ...
        def signal_hanging(self, signum: int, text: str) -> None: ...
        def handle_signal(self, signals: tuple[int, ...], scope: int, note: str) -> None: ...


class Plug:
    """The interface; this base does nothing. `words` are the QUESTION frames that it answers."""

    words: tuple[str, ...] = ()

    def open(self, step: "PluggedStep") -> None:
        """Called when the step is claimed; no task runs yet. May raise OSError, which fails the step."""

    def child_environment(self, task: "Task") -> dict[bytes, bytes]:
        """Variables for a task that is about to be forked."""
        return {}

    def child_fds(self, task: "Task") -> list[int]:
        """Descriptors that the task's program shall inherit, under these numbers."""
        return []

    def forked(self, task: "Task") -> None:
        """Called when the task's process exists: closes the child's descriptors in stepd."""

    def began(self) -> None:
        """Called when all tasks run."""

    def ended(self, task: "Task") -> None:
        """Called when a task has been reaped."""

    def reaped(self, pid: int, used: "resource.struct_rusage") -> None:
        """Called when a process of the step, not only a task, has been reaped. Before `ended`."""

    def exchange(self, payload: bytes) -> None:
        """Handles an EXCHANGE frame from the owner."""

    def answer(self, word: str) -> "dict[str, PackedValue]":
        """Answers a QUESTION."""
        return {}

    def close(self) -> "dict[str, PackedValue]":
        """Called when all processes of the step are gone."""
        return {}


#: Functions that may make a plug for an order. Modules are imported by the launcher, before any fork.
MAKERS: "list[Callable[[LaunchOrder], Plug | None]]" = []


def plugs_of(order: "LaunchOrder") -> list[Plug]:
    """The plugs of a step."""
    return [plug for make in MAKERS if (plug := make(order)) is not None]
