"""The GPUs of a machine in a fault world: their names, their faults, and the order in which they are found. The node's
state is the truth; the controller may have an older one. Not simulated: effects of a failure on programs (they
continue), MIG.
"""

from random import Random

import msgspec

from ctld.core.records.effects import LaunchStep
from ctld.core.records.gpu import GpuFacts, GpuOpinion
from ctld.core.state.shares import GPU
from penstock.values.config import NodeConfig
from penstock.values.gpustates import GpuState

#: (opinions, facts or None): the body of a report.
GpuReportBody = tuple[tuple[GpuOpinion, ...], tuple[GpuFacts, ...] | None]
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(GpuReportBody).decode
#: Memory by type; of other types it is unknown.
MEMORY_MB = {"a100": 40_960, "h100": 81_559}
BROKEN = (GpuState.SUSPECT, GpuState.DRAINED, GpuState.FAILED, GpuState.UNRESPONSIVE)


class SimGpus:
    """All cards of one machine, in the order in which they are found."""

    def __init__(self, config: NodeConfig, random: Random, types: tuple[str, ...]) -> None:
        self._random = random
        self._node = config.name
        self._types = {f"GPU-{config.name}-{number:04}": type_ for number, type_ in enumerate(types)}
        self._order = list(self._types)
        self._lost: dict[str, None] = {}
        self._opinions: dict[str, GpuOpinion] = {}

    def __bool__(self) -> bool:
        return bool(self._types)

    def has(self, uuid: str) -> bool:
        """Whether the GPU answers."""
        return uuid in self._types and uuid not in self._lost

    def memory_mb(self, uuid: str) -> int:
        """The memory of a GPU; 0 = not known."""
        return MEMORY_MB.get(self._types.get(uuid, ""), 0)

    def facts(self) -> tuple[GpuFacts, ...]:
        """The GPUs that answer."""
        there = [uuid for uuid in self._order if uuid not in self._lost]
        return tuple(
            GpuFacts(
                uuid, index, index, self._types[uuid], self.memory_mb(uuid),
                links=tuple(-1 if other == uuid else 1 for other in there),
            )
            for index, uuid in enumerate(there)
        )  # fmt: skip

    def opinions(self) -> tuple[GpuOpinion, ...]:
        """The node's opinions of its GPUs."""
        return tuple(self._opinions.get(fact.uuid, GpuOpinion(fact.uuid)) for fact in self.facts())

    def report(self) -> bytes:
        """All of it, as a report."""
        return encode((self.opinions(), self.facts()))

    def lose(self) -> bytes:
        """A GPU falls off the bus."""
        self._lost[self._random.choice(self._order)] = None
        return self.report()

    def degrade(self, now_us: int) -> bytes:
        """A GPU degrades; sometimes only for jobs with several GPUs."""
        uuid, state = self._random.choice(self._order), self._random.choice(BROKEN)
        opinion = GpuOpinion(uuid, state, f"{state.name} as drawn", now_us, self._random.random() < 0.3)
        self._opinions[uuid] = opinion
        return encode(((opinion,), None))

    def recover(self, now_us: int) -> bytes:
        """A GPU is healthy again."""
        uuid = self._random.choice(self._order)
        self._opinions.pop(uuid, None)
        self._lost.pop(uuid, None)
        return encode(((GpuOpinion(uuid, since_us=now_us), *self.opinions()), self.facts()))

    def repair(self) -> bytes:
        """All GPUs are healthy again."""
        self._lost.clear()
        self._opinions.clear()
        return self.report()

    def shuffle(self) -> None:
        """Changes the order in which a reboot finds the GPUs."""
        if self._random.random() < 0.5:
            self._random.shuffle(self._order)


def gpus_of(launch: LaunchStep, node: str) -> tuple[str, ...]:
    """The UUIDs of the job's GPUs on that node; "" if unknown."""
    parts = [part for part in launch.job.alloc if part.node == node]
    slots = [
        i
        for part in parts
        for name, _, mask in part.gres
        if name == GPU
        for i in range(mask.bit_length())
        if mask >> i & 1
    ]
    slots += [share.gpu for part in parts for share in part.shares]
    return tuple(launch.gpu_slots[slot] if slot < len(launch.gpu_slots) else "" for slot in slots)
