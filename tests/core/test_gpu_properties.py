"""Whatever happens to GPUs and jobs: no card to two jobs, none whole and in parts, none that is closed to a new job.

A card is who its UUID says: what is compared are the names that left with the launches, not places. Masks and columns
are counted a second way after every step (`Core.check`, gpus/invariants.py).
"""

from dataclasses import replace

from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.effects import LaunchStep
from ctld.core.records.events import JobSubmission, Tick
from ctld.core.records.gpu import GpuFacts, GpuOpinion
from ctld.core.records.job import Job
from penstock.values.config import NodeConfig, PartitionConfig
from penstock.values.gpustates import GpuState
from penstock.values.gres import Gres
from penstock.values.states import ALLOCATED_STATES, JobState
from tests.core.world import World, make_config

MODELS = (("a100", 40_960), ("a100", 81_920), ("h100", 81_559), ("a100", 40_960))
NODES = ("n1", "n2")
INSTANCES = 3


class Rack:
    """Two nodes with four cards each, the last of which may be divided into three."""

    def __init__(self, typed: bool, shards: bool) -> None:
        gpus = (Gres("gpu", "a100", 3), Gres("gpu", "h100", 1)) if typed else (Gres("gpu", "", 4),)
        gres = (
            *gpus,
            *((Gres("gpu", "1g.10gb", INSTANCES),) if typed else ()),
            *((Gres("shard", "", 8 + 2 * INSTANCES * typed),) if shards else ()),
        )
        nodes = tuple(
            NodeConfig(n, n, n, 64, sockets=2, cores_per_socket=32, real_memory_mb=64_000, gres=gres) for n in NODES
        )
        config = make_config(nodes=2)
        config = replace(
            config,
            nodes=nodes,
            partitions=(PartitionConfig("debug", NODES, is_default=True),),
            gres_types=("gpu", "shard"),
        )
        self.typed = typed
        self.order = {name: list(range(4)) for name in NODES}
        self.lost: dict[str, None] = {}
        self.divided: dict[str, bool] = {}
        self.opinions: dict[str, GpuOpinion] = {}
        self.world = World(config)
        self.seen = 0
        for name in NODES:
            self.register(name)

    def facts(self, node: str) -> tuple[GpuFacts, ...]:
        found: list[GpuFacts] = []
        there = [i for i in self.order[node] if f"GPU-{node}-{i}" not in self.lost]
        for i in there:
            uuid, (type_, memory_mb) = f"GPU-{node}-{i}", MODELS[i]
            divided = uuid in self.divided and self.typed
            links = tuple(-1 if i == j else 4 if i // 2 == j // 2 else 1 for j in there)
            near = tuple(range(32)) if i < 2 else tuple(range(32, 64))
            found.append(
                GpuFacts(uuid, len(found), i, type_, memory_mb, links=links, near_cpus=near, mig_enabled=divided)
            )
            if divided:
                found += [
                    GpuFacts(f"MIG-{node}-{part}", 0, 0, "1g.10gb", 9_856, parent=uuid, profile="1g.10gb", slices=1)
                    for part in range(INSTANCES)
                ]
        return tuple(found)

    def register(self, node: str) -> None:
        opinions = tuple(self.opinions.get(one.uuid, GpuOpinion(one.uuid)) for one in self.facts(node))
        self.world.register(node, gpus=self.facts(node), gpu_opinions=opinions)

    def think(self, node: str, card: int, state: GpuState, many_only: bool) -> None:
        uuid = f"GPU-{node}-{card}"
        self.opinions[uuid] = GpuOpinion(
            uuid, state, "seen" if state else "", self.world.now_us, many_only and bool(state)
        )
        self.world.report_gpus(node, self.opinions[uuid])

    def tell(self, node: str) -> None:
        self.world.report_gpus(node, gpus=self.facts(node))

    def is_idle(self, uuid: str) -> bool:
        return all(uuid not in cards for cards in self.held().values())

    # ---- what must be true ---------------------------------------------------------------------------------------

    def look(self) -> None:
        """After each step: what has left since the last look, and who has what."""
        for key in self.world.launches[self.seen :]:
            self._look_at(self.world.launched_with[key])
        self.seen = len(self.world.launches)
        users: dict[str, list[tuple[str, int, int]]] = {}
        for (job_id, attempt), cards in self.held().items():
            for uuid, part in cards.items():
                users.setdefault(uuid, []).append(part)
                assert self.world.core.state.jobs[job_id].attempt == attempt
        for uuid, shared in users.items():
            assert len({name for name, _, _ in shared}) == 1, f"{uuid} is given whole and in parts: {shared}"
            assert sum(units for _, units, _ in shared) <= shared[0][2], f"{uuid} is given beyond what it has: {shared}"

    def _look_at(self, launch: LaunchStep) -> None:
        request = launch.job.request
        for part in launch.job.alloc:
            node = self.world.core.state.nodes[part.node]
            cards = cards_of(launch, part.node) if part.node == launch.node else {}
            whole = [uuid for uuid, parts in cards.items() if parts[0] == "gpu"]
            for uuid in cards:
                gpu = node.gpus[uuid]
                assert not gpu.is_closed() and not gpu.facts.mig_enabled, f"{uuid} is {gpu.state().name} and given"
                parent = node.gpus.get(gpu.facts.parent)
                assert parent is None or not parent.is_closed(), f"{uuid} of {gpu.facts.parent} is given"
                assert gpu.facts.memory_mb >= request.gpu_mem_mb, f"{uuid} has {gpu.facts.memory_mb} MB"
                assert len(whole) < 2 or not gpu.is_for_one(), f"{uuid} is only for jobs with one"

    def held(self) -> dict[tuple[int, int], dict[str, tuple[str, int, int]]]:
        """By job and attempt that holds something: what it has of each card, on its first node."""
        found = {}
        for job in self.world.core.state.jobs.values():
            launch = self.world.launched_with.get((job.job_id, job.attempt))
            if job.state in ALLOCATED_STATES and launch is not None:
                found[job.job_id, job.attempt] = cards_of(launch, launch.node)
        return found


def cards_of(launch: LaunchStep, node: str) -> dict[str, tuple[str, int, int]]:
    """By UUID: (gpu, 1, 1) or (name, shares, of)."""
    found: dict[str, tuple[str, int, int]] = {}
    for part in launch.job.alloc:
        if part.node == node:
            slots = [
                slot
                for name, _, mask in part.gres
                if name == "gpu"
                for slot in range(mask.bit_length())
                if mask >> slot & 1
            ]
            assert len({launch.gpu_slots[slot] for slot in slots}) == len(slots)
            found |= {launch.gpu_slots[slot]: ("gpu", 1, 1) for slot in slots}
            found |= {launch.gpu_slots[one.gpu]: (one.name, one.units, one.of) for one in part.shares}
    return found


nodes = st.sampled_from(NODES)
cards = st.integers(0, 3)
SUBMIT = st.tuples(
    st.just("submit"), st.sampled_from(["gpu", "gpu", "gpu:a100", "gpu:1g.10gb", "shard"]), st.integers(1, 3),
    st.sampled_from([0, 0, 9_000, 60_000]), st.sampled_from([1, 1, 1, 2]), st.sampled_from([60, 600]),
)  # fmt: skip
HAPPENS = st.one_of(
    st.tuples(st.just("exit"), st.integers(0, 9)),
    st.tuples(st.just("exit"), st.integers(0, 9)),
    st.tuples(st.just("think"), nodes, cards, st.sampled_from(list(GpuState)), st.booleans()),
    st.tuples(st.just("lose"), nodes, cards),
    st.tuples(st.just("find"), nodes, cards),
    st.tuples(st.just("divide"), nodes),
    st.tuples(st.just("shuffle"), nodes, st.permutations(range(4)), st.booleans()),
    st.tuples(st.just("advance"), st.integers(1, 900)),
    st.tuples(st.just("restart")),
)
#: Two things happen for each job that is submitted.
STEPS = st.lists(st.tuples(SUBMIT, HAPPENS, HAPPENS), min_size=6, max_size=14).map(
    lambda each: [one for some in each for one in some]
)


@examples(quick=20, full=400)
@given(STEPS, st.booleans(), st.booleans())
def test_no_card_is_given_twice_or_when_it_is_closed(
    steps: list[tuple[object, ...]], typed: bool, shards: bool
) -> None:
    rack = Rack(typed, shards)
    for step in steps:
        act(rack, step)
        rack.look()
    for name in NODES:  # all is well again: every place with a card is open
        rack.lost.clear()
        rack.opinions.clear()
        rack.register(name)
    for _ in range(len(steps) + 1):  # and nothing waits for what it could have
        for job_id in [job_id for name in NODES for job_id, _ in rack.world.running[name]]:
            rack.world.exited(job_id)
            rack.look()
        rack.world.now_us += 60_000_000
        rack.world.do(Tick())
    assert not [job.job_id for job in rack.world.core.state.jobs.values() if can_run(rack, job)]
    closed = [
        gpu
        for node in rack.world.core.state.node_list
        for gpu in node.gpus.values()
        if gpu.slot >= 0 and gpu.is_closed()
    ]
    assert not [gpu for gpu in closed if gpu.is_there and not gpu.must_check]


def can_run(rack: Rack, job: Job) -> bool:
    """It waits for cards of which there are enough (instances only when a card is divided)."""
    if job.state is not JobState.PENDING or job.hold or rack.divided:
        return False
    return all(type_ != "1g.10gb" for _, type_, _ in job.request.gres_per_node)


def act(rack: Rack, step: tuple[object, ...]) -> None:
    world = rack.world
    match step:
        case ("submit", str(what), int(count), int(memory_mb), int(number), int(limit_s)):
            name, _, type_ = (what if rack.typed or "1g" not in what else "gpu").partition(":")
            world.submit(
                JobSubmission(
                    name="j", work_dir=b"/", gres_per_node=((name, type_, count),), nodes_min=number, time_limit_s=limit_s,
                    gpu_mem_mb=memory_mb if name == "gpu" else 0,
                )
            )  # fmt: skip
        case ("exit", int(which)):
            running = [job_id for name in NODES for job_id, _ in world.running[name]]
            if running:
                world.exited(running[which % len(running)])
        case ("think", str(node), int(card), GpuState() as state, bool(many)):
            rack.think(node, card, state, many)
        case ("lose", str(node), int(card)):
            rack.lost[f"GPU-{node}-{card}"] = None
            rack.tell(node)
        case ("find", str(node), int(card)):
            rack.lost.pop(f"GPU-{node}-{card}", None)
            rack.tell(node)
        case ("divide", str(node)):
            uuid = f"GPU-{node}-3"
            idle = all(map(rack.is_idle, [uuid, *(f"MIG-{node}-{part}" for part in range(INSTANCES))]))
            if idle and not rack.divided.pop(uuid, False):
                rack.divided[uuid] = True
            rack.tell(node)
        case ("shuffle", str(node), list(order), bool(reboots)):
            rack.order[node] = order
            if not reboots:
                world.disconnect(node) if node in world.links else None
            rack.register(node)
        case ("advance", int(seconds)):
            world.now_us += seconds * 1_000_000
        case _:
            world.restart()
            for name in NODES:
                rack.register(name)
