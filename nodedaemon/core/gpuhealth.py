"""The judge of this node's GPUs: signals in, opinions and what follows from them out. Pure.

In work: the table of policy and its rows.
"""

from nodedaemon.core.gpuhealth_words import Event, Holds, Listed, Memory, Opinion, Output, Released
from nodedaemon.core.gpuwords import Device
from nodedaemon.core.steps import StepKey


class HealthMachine:
    """All that is thought of this node's GPUs."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self.holders: dict[StepKey, Holds] = {}
        self._outputs: list[Output] = []
        self._listed: tuple[Device, ...] = ()

    def step(self, now_us: int, event: Event) -> None:
        """Take one event."""
        if isinstance(event, Listed):
            self._listed = event.devices
        elif isinstance(event, Holds):
            self.holders[event.key] = event
        elif isinstance(event, Released):
            self.holders.pop(event.key, None)

    def seal(self) -> list[Output]:
        """What came of the events since the last call."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def devices(self) -> tuple[Device, ...]:
        """Those that NVML names, then those that are lost since the machine was started."""
        return self._listed

    def opinion(self, uuid: str) -> Opinion:
        """What is thought of a GPU now."""
        record = self.memory.records.get(uuid)
        return (record.reported if record else None) or Opinion(uuid)
