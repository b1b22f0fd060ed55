"""Decodes nodes' messages about GPUs: inventory and health. No decisions; limits on texts."""

from typing import Final

from ctld.core.records.gpu import GpuFacts, GpuOpinion
from penstock.v1 import node_pb2
from penstock.values.gpustates import GpuState

#: Maximum number of GPUs and MIG instances of a node.
GPUS_MAX: Final = 4096
TEXT_MAX: Final = 256
#: XIDs that are kept of a GPU.
XIDS_MAX: Final = 16
#: Maximum number of notes on a GPU, and characters of each.
NOTES_MAX: Final = 8
NOTE_MAX: Final = 32
_STATES: Final = {int(state): state for state in GpuState}
_SAME: Final = (
    "uuid", "index", "minor", "type", "memory_mb", "name", "bus_id", "capability", "serial", "profile", "slices",
    "mig_enabled",
)  # fmt: skip


def facts_of(inventory: node_pb2.Inventory) -> tuple[GpuFacts, ...]:
    """Returns the GPUs with a UUID, in the node's order; duplicates are ignored."""
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
    """Returns the reported health of GPUs."""
    return tuple(opinion_of(d.health, d.uuid) for d in inventory.gpus[:GPUS_MAX] if d.HasField("health"))


def opinion_of(health: node_pb2.GpuHealth, uuid: str = "") -> GpuOpinion:
    """Returns the reported health of one GPU. An unknown state, of a later version, counts as DRAINED."""
    state = _STATES.get(health.state, GpuState.DRAINED)
    return GpuOpinion(
        health.uuid or uuid,
        state,
        one_line(health.reason),
        health.since_us,
        health.many_only,
        health.wants_reset,
        tuple((one.xid, one.times, one.last_us) for one in health.xids[:XIDS_MAX]),
        tuple(one_line(note, NOTE_MAX) for note in health.notes[:NOTES_MAX]),
    )


def one_line(text: str, limit: int = TEXT_MAX) -> str:
    """Returns a node's text as one line: it may contain the name of a user's program."""
    text = text[:limit]
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
