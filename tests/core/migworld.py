"""A world whose nodes have GPUs that are really divided: a division changes what the node has, and what jobs may get.

`cards` is the truth of the nodes: by node and GPU the layout that it is divided into. `finish` lets a node do its work,
or fail at it; `check` compares what jobs hold and what the core believes with it.
"""

from dataclasses import replace
from typing import Any

from ctld.core.records.effects import GpuWork
from ctld.core.records.events import GpuWorkDone, JobSubmission
from ctld.core.records.gpu import Gpu, GpuFacts, WorkKind
from ctld.core.records.mig import GPU, layout_now
from ctld.core.records.node import Node
from ctld.store.encodings import gpu_from
from ctld.store.rows import gpu_values
from penstock.values.gres import Gres
from penstock.values.mig import GpuLayout, MigChoice, is_profile, parse_layouts, slices_of
from penstock.values.states import ALLOCATED_STATES, JobState
from tests.core.world import World, make_config, uuids_of

LAYOUTS = "whole|1g.18gb*7|3g.71gb,2g.35gb,1g.18gb"
SEVEN, MIXED = parse_layouts(LAYOUTS)[1:]


def mig_config(nodes: int = 1, count: int = 2, layouts: str = LAYOUTS, plain: int = 0, **more: Any) -> Any:
    """Nodes with `count` divisible GPUs of type h200 and `plain` others of it behind them."""
    config = make_config(nodes=nodes, cpus=32, mem_mb=64000, **more)
    choice = MigChoice("h200", 0, count, parse_layouts(layouts))
    gres = (Gres("gpu", "h200", count + plain),)
    return replace(config, nodes=tuple(replace(node, gres=gres, mig=(choice,)) for node in config.nodes))


