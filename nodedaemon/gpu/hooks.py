"""Attaches further services to the GPU agent: accounting (`agent.usage`), MPS (`agent.mps`), MIG (`agent.divide`).

    class Usage(Listener):
        def polled(self, polled, owners): ...

    agent.usage = Usage(...)

`agent.metrics` is told of polls alone.

All of it is called in the loop's thread and must not block: work goes to `agent.executor`. A listener that raises ends
the daemon, like any other fault of it. Reports are sent with `agent.send_report(report)`.
"""

from collections.abc import Awaitable, Callable, Mapping

from nodedaemon.core.gpuhealth_messages import GpuOwner
from nodedaemon.core.gpumessages import Found, Polled
from nodedaemon.core.steps import StepKey
from penstock.v1 import node_pb2


class Listener:
    """The interface of the agent's listeners; this base does nothing."""

    def start(self) -> None:
        """Called when the daemon's loop runs; steps that continue from before have been announced by `began`."""

    def stop(self) -> None:
        """Called when the daemon ends; steps continue."""

    def take_settings(self, settings: node_pb2.GpuSettings) -> None:
        """Called with the controller's configuration, at each registration and after each reload."""

    def found(self, found: Found) -> None:
        """Called when the inventory has changed."""

    def began(self, key: StepKey, uid: int, uuids: tuple[str, ...]) -> None:
        """Called when a step has these GPUs (or shares of them)."""

    def ended(self, key: StepKey) -> None:
        """Called when a step that was announced by `began` has ended."""

    def polled(self, polled: Polled, owners: Mapping[int, GpuOwner]) -> None:
        """Called after a poll of all GPUs. `owners`: by pid, of the processes on them."""

    def poll_s(self, usual_s: float) -> float:
        """The wanted polling interval; after a change `agent.settle()` is called."""
        return usual_s

    def per_process(self) -> tuple[str, ...]:
        """The GPUs whose processes' utilisation is wanted."""
        return ()

    def returned(self, key: StepKey, uuids: tuple[str, ...]) -> None:
        """Called when the job of that step releases these GPUs and continues."""


#: Divides a GPU as GpuWork says; returns True and "", after which the inventory is read again, or False and the
#: reason. Runs in the loop.
Divide = Callable[[node_pb2.GpuWork], Awaitable[tuple[bool, str]]]
