"""Sends the spans of jobs to an OpenTelemetry collector (PenstockTraceUrl): OTLP, protobuf over HTTP.

The controller alone sends: nodes report their times to it in any case, so they need no way to the collector.

Rules
    - Off costs nothing: the loop calls nothing of this module.
    - The loop only appends spans to a queue of QUEUE_MAX; what does not fit is dropped and counted. A task takes SPANS_MAX at a
      time; a process of its own posts them (poster.py).
    - A collector that is away or hangs delays nobody: the same spans are sent again after a pause that doubles. Any other answer
      but success is final, as OTLP has it: those spans are dropped and counted.
    - A problem is logged when it begins or becomes one of the other kind, whatever words the collector has for each request.
    - Best effort: unlike events of webhooks, spans are not in the database. A controller that is killed loses those in the queue.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Final

from ctld.core.records.effects import Batch
from ctld.delivery.otlp import PROTOBUF_TYPE, TraceSpan, encode
from ctld.delivery.receivers import NotDelivered, Retry, Server
from ctld.delivery.spans import SpanMaker
from ctld.metrics import Exemplar
from ctld.runtime.loop import Runtime
from penstock.logs.structured import LogValue, SpanIds
from penstock.values.config import Config

log = logging.getLogger("penstock.ctld")

#: Some 500 bytes each in memory.
QUEUE_MAX: Final = 20_000
#: In one request: some 60 KB.
SPANS_MAX: Final = 200
#: Spans of this time leave together.
GATHER_S: Final = 0.5
PAUSE_MAX_S: Final = 60.0
TIMEOUT_S: Final = 10
#: Of a clean stop.
STOP_S: Final = 2.0
pause = asyncio.sleep  # a name of its own, for tests


class TraceSender:
    """The collector of the present configuration. Belongs to the loop's thread."""

    def __init__(self, runtime: Runtime, version: str) -> None:
        self._runtime = runtime
        self._version = version
        self._queue: deque[TraceSpan] = deque()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()  # set when all was sent, or an attempt has failed
        self._maker: SpanMaker | None = None
        self._server: Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._config = ("", "")
        self._problem: Retry | None = None  # of the last attempt

    async def use(self, config: Config) -> None:
        """Sends to the collector of a configuration from now on."""
        key = config.trace_url, config.cluster_name
        if key == self._config:
            return
        await self.stop()
        self._config = key
        if not config.trace_url:
            return
        self._maker = SpanMaker(config.cluster_name, self._runtime.snapshot)
        self._server = Server(config.trace_url, TIMEOUT_S)
        resource: dict[str, str | int] = {
            "service.name": "penstock",
            "service.version": self._version,
            "cluster": config.cluster_name,
        }
        self._runtime.observers.append(self._committed)
        self._runtime.received = self._received
        self._task = asyncio.create_task(self._run(self._server, resource))

    async def stop(self) -> None:
        """Ends; what waits is sent if the collector takes it at once."""
        if self._task is None or self._server is None:
            return
        self._runtime.observers.remove(self._committed)
        self._runtime.received = None
        if not self._problem and self._queue:
            self._settled.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), STOP_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._server.close()
        self._runtime.metrics.spans_dropped += len(self._queue)
        self._queue.clear()
        self._task = None
        self._server = None
        self._maker = None
        self._problem = None

    def _committed(self, batch: Batch) -> None:
        """Queues the spans that end with a batch. An unexpected error costs them, and not the controller."""
        if self._maker is None or not (batch.history or batch.steps):
            return
        queue, runtime = self._queue, self._runtime
        submissions = runtime.measures.times.submissions
        try:
            for span in self._maker.of(batch, runtime.durable_to_us(), runtime.clock_us()):
                if span.key == "submit":
                    took_us = span.end_at_us - span.start_at_us
                    submissions.trace(Exemplar(took_us, span.trace.trace_id.hex(), span.end_at_us))
                self._put(span)
        except Exception:
            log.exception("spans of a batch cannot be made: they are not sent")
        if queue:
            self._wake.set()

    def _received(self, job_id: int, at_us: int) -> None:
        """Queues the span of the request over REST that has submitted a job, which is committed."""
        if self._maker is not None and (span := self._maker.rest_span(job_id, at_us, self._runtime.clock_us())):
            self._put(span)
            self._wake.set()

    def _put(self, span: TraceSpan) -> None:
        if len(self._queue) < QUEUE_MAX:
            self._queue.append(span)
        else:
            self._runtime.metrics.spans_dropped += 1

    def ids_of(self, fields: Mapping[str, LogValue]) -> SpanIds | None:
        """Returns the trace and the span of a line of the log, None of one that belongs to no traced job."""
        maker, job_id = self._maker, fields.get("job")
        return maker.ids_of(job_id, fields) if maker is not None and isinstance(job_id, int) else None

    async def _run(self, server: Server, resource: dict[str, str | int]) -> None:
        pause_s = GATHER_S
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
            await pause(pause_s if self._problem or len(self._queue) < SPANS_MAX else 0)
            spans = list(islice(self._queue, SPANS_MAX))
            if await self._send(server, spans, resource):
                for _ in spans:
                    self._queue.popleft()
                pause_s = GATHER_S
            else:
                pause_s = min(PAUSE_MAX_S, 2 * pause_s)
            if self._problem or not self._queue:
                self._settled.set()

    async def _send(self, server: Server, spans: list[TraceSpan], resource: dict[str, str | int]) -> bool:
        """Returns whether the spans are done with: taken, or refused for good."""
        metrics = self._runtime.metrics
        try:
            body = await asyncio.to_thread(encode, spans, resource)
            await server.post(body, {"Content-Type": PROTOBUF_TYPE})
        except NotDelivered as error:
            problem = Retry.AWAY if error.retry is Retry.AWAY else Retry.REFUSED
            if problem is not self._problem:
                self._problem = problem
                log.warning("traces: spans are not taken: %s", error)
            if problem is Retry.AWAY:
                return False
            metrics.spans_dropped += len(spans)
            return True
        metrics.spans_sent += len(spans)
        if self._problem:
            self._problem = None
            log.info("traces: the collector takes spans again")
        return True
