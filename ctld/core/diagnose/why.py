"""Explains why a job waits, and what would start it sooner (`penstock why`).

There are two halves. `inquire` reads the state, on the controller's loop, and makes private copies; its cost does not
depend on the number of planner queries. `explain` works on these copies alone, in a worker: a function of the
`Inquiry`.

The explanation is complete: every obstacle outside resources (lifecycle/obstacles.py), the resources that the job needs
of the nodes and the jobs on them (queue/node_demand.py), reservations, licenses, and the jobs ahead that want the same nodes.
Improvements are found by planning the changed job at the job's own position in the queue (hints.py, queue/whatif.py).
"""

from typing import NamedTuple

import numpy as np

import _fastsched
from _fastsched import contract
from ctld.core.diagnose.hints import MINUTE_S, Variant, variants, ways
from ctld.core.diagnose.leaves import UsedLeaf, used_leaves
from ctld.core.gpus import inventory
from ctld.core.gpus import kinds as gpu_kinds
from ctld.core.lifecycle.obstacles import Obstacle, obstacles
from ctld.core.passes.schedule import FULL_STARTS_MAX
from ctld.core.queue import hres, priority
from ctld.core.queue.node_demand import (
    Bits,
    License,
    LicenseDemand,
    NodeDemand,
    NodeSupply,
    ReservedNodes,
    licenses,
    node_set,
    reserved,
    supply,
)
from ctld.core.queue.planning import PlanQuestion, Rows, snapshot
from ctld.core.queue.shapes import fresh_shapes
from ctld.core.queue.terms import terms_of
from ctld.core.queue.whatif import Probe, Settled, granted, placed, probe_later, probe_now, settle
from ctld.core.records.events import Actor
from ctld.core.records.job import Job
from ctld.core.reservations.view import choices
from ctld.core.state.shares import GPU_KINDS
from ctld.core.state.state import ClusterState
from penstock.values.duration import format_elapsed
from penstock.values.states import Reason

US = 1_000_000
#: Jobs ahead that are named; the others are counted.
IN_FRONT_SHOWN = 5
HINTS_MAX = 5
#: Reasons of a row that waits for nodes for which it may compete.
WAITS = (contract.RESOURCES, contract.PRIORITY, contract.LICENSES, contract.RESERVED, contract.PREEMPTING)
#: Obstacles that pass by themselves, or do not prevent a start.
PASSING = (Reason.BEGIN_TIME, Reason.DEADLINE, Reason.RESOURCES)


class WhyRequest(NamedTuple):
    """A probe of a variant (-1 = the unchanged job) in one partition."""

    variant: int
    partition: int
    probe: Probe


class Inquiry(NamedTuple):
    """The input of `explain`."""

    job_id: int
    question: PlanQuestion  # rows: the queue, with the job's own among them
    own: Bits  # by position in the rows
    obstacles: tuple[Obstacle, ...]
    needs: tuple[NodeDemand, ...]
    licenses: tuple[LicenseDemand, ...]
    variants: tuple[Variant, ...]
    asked: tuple[WhyRequest, ...]
    partitions: tuple[str, ...]
    reservations: tuple[str, ...]
    may_preempt: bool
    leaves: tuple[UsedLeaf, ...]


class Planned(NamedTuple):
    start_s: int
    nodes: tuple[str, ...]
    partition: str


class InFront(NamedTuple):
    job_id: int
    start_s: int  # -1 = not known
    nodes: tuple[str, ...]
    nodes_wanted: int


class ShapeHint(NamedTuple):
    options: tuple[str, ...]
    start_s: int
    nodes: tuple[str, ...]
    starts_now: bool


class Why(NamedTuple):
    """The explanation; times in seconds since 1970."""

    job_id: int
    now_s: int
    obstacles: tuple[Obstacle, ...]
    planned: Planned | None
    if_released: bool  # `planned` is the start without the obstacles
    needs: tuple[NodeSupply, ...]
    licenses: tuple[License, ...]
    reservations: tuple[ReservedNodes, ...]
    leaves: tuple[UsedLeaf, ...]
    in_front: tuple[InFront, ...]
    in_front_more: int
    may_preempt: bool
    victims: tuple[int, ...]
    hints: tuple[ShapeHint, ...]


