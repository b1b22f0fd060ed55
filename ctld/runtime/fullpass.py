"""Full passes of the planner, each in a worker thread beside the loop.

A planner that fails has decided nothing: its pass has no starts. One that exceeds its time limit is stopped, and its
results so far count.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
import numpy.typing as npt

from ctld.core.queue.planning import run_plan
from ctld.core.records.effects import StartPlan
from ctld.core.records.events import Event, PlanReady
from ctld.runtime.measures import Measures
from penstock.threads import started_pool

log = logging.getLogger("penstock.ctld")


class FullPasses:
    """Runs one pass at a time, as the core requests them, and posts its result."""

    def __init__(self, measures: Measures, clock_us: Callable[[], int], post: Callable[[Event], None]) -> None:
        self._measures = measures
        self._clock_us = clock_us
        self._post = post
        self._stopped = False
        self._limit: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._worker: Executor = started_pool(1, "planner")

    def start(self, effect: StartPlan) -> None:
        """Runs the pass for at most `seconds_max`."""
        self._measures.metrics.plans += 1
        begun, rows = time.perf_counter_ns(), len(effect.question.given.rows)
        future = self._loop.run_in_executor(self._worker, _plan, effect)
        future.add_done_callback(lambda done: self.finished(effect.revision, begun, rows, done))
        self._limit = self._loop.call_later(effect.seconds_max, _stop_pass, effect.question.given.stop)

    def finished(self, revision: int, begun_ns: int, rows: int, future: "asyncio.Future[PlanReady]") -> None:
        """Handles the end of the worker's pass."""
        if self._limit is not None:
            self._limit.cancel()
        if self._stopped or future.cancelled():
            return
        error = future.exception()
        if error is not None:
            log.error("the planner failed; its pass starts nothing", exc_info=error)
            self._measures.spared()
            self._post(PlanReady(revision, (), ()))
            return
        ready = future.result()
        table = len(ready.forecast) if ready.forecast is not None else 0
        self._measures.full_pass(begun_ns, rows, len(ready.starts), table, self._clock_us())
        self._post(ready)

    def stop(self) -> None:
        """Stops without waiting for a running pass; its result is not posted."""
        self._stopped = True
        self._worker.shutdown(wait=False, cancel_futures=True)


def _plan(effect: StartPlan) -> PlanReady:
    """Runs in the worker, which also sorts the forecast, to relieve the loop."""
    ready = run_plan(effect.revision, effect.question)
    if ready.forecast is not None:
        ready.forecast.sort()
    return ready


def _stop_pass(stop: npt.NDArray[np.uint8]) -> None:
    """Handles bf_max_time: the planner checks the flag between two rows."""
    stop[0] = 1
