"""Spans that a core's committed batches make, and how they leave: sampling, a full queue, collectors that refuse or are away."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from types import SimpleNamespace

# Any: a stand-in for the runtime
from typing import Any

import pytest
from patience import ANSWER_S

from ctld.agents.launch import step_span, trace_parent
from ctld.core.records.effects import Batch
from ctld.core.records.events import ControlAction, ControlJobs, CreateStep, JobSubmission
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from ctld.delivery import spans, traces
from ctld.delivery.otlp import TraceSpan
from ctld.delivery.receivers import NotDelivered, Retry
from ctld.delivery.spans import SpanMaker
from ctld.delivery.traces import TraceSender
from ctld.metrics import Durations
from ctld.runtime.snapshot import Snapshot
from penstock.values.config import Config
from penstock.values.jobid import BATCH_STEP
from penstock.values.jobkind import JobKind
from penstock.values.tracecontext import JobTrace
from tests.core.world import US, World, make_config

COLLECTOR = "http://c/v1/traces"


def facts_of(span: TraceSpan) -> dict[str, str | int]:
    """All attributes of a span, each of which it has once."""
    pairs = (*span.job_facts, *span.facts)
    found = dict(pairs)
    assert len(found) == len(pairs), pairs
    return found


class TracedWorld(World):
    """A world whose spans are kept."""

    def __init__(self, nodes: int = 2, one_in: int = 1, per_s: int = 0) -> None:
        self.spans: list[TraceSpan] = []
        self._snapshot = Snapshot()
        self._maker = SpanMaker("c", self._snapshot)
        super().__init__(make_config(nodes=nodes, cpus=4, trace_url=COLLECTOR, trace_one_in=one_in, traces_per_s=per_s))
        for node in self.config.nodes:
            self.register(node.name)

    def _commit(self, batch: Batch) -> None:
        super()._commit(batch)
        self._snapshot.apply(batch)
        self.spans += self._maker.of(batch, self.now_us, self.now_us)

    def keys(self, job_id: int) -> list[str]:
        """The keys of a job's spans, sorted."""
        return sorted(span.key for span in self.spans if facts_of(span)["job"] == job_id)

    def rest_span(self, job_id: int, received_at_us: int) -> TraceSpan | None:
        """The span of a request, a moment later."""
        return self._maker.rest_span(job_id, received_at_us, self.now_us + 7)

    def check(self) -> None:
        """Each span's parent is there, and each id once."""
        ids = [(span.trace.span_id(span.key), span.key) for span in self.spans]
        assert len(ids) == len(set(ids))
        assert all(not span.parent or (span.trace.span_id(span.parent), span.parent) in ids for span in self.spans)


def test_one_job_in_so_many_has_a_whole_trace() -> None:
    world = TracedWorld(one_in=3)
    for number in range(30):
        world.now_us += US
        world.submit(JobSubmission(name=str(number), work_dir=b"/tmp"))
        world.started(number + 1)
        world.exited(number + 1)
    traced = {int(facts_of(span)["job"]) for span in world.spans}
    assert 3 < len(traced) < 20
    assert {len(world.keys(job_id)) for job_id in traced} == {9}
    world.check()


def test_a_requeued_job_has_one_trace_with_both_attempts() -> None:
    world = TracedWorld()
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", requeue=True))
    world.started(1)
    world.do(ControlJobs(world.actor("ann"), ("1",), ControlAction.REQUEUE, world.reply_to()))
    world.exited(1, signal=15)
    world.advance(300)
    world.started(1)
    world.exited(1)
    world.check()
    assert len({span.trace.trace_id for span in world.spans}) == 1
    keys = world.keys(1)
    assert [key for key in keys if key.startswith(("attempt", "accounting", "plan"))] == [
        "accounting 0", "accounting 1", "attempt 0", "attempt 1", "plan 0", "plan 1",
    ]  # fmt: skip
    assert keys.count("job") == keys.count("submit") == keys.count("commit") == 1
    assert {f"run 0 {BATCH_STEP}", f"run 1 {BATCH_STEP}"} <= set(keys)


CALLER = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-0"


def test_jobs_of_one_caller_are_below_its_span_and_have_ids_of_their_own() -> None:
    world = TracedWorld(one_in=1_000_000)
    for context in (CALLER + "1", CALLER + "1", CALLER + "0"):
        world.submit(JobSubmission(name="a", work_dir=b"/tmp", trace_parent=context))
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", trace_parent=CALLER + "1-not-of-this-version"))
    assert world.core.state.jobs[4].request.trace_parent == ""
    for job_id in (1, 2):
        world.started(job_id)
        world.exited(job_id)
    world.check()
    assert {facts_of(span)["job"] for span in world.spans} == {
        1,
        2,
    }  # the third's caller is not sampled, nor is the fourth
    assert {span.trace.trace_id for span in world.spans} == {b"\xab" * 16}
    assert {span.trace.parent for span in world.spans if span.key == "job"} == {b"\xcd" * 8}