class MigWorld(World):
    """See the module text."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.cards: dict[str, dict[str, GpuLayout]] = {
            node.name: {f"GPU-{node.name}-{i}": () for i in range(node.gres[0].count)} for node in config.nodes
        }
        self.orders: dict[str, GpuWork] = {}
        self.done: dict[str, bool] = {}
        self.generation = 0
        for node in config.nodes:
            self.register(node.name)

    # ---- the nodes -----------------------------------------------------------------------------------------------

    def register(self, name: str, **changes: object) -> list[str]:
        return super().register(name, **{"gpus": self.facts(name), **changes})

    def facts(self, name: str) -> tuple[GpuFacts, ...]:
        found: list[GpuFacts] = []
        for index, (uuid, layout) in enumerate(self.cards[name].items()):
            found.append(GpuFacts(uuid, index, index, "h200", mig_enabled=bool(layout)))
            for number, profile in enumerate(layout):
                found.append(
                    GpuFacts(
                        f"MIG-{uuid}-{number}-{profile}", index, index, profile, parent=uuid, profile=profile,
                        slices=slices_of(profile),
                    )
                )  # fmt: skip
        return tuple(found)

    def _gpu_order(self, effect: Any) -> str:
        if isinstance(effect, GpuWork) and effect.kind == WorkKind.DIVIDE:
            if effect.node in self.links:
                self.orders[effect.work_id] = effect
            return f"divide {effect.uuid} into {','.join(effect.layout) or 'whole'}"
        return super()._gpu_order(effect)

    def finish(self, ok: bool = True, work_id: str = "", becomes: GpuLayout | None = None, text: str = "") -> list[str]:
        """The node has done the oldest order, or could not; `becomes`: what it is then, if not what it was."""
        work_id = work_id or next(iter(self.orders))
        order = self.orders.pop(work_id)
        card = self.cards[order.node]
        if work_id not in self.done:
            assert not self.used_of(order.node, order.uuid), f"{order.uuid} is divided under a job"
            card[order.uuid] = order.layout if ok else card[order.uuid] if becomes is None else becomes
            self.done[work_id] = ok
        if order.node not in self.links:
            return ["the answer stays in the spool"]
        self.sequence += 1
        return self.do(
            GpuWorkDone(
                order.node, f"spool-{order.node}", self.sequence, self.links[order.node], work_id, order.uuid,
                self.done[work_id], text or ("" if ok else "refused"), gpus=self.facts(order.node),
            )
        )  # fmt: skip

    # ---- what is true --------------------------------------------------------------------------------------------

    def node(self, name: str = "n1") -> Node:
        return self.core.state.nodes[name]

    def gpu(self, index: int, name: str = "n1") -> Gpu:
        return self.node(name).gpus[f"GPU-{name}-{index}"]

    def used(self) -> dict[str, list[tuple[str, int]]]:
        """By node: (UUID, job) of what jobs hold."""
        found: dict[str, list[tuple[str, int]]] = {}
        for job in self.core.state.jobs.values():
            for part in job.alloc if job.state in ALLOCATED_STATES else ():
                node = self.node(part.node)
                for name, _, mask in part.gres:
                    slots = [i for i in range(mask.bit_length()) if mask >> i & 1] if name == GPU else []
                    found.setdefault(part.node, []).extend((u, job.job_id) for u in uuids_of(node, slots))
        return found

    def used_of(self, name: str, uuid: str) -> list[tuple[str, int]]:
        """The same of one GPU and its instances."""
        return [pair for pair in self.used().get(name, []) if pair[0] == uuid or pair[0].startswith(f"MIG-{uuid}-")]

    def of_job(self, job_id: int) -> list[str]:
        return [uuid for pairs in self.used().values() for uuid, holder in pairs if holder == job_id]

    def state_of(self, job_id: int) -> JobState:
        return self.core.state.jobs[job_id].state

    def detail(self, job_id: int) -> str:
        return self.core.state.jobs[job_id].reason_detail

    def check(self) -> None:
        """What jobs hold is there, once, whole or in parts; and what is open is there."""
        held = self.used()
        for name, cards in self.cards.items():
            there = {facts.uuid: facts for facts in self.facts(name)}
            pairs = held.get(name, [])
            uuids = [uuid for uuid, _ in pairs]
            assert len(uuids) == len(dict.fromkeys(uuids)), f"given twice: {pairs}"
            for uuid in uuids:
                assert uuid in there, f"{uuid} is held and not there"
                assert not there[uuid].mig_enabled, f"{uuid} is given whole and is divided"
            for uuid, layout in cards.items():
                mine = [there[one] for one in uuids if there[one].parent == uuid]
                assert not (mine and uuid in uuids), f"{uuid} is given whole and in parts"
                assert sum(facts.slices for facts in mine) <= 7
                if not any(order.uuid == uuid for order in self.orders.values()) and name in self.links:
                    gpu = self.node(name).gpus[uuid]
                    assert layout_now(self.node(name), gpu) == layout, f"{uuid} is believed to be something else"
            self._check_places(name, there)

    def _check_places(self, name: str, there: dict[str, GpuFacts]) -> None:
        node = self.node(name)
        for slot, type_ in enumerate(node.inside.gpu_types):
            uuid = node.gpu_slots[slot]
            if node.gpu_closed >> slot & 1 or name not in self.links:
                continue
            facts = there[uuid]
            assert facts.profile == type_ if is_profile(type_) else (not facts.parent and not facts.mig_enabled)


def job(*kinds: str, limit_s: int = 600, **more: Any) -> JobSubmission:
    """A job that wants one of each kind: "1g.18gb", "2*h200", "" for any."""
    gres = []
    for kind in kinds:
        count, _, type_ = kind.rpartition("*")
        gres.append(("gpu", type_, int(count or 1)))
    return JobSubmission(name="j", work_dir=b"/tmp", gres_per_node=tuple(gres), time_limit_s=limit_s, **more)


def reread(gpu: Gpu) -> Gpu:
    """As it comes back from the database."""
    record = gpu_values(gpu)[-1]
    return gpu_from(record if isinstance(record, bytes) else str(record).encode())
