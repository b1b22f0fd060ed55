"""Computes how the planned starts would change if nodes went, or if a job came (`penstock plan`, the page Plan).

The whole queue is planned twice by the real planner, with the same rows and the same time: as it is, and with the
change. What differs is the answer. `inquire_loss` and `inquire_arrival` read the state, on the controller's loop;
`plan_change` runs in the worker, as in why.py.

A node that goes takes no job any more. Its jobs end, and those that may be requeued are rows of the changed queue at
their rank; or they run on (a drain), and only the starts on the node are lost. The job that comes is at its rank, too.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

import _fastsched
from _fastsched import contract
from ctld.core.diagnose.hints import ways
from ctld.core.diagnose.start_estimate import Expected
from ctld.core.diagnose.why import RankedQueue
from ctld.core.jobs import arrays
from ctld.core.passes.schedule import FULL_STARTS_MAX
from ctld.core.queue.node_demand import Bits
from ctld.core.queue.planning import PlanQuestion, Rows, snapshot
from ctld.core.queue.terms import terms_of
from ctld.core.queue.whatif import PROBE_JOB, Probe, placed, with_probes
from ctld.core.records.events import SubmitJob
from ctld.core.records.job import Job
from ctld.core.requests.submit import check, draft
from ctld.core.state.state import ClusterState
from penstock.values.states import ALLOCATED_STATES

US = 1_000_000
#: Jobs of lost nodes that are planned again: their rows are made on the controller's loop.
REQUEUED_MAX: Final = 256
#: What a change does to a job, the worst first.
NEVER, ENDS, REQUEUED, LATER, SOONER, ELSEWHERE = CHANGES = (
    "never", "ends", "requeued", "later", "sooner", "elsewhere",
)  # fmt: skip


class PlanChangeInquiry(NamedTuple):
    """The input of `plan_change`. `running`: the jobs that lose a node, by id, and whether they are requeued."""

    question: PlanQuestion
    lost: tuple[int, ...] = ()  # indices of nodes
    running: tuple[tuple[int, bool], ...] = ()
    not_asked: int = 0  # jobs that would be requeued, beyond REQUEUED_MAX
    probes: tuple[Probe, ...] = ()  # rows that come
    partitions: tuple[str, ...] = ()  # by probe


class MovedJob(NamedTuple):
    """What the change does to a job; times in seconds since 1970, -1 = no start is known. Of a running job `before_s`
    and `before` are empty."""

    job_id: int
    change: str
    before_s: int
    before: tuple[str, ...]
    after_s: int
    after: tuple[str, ...]


class PlanChange(NamedTuple):
    """The answer: `running` jobs that lose a node, then `waiting` ones in the order of `order`."""

    now_s: int
    compared: int
    not_asked: int
    own: Expected | None  # the job that comes
    running: tuple[MovedJob, ...]
    waiting: "_Moves"

    def jobs(self) -> Iterator[MovedJob]:
        """Yields all, the worst first."""
        waiting = self.waiting.jobs()
        first = next(waiting, None)
        while first is not None and first.change == NEVER:
            yield first
            first = next(waiting, None)
        yield from self.running
        if first is not None:
            yield first
        yield from waiting


# ---- on the loop -------------------------------------------------------------------------------------------------


def inquire_loss(state: ClusterState, now_us: int, names: Sequence[str], jobs_run_on: bool) -> PlanChangeInquiry:
    """Collects the input for the loss of these nodes, which exist."""
    nodes = [state.nodes[name] for name in names]
    ids = dict.fromkeys(job_id for node in nodes for job_id in node.jobs)
    jobs = [job for job_id in sorted(ids) if (job := state.jobs.look(job_id)) and job.state in ALLOCATED_STATES]
    running: list[tuple[int, bool]] = []
    probes: list[Probe] = []
    not_asked = 0
    requeued = 0
    earliest_s = now_us // US + state.scheduling.policy.requeue_delay_s
    for job in () if jobs_run_on else jobs:
        if job.request.requeue and requeued == REQUEUED_MAX:
            not_asked += 1
            continue
        running.append((job.job_id, job.request.requeue))
        if job.request.requeue:
            requeued += 1
            probes += (probe for probe, _ in _rows(state, job, job.job_id, earliest_s, 1))
    lost = tuple(node.index for node in nodes)
    return PlanChangeInquiry(_queue(state, now_us), lost, tuple(running), not_asked, tuple(probes))


def inquire_arrival(state: ClusterState, now_us: int, event: SubmitJob) -> PlanChangeInquiry:
    """Collects the input for a job that is not submitted yet. Raises Refused when it may not be submitted."""
    found = check(state, now_us, event.actor, event.job)
    job: Job = draft(state, now_us, event, found, state.next_job_id)
    tasks = arrays.weight(job)
    copies = min(tasks, job.array_throttle or tasks)
    rows = list(_rows(state, job, PROBE_JOB, job.request.begin_at_us // US, copies))
    probes, partitions = tuple(probe for probe, _ in rows), tuple(name for _, name in rows)
    return PlanChangeInquiry(_queue(state, now_us), probes=probes, partitions=partitions)


def _queue(state: ClusterState, now_us: int) -> PlanQuestion:
    return snapshot(state, now_us, state.pending.first(len(state.pending.ready)), FULL_STARTS_MAX)


def _rows(state: ClusterState, job: Job, number: int, earliest_s: int, copies: int) -> Iterator[tuple[Probe, str]]:
    """Yields each way in which a job may run, as a row of job `number`, and its partition."""
    terms, queue = terms_of(state, job), RankedQueue(state, job)
    for rank, index, shape in ways(state, job):
        probe = Probe(
            queue.position(rank), shape, terms.limit_s, terms.limit_min_s, terms.user, earliest_s, terms.latest_s, number, copies
        )  # fmt: skip
        yield probe, state.partition_list[index].name


# ---- in the worker -----------------------------------------------------------------------------------------------


def plan_change(inquiry: PlanChangeInquiry) -> PlanChange:
    """Asks the planner twice, and compares."""
    question = inquiry.question
    given = question.given._replace(limits=question.given.limits._replace(estimate=True))
    before = _plan(question, given)
    after = _plan(question, _changed(inquiry, given))
    waiting = _Moves(before, after, inquiry.lost)
    return PlanChange(
        given.limits.now_s,
        len(before.ids),
        inquiry.not_asked,
        _own(inquiry, after),
        _of_running(inquiry, after),
        waiting,
    )


class _Plan(NamedTuple):
    """One plan. By job of the queue, in the order of `ids`: its earliest start (FOREVER = none) and that row's position."""

    names: tuple[str, ...]
    given: contract.PlanInput
    result: contract.PlanResult
    ids: Rows
    start_s: Rows
    position: Rows

    def place(self, position: int) -> tuple[int, tuple[str, ...]]:
        """Returns the (start, nodes) of a row; -1 = none is known."""
        start_s, nodes = placed(self.given.limits.now_s, self.result, position)
        return start_s, tuple(self.names[i] for i in nodes)

    def of(self, number: int, base: int) -> tuple[int, int]:
        """Returns the (start, position) of the earliest row of a job that came; (-1, -1) = none is known."""
        rows = self.given.rows
        mine = ((rows >= base) & (self.given.jobs.job[rows] == number)).nonzero()[0].tolist()
        found = [(start_s, at) for at in mine if (start_s := self.place(at)[0]) >= 0]
        return min(found, default=(-1, -1))


