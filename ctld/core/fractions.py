"""On which node a job with a GPU, or with a part of one, starts, in a cluster that shares GPUs.

With SelectTypeParameters=PENSTOCK_FGD or PENSTOCK_STEER. The planner says that a job starts now on some node: the first
by node order. Fragmentation gradient descent chooses
among all nodes that would do as well (`_fastsched/fragment_pick.py`). Which ones these are:

- the job may use the node (its mask), and what it needs is free there at this moment;
- no row of a higher rank is expected to start there before this job's limit is over, as the same pass planned it. Of
  the tasks of an array that wait only the first is known with its nodes, so while others of a higher rank are expected
  within the limit, nothing is chosen but the planner's node;
- no reservation keeps the node within the limit;
- the planner's numbers hold there too: GPUs divided as on the planner's node, cpus given in the same quantum.

So a start is moved, but never a higher-ranked job's expected start. A lower-ranked one that the same pass wanted to start
on the chosen node is dropped when it does not fit, and planned again by the next pass.

Not moved: the starts of one pass beyond STEERED_MAX; jobs of several nodes, exclusive ones or where a node is kept for
one user, those in a reservation, those with a group of required nodes; nodes whose GPUs differ. A part of a GPU is then
taken of the fullest GPU of the planner's node, as without the words. Devices of whole GPUs are always chosen by devices.py.

What usually comes (`Mix`) is counted from the jobs in memory, pending, running and just ended, at most every MIX_PERIOD_S
when a job is to be placed. Earlier counts weigh half each time. The tables are made anew only when the mix has changed by
more than 1 / CHANGE_PART; it has at most CLASSES_MAX classes, so that this takes milliseconds.
"""

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from _fastsched import contract
from _fastsched.fragment_contract import BEST_FIT, GPUS_MAX, MODELS_MAX, Nodes, Shapes
from _fastsched.fragment_pick import choose, count_classes, milli_of, policy_of
from _fastsched.fragment_tables import Tables, prepare
from ctld.core import arrays, shares
from ctld.core.model import Job, JobRequest, Node
from ctld.core.reserve_view import view_of
from ctld.core.sharing import units_taken
from ctld.core.state import ClusterState

if TYPE_CHECKING:
    from ctld.core.planning import Forecast, Start

MIX_PERIOD_S: Final = 300
#: Jobs that one count looks at, the latest.
JOBS_MAX: Final = 5_000
#: Classes that the tables are made of, those with most jobs.
CLASSES_MAX: Final = 48
#: A mix that differs by less than this part of all jobs is the same.
CHANGE_PART: Final = 20
#: No class weighs more in one count, so that all of them stay below what the tables can add up.
WEIGHT_MAX: Final = 1_000_000
US: Final = 1_000_000
#: Starts of one pass that are moved: each takes 0.2 ms on 100 nodes, 0.4 ms on 1,000.
STEERED_MAX: Final = 100

#: CPU milli, GPUs, share in milli, mask of models.
Class = tuple[int, int, int, int]
Bools = npt.NDArray[np.bool_]


class Mix:
    """What is likely to come, and what is free of each GPU, by node index."""

    def __init__(self, nodes: list[Node], policy: int, names: tuple[str, ...]) -> None:
        self.policy = policy
        types = dict.fromkeys(type_ for node in nodes for type_ in node.inside.gpu_types)
        self.models = {type_: number for number, type_ in enumerate(types)}
        self.supply = np.zeros(max(1, len(self.models)), np.int64)
        count = len(nodes)
        self.gpus = np.zeros(count, np.int32)
        self.model = np.zeros(count, np.int32)
        width = max([1, *(len(node.inside.gpu_types) for node in nodes)])
        self.usable = width <= GPUS_MAX and len(self.models) <= MODELS_MAX
        #: By name of share, and for whole GPUs: thousandths free of each GPU
        self.free = {name: np.zeros((count, width), np.int32) for name in (shares.GPU, *names)}
        #: Shares of each GPU of the node; 0 = they differ, or are of several models
        self.units = {name: np.zeros(count, np.int32) for name in names}
        self.counts: dict[Class, int] = {}
        self.prepared: dict[Class, int] = {}  # what `tables` were made of
        self.tables: Tables | None = None
        self.next_look_us = 0
        for node in nodes:
            self._lay(node)

    def _lay(self, node: Node) -> None:
        inside = node.inside
        self.gpus[node.index] = len(inside.gpu_types)
        for type_ in inside.gpu_types:
            self.supply[self.models[type_]] += 1
            self.model[node.index] = self.models[type_]
        for (name, _), units in inside.shares.items():
            alike = len(set(units)) == 1 and len(set(inside.gpu_types)) == 1
            self.units[name][node.index] = units[0] if alike else 0
        self.look_at(node)

    def look_at(self, node: Node) -> None:
        """What is free of its GPUs has changed."""
        whole = shares.whole_gpus(node)
        for (name, _), units in node.inside.shares.items():
            of = int(self.units[name][node.index])
            for gpu in range(len(units)) if of else ():
                free = shares.free_units(units, name, gpu, whole, node.gpu_shares)
                self.free[name][node.index, gpu] = milli_of(free, of)
        self.free[shares.GPU][node.index, : len(node.inside.gpu_types)] = shares.free_milli(node)


