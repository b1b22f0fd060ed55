"""The spans of a job, from committed batches: rest, submit, commit, plan, attempt, step, launch, run, accounting, the job itself.

    rest                    of a submission over REST: from when the REST daemon had received it until it is in the database
    job                     from the submission until its end is in the database
      submit > commit       until the submission is in the database; of it, the batch from its seal
      plan                  of each attempt: from when it could start until it does
      attempt               from its start to its end
        step                of each step, from its request to its end
          launch            until the first node has started it
          run               on each node, as the node reports it
      accounting            from the attempt's end until accounting has it

Every id follows from the job's row, and every time is in a row or is that of the commit (that of `rest` is what the REST daemon
says: its clock may be another, and a repeated submission has no such span): so nothing is kept between two
batches, a restart in the middle of a job changes nothing, and a span may leave before its parent. A span that is sent twice
has the same id.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from ctld.core.records.effects import Batch
from ctld.core.records.job import JobRow
from ctld.core.records.step import StepRow
from ctld.delivery.otlp import SpanFacts, TraceSpan
from ctld.runtime.snapshot import Snapshot
from penstock.logs.events import job_event
from penstock.logs.structured import SpanIds
from penstock.values.hostlist import compress
from penstock.values.states import END_STATES, JobState
from penstock.values.text import clean_line
from penstock.values.tracecontext import JobTrace, job_trace

_ENDS: Final = ("end", "requeue")
#: What of one job has spans, lest a loop of sruns or requeues fills the queue: its first attempts, the first steps of each beside
#: its script's, and the first nodes of each step.
ATTEMPTS_MAX: Final = 100
STEPS_MAX: Final = 100
RUNS_MAX: Final = 32
#: How long before the submission its request may have come, and by how much a REST daemon's clock may be ahead.
REST_US_MAX: Final = 600_000_000
REST_AHEAD_US_MAX: Final = 1_000_000


class SpanMaker:
    """Makes the spans of one cluster's batches."""

    def __init__(self, cluster: str, snapshot: Snapshot) -> None:
        self._cluster = cluster
        self._snapshot = snapshot
        self._last_row: JobRow | None = None
        self._last_facts: SpanFacts = ()

    def of(self, batch: Batch, sealed_at_us: int, now_us: int) -> Iterator[TraceSpan]:
        """Yields the spans that end with a batch: sealed then, committed and applied to the snapshot now."""
        rows = {(row.job_id, row.attempt): row for row in batch.jobs}
        ended: dict[tuple[int, int], None] = {}
        for line in batch.history:
            key = line.job_id, line.attempt
            row = rows.get(key) or self._snapshot.jobs.get(line.job_id)
            if row is None or (trace := self._trace_of(row)) is None:
                continue
            if line.event == "submit":
                yield self._job_span(row, trace, "submit", "submit", "job", row.submit_at_us, now_us)
                since_us = max(sealed_at_us, row.submit_at_us)
                yield self._job_span(row, trace, "commit", "commit", "submit", since_us, now_us)
            elif line.event == "start" and row.attempt < ATTEMPTS_MAX:
                since_us = min(max(row.eligible_at_us, row.submit_at_us), line.at_us)
                yield self._job_span(row, trace, "plan", f"plan {row.attempt}", "job", since_us, line.at_us)
            elif line.event in _ENDS:
                ended[key] = None
        for key in ended:
            if (row := rows.get(key)) is not None:
                yield from self._end_spans(row, now_us)
        for step in batch.steps:
            if step.state in END_STATES and step.end_at_us and _is_shown(step):
                row = rows.get((step.job_id, step.attempt)) or self._snapshot.jobs.get(step.job_id)
                if row is not None and row.attempt == step.attempt and (trace := self._trace_of(row)):
                    yield from _step_spans(step, row, trace, self._facts(row))

    def rest_span(self, job_id: int, received_at_us: int, now_us: int) -> TraceSpan | None:
        """Returns the span of the request over REST that submitted the job; None of one not sampled, or of an impossible time."""
        row = self._snapshot.jobs.get(job_id)
        if row is None or not -REST_AHEAD_US_MAX <= row.submit_at_us - received_at_us <= REST_US_MAX:
            return None
        trace, since_us = self._trace_of(row), min(received_at_us, row.submit_at_us)
        return None if trace is None else self._job_span(row, trace, "rest", "rest", "", since_us, now_us)

    def ids_of(self, job_id: int, fields: Mapping[str, str | int | float]) -> SpanIds | None:
        """Returns where a line of the log belongs: to the submission, the attempt that it names, or the whole job."""
        row = self._snapshot.jobs.get(job_id)
        if row is None or (trace := self._trace_of(row)) is None:
            return None
        key = "job"
        if fields.get("event") == job_event("submit"):
            key = "submit"
        elif row.start_at_us and fields.get("attempt") == row.attempt:
            key = f"attempt {row.attempt}"
        return SpanIds(trace.trace_id.hex(), trace.span_id(key).hex())

    def _trace_of(self, row: JobRow) -> JobTrace | None:
        """Returns the place of a job in its trace; None of one that is not sampled."""
        return job_trace(self._cluster, row.job_id, row.submit_at_us, row.trace_one_in, row.request.trace_parent)

    def _end_spans(self, row: JobRow, now_us: int) -> Iterator[TraceSpan]:
        if (trace := self._trace_of(row)) is None:
            return
        if row.attempt < ATTEMPTS_MAX:
            if row.start_at_us:
                key = f"attempt {row.attempt}"
                yield self._job_span(row, trace, "attempt", key, "job", row.start_at_us, row.end_at_us)
            yield self._job_span(row, trace, "accounting", f"accounting {row.attempt}", "job", row.end_at_us, now_us)
        if row.state in END_STATES and self._has_ended(row):
            yield self._job_span(row, trace, "job", "job", "", row.submit_at_us, now_us)

    def _has_ended(self, row: JobRow) -> bool:
        """Whether it was the job's last attempt: one of a crontab's job ends as others do, and the job waits again."""
        current = self._snapshot.jobs.get(row.job_id)
        return current is None or current.attempt == row.attempt

    def _job_span(
        self, row: JobRow, trace: JobTrace, name: str, key: str, parent: str, start_at_us: int, end_at_us: int
    ) -> TraceSpan:
        facts: SpanFacts = ()
        failure = None
        if name in ("job", "attempt"):
            facts = _outcome(row.state, row.exit_code, row.exit_signal)
            failure = row.state not in (JobState.COMPLETED, JobState.REQUEUED)
        end_at_us = max(start_at_us, end_at_us)
        return TraceSpan(trace, key, parent, name, start_at_us, end_at_us, self._facts(row), failure, facts)

    def _facts(self, row: JobRow) -> SpanFacts:
        """What every span says of its job. The spans of one row follow each other, and share one object."""
        if row is not self._last_row:
            self._last_row = row
            self._last_facts = _facts(row)
        return self._last_facts


