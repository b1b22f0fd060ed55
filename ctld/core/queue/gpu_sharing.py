"""Chooses the node for a job with one GPU, or with a part of one, in a cluster that shares GPUs.

With SelectTypeParameters=PENSTOCK_FGD or PENSTOCK_STEER. The planner starts a job now on some node: the first by node
order. Fragmentation gradient descent chooses among all equivalent nodes (`_fastsched/fragment_pick.py`). A node is
equivalent if:

- the job may use the node (its mask), and what it needs is free there at this moment;
- no row of a higher rank is expected to start there before this job's limit is over, as the same pass planned it. Of
  the waiting tasks of an array only the first has planned nodes, so while others of a higher rank are expected
  within the limit, only the planner's node is used;
- no reservation takes the node within the limit;
- the planner's numbers are valid there too: GPUs divided as on the planner's node, cpus given in the same quantum.

So a start is moved, but never a higher-ranked job's expected start. A lower-ranked one that the same pass wanted to
start on the chosen node is dropped when it does not fit, and planned again by the next pass.

Not moved: the starts of one pass beyond STEERED_MAX; jobs of several nodes, exclusive ones or where a node is kept for
one user, those in a reservation, those with a group of required nodes; nodes whose GPUs differ. A part of a GPU is then
taken of the fullest GPU of the planner's node, as without these parameters. Devices of whole GPUs are always chosen by
state/devices.py.

The mix of requests (`Mix`) is counted from the jobs in memory, pending, running and just ended, at most every
MIX_PERIOD_S when a job is to be placed. Earlier counts are halved each time. The tables are rebuilt only when the mix
has changed by more than 1 / CHANGE_PART; it has at most CLASSES_MAX classes, so that this takes milliseconds.
"""

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from _fastsched import contract
from _fastsched.fragment_contract import BEST_FIT, GPUS_MAX, FragmentNodes, NodeSizes, Shapes
from _fastsched.fragment_pick import choose, count_classes, milli_of, policy_of
from _fastsched.fragment_tables import prepare
from ctld.core.jobs import arrays
from ctld.core.jobs.sharing import units_taken
from ctld.core.records.job import Job
from ctld.core.records.request import JobRequest
from ctld.core.reservations.view import view_of
from ctld.core.state import shares
from ctld.core.state.gpu_mix import Class, Mix
from ctld.core.state.state import ClusterState

if TYPE_CHECKING:
    from ctld.core.queue.planning import PlannedStart
    from ctld.core.state.forecast import Forecast

MIX_PERIOD_S: Final = 300
#: Jobs that are counted: the latest.
JOBS_MAX: Final = 5_000
#: Classes in the tables: those with most jobs.
CLASSES_MAX: Final = 48
#: A mix that differs by less than this part of all jobs counts as unchanged.
CHANGE_PART: Final = 20
#: Maximum weight of a class in one count, which keeps the sums of the tables in range.
WEIGHT_MAX: Final = 1_000_000
US: Final = 1_000_000
#: Starts of one pass that are moved: each takes 0.2 ms on 100 nodes, 0.4 ms on 1,000.
STEERED_MAX: Final = 100

_Bools = npt.NDArray[np.bool_]


def mix_of(state: ClusterState) -> Mix | None:
    """Returns the mix for this configuration; None = best fit, or nothing is shared."""
    policy = policy_of(tuple(word.upper() for word in state.config.select_type_parameters))
    if policy == BEST_FIT or not state.gpus.share_units:
        return None
    mix = Mix(state.node_list, policy, tuple(state.gpus.share_units))
    return mix if mix.usable else None


# ---- the mix of requests -----------------------------------------------------------------------------------------


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
    """Counts the jobs in memory, and renews the tables if they have changed much."""
    mix.next_count_us = now_us + MIX_PERIOD_S * US
    found: dict[Class, int] = {key: weight // 2 for key, weight in mix.counts.items() if weight > 1}
    for job in state.jobs.last(JOBS_MAX):
        key = _class_of(mix, job.request, state.gpus.share_units)
        found[key] = min(WEIGHT_MAX, found.get(key, 0) + 2 * min(arrays.weight(job), WEIGHT_MAX))
    mix.counts = dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:CLASSES_MAX])
    if mix.counts and (mix.tables is None or _differs(mix.prepared, mix.counts)):
        mix.prepared = mix.counts
        cpu_milli = state.node_columns.total_cpus.astype(np.int64) * 1000 // state.layout.units_per_cpu
        mix.tables = prepare(count_classes(mix.counts), mix.supply, NodeSizes(mix.gpus, cpu_milli))


def _differs(old: dict[Class, int], new: dict[Class, int]) -> bool:
    before, after = max(1, sum(old.values())), max(1, sum(new.values()))
    moved = sum(abs(new.get(key, 0) * before - old.get(key, 0) * after) for key in {**old, **new})
    return moved * CHANGE_PART > before * after


# ---- the choice of a node ----------------------------------------------------------------------------------------