def mix_of(state: ClusterState) -> Mix | None:
    """For this configuration; None = best fit, or nothing is shared."""
    policy = policy_of(tuple(word.upper() for word in state.config.select_type_parameters))
    if policy == BEST_FIT or not state.share_units:
        return None
    mix = Mix(state.node_list, policy, tuple(state.share_units))
    return mix if mix.usable else None


# ---- what usually comes ------------------------------------------------------------------------------------------


def _class_of(mix: Mix, request: JobRequest, most: dict[str, int]) -> Class:
    cpus = -(-request.ntasks * request.cpus_per_task // max(1, request.nodes_min))
    for name, type_, count in request.gres_per_node:
        models = 1 << mix.models[type_] if type_ in mix.models and type_ else (1 << len(mix.models)) - 1
        if name == shares.GPU:
            return cpus * 1000, min(count, GPUS_MAX), shares.WHOLE_MILLI, models
        if most.get(name):
            return cpus * 1000, 1, max(1, min(shares.WHOLE_MILLI, milli_of(count, most[name]))), models
    return cpus * 1000, 0, 0, 0


def learn(state: ClusterState, mix: Mix, now_us: int) -> None:
    """Count the jobs in memory, and make the tables anew if they have changed much."""
    mix.next_look_us = now_us + MIX_PERIOD_S * US
    found: dict[Class, int] = {key: weight // 2 for key, weight in mix.counts.items() if weight > 1}
    for job in islice(reversed(state.jobs.values()), JOBS_MAX):
        key = _class_of(mix, job.request, state.share_units)
        found[key] = min(WEIGHT_MAX, found.get(key, 0) + 2 * min(arrays.weight(job), WEIGHT_MAX))
    mix.counts = dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:CLASSES_MAX])
    if mix.counts and (mix.tables is None or _differs(mix.prepared, mix.counts)):
        mix.prepared = mix.counts
        mix.tables = prepare(count_classes(mix.counts), mix.supply)


def _differs(old: dict[Class, int], new: dict[Class, int]) -> bool:
    before, after = max(1, sum(old.values())), max(1, sum(new.values()))
    moved = sum(abs(new.get(key, 0) * before - old.get(key, 0) * after) for key in {**old, **new})
    return moved * CHANGE_PART > before * after


# ---- where a start goes ------------------------------------------------------------------------------------------


class Holds:
    """From when on nodes are expected to be taken by rows before a position, as one pass planned it."""

    def __init__(self, forecast: "Forecast | None", nodes: int) -> None:
        self._forecast = forecast
        self._from_s = np.full(nodes, contract.FOREVER, np.int64)
        self._anywhere_s = int(contract.FOREVER)  # tasks of arrays whose nodes are not known
        self._seen = 0
        self.left = STEERED_MAX

    def untaken(self, position: int, until_s: int) -> Bools | None:
        """By node: nobody before `position` is expected there before that time; None = that is not known."""
        if self._forecast is None:
            return None
        if position > self._seen:
            anywhere_s = self._forecast.note_holds(self._seen, position, self._from_s)
            self._anywhere_s, self._seen = min(self._anywhere_s, anywhere_s), position
        return None if self._anywhere_s < until_s else self._from_s >= until_s