def test_the_environment_of_a_job_names_the_span_of_its_attempt() -> None:
    world = TracedWorld()
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", trace_parent=CALLER + "1"))
    (trace,) = {span.trace for span in world.spans}
    config = Config(cluster_name="c", trace_url=COLLECTOR)
    row = world.jobs[1, 0]
    assert step_span(config, row, 7) == trace.trace_id + trace.span_id("step 0 7") and not step_span(Config(), row, 7)
    assert trace_parent(config, row) == f"00-{'ab' * 16}-{trace.span_id('attempt 0').hex()}-01"
    assert trace_parent(Config(cluster_name="c"), row) == ""  # the site has no traces: what the user has stays


def test_a_submission_over_rest_has_the_span_of_its_request() -> None:
    """From what the REST daemon says; not of a time that cannot be, of a repeated submission, or of a job without a trace."""
    world = TracedWorld()
    world.submit(JobSubmission(name="a", work_dir=b"/tmp"))
    at_us = world.now_us
    span = world.rest_span(1, at_us - 5_000)
    assert span is not None
    assert (span.name, span.parent, span.start_at_us, span.end_at_us) == ("rest", "", at_us - 5_000, at_us + 7)
    ahead = world.rest_span(1, at_us + 900_000)  # its machine's clock
    assert ahead is not None and ahead.start_at_us == at_us
    for wrong_us in (1, at_us - 601 * US, at_us + 2 * US):
        assert world.rest_span(1, wrong_us) is None
    assert world.rest_span(9, at_us) is None
    rare = TracedWorld(one_in=10**6)
    rare.submit(JobSubmission(name="a", work_dir=b"/tmp"))
    assert rare.rest_span(1, rare.now_us) is None


def test_each_task_of_an_array_has_a_trace_of_its_own() -> None:
    world = TracedWorld()
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", array="1-3"))
    for job_id in sorted(job_id for job_id, _ in world.jobs):
        world.started(job_id)
        world.exited(job_id)
    world.check()
    by_job = {int(facts_of(span)["job"]): span.trace.trace_id for span in world.spans}
    assert len(by_job) == len(set(by_job.values())) == 3
    for job_id in by_job:
        assert {"job", "plan 0", "attempt 0", "accounting 0", f"run 0 {BATCH_STEP}"} <= set(world.keys(job_id))
    submissions = [facts_of(span)["job"] for span in world.spans if span.key == "submit"]
    assert submissions == [1]  # the others had no number of their own yet


def test_a_step_on_two_nodes_has_a_run_on_each() -> None:
    world = TracedWorld()
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", nodes_min=2, ntasks=2, kind=int(JobKind.SALLOC)))
    spec = SpecRow(b"s", b"", (b"a",), ())
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, StepRequest(ntasks=2), spec, True, 99))
    world.step_started(1, 0, "n1")
    world.now_us += US
    world.step_started(1, 0, "n2")
    world.now_us += US
    world.step_exited(1, 0, "n1")
    assert "step 0 0" not in world.keys(1)
    world.now_us += US
    world.step_exited(1, 0, "n2", code=3)
    found = {span.key: span for span in world.spans}
    assert {key for key in found if key.endswith(("n1", "n2"))} == {"run 0 0 n1", "run 0 0 n2"}
    assert facts_of(found["run 0 0 n2"])["exit_code"] == "3:0" and facts_of(found["run 0 0 n1"])["exit_code"] == "0:0"
    step = found["step 0 0"]
    assert step.is_failure and facts_of(step)["state"] == "FAILED"
    for node in ("n1", "n2"):
        assert step.start_at_us <= found[f"run 0 0 {node}"].start_at_us
        assert found[f"run 0 0 {node}"].end_at_us <= step.end_at_us