class ExpectedUse:
    """The times when rows before a position are expected to use nodes, as one pass planned it."""

    def __init__(self, forecast: "Forecast | None", nodes: int) -> None:
        self._forecast = forecast
        self._nodes = nodes
        self._from_s: npt.NDArray[np.int64] | None = None  # by node; created at the first use
        self._anywhere_s = int(contract.FOREVER)  # tasks of arrays whose nodes are not known
        self._seen = 0
        self.left = STEERED_MAX

    def unclaimed(self, position: int, until_s: int) -> _Bools | None:
        """Whether, by node, no row before `position` is expected there before that time; None = unknown."""
        if self._forecast is None:
            return None
        if self._from_s is None:
            self._from_s = np.full(self._nodes, contract.FOREVER, np.int64)
        if position > self._seen:
            anywhere_s = self._forecast.lower_expected_starts(self._seen, position, self._from_s)
            self._anywhere_s = min(self._anywhere_s, anywhere_s)
            self._seen = position
        return None if self._anywhere_s < until_s else self._from_s >= until_s


def steer(
    state: ClusterState, now_us: int, job: Job, start: "PlannedStart", holds: ExpectedUse
) -> "tuple[PlannedStart, int]":
    """Moves the start to the node that the policy chooses, and returns the GPUs that its shares may be taken of (a
    mask).
    """
    mix: Mix | None = state.gpus.mix
    part_wanted = _part_wanted(job.request) if mix is not None else None
    if mix is None or part_wanted is None or not _is_free_to_choose(state, job, start):
        return start, -1
    if now_us >= mix.next_count_us:
        learn(state, mix, now_us)
    if mix.tables is None or not holds.left:
        return start, -1
    holds.left -= 1
    state.settle_shares()
    at, cpus, tasks, mem_mb = start.placement[0]
    of = 1 if part_wanted[0] == shares.GPU else int(mix.units[part_wanted[0]][at])
    if not of:
        return start, -1
    rows = _candidates(state, now_us, mix, job, start, holds).nonzero()[0]
    models = (
        1 << mix.models[part_wanted[1]]
        if part_wanted[1] in mix.models and part_wanted[1]
        else (1 << len(mix.models)) - 1
    )
    columns = state.node_columns
    rank = np.empty(len(columns.order), np.int32)
    rank[columns.order] = np.arange(len(rank), dtype=np.int32)
    nodes = FragmentNodes(
        columns.free_cpus[rows].astype(np.int64) * 1000 // state.layout.units_per_cpu, columns.free_mem_mb[rows], mix.gpus[rows],
        mix.model[rows], rank[rows], mix.free[part_wanted[0]][rows],
    )  # fmt: skip
    asked = Shapes(
        np.array([cpus * 1000], np.int64), np.array([mem_mb], np.int64),
        np.array([part_wanted[2] if part_wanted[0] == shares.GPU else 1], np.int32),
        np.array([shares.WHOLE_MILLI if part_wanted[0] == shares.GPU else milli_of(part_wanted[2], of)], np.int32),
        np.array([models], np.uint64),
    )  # fmt: skip
    chosen = choose(nodes, asked, mix.tables, mix.policy)
    if chosen is None:
        return start, -1
    return start._replace(placement=((int(rows[chosen[0]]), cpus, tasks, mem_mb),)), chosen[1]


def _part_wanted(request: JobRequest) -> tuple[str, str, int] | None:
    """Returns the shares of a GPU, or GPUs of one kind, of a request."""
    gpus = [one for one in request.gres_per_node if one[0] == shares.GPU]
    return shares.share_wanted(request.gres_per_node) or (gpus[0] if len(gpus) == 1 else None)


def _is_free_to_choose(state: ClusterState, job: Job, start: "PlannedStart") -> bool:
    request = job.request
    return (
        len(start.placement) == 1
        and request.nodes_max == 1
        and not (request.is_alone() or request.is_apart() or state.exclusive_users)
        and request.mem_per_node_mb != 0  # all GPUs of the node
        and not (start.reservation or request.nodes_required or request.gpu_mem_mb)
        and (shares.MANY, "") not in state.layout.gres_kinds
        and 0 <= start.mask < len(state.layout.masks.bits)
        and start.placement[0][0] < len(state.node_list)
    )


def _candidates(
    state: ClusterState, now_us: int, mix: Mix, job: Job, start: "PlannedStart", holds: ExpectedUse
) -> _Bools:
    """Whether the start may be there, by node. The planner's node always qualifies."""
    columns, (at, cpus, _, mem_mb) = state.node_columns, start.placement[0]
    now_s, until_s = now_us // US, min(now_us // US + start.limit_s, int(contract.FOREVER))
    free = holds.unclaimed(start.position, until_s)
    if free is None:
        free = np.zeros(len(state.node_list), np.bool_)
    words = state.layout.masks.array()[start.mask].view(np.uint8)
    free &= np.unpackbits(words, bitorder="little")[: len(free)].astype(np.bool_)
    free &= (columns.up == 1) & (columns.used_exclusively == 0)
    part = shares.share_wanted(job.request.gres_per_node)
    if part is not None:
        free &= mix.units[part[0]] == mix.units[part[0]][at]
    free &= (columns.cpu_quantum == columns.cpu_quantum[at]) & (columns.free_mem_mb >= mem_mb)
    free &= columns.free_cpus >= cpus * units_taken(state, job.request, job.partition)
    for kind_name, type_, count in job.request.gres_per_node:
        free &= columns.free_gres[:, state.layout.gres_kinds[kind_name, type_]] >= count
    if state.reservations:
        kept = view_of(state, now_us).arrays
        blocks = kept.block_node[(kept.block_from_s < until_s) & (kept.block_to_s > now_s)]
        free[blocks] = False
    free[at] = True
    return free
