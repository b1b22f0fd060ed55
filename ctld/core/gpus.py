"""GPUs of a node by name: which is which when it registers, and which of them no job may have.

Masks, columns and allocations count devices by place (slot), as the configuration numbers them: type by type. This
module says who has which place:

- A GPU that had a place of its type keeps it, so that a job goes on with its own when the order has changed.
- Where no job holds GPUs, places are given anew in the order of the node, so that place and index agree.
- A new one takes the first free place of its type; one without a place is known and not given. What a job holds is no
  free place, also when the GPU there is gone.
- A MIG instance has a place of its profile. A GPU in MIG mode has none, so that it is never given whole and in parts.
  What is wrong with a GPU is wrong with its instances. Instances that are gone while their GPU is there are forgotten.
- A place without a GPU is closed: so is that of a layout (MIG) that is not in force, whose GPUs are not there. A node
  that names no GPU (other makers', by gres.conf; pretended ones) has all places open.

`settle` is the one function to call after anything has changed: it makes the node's masks anew, tells the planner's
columns, and what running jobs will not give back.

Deliberately absent: why a GPU is drained (gpu_health.py), what is done to idle ones (gpu_work.py).
"""

from collections.abc import Iterable

from ctld.core import gpu_kinds, gpu_types
from ctld.core.devices import layout_of
from ctld.core.gpu_model import Gpu, GpuFacts, GpuOpinion
from ctld.core.gpu_types import is_of_type as is_of_type
from ctld.core.model import Node
from ctld.core.shares import GPU, held_slots
from ctld.core.state import ClusterState
from penstock.values.config import Config
from penstock.values.gpustates import BY_ENVIRONMENT, GpuState
from penstock.values.gres import Gres

#: Characters of a UUID that must be given.
PREFIX_MIN = 8
#: How the reason of a node begins that has not the GPUs it is configured with (Slurm's words).
SHORT = "Low gres/gpu"
#: Cards that a node had once and has no more: so many are remembered, for who comes back from repair.
GONE_MAX = 32


def bind(node: Node, found: tuple[GpuFacts, ...], opinions: Iterable[GpuOpinion] = ()) -> dict[str, Gpu]:
    """The node's GPUs after it said what it has. Those that it no longer names are kept, as gone."""
    said = {opinion.uuid: opinion for opinion in opinions}
    types, held = node.inside.gpu_types, held_slots(node)
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
            continue  # its GPU has been divided anew
        if slot >= 0 or not _is_forgotten(old, gone):
            given_as = types[slot] if slot >= 0 else ""
            gpus[uuid] = old._replace(slot=slot, is_there=False, position=-1, given_as=given_as)
    return gpus


def rebind(node: Node) -> dict[str, Gpu]:
    """The same after the places have changed (another configuration): the node has said nothing new."""
    there = sorted((gpu for gpu in node.gpus.values() if gpu.is_there), key=lambda gpu: (gpu.position, gpu.uuid))
    found = bind(node, tuple(gpu.facts for gpu in there))
    return {u: gpu._replace(position=node.gpus[u].position) for u, gpu in found.items()}


def _is_forgotten(old: Gpu, gone: dict[str, Gpu]) -> bool:
    """A MIG instance is gone for good: the next one has another name. So is a card, when many have gone after it."""
    if old.drained:
        return False
    newer = sum(other.facts.parent == "" and other.opinion.since_us > old.opinion.since_us for other in gone.values())
    return bool(old.facts.parent) or newer >= GONE_MAX


def _places(types: tuple[str, ...], found: tuple[GpuFacts, ...], had: dict[str, int], held: int) -> dict[str, int]:
    """By UUID; without those for which there is no place. What a job holds stays whose it was, also of one that is gone."""
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
    """By UUID. One that is gone keeps its place, or moves to another of its type, for as long as nobody needs it."""
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
    """GPUs by what an administrator writes: `gpu`, `gpu:3` (index), `gpu:UUID` or the beginning of one."""
    word = text.partition(":")[2]
    gpus = sorted(node.gpus.values(), key=lambda gpu: (gpu.slot < 0, gpu.slot, gpu.uuid))
    if text == GPU:
        return gpus
    if word.isdecimal():
        return [gpu for gpu in gpus if gpu.is_there and gpu.facts.index == int(word)]
    return [gpu for gpu in gpus if len(word) >= PREFIX_MIN and gpu.uuid.lower().startswith(word.lower())]


