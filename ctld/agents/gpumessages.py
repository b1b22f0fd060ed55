"""GPUs as messages: what a node says they are and what it thinks of them. No decisions; limits on texts."""

from typing import Final

from ctld.core.gpu_model import GpuFacts, GpuOpinion
from penstock.v1 import node_pb2
from penstock.values.gpustates import GpuState

#: GPUs and MIG instances of a node.
GPUS_MAX: Final = 4096
TEXT_MAX: Final = 256
#: XIDs that are remembered of a GPU.
XIDS_MAX: Final = 16
#: Notes on a GPU, and characters of each.
NOTES_MAX: Final = 8
NOTE_MAX: Final = 32
_STATES: Final = {int(state): state for state in GpuState}
_SAME: Final = (
    "uuid", "index", "minor", "type", "memory_mb", "name", "bus_id", "capability", "serial", "profile", "slices",
    "mig_enabled",
)  # fmt: skip


def facts_of(inventory: node_pb2.Inventory) -> tuple[GpuFacts, ...]:
    """The GPUs that have a name, in the node's order; the same name twice counts once."""
    found: dict[str, GpuFacts] = {}
    for device in inventory.gpus[:GPUS_MAX]:
        if device.uuid:
            found.setdefault(device.uuid, _facts(device))
    return tuple(found.values())


def _facts(device: node_pb2.GpuDevice) -> GpuFacts:
    fields = {name: getattr(device, name) for name in _SAME}
    texts = {name: value[:TEXT_MAX] for name, value in fields.items() if isinstance(value, str)}
    return GpuFacts(
        **{**fields, **texts},
        parent=device.parent_uuid[:TEXT_MAX],
        near_cpus=tuple(device.near_cpus),
        links=tuple(device.links[:GPUS_MAX]),
    )


def opinions_of(inventory: node_pb2.Inventory) -> tuple[GpuOpinion, ...]:
    """What the node thinks of those of which it says something."""
    return tuple(opinion_of(d.health, d.uuid) for d in inventory.gpus[:GPUS_MAX] if d.HasField("health"))


def opinion_of(health: node_pb2.GpuHealth, uuid: str = "") -> GpuOpinion:
    """One of them. A state of a later version is taken as DRAINED."""
    state = _STATES.get(health.state, GpuState.DRAINED)
    return GpuOpinion(
        health.uuid or uuid,
        state,
        plain(health.reason),
        health.since_us,
        health.many_only,
        health.wants_reset,
        tuple((one.xid, one.times, one.last_us) for one in health.xids[:XIDS_MAX]),
        tuple(plain(note, NOTE_MAX) for note in health.notes[:NOTES_MAX]),
    )


def plain(text: str, limit: int = TEXT_MAX) -> str:
    """A text of a node's as one line: it may hold the name of a user's program."""
    return "".join(char if char.isprintable() else "?" for char in text[:limit])
