"""Matches a node's GPUs by name when it registers, and decides which of them no job may have.

Masks, columns and allocations count devices by place (slot), as the configuration numbers them: type by type. This
module assigns the places:

- A GPU that had a place of its type keeps it, so that a job keeps its own when the order has changed.
- Where no job holds GPUs, places are reassigned in the order of the node, so that place and index agree.
- A new one takes the first free place of its type; one without a place is recorded and not allocated. The place of an
  allocated GPU is not free, even when the GPU is missing: it is taken when the job has ended (layout.relearn).
- A MIG instance has a place of its profile. A GPU in MIG mode has none, so that it is never allocated whole and in
  parts. A fault of a GPU applies to its instances. Missing instances of a present GPU are deleted.
- A place without a GPU is closed; so are the places of a MIG layout that is not in force. A node that reports no UUIDs
  (other vendors, by gres.conf; pretended GPUs) has all places open.

`settle` is the one function to call after any change: it rebuilds the node's masks and the planner's columns, and what
running jobs will not release.

Deliberately absent: why a GPU is drained (nodes/gpu_health.py), maintenance of idle ones (work.py).
"""

from collections.abc import Iterable

from ctld.core.gpus import kinds as gpu_kinds
from ctld.core.gpus import types as gpu_types
from ctld.core.gpus.types import is_of_type as is_of_type
from ctld.core.records.gpu import Gpu, GpuFacts, GpuOpinion
from ctld.core.records.node import Node
from ctld.core.state.devices import layout_of
from ctld.core.state.shares import GPU, allocated_slots
from ctld.core.state.state import ClusterState
from penstock.values.config import Config
from penstock.values.gpustates import BY_ENVIRONMENT, GpuState
from penstock.values.gres import Gres

#: Shortest accepted prefix of a UUID.
PREFIX_MIN = 8
#: Beginning of the reason of a node without all of its configured GPUs (Slurm's words).
SHORT = "Low gres/gpu"
#: Removed cards that are remembered for each node, in case they return from repair.
GONE_MAX = 32


def bind(node: Node, found: tuple[GpuFacts, ...], opinions: Iterable[GpuOpinion] = ()) -> dict[str, Gpu]:
    """Updates the node's GPUs from its inventory. Those that it no longer reports are kept, marked as missing."""
    said = {opinion.uuid: opinion for opinion in opinions}
    types, held = node.inside.gpu_types, allocated_slots(node)
    places = _places(types, found, {u: g.slot for u, g in node.gpus.items() if g.slot >= 0} if held else {}, held)
    gpus: dict[str, Gpu] = {}
    for position, facts in enumerate(found):
        old = node.gpus.get(facts.uuid) or Gpu(node.name, facts.uuid, -1, facts, GpuOpinion(facts.uuid))
        slot = places.get(facts.uuid, -1)
        gpus[facts.uuid] = old._replace(
            slot=slot, facts=facts, opinion=said.get(facts.uuid, old.opinion), is_there=True, position=position,
            given_as=types[slot] if slot >= 0 else "",
        )  # fmt: skip
    gone = {uuid: old for uuid, old in node.gpus.items() if uuid not in gpus}
    kept = _places_of_gone(types, gone, places, held)
    for uuid, old in gone.items():
        slot = kept.get(uuid, -1)
        if old.facts.parent in gpus and not (slot >= 0 and held >> slot & 1):
            continue  # its GPU has been divided differently
        if slot >= 0 or not _is_forgotten(old, gone):
            given_as = types[slot] if slot >= 0 else ""
            gpus[uuid] = old._replace(slot=slot, is_there=False, position=-1, given_as=given_as)
    return gpus


def rebind(node: Node) -> dict[str, Gpu]:
    """Does the same after the places have changed (another configuration), without a new inventory."""
    there = sorted((gpu for gpu in node.gpus.values() if gpu.is_there), key=lambda gpu: (gpu.position, gpu.uuid))
    found = bind(node, tuple(gpu.facts for gpu in there))
    return {u: gpu._replace(position=node.gpus[u].position) for u, gpu in found.items()}


def _is_forgotten(old: Gpu, gone: dict[str, Gpu]) -> bool:
    """Whether a missing GPU is deleted. A MIG instance always is: the next one has another name. So is a card, when
    many have disappeared after it."""
    if old.drained:
        return False
    newer = sum(other.facts.parent == "" and other.opinion.since_us > old.opinion.since_us for other in gone.values())
    return bool(old.facts.parent) or newer >= GONE_MAX