def test_a_job_has_so_many_spans_however_often_it_runs_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of srun, steps on many nodes, and requeues: what is beyond the bounds is left out, the job itself is not."""
    for name, bound in (("ATTEMPTS_MAX", 2), ("STEPS_MAX", 2), ("RUNS_MAX", 1)):
        monkeypatch.setattr(spans, name, bound)
    world = TracedWorld()
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", nodes_min=2, ntasks=2, requeue=True))
    spec = SpecRow(b"s", b"", (b"a",), ())
    for attempt in range(3):
        world.started(1)
        for number in range(3):
            world.do(
                CreateStep(world.actor("ann"), 1, f"{attempt}{number}" * 16, StepRequest(ntasks=2), spec, True, 99)
            )
            for node in ("n1", "n2"):
                world.step_started(1, number, node)
                world.step_exited(1, number, node)
        if attempt < 2:
            world.do(ControlJobs(world.actor("ann"), ("1",), ControlAction.REQUEUE, world.reply_to()))
            world.exited(1, signal=15)
            world.advance(300)
    world.exited(1)
    world.check()
    keys = world.keys(1)
    assert sorted(key for key in keys if key.startswith("step") and not key.endswith(str(BATCH_STEP))) == [
        "step 0 0", "step 0 1", "step 1 0", "step 1 1",
    ]  # fmt: skip
    assert [key for key in keys if key.startswith("run") and key.endswith(("n1", "n2"))] == [
        "run 0 0 n1", "run 0 1 n1", "run 1 0 n1", "run 1 1 n1",
    ]  # fmt: skip
    assert not any(key.split()[1:2] == ["2"] for key in keys) and keys.count("job") == 1


# ---- how they leave


class Collector:
    """Answers by its list: None takes the spans, an error is raised; the last answer stays."""

    def __init__(self, *answers: NotDelivered | None) -> None:
        self.answers = list(answers)
        self.bodies: list[bytes] = []
        self.asked = 0

    async def post(self, body: bytes, headers: dict[str, str], ca: str = "") -> None:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        self.bodies.append(body)

    def close(self) -> None:
        pass


REFUSED = NotDelivered("c: HTTP 400 no", Retry.REFUSED)
AWAY = NotDelivered("c: HTTP 503", Retry.AWAY)


class Sending:
    """A sender with a runtime of the test's own: `commit` is a batch that makes so many spans, numbered on."""

    def __init__(self, patch: pytest.MonkeyPatch, collector: Collector) -> None:
        self.collector = collector
        self.metrics = SimpleNamespace(spans_sent=0, spans_dropped=0)
        self.observers: list[Callable[[Batch], None]] = []
        self.pauses: list[float] = []
        self._made = 0
        self._wanted = 0
        self.measures = SimpleNamespace(times=Durations())
        runtime: Any = SimpleNamespace(
            measures=self.measures,
            snapshot=None,
            observers=self.observers,
            metrics=self.metrics,
            durable_to_us=lambda: 1,
            clock_us=lambda: 2,
        )
        patch.setattr(traces, "Server", lambda url, timeout_s: collector)
        patch.setattr(traces, "SpanMaker", lambda cluster, snapshot: self)
        patch.setattr(traces, "pause", self._pause)
        self.sender = TraceSender(runtime, "1")

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    def of(self, batch: Batch, sealed_at_us: int, now_us: int) -> Iterable[TraceSpan]:
        for _ in range(self._wanted):
            self._made += 1
            yield TraceSpan(JobTrace(b"t" * 16, b"s" * 16), f"key {self._made}", "", f"<{self._made}>", 1, 2, ())

    def commit(self, spans: int) -> None:
        """Commits a batch with so many spans."""
        self._wanted = spans
        batch: Any = SimpleNamespace(history=[1], steps=[])
        for observer in self.observers:
            observer(batch)

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `story` beside the sender."""

        async def body() -> None:
            await self.sender.use(Config(trace_url=COLLECTOR))
            async with asyncio.timeout(ANSWER_S):
                await story()
            await self.sender.stop()

        asyncio.run(body())

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits for it."""
        while not condition():
            await asyncio.sleep(0.002)


def test_a_full_queue_drops_the_newest_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "QUEUE_MAX", 5)
    sending = Sending(monkeypatch, Collector(AWAY))

    async def story() -> None:
        for _ in range(3):
            sending.commit(3)  # returns at once, whatever the collector does
        assert sending.metrics.spans_dropped == 4
        await sending.until(lambda: sending.collector.asked)
        sending.collector.answers = [None]
        await sending.until(lambda: sending.metrics.spans_sent)

    sending.run(story)
    (body,) = sending.collector.bodies
    assert [number for number in range(1, 10) if b"<%d>" % number in body] == [1, 2, 3, 4, 5]
    assert sending.metrics.spans_sent == 5 and sending.metrics.spans_dropped == 4


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_refused_spans_are_not_sent_again_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [NotDelivered(f"c: HTTP 400 request {number}", Retry.REFUSED) for number in range(4)]
    odd = NotDelivered(
        "c: HTTP 500 request 5", Retry.FAILED
    )  # OTLP: of all answers only 429, 502, 503, 504 are retried
    sending = Sending(monkeypatch, Collector(*answers, odd, None))

    async def story() -> None:
        for number in range(5):
            sending.commit(2)
            await sending.until(lambda done=2 * (number + 1): sending.metrics.spans_dropped == done)  # type: ignore[misc]  # a lambda with a default
        sending.commit(1)
        await sending.until(lambda: sending.metrics.spans_sent)

    sending.run(story)
    assert sending.collector.asked == 6 and sending.metrics.spans_dropped == 10
    assert len(sending.collector.bodies) == 1 and b"<11>" in sending.collector.bodies[0]
    assert warnings(caplog) == ["traces: spans are not taken: c: HTTP 400 request 0"]


def test_a_collector_that_is_away_gets_the_same_spans_after_pauses_that_double(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = NotDelivered("c: no answer within 10 s", Retry.AWAY)
    sending = Sending(monkeypatch, Collector(*[AWAY] * 5, *[hangs] * 5, None))

    async def story() -> None:
        sending.commit(3)
        await sending.until(lambda: sending.metrics.spans_sent)

    sending.run(story)
    assert sending.collector.asked == 11 and len(sending.collector.bodies) == 1
    assert sending.pauses[1:11] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert sending.metrics.spans_dropped == 0 and len(warnings(caplog)) == 1