# ---- on the loop -------------------------------------------------------------------------------------------------


def inquire(state: ClusterState, now_us: int, job: Job, actor: Actor) -> Inquiry:
    """Collects all that is needed to explain a pending job."""
    found = obstacles(state, job, now_us)
    held = any(o.reason not in PASSING and not o.changeable for o in found)
    changes = () if held else tuple(variants(state, job, actor))
    user = state.sharing_number(job)
    terms = terms_of(state, job)
    earliest_s = job.request.begin_at_us // US
    queue = RankedQueue(state, job)
    as_it_is = Variant("", (), terms.limit_s, ways(state, job))
    asked = []
    for number, change in enumerate((as_it_is, *changes), -1):
        least_s = min(change.limit_s, job.request.time_min_s or change.limit_s)
        for rank, partition, shape in change.ways:
            row = Probe(queue.position(rank), shape, change.limit_s, least_s, user, earliest_s, terms.latest_s)
            asked.append(WhyRequest(number, partition, row))
    needs = [_shapes_by_partition(state, job, name) for name in job.request.partitions]
    rows, own = queue.with_own(max((one.probe.at for one in asked), default=0))
    question = snapshot(state, now_us, rows, FULL_STARTS_MAX)
    own_rows = rows[own]
    jobs = question.given.jobs
    jobs.count[own_rows] = 1
    jobs.earliest_s[own_rows] = np.maximum(jobs.earliest_s[own_rows], earliest_s)
    if state.scheduling.policy.min_age_reserve_s:
        young = state.pending.eligible_s > now_us // US - state.scheduling.policy.min_age_reserve_s
        jobs.reserve[young] = 0
    return Inquiry(
        job_id=job.job_id,
        question=question,
        own=own,
        obstacles=found,
        needs=tuple(needs),
        licenses=tuple(map(LicenseDemand, state.layout.license_kinds, hres.by_kind(state, job.request))),
        variants=changes,
        asked=tuple(asked),
        partitions=tuple(p.name for p in state.partition_list),
        reservations=tuple(getattr(question, "reservations", ())),
        may_preempt=bool(jobs.preempts[own_rows].any()),
        leaves=used_leaves(state, job, _bits_of(state, needs)),
    )


def _shapes_by_partition(state: ClusterState, job: Job, name: str) -> NodeDemand:
    index = state.partition_list.index(state.partitions[name])
    mine = [
        shape for number, shape in fresh_shapes(state, job.request, choices(state, job) or (-1,)) if number == index
    ]
    masks = tuple(dict.fromkeys(shape.mask for shape in mine))
    whole = state.layout.masks.row_of_bits(state.partitions[name].node_bits)
    # thousandths of GPUs (state/shares.py) have no name: the obstacle is reported as GPUs or shares
    bits = 0
    for mask in masks:
        bits |= state.layout.masks.bits[mask]
    limits = state.layout.partition_cpus.values()
    kinds = tuple(
        kind[1] if column in limits else _named(state, kind, bits) for kind, column in state.layout.gres_kinds.items()
    )
    return NodeDemand(name, mine[0], masks, whole, kinds)


def _bits_of(state: ClusterState, needs: list[NodeDemand]) -> int:
    """Returns the nodes that qualify, as a bit map."""
    found = 0
    for mask in dict.fromkeys(mask for need in needs for mask in need.masks):
        found |= state.layout.masks.bits[mask]
    return found


def _named(state: ClusterState, kind: tuple[str, str], bits: int) -> str:
    """Describes a column of GRES, with the number out of service on these nodes (a bit map)."""
    words, closed = gpu_kinds.words_of(kind), 0
    for node in state.node_list if words and kind[0] in GPU_KINDS else ():
        if node.gpu_closed and bits >> node.index & 1:
            closed += (node.inside.kinds.get(kind, 0) & inventory.out_of_service(node)).bit_count()
    return f"{words} ({closed} out of service)" if closed else words