def _plan(question: PlanQuestion, given: contract.PlanInput) -> _Plan:
    result = _fastsched.plan(given)
    ids, base = given.jobs.job[given.rows], len(question.given.jobs.job)
    start_s = np.where(result.start_s >= 0, result.start_s, contract.FOREVER)
    start_s[result.reason == contract.STARTED] = given.limits.now_s
    mine = (given.rows < base).nonzero()[0]
    order = mine[np.lexsort((start_s[mine], ids[mine]))]
    if len(order):
        order = order[np.concatenate(([True], np.diff(ids[order]) != 0))]
    return _Plan(question.node_names, given, result, ids[order], start_s[order], order)


def _changed(inquiry: PlanChangeInquiry, given: contract.PlanInput) -> contract.PlanInput:
    """Returns the queue without the lost nodes, and with the rows that come."""
    up = given.nodes.up.copy()
    up[list(inquiry.lost)] = 0
    ends = np.isin(inquiry.question.job_of, [job_id for job_id, _ in inquiry.running])
    run_end_s = np.where(ends, given.limits.now_s + 1, given.running.run_end_s)
    given = given._replace(nodes=given.nodes._replace(up=up), running=given.running._replace(run_end_s=run_end_s))
    if not inquiry.probes:
        return given
    base = len(given.jobs.job)
    order = sorted(range(len(inquiry.probes)), key=lambda i: (inquiry.probes[i].at, i))
    positions = [inquiry.probes[i].at for i in order]
    rows = np.insert(given.rows, positions, base + np.array(order, np.int64))
    return given._replace(jobs=with_probes(given, inquiry.probes, reserve=1), rows=rows)


