"""Simulations of workloads for users: each a child process with a budget, its result kept in memory for a while.

    run = simulations.reserve(user_id)            # one of a user, RUNNING_MAX in all (429)
    simulations.start(run, order, log)            # the child: `penstock sim order`
    simulations.find(user_id, run.id)             # also shows that somebody still waits for it
    simulations.cancel(user_id, run.id)

The child limits itself (sim/order.py: processor time, memory, no files, no children) before it reads what a user sent, and runs
as the daemon's user, without its environment. Here it is ended after a time, when nobody has asked for a while (the browser is
gone), by `cancel`, and with the daemon. Nothing of it is on a disk. A run is its user's alone: for others it does not exist.
"""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cli.base.document import Json
from penstock.threads import started_pool
from rest.answers import RestError
from rest.limits import (
    RUNNING_SIMULATIONS_MAX,
    SIMULATION_KEPT_S,
    SIMULATION_LEASE_S,
    SIMULATION_WALL_S,
    SIMULATIONS_KEPT_MAX,
    USER_SIMULATIONS_KEPT_MAX,
    too_many,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

#: States. READING: the daemon still collects the log.
READING: Final = "READING"
RUNNING: Final = "RUNNING"
DONE: Final = "DONE"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"
_ACTIVE: Final = (READING, RUNNING)
#: Isolated: neither the environment nor the working directory decide what it imports.
COMMAND: Final = (sys.executable, "-I", "-m", "sim", "order")
#: One thread: the child may make none.
_ENVIRONMENT: Final = {"LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ERROR_CHARS_MAX: Final = 500
_GONE: Final = "nobody asked for it any more"
_TOO_LONG: Final = "it took longer than {:.0f} s: send a part of the log, or fewer policies"
_OVER_BUDGET: Final = "it used up its processor time or memory: send a part of the log, or fewer policies"
_BROKEN: Final = "the simulator failed: try penstock sim run with this log, which says why"


@dataclass(slots=True)
class SimulationRun:
    """One simulation. `answer`: the child's document, of one that is done."""

    id: str
    user_id: int
    asked_at_s: float
    state: str = READING
    error: str = ""
    ended_at_s: float = 0.0
    answer: Json = field(default_factory=dict)
    task: "asyncio.Task[None] | None" = None


class Simulations:
    """The runs of all users of this daemon."""

    def __init__(self, command: Sequence[str] = COMMAND, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._command = command
        self._clock_s = clock_s
        self._runs: dict[str, SimulationRun] = {}  # the oldest first

    def reserve(self, user_id: int) -> SimulationRun:
        """A new run of a user, which counts from now on. Raises RestError with 429."""
        self._forget_old()
        active = [one for one in self._runs.values() if one.state in _ACTIVE]
        if any(one.user_id == user_id for one in active):
            raise too_many("a simulation of this user is running: wait for it, or cancel it")
        if len(active) >= RUNNING_SIMULATIONS_MAX:
            raise too_many(f"{RUNNING_SIMULATIONS_MAX} simulations are running: try again in a moment")
        self._make_room(user_id)
        run = SimulationRun(secrets.token_urlsafe(16), user_id, self._clock_s())
        self._runs[run.id] = run
        return run

    def start(self, run: SimulationRun, order: Json, log: bytes) -> None:
        """Starts the child of a reserved run, unless it was cancelled meanwhile."""
        if run.state == READING:
            run.state = RUNNING
            run.asked_at_s = self._clock_s()
            run.task = asyncio.get_running_loop().create_task(
                self._follow(run, json.dumps(order).encode() + b"\n" + log)
            )

    def drop(self, run: SimulationRun) -> None:
        """Forgets a run that did not begin."""
        self._runs.pop(run.id, None)

    def find(self, user_id: int, run_id: str) -> SimulationRun:
        """A run of this user. Raises RestError with 404."""
        self._forget_old()
        run = self._runs.get(run_id)
        if run is None or run.user_id != user_id:
            raise RestError(404, 0, "there is no such simulation: it may be too old, or of another daemon")
        run.asked_at_s = self._clock_s()
        return run

    def cancel(self, user_id: int, run_id: str) -> SimulationRun:
        """Ends a run of this user; of one that has ended, forgets the result. Raises RestError with 404."""
        run = self.find(user_id, run_id)
        if run.state in _ACTIVE:
            self._end(run, CANCELLED)
            if run.task is not None:
                run.task.cancel()
        else:
            self.drop(run)
        return run

    def _end(self, run: SimulationRun, state: str, error: str = "") -> None:
        if run.state in _ACTIVE:
            run.state = state
            run.error = error[:ERROR_CHARS_MAX]
            run.ended_at_s = self._clock_s()

    def _forget_old(self) -> None:
        limit_s = self._clock_s() - SIMULATION_KEPT_S
        for one in [one for one in self._runs.values() if one.state not in _ACTIVE and one.ended_at_s < limit_s]:
            self.drop(one)

    def _make_room(self, user_id: int) -> None:
        """Forgets the oldest results, so that one more may be kept."""
        for most, which in ((USER_SIMULATIONS_KEPT_MAX, user_id), (SIMULATIONS_KEPT_MAX, None)):
            ended = [one for one in self._runs.values() if one.state not in _ACTIVE and which in (None, one.user_id)]
            for one in ended[: max(len(ended) - most + 1, 0)]:
                self.drop(one)

    @cached_property
    def _threads(self) -> "Executor":
        """Those that speak to children: asyncio's own way may wait for ever where the daemon stops while a child starts."""
        return started_pool(RUNNING_SIMULATIONS_MAX, "simulating")

    async def _follow(self, run: SimulationRun, given: bytes) -> None:
        """The life of the child."""
        try:
            threads = self._threads
            child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_ENVIRONMENT,
                cwd="/", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._end(run, FAILED, f"the simulator cannot be started: {os.strerror(error.errno or 0)}")
            return
        try:
            talk = asyncio.get_running_loop().run_in_executor(threads, child.communicate, given)
            del given
            why = await self._watch(run, talk)
            if why:
                self._end(run, CANCELLED if why == _GONE else FAILED, why)
            else:
                self._take(run, talk.result()[0], child.returncode or 0)
        finally:
            child.kill()  # of one that has ended: nothing; the thread reaps it

    async def _watch(self, run: SimulationRun, talk: "asyncio.Future[tuple[bytes, bytes]]") -> str:
        """Waits for the child's end; returns why it has to be ended before, or ""."""
        latest_s = self._clock_s() + SIMULATION_WALL_S
        while not talk.done():
            now_s = self._clock_s()
            lease_s = run.asked_at_s + SIMULATION_LEASE_S - now_s
            if lease_s <= 0:
                return _GONE
            if latest_s <= now_s:
                return _TOO_LONG.format(SIMULATION_WALL_S)
            await asyncio.wait((talk,), timeout=min(latest_s - now_s, lease_s))
        return ""

    def _take(self, run: SimulationRun, said: bytes, status: int) -> None:
        """What the child answered."""
        try:
            answer = json.loads(said)
        except ValueError:
            self._end(run, FAILED, _OVER_BUDGET if status < 0 else _BROKEN)
            return
        if status == 0:
            run.answer = answer
            self._end(run, DONE)
        else:
            self._end(run, FAILED, str(answer.get("error", _BROKEN)))