def _places(types: tuple[str, ...], found: tuple[GpuFacts, ...], had: dict[str, int], held: int) -> dict[str, int]:
    """Assigns places by UUID, omitting GPUs without one. An allocated GPU keeps its place, even when it is missing."""
    places: dict[str, int] = {}
    free = dict.fromkeys(range(len(types)))
    for facts in found:
        slot = had.get(facts.uuid, -1)
        if slot in free and (held >> slot & 1 or (is_of_type(facts, types[slot]) and not facts.mig_enabled)):
            places[facts.uuid] = slot
            del free[slot]
    for slot in [slot for slot in free if held >> slot & 1]:
        del free[slot]
    for facts in found:
        if facts.uuid in places or facts.mig_enabled:
            continue
        slot = next((s for s in free if is_of_type(facts, types[s])), -1)
        if slot >= 0:
            places[facts.uuid] = slot
            del free[slot]
    return places


def _places_of_gone(types: tuple[str, ...], gone: dict[str, Gpu], places: dict[str, int], held: int) -> dict[str, int]:
    """Assigns places to missing GPUs, by UUID: each keeps its place, or moves to another of its type, until that is
    needed."""
    taken = dict.fromkeys(places.values())
    found: dict[str, int] = {}
    for uuid, old in gone.items():
        if 0 <= old.slot < len(types) and old.slot not in taken:
            taken[old.slot] = None
            found[uuid] = old.slot
    for uuid, old in gone.items():
        if uuid not in found and old.slot >= 0 and not old.facts.parent:
            free = (s for s, type_ in enumerate(types) if s not in taken and not held >> s & 1)
            slot = next((s for s in free if is_of_type(old.facts, types[s])), -1)
            if slot >= 0:
                taken[slot] = None
                found[uuid] = slot
    return found


def find(node: Node, text: str) -> list[Gpu]:
    """Finds GPUs by an administrator's notation: `gpu`, `gpu:3` (index), `gpu:UUID` or a prefix of a UUID."""
    word = text.partition(":")[2]
    gpus = sorted(node.gpus.values(), key=lambda gpu: (gpu.slot < 0, gpu.slot, gpu.uuid))
    if text == GPU:
        return gpus
    if word.isdecimal():
        return [gpu for gpu in gpus if gpu.is_there and gpu.facts.index == int(word)]
    return [gpu for gpu in gpus if len(word) >= PREFIX_MIN and gpu.uuid.lower().startswith(word.lower())]


def put(state: ClusterState, node: Node, gpu: Gpu) -> None:
    """Replaces one record; `settle` follows."""
    node.gpus[gpu.uuid] = gpu
    state.touch_gpu(node.name, gpu.uuid)


def take_over(state: ClusterState, node: Node, gpus: dict[str, Gpu]) -> None:
    """Replaces all records; `settle` follows."""
    for uuid in dict.fromkeys((*node.gpus, *gpus)):
        if node.gpus.get(uuid) != gpus.get(uuid):
            state.touch_gpu(node.name, uuid)
    node.gpus = gpus


def settle(state: ClusterState, node: Node) -> None:
    """Recomputes which jobs may have the node's GPUs."""
    place(node)
    count(state, node)
    if is_due(state, node):
        state.gpus.relearn_due[node.name] = None


def is_due(state: ClusterState, node: Node) -> bool:
    """Whether the known GPUs call for another layout, or for a place that a job holds (layout.relearn)."""
    raw = state.config.nodes[node.index]
    return bool(
        lacks_place(node)
        or gpu_types.learned(node, raw) != node.config.gres
        or gpu_types.features_of(node, raw) != node.features
        or gpu_kinds.is_missing(state, node)
    )


def lacks_place(node: Node, held: int = 0) -> bool:
    """Whether a GPU without a place could have one outside `held`: a job held it when the GPUs were found."""
    without = [gpu.facts for gpu in node.gpus.values() if gpu.is_there and gpu.slot < 0 and not gpu.facts.mig_enabled]
    if not without:
        return False
    there = {gpu.slot for gpu in node.gpus.values() if gpu.is_there}
    types = [type_ for slot, type_ in enumerate(node.inside.gpu_types) if slot not in there and not held >> slot & 1]
    return any(is_of_type(facts, type_) for facts in without for type_ in types)