def steer(state: ClusterState, now_us: int, job: Job, start: "Start", holds: Holds) -> "tuple[Start, int]":
    """The start, moved to the node that the policy chooses, and the GPUs that its shares may be taken of (a mask)."""
    mix: Mix | None = state.mix
    wish = _wish(job.request) if mix is not None else None
    if mix is None or wish is None or not _is_free_to_choose(state, job, start):
        return start, -1
    if now_us >= mix.next_look_us:
        learn(state, mix, now_us)
    if mix.tables is None or not holds.left:
        return start, -1
    holds.left -= 1
    state.settle_shares()
    at, cpus, tasks, mem_mb = start.placement[0]
    of = 1 if wish[0] == shares.GPU else int(mix.units[wish[0]][at])
    if not of:
        return start, -1
    rows = _candidates(state, now_us, mix, job, start, holds).nonzero()[0]
    models = 1 << mix.models[wish[1]] if wish[1] in mix.models and wish[1] else (1 << len(mix.models)) - 1
    columns = state.node_columns
    rank = np.empty(len(columns.order), np.int32)
    rank[columns.order] = np.arange(len(rank), dtype=np.int32)
    nodes = Nodes(
        columns.free_cpus[rows].astype(np.int64) * 1000 // state.units_per_cpu, columns.free_mem_mb[rows], mix.gpus[rows],
        mix.model[rows], rank[rows], mix.free[wish[0]][rows],
    )  # fmt: skip
    asked = Shapes(
        np.array([cpus * 1000], np.int64), np.array([mem_mb], np.int64),
        np.array([wish[2] if wish[0] == shares.GPU else 1], np.int32),
        np.array([shares.WHOLE_MILLI if wish[0] == shares.GPU else milli_of(wish[2], of)], np.int32),
        np.array([models], np.uint64),
    )  # fmt: skip
    chosen = choose(nodes, asked, mix.tables, mix.policy)
    if chosen is None:
        return start, -1
    return start._replace(placement=((int(rows[chosen[0]]), cpus, tasks, mem_mb),)), chosen[1]


def _wish(request: JobRequest) -> tuple[str, str, int] | None:
    """Shares of a GPU, or GPUs of one kind."""
    gpus = [one for one in request.gres_per_node if one[0] == shares.GPU]
    return shares.wish_of(request.gres_per_node) or (gpus[0] if len(gpus) == 1 else None)


def _is_free_to_choose(state: ClusterState, job: Job, start: "Start") -> bool:
    request = job.request
    return (
        len(start.placement) == 1
        and request.nodes_max == 1
        and not (request.exclusive or request.exclusive_user or state.exclusive_users)
        and request.mem_per_node_mb != 0  # all that the node has
        and not (start.reservation or request.nodes_required or request.gpu_mem_mb)
        and (shares.MANY, "") not in state.gres_kinds
        and 0 <= start.mask < len(state.masks.bits)
        and start.placement[0][0] < len(state.node_list)
    )


def _candidates(state: ClusterState, now_us: int, mix: Mix, job: Job, start: "Start", holds: Holds) -> Any:
    """By node: may the start be there? The planner's node always may."""
    columns, (at, cpus, _, mem_mb) = state.node_columns, start.placement[0]
    now_s, until_s = now_us // US, min(now_us // US + start.limit_s, int(contract.FOREVER))
    free = holds.untaken(start.position, until_s)
    if free is None:
        free = np.zeros(len(state.node_list), np.bool_)
    words = state.masks.array()[start.mask].view(np.uint8)
    free &= np.unpackbits(words, bitorder="little")[: len(free)].astype(np.bool_)
    free &= (columns.up == 1) & (columns.held_exclusive == 0)
    part = shares.wish_of(job.request.gres_per_node)
    if part is not None:
        free &= mix.units[part[0]] == mix.units[part[0]][at]
    free &= (columns.cpu_quantum == columns.cpu_quantum[at]) & (columns.free_mem_mb >= mem_mb)
    free &= columns.free_cpus >= cpus * units_taken(state, job.request, job.partition)
    for kind_name, type_, count in job.request.gres_per_node:
        free &= columns.free_gres[:, state.gres_kinds[kind_name, type_]] >= count
    if state.reservations:
        kept = view_of(state, now_us).arrays
        blocks = kept.block_node[(kept.block_from_s < until_s) & (kept.block_to_s > now_s)]
        free[blocks] = False
    free[at] = True
    return free