class RankedQueue:
    """The ready rows without the job's own, and the positions of rows among them."""

    def __init__(self, state: ClusterState, job: Job) -> None:
        pending = state.pending
        self._pending = pending
        self._job_id = job.job_id
        partition_of = [(row, state.partition_list[pending.partition[row]]) for row in pending.rows_of(job.job_id)]
        ranks = ((row, pending.rank_of_row(row)) for row, _ in partition_of)
        self._mine = sorted(pending.place_of(rank, job.job_id, row) for row, rank in ranks if rank is not None)
        self._own = sorted(
            (self.position(priority.rank(state, job, partition)), row) for row, partition in partition_of
        )

    def position(self, rank: int) -> int:
        """How many rows of other jobs precede one of this job with this rank."""
        at = self._pending.place_of(rank, self._job_id)
        return at - sum(index < at for index in self._mine)

    def with_own(self, end: int) -> tuple[Rows, Bits]:
        """Returns the first `end` rows of others with the job's own inserted at their positions, and the indexes of its
        own."""
        end = max([end, *(position for position, _ in self._own)])
        first = self._pending.first(end + len(self._mine))
        front = np.delete(first, [at for at in self._mine if at < len(first)])[:end]
        positions = [position for position, _ in self._own]
        rows = np.insert(front, positions, [row for _, row in self._own])
        return rows, np.insert(np.zeros(len(front), np.bool_), positions, True)


# ---- in the worker -----------------------------------------------------------------------------------------------


def explain(inquiry: Inquiry) -> Why:
    """Asks the planner, and builds the explanation."""
    given = inquiry.question.given
    now_s = given.limits.now_s
    result = _fastsched.plan(given)
    names = inquiry.question.node_names
    planned = _planned(inquiry, result)
    blocked = any(o.reason not in PASSING for o in inquiry.obstacles)
    front, more = _in_front(inquiry, result)
    victims = result.victim_run[inquiry.own[result.victim_row]]
    running = given.running
    nodes = node_set(given, [mask for need in inquiry.needs for mask in need.masks])
    return Why(
        job_id=inquiry.job_id,
        now_s=now_s,
        obstacles=inquiry.obstacles,
        planned=planned,
        if_released=blocked,
        needs=tuple(supply(given, need, names) for need in inquiry.needs),
        licenses=licenses(given.free_licenses, running, inquiry.licenses, now_s),
        reservations=reserved(given, nodes, inquiry.reservations),
        leaves=inquiry.leaves,
        in_front=front,
        in_front_more=more,
        may_preempt=inquiry.may_preempt,
        victims=tuple(inquiry.question.job_of[victims].tolist()),
        hints=_hints(inquiry, result, planned),
    )


def _planned(inquiry: Inquiry, result: contract.PlanResult) -> Planned | None:
    """Returns the earliest plan of its rows."""
    question = inquiry.question
    found: list[tuple[int, int, Planned]] = []
    for position in inquiry.own.nonzero()[0].tolist():
        start_s, nodes = placed(question.given.limits.now_s, result, position)
        if start_s >= 0:
            partition = inquiry.partitions[question.partition[question.given.rows[position]]]
            names = tuple(question.node_names[i] for i in nodes)
            found.append((start_s, position, Planned(start_s, names, partition)))
    return min(found)[2] if found else None


def _in_front(inquiry: Inquiry, result: contract.PlanResult) -> tuple[tuple[InFront, ...], int]:
    """Returns the jobs ahead that wait for nodes which the job could use: the first few, and how many more."""
    given = inquiry.question.given
    own = inquiry.own.nonzero()[0]
    if not len(own):
        return (), 0
    before = int(own[-1])
    rows = given.rows[:before]
    usable = np.bitwise_or.reduce(given.masks[[mask for need in inquiry.needs for mask in need.masks]], axis=0)
    shared = (given.masks & usable).any(axis=1)
    waits = np.isin(result.reason[:before], WAITS) & ~inquiry.own[:before] & shared[given.jobs.mask[rows]]
    positions = waits.nonzero()[0]
    ids = given.jobs.job[rows[positions]]
    _, first = np.unique(ids, return_index=True)  # several rows of one job count once
    first.sort()
    shown = []
    for position in positions[first[:IN_FRONT_SHOWN]].tolist():
        nodes = result.plan_node[result.plan_first[position] : result.plan_first[position + 1]]
        names = tuple(inquiry.question.node_names[i] for i in nodes.tolist())
        row = int(rows[position])
        wanted = len(names) or int(given.jobs.nodes_min[row])
        shown.append(InFront(int(given.jobs.job[row]), int(result.start_s[position]), names, wanted))
    return tuple(shown), len(first) - len(shown)