def _own(inquiry: PlanChangeInquiry, after: _Plan) -> Expected | None:
    """Returns the start of the job that comes."""
    base = len(inquiry.question.given.jobs.job)
    start_s, position = after.of(PROBE_JOB, base)
    if position < 0:
        return None
    number = int(after.given.rows[position]) - base
    return Expected(start_s, after.place(position)[1], inquiry.partitions[number])


def _of_running(inquiry: PlanChangeInquiry, after: _Plan) -> tuple[MovedJob, ...]:
    """Returns the jobs that lose a node: those that end, then the requeued ones by their next start."""
    base = len(inquiry.question.given.jobs.job)
    ends = [MovedJob(job_id, ENDS, -1, (), -1, ()) for job_id, again in inquiry.running if not again]
    requeued = []
    for job_id, again in inquiry.running:
        if again:
            start_s, position = after.of(job_id, base)
            requeued.append(
                MovedJob(job_id, REQUEUED, -1, (), start_s, after.place(position)[1] if position >= 0 else ())
            )
    requeued.sort(key=lambda one: (one.after_s >= 0, -one.after_s, one.job_id))
    return (*ends, *requeued)


class _Moves:
    """The waiting jobs whose planned starts differ between two plans of the same queue."""

    def __init__(self, before: _Plan, after: _Plan, lost: Sequence[int]) -> None:
        self._before = before
        self._after = after
        delay_s = after.start_s - before.start_s
        has_start = after.start_s < contract.FOREVER
        elsewhere = (delay_s == 0) & has_start & _on(before, lost)
        moved = ((delay_s != 0) | elsewhere).nonzero()[0]
        kind = np.where(~has_start, 0, np.where(delay_s > 0, 1, np.where(delay_s < 0, 2, 3)))[moved]
        self._order: Rows = moved[np.lexsort((before.ids[moved], -delay_s[moved], kind))]

    def __len__(self) -> int:
        return len(self._order)

    def jobs(self) -> Iterator[MovedJob]:
        """Yields them: those without a start, the longest delay first, those that start sooner or elsewhere."""
        for at in self._order.tolist():
            before_s, before = self._before.place(int(self._before.position[at]))
            after_s, after = self._after.place(int(self._after.position[at]))
            change = NEVER if after_s < 0 else LATER if 0 <= before_s < after_s else SOONER
            if before_s == after_s:
                change = ELSEWHERE
            yield MovedJob(int(self._before.ids[at]), change, before_s, before, after_s, after)


def _on(plan: _Plan, lost: Sequence[int]) -> Bits:
    """Returns the jobs that are planned on one of these nodes, by job."""
    result = plan.result
    hits = np.concatenate(([0], np.cumsum(np.isin(result.plan_node, lost))))
    found: Bits = (hits[result.plan_first[1:]] > hits[result.plan_first[:-1]])[plan.position]
    return found