def _is_shown(step: StepRow) -> bool:
    return step.attempt < ATTEMPTS_MAX and step.step_id < STEPS_MAX


def _step_spans(step: StepRow, job: JobRow, trace: JobTrace, job_facts: SpanFacts) -> Iterator[TraceSpan]:
    tail = f"{step.attempt} {step.step_id}"
    begin_us = min(max(step.submit_at_us, job.start_at_us), step.end_at_us)
    run_us = max(step.start_at_us, begin_us)
    name = (("step", step.name if step.step_id < 0 else str(step.step_id)),)
    outcome = name + _outcome(step.state, step.exit_code, step.exit_signal)
    failed = step.state is not JobState.COMPLETED
    key = f"step {tail}"
    yield TraceSpan(trace, key, f"attempt {step.attempt}", "step", begin_us, step.end_at_us, job_facts, failed, outcome)
    if not step.start_at_us:
        return  # no node has started it
    run_us = min(run_us, step.end_at_us)
    yield TraceSpan(trace, f"launch {tail}", key, "launch", begin_us, run_us, job_facts, facts=name)
    if step.parts is None:
        facts = (*outcome, ("node", step.node))
        yield TraceSpan(trace, f"run {tail}", key, "run", run_us, step.end_at_us, job_facts, failed, facts)
        return
    for part in islice((part for part in step.parts if part.start_at_us), RUNS_MAX):
        since_us = max(part.start_at_us, begin_us)
        facts = (*name, ("node", part.node), *_outcome(part.state, part.exit_code, part.exit_signal))
        until_us = max(since_us, part.end_at_us)
        yield TraceSpan(trace, f"run {tail} {part.node}", key, "run", since_us, until_us, job_facts, facts=facts)


def _facts(row: JobRow) -> SpanFacts:
    """What every span says of its job: no name, command, script or environment."""
    facts: SpanFacts = (
        ("job", row.job_id), ("attempt", row.attempt), ("user", clean_line(row.user_name)),
        ("account", clean_line(row.request.account)), ("partition", row.partition or ",".join(row.request.partitions)),
    )  # fmt: skip
    if not row.alloc:
        return facts
    return (*facts, ("nodes", row.alloc[0].node if len(row.alloc) == 1 else compress(part.node for part in row.alloc)))


def _outcome(state: JobState, code: int, number: int) -> SpanFacts:
    return ("state", state.name), ("exit_code", f"{code}:{number}")
