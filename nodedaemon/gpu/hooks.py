"""What else lives from the GPU agent: accounting (`agent.usage`), MPS (`agent.mps`), MIG (`agent.divide`).

    class Usage(Listener):
        def polled(self, polled, owners): ...

    agent.usage = Usage(...)

All of it is called in the loop's thread and must not block: work goes to `agent.executor`. A listener that raises ends
the daemon, like any other fault of it. Reports leave with `agent.say(report)`.
"""

from collections.abc import Awaitable, Callable, Mapping

from nodedaemon.core.gpuhealth_words import Owner
from nodedaemon.core.gpuwords import Found, Polled
from nodedaemon.core.steps import StepKey
from penstock.v1 import node_pb2


class Listener:
    """Told of everything in turn; does nothing."""

    def start(self) -> None:
        """The daemon's loop runs; steps that go on from before have been told by `began`."""

    def stop(self) -> None:
        """The daemon ends; steps go on."""

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """The controller's configuration, at each registration and after each reload."""

    def found(self, found: Found) -> None:
        """What there is has changed."""

    def began(self, key: StepKey, uid: int, uuids: tuple[str, ...]) -> None:
        """A step has these GPUs (or shares of them)."""

    def ended(self, key: StepKey) -> None:
        """A step that was told of by `began` has ended."""

    def polled(self, polled: Polled, owners: Mapping[int, Owner]) -> None:
        """All GPUs were looked at. `owners`: by pid, of the processes on them."""

    def poll_s(self, usual_s: float) -> float:
        """How often the GPUs are to be looked at; after a change `agent.settle()` is called."""
        return usual_s

    def per_process(self) -> tuple[str, ...]:
        """Of which GPUs each process's utilisation is asked."""
        return ()

    def returned(self, key: StepKey, uuids: tuple[str, ...]) -> None:
        """The job of that step gives these GPUs back and goes on without."""


#: Divides a GPU as GpuWork says; True, "" and the new inventory is asked for; False and why not. Runs in the loop.
Divide = Callable[[node_pb2.GpuWork], Awaitable[tuple[bool, str]]]