def place(node: Node) -> None:
    """Computes the node's topology and masks from the records of its GPUs."""
    slots = [""] * len(node.inside.gpu_types)
    for gpu in node.gpus.values():
        if 0 <= gpu.slot < len(slots):
            slots[gpu.slot] = gpu.uuid
    node.gpu_slots = tuple(slots)
    closed = single = suspect = 0
    for slot, uuid in enumerate(slots) if are_named(node) else ():
        here = node.gpus.get(uuid)
        parent = node.gpus.get(here.facts.parent) if here is not None and here.facts.parent else None
        is_open = here is not None and not here.is_closed() and is_in_force(here)
        closed |= (not is_open or (parent is not None and parent.is_closed())) << slot
        single |= (here is not None and here.is_for_one()) << slot
        suspect |= any(one is not None and one.state() is GpuState.SUSPECT for one in (here, parent)) << slot
    node.gpu_closed = closed
    node.gpu_single = single
    node.gpu_suspect = suspect
    if node.gpus:
        node.inside = layout_of(node.config, [node.gpus.get(uuid) for uuid in slots])


def count(state: ClusterState, node: Node) -> None:
    """Updates the planner's columns, and the list of nodes where work on GPUs is in progress."""
    if any(gpu.work_id for gpu in node.gpus.values()):
        state.gpus.works[node.name] = None
    else:
        state.gpus.works.pop(node.name, None)
    state.have_devices(node, gpu_kinds.totals(state, node))
    node.inside = gpu_kinds.extend(node.inside, state.gpus.extras, node.gpu_single)
    state.recount_gpus(node)


def are_named(node: Node) -> bool:
    """Whether the node's GPUs have UUIDs. Otherwise their places are numbers, and all are open."""
    if any(gpu.is_there for gpu in node.gpus.values()):
        return True
    return bool(node.gpus) and not node.pretended and not has_files(node)


def shortage(node: Node, named: tuple[GpuFacts, ...], counted: tuple[tuple[str, str, int], ...], why: str) -> str:
    """Returns why the node must not have GPU jobs: none of its GPUs was found. If only some are missing, their places
    are closed.

    Where no GPU has a UUID, `counted` is what the node has by (name, type, count).
    """
    wanted = [one for one in node.config.gres if one.name == GPU]
    want = sum(one.count for one in wanted)
    if not want or (not named and has_files(node)):
        return ""
    if named:
        if any(gpu.is_there and (gpu.slot >= 0 or gpu.facts.mig_enabled) for gpu in node.gpus.values()):
            return ""
        if lacks_place(node):
            return ""  # each of its places is held by a job, for a GPU that is missing
        types = ", ".join(dict.fromkeys(map(gpu_types.type_of, named)))
        return f"{SHORT} (reported:0 < configured:{want}): the node has {types}"
    have = sum(count for name, type_, count in counted if name == GPU and type_ in _types(wanted, type_))
    return f"{SHORT} (reported:{have} < configured:{want}){why and ': '}{why}" if have < want else ""


def _types(wanted: list[Gres], found: str) -> tuple[str, ...]:
    """Returns the types that count towards the request."""
    return tuple(one.type or found for one in wanted)


def has_files(node: Node) -> bool:
    """Whether gres.conf names the device files of its GPUs, so that no detection is needed."""
    return any(name == GPU for name, _, _ in node.config.device_files)


def out_of_service(node: Node) -> int:
    """Returns the places whose GPU is missing or closed, except places of a MIG layout that is not in force."""
    unused = sum((not uuid) << slot for slot, uuid in enumerate(node.gpu_slots)) if node.config.mig else 0
    return node.gpu_closed & ~unused


def is_in_force(gpu: Gpu) -> bool:
    """Whether a place may be allocated: of a divided card the places of its instances, not its own."""
    return not gpu.facts.mig_enabled


def constraint(config: Config, node: Node) -> str:
    """Returns how the node keeps jobs from other jobs' GPUs, as configured."""
    if config.cgroup.constrain_devices is False and node.gpu_constraint:
        return BY_ENVIRONMENT
    return node.gpu_constraint