class _Try(NamedTuple):
    """The result of one variant. Sorted: sooner first, then milder."""

    start_s: int
    number: int
    nodes: tuple[int, ...]


def _hints(inquiry: Inquiry, result: contract.PlanResult, planned: Planned | None) -> tuple[ShapeHint, ...]:
    """Returns the changes with which it would start before `planned`, the best first."""
    given = inquiry.question.given
    now_s = given.limits.now_s
    takes_it = not any(o.changeable for o in inquiry.obstacles)  # else no plan of the unchanged job counts
    sooner_than_s = planned.start_s if planned is not None and takes_it else contract.FOREVER
    if not inquiry.variants or sooner_than_s <= now_s:
        return ()
    front = np.where(inquiry.own, -1, np.cumsum(~inquiry.own) - 1)
    settled = settle(given, result, front)
    rows = [one.probe for one in inquiry.asked]
    answers = [now or later for now, later in zip(probe_now(settled, rows), probe_later(settled, rows), strict=True)]
    best: dict[int, _Try] = {}
    for one, answer in zip(inquiry.asked, answers, strict=True):
        if answer is not None and answer.start_s < sooner_than_s:
            tried = _Try(answer.start_s, one.variant, answer.nodes)
            if one.variant not in best or tried < best[one.variant]:
                best[one.variant] = tried
    best.pop(-1, None)
    chosen = sorted(_chosen(inquiry, _needed(inquiry, best)))[:HINTS_MAX]
    names = inquiry.question.node_names
    hints = []
    for tried in chosen:
        options, nodes = inquiry.variants[tried.number].options, tried.nodes
        if tried.start_s == now_s:
            exact = _exact(inquiry, settled, tried)
            if exact is None:
                continue
            options, nodes = exact
        hints.append(ShapeHint(options, tried.start_s, tuple(names[i] for i in nodes), tried.start_s == now_s))
    return tuple(hints)


def _needed(inquiry: Inquiry, best: dict[int, _Try]) -> list[_Try]:
    """Removes combined changes of which one half alone does as well."""
    alone = {inquiry.variants[number].options: tried.start_s for number, tried in best.items()}
    return [
        tried
        for number, tried in best.items()
        if len(options := inquiry.variants[number].options) == 1
        or all(alone.get((option,), contract.FOREVER) > tried.start_s for option in options)
    ]


def _chosen(inquiry: Inquiry, tried: list[_Try]) -> list[_Try]:
    """Returns of each kind the soonest (the mildest of these), and the mildest that is sooner at all."""
    kinds: dict[str, list[_Try]] = {}
    for one in tried:
        kinds.setdefault(inquiry.variants[one.number].kind, []).append(one)
    found: dict[int, _Try] = {}
    for members in kinds.values():
        for one in (min(members), min(members, key=lambda t: t.number)):
            found[one.number] = one
    return list(found.values())


def _exact(inquiry: Inquiry, settled: Settled, tried: _Try) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """Returns the options and nodes with which it starts now; for a shorter limit the longest, in whole minutes. None =
    it does not."""
    variant = inquiry.variants[tried.number]
    is_shorter = variant.options[-1].startswith("--time=")
    found: tuple[int, tuple[int, ...]] | None = None
    for one in inquiry.asked:
        if one.variant == tried.number:
            row = one.probe
            if is_shorter:
                wanted_s = max(o.probe.limit_s for o in inquiry.asked if o.partition == one.partition)
                row = row._replace(limit_s=wanted_s, limit_min_s=variant.limit_s)
            answer = granted(settled, row)
            if answer is not None and (found is None or answer[0] > found[0]):
                found = answer
    if found is None:
        return None
    if not is_shorter:
        return variant.options, found[1]
    longest = max(variant.limit_s, found[0] // MINUTE_S * MINUTE_S)
    return (*variant.options[:-1], f"--time={format_elapsed(longest)}"), found[1]
