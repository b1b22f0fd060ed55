"""The GPUs of a machine in a fault world: cards with names, what is wrong with them, and in which order they are found.

What a node says of them is the truth; whether the controller has heard it yet is another matter. Kept out: what a
failure does to programs (they go on), MIG.
"""

from random import Random

import msgspec

from ctld.core.gpu_model import GpuFacts, GpuOpinion
from penstock.values.config import NodeConfig
from penstock.values.gpustates import GpuState

#: (opinions, what there is or None): the body of a report.
Told = tuple[tuple[GpuOpinion, ...], tuple[GpuFacts, ...] | None]
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Told).decode
#: By type. A card of a type that is not here has no known memory.
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
        """It answers."""
        return uuid in self._types and uuid not in self._lost

    def memory_mb(self, uuid: str) -> int:
        """Of one; 0 = not known."""
        return MEMORY_MB.get(self._types.get(uuid, ""), 0)

    def facts(self) -> tuple[GpuFacts, ...]:
        """Those that answer."""
        there = [uuid for uuid in self._order if uuid not in self._lost]
        return tuple(
            GpuFacts(
                uuid, index, index, self._types[uuid], self.memory_mb(uuid),
                links=tuple(-1 if other == uuid else 1 for other in there),
            )
            for index, uuid in enumerate(there)
        )  # fmt: skip

    def opinions(self) -> tuple[GpuOpinion, ...]:
        """What the node thinks of them."""
        return tuple(self._opinions.get(fact.uuid, GpuOpinion(fact.uuid)) for fact in self.facts())

    def told(self) -> bytes:
        """All of it, as a report."""
        return encode((self.opinions(), self.facts()))

    def lose(self) -> bytes:
        """One falls off the bus."""
        self._lost[self._random.choice(self._order)] = None
        return self.told()

    def spoil(self, now_us: int) -> bytes:
        """Something is wrong with one; now and then only for jobs that have several."""
        uuid, state = self._random.choice(self._order), self._random.choice(BROKEN)
        opinion = GpuOpinion(uuid, state, f"{state.name} as drawn", now_us, self._random.random() < 0.3)
        self._opinions[uuid] = opinion
        return encode(((opinion,), None))

    def recover(self, now_us: int) -> bytes:
        """One is well again."""
        uuid = self._random.choice(self._order)
        self._opinions.pop(uuid, None)
        self._lost.pop(uuid, None)
        return encode(((GpuOpinion(uuid, since_us=now_us), *self.opinions()), self.facts()))

    def repair(self) -> bytes:
        """All are."""
        self._lost.clear()
        self._opinions.clear()
        return self.told()

    def shuffle(self) -> None:
        """A reboot finds them in another order."""
        if self._random.random() < 0.5:
            self._random.shuffle(self._order)
