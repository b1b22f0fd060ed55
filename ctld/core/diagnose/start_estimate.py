"""Estimates when a job would start that is not submitted yet (`sbatch --test-only`).

The whole queue is planned with the job at its position. `inquire_start` reads the state, `estimate_start` runs in the
worker, as in why.py. The core itself (requests/submit.py) answers only whether such a job may be submitted, and where
it would run on an empty cluster.
"""

from typing import NamedTuple

import numpy as np

import _fastsched
from ctld.core.diagnose.hints import ways
from ctld.core.diagnose.why import RankedQueue
from ctld.core.passes.schedule import FULL_STARTS_MAX
from ctld.core.queue.planning import PlanQuestion, snapshot
from ctld.core.queue.terms import terms_of
from ctld.core.queue.whatif import Probe, placed, with_probes
from ctld.core.records.events import SubmitJob
from ctld.core.records.job import Job
from ctld.core.requests.submit import check, draft
from ctld.core.state.state import ClusterState

US = 1_000_000


class StartInquiry(NamedTuple):
    """The input of `estimate_start`: the queue, and the job as one row for each way in which it may run."""

    question: PlanQuestion
    probes: tuple[Probe, ...]
    partitions: tuple[str, ...]  # by probe


class Expected(NamedTuple):
    """The expected start: when and where; times in seconds since 1970."""

    start_s: int
    nodes: tuple[str, ...]
    partition: str


def inquire_start(state: ClusterState, now_us: int, event: SubmitJob) -> StartInquiry:
    """Collects the input of `estimate_start`. Raises Refused when such a job may not be submitted."""
    found = check(state, now_us, event.actor, event.job)
    job: Job = draft(state, now_us, event, found, state.next_job_id)
    terms, queue = terms_of(state, job), RankedQueue(state, job)
    rows = sorted((queue.position(rank), index, shape) for rank, index, shape in ways(state, job))
    probes = tuple(
        Probe(at, shape, terms.limit_s, terms.limit_min_s, terms.user, job.request.begin_at_us // US, terms.latest_s)
        for at, _, shape in rows
    )
    front, _ = queue.with_own(max((p.at for p in probes), default=0))
    names = tuple(state.partition_list[index].name for _, index, _ in rows)
    return StartInquiry(snapshot(state, now_us, front, FULL_STARTS_MAX), probes, names)


def estimate_start(inquiry: StartInquiry) -> Expected | None:
    """Computes the earliest start; None = no start is known."""
    given = inquiry.question.given
    if not inquiry.probes:
        return None
    base, positions = len(given.jobs.job), [p.at for p in inquiry.probes]
    rows = np.insert(given.rows, positions, np.arange(base, base + len(positions)))
    result = _fastsched.plan(
        given._replace(
            jobs=with_probes(given, inquiry.probes, reserve=0), rows=rows, limits=given.limits._replace(estimate=True)
        )
    )
    names, found = inquiry.question.node_names, []
    for position in (rows >= base).nonzero()[0].tolist():
        start_s, nodes = placed(given.limits.now_s, result, position)
        if start_s >= 0:
            number = int(rows[position]) - base
            found.append(Expected(start_s, tuple(names[i] for i in nodes), inquiry.partitions[number]))
    return min(found, key=lambda one: one.start_s) if found else None
