"""Builds the planner's question and decodes its answer: from columns to a `PlanInput`, and from a `PlanResult` to core
types.

`present` shows the planner the live columns, for a pass that runs before anything changes; `snapshot` gives private
copies for a pass in a worker. `run_plan` is the worker's part: a function of the copies it got.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import _fastsched
from _fastsched import contract
from ctld.core.records.events import PlanReady
from ctld.core.reservations.view import view_of
from ctld.core.state.columns import copied
from ctld.core.state.forecast import Forecast
from ctld.core.state.policy import MANY, BackfillPolicy
from ctld.core.state.shares import GPU
from ctld.core.state.state import ClusterState

US = 1_000_000
#: By the planner's reason: whether the row is listed. The others start, or are merely behind others.
SAID = np.ones(256, np.bool_)
SAID[[contract.STARTED, contract.NOT_TESTED, contract.PRIORITY]] = False

#: A quick pass is never stopped early. Never written to.
NO_STOP = np.zeros(1, np.uint8)

PlacementRows = tuple[tuple[int, int, int, int], ...]  # (node index, cpus, tasks, MB) for each node
Rows = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class PlannedStart(NamedTuple):
    """A job that may start now."""

    job_id: int
    partition: int  # index
    limit_s: int  # granted time: less than requested only with --time-min
    placement: PlacementRows
    reservation: str = ""  # the reservation in which it runs
    position: int = 0  # of its row in the pass
    mask: int = -1  # of its row
    gpus: int = 0  # the same: on each node


class Answer(NamedTuple):
    """The result of a pass, in core types."""

    starts: tuple[PlannedStart, ...]  # in order of decision
    reasons: tuple[tuple[int, int], ...]  # (job id, planner's reason) of rows that are not merely behind others
    victims: tuple[tuple[int, int], ...]  # (pending job id, running job id)
    forecast: Forecast


class PlanQuestion(NamedTuple):
    """A `PlanInput`, and the core's key to its numbers."""

    given: contract.PlanInput
    partition: npt.NDArray[np.int32]  # by row of given.jobs
    job_of: Rows  # by row of given.running
    node_names: tuple[str, ...]
    made_at_us: int
    reservations: tuple[str, ...] = ()  # by row of given.reservations
    gpu_kind: int = -1  # column of gres: GPUs of any type; -1 = the cluster has none
    has_copies: bool = True  # False: each row stands for one job


def limits(state: ClusterState, now_us: int, starts_max: int, policy: BackfillPolicy) -> contract.PlanLimits:
    """The parameters of a pass at this time."""
    return contract.PlanLimits(
        now_us // US, policy.resolution_s, policy.window_s, starts_max, MANY, policy.copies_max, policy.reserve_max,
        policy.estimate, state.layout.units_per_cpu,
    )  # fmt: skip


def present(state: ClusterState, now_us: int, rows: Rows, starts_max: int) -> PlanQuestion:
    """Returns the live columns."""
    if state.running.touched:
        state.settle_shares()
    view, masks = view_of(state, now_us), state.layout.masks
    given = contract.PlanInput(
        state.node_columns.table, state.running.table, view.arrays, state.pending.table, rows, masks.array(),
        masks.group_first, masks.group_mask, masks.group_count, state.free_licenses,
        limits(state, now_us, starts_max, state.scheduling.policy), NO_STOP,
    )  # fmt: skip
    pending, layout = state.pending, state.layout
    kind = layout.gres_kinds.get((GPU, ""), -1)
    return PlanQuestion(
        given, pending.partition, state.running.job_of, layout.node_names, now_us, view.names, kind, pending.has_copies
    )


def snapshot(state: ClusterState, now_us: int, rows: Rows, starts_max: int) -> PlanQuestion:
    """Returns private copies of the columns."""
    live = present(state, now_us, rows, starts_max)
    given = live.given._replace(
        nodes=copied(live.given.nodes), running=copied(live.given.running), jobs=copied(live.given.jobs),
        masks=live.given.masks.copy(), free_licenses=live.given.free_licenses.copy(), stop=np.zeros(1, np.uint8),
    )  # fmt: skip
    return live._replace(given=given, partition=live.partition.copy(), job_of=live.job_of.copy())


def ask(question: PlanQuestion) -> Answer:
    """Runs the planner and reads its answer."""
    given = question.given
    result = _fastsched.plan(given)
    rows = given.rows
    ids = given.jobs.job[rows]
    starts = _starts(question, result, ids)
    kept = SAID[result.reason].nonzero()[0]
    reasons = tuple(zip(ids[kept].tolist(), result.reason[kept].tolist(), strict=True)) if len(kept) else ()
    victims: tuple[tuple[int, int], ...] = ()
    if len(result.victim_row):
        pairs = zip(ids[result.victim_row].tolist(), question.job_of[result.victim_run].tolist(), strict=True)
        victims = tuple(pairs)
    many: _Bools | None = None
    if question.has_copies:
        count = given.jobs.count[rows]
        if starts and np.maximum.reduce(count) > 1:
            count = count - np.bincount(result.job, minlength=len(rows))
        many = count > 1
    forecast = Forecast(question.made_at_us, ids, result, question.node_names, many)
    return Answer(starts, reasons, victims, forecast)


def _starts(question: PlanQuestion, result: contract.PlanResult, ids: Rows) -> tuple[PlannedStart, ...]:
    number = len(result.job)
    if not number:
        return ()
    if number == 1 and len(result.node) == 1:  # the result of most passes
        cell = (result.node.item(), result.cpus.item(), result.tasks.item(), result.mem_mb.item())
        at, jobs = result.job.item(), question.given.jobs
        row = question.given.rows.item(at)
        resv = jobs.resv.item(row) if question.reservations else -1
        name = question.reservations[resv] if resv >= 0 else ""
        each = jobs.gres.item(row, question.gpu_kind) if question.gpu_kind >= 0 else 0
        limit_s, mask = result.limit_s.item(), jobs.mask.item(row)
        return (PlannedStart(ids.item(at), question.partition.item(row), limit_s, (cell,), name, at, mask, each),)
    cells = tuple(
        zip(result.node.tolist(), result.cpus.tolist(), result.tasks.tolist(), result.mem_mb.tolist(), strict=True)
    )
    first = result.node_first.tolist()
    rows = question.given.rows[result.job]
    parts = question.partition[rows].tolist()
    names = (*question.reservations, "")  # -1 is the last
    resvs = question.given.jobs.resv[rows].tolist()
    masks = question.given.jobs.mask[rows].tolist()
    kind = question.gpu_kind
    gpus = question.given.jobs.gres[rows, kind].tolist() if kind >= 0 else [0] * len(masks)
    return tuple(
        PlannedStart(job_id, part, limit_s, cells[first[i] : first[i + 1]], names[resv], at, mask, each)
        for i, (job_id, part, limit_s, resv, at, mask, each) in enumerate(
            zip(
                ids[result.job].tolist(), parts, result.limit_s.tolist(), resvs, result.job.tolist(), masks, gpus,
                strict=True,
            )
        )
    )  # fmt: skip


def run_plan(revision: int, question: PlanQuestion) -> PlanReady:
    """Runs the planner in the worker. Releases the GIL while it plans."""
    answer = ask(question)
    return PlanReady(revision, answer.starts, answer.reasons, answer.victims, answer.forecast)