def put(state: ClusterState, node: Node, gpu: Gpu) -> None:
    """Replace one record; `settle` follows."""
    node.gpus[gpu.uuid] = gpu
    state.dirty_gpus[node.name, gpu.uuid] = None


def take_over(state: ClusterState, node: Node, gpus: dict[str, Gpu]) -> None:
    """Replace all records; `settle` follows."""
    for uuid in dict.fromkeys((*node.gpus, *gpus)):
        if node.gpus.get(uuid) != gpus.get(uuid):
            state.dirty_gpus[node.name, uuid] = None
    node.gpus = gpus


def settle(state: ClusterState, node: Node) -> None:
    """What follows from the node's GPUs for who may have which."""
    place(node)
    count(state, node)
    if is_due(state, node):
        state.gpus_due[node.name] = None


def is_due(state: ClusterState, node: Node) -> bool:
    """What is known of its GPUs calls for another layout (layout.relearn)."""
    raw = state.config.nodes[node.index]
    return bool(
        gpu_types.learned(node, raw) != node.config.gres
        or gpu_types.features_of(node, raw) != node.features
        or gpu_kinds.is_missing(state, node)
    )


def place(node: Node) -> None:
    """The node's inside and masks, from the records of its GPUs."""
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
    node.gpu_closed, node.gpu_single, node.gpu_suspect = closed, single, suspect
    if node.gpus:
        node.inside = layout_of(node.config, [node.gpus.get(uuid) for uuid in slots])


def count(state: ClusterState, node: Node) -> None:
    """Tell the planner's columns, and keep the list of nodes where something is done to GPUs."""
    if any(gpu.work_id for gpu in node.gpus.values()):
        state.gpu_works[node.name] = None
    else:
        state.gpu_works.pop(node.name, None)
    state.have_devices(node, gpu_kinds.totals(state, node))
    node.inside = gpu_kinds.extend(node.inside, state.gpu_extras, node.gpu_single)
    state.recount_gpus(node)


def are_named(node: Node) -> bool:
    """Its GPUs are known one by one. Else their places are numbers, and all are open."""
    if any(gpu.is_there for gpu in node.gpus.values()):
        return True
    return bool(node.gpus) and not node.pretended and not has_files(node)


def shortage(node: Node, named: tuple[GpuFacts, ...], counted: tuple[tuple[str, str, int], ...], why: str) -> str:
    """Why the node must not have jobs for its GPUs: none of them was found. A part that is missing is closed, and no more.

    Where nothing has a name, `counted` is what the node has by (name, type, count).
    """
    wanted = [one for one in node.config.gres if one.name == GPU]
    want = sum(one.count for one in wanted)
    if not want or (not named and has_files(node)):
        return ""
    if named:
        if any(gpu.is_there and (gpu.slot >= 0 or gpu.facts.mig_enabled) for gpu in node.gpus.values()):
            return ""
        types = ", ".join(dict.fromkeys(map(gpu_types.type_of, named)))
        return f"{SHORT} (reported:0 < configured:{want}): the node has {types}"
    have = sum(count for name, type_, count in counted if name == GPU and type_ in _types(wanted, type_))
    return f"{SHORT} (reported:{have} < configured:{want}){why and ': '}{why}" if have < want else ""


def _types(wanted: list[Gres], found: str) -> tuple[str, ...]:
    """Types that count towards what is wanted."""
    return tuple(one.type or found for one in wanted)


def has_files(node: Node) -> bool:
    """gres.conf names the files of its GPUs, so that nobody needs to find them."""
    return any(name == GPU for name, _, _ in node.config.device_files)


def out_of_service(node: Node) -> int:
    """Places whose GPU is missing or closed; not those of instances that a divisible GPU could have and has not."""
    unused = sum((not uuid) << slot for slot, uuid in enumerate(node.gpu_slots)) if node.config.mig else 0
    return node.gpu_closed & ~unused


def is_in_force(gpu: Gpu) -> bool:
    """A card that is divided has its place, and is not given as a whole: its instances are, at theirs."""
    return not gpu.facts.mig_enabled


def constraint(config: Config, node: Node) -> str:
    """What keeps jobs from GPUs that are not theirs: the node's means, where the configuration wants it used."""
    if config.cgroup.constrain_devices is False and node.gpu_constraint:
        return BY_ENVIRONMENT
    return node.gpu_constraint
