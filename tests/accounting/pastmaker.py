"""A month of a cluster, made up: what the controller would have committed by when, and what was really used.

`World` moves a clock from event to event. The database gets the rows that a controller writes; `truth` gets every time
in which an attempt held something and ran, as it was, to the microsecond, without looking at any row.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, insert, update

from accounting.rolling import Roller
from accounting.rollup import HOUR_US, Calendar
from accounting.schema import JOB
from accounting.tables import JOB_SPAN
from penstock.values.states import JobState

US = 1_000_000
#: 2023-11-14, the middle of an hour.
START_US = 1_700_000_000 * US
ALLOCATIONS = (
    "cpu=4,mem=8G,node=1,billing=4",
    "cpu=16,mem=64000M,node=2,billing=40,gres/gpu=2,gres/gpu:h200=2",
    "cpu=1,mem=100M,node=1,billing=1",
    "cpu=128,mem=2000000M,node=4,billing=512,gres/gpu=16,gres/gpu:a100=16",
)
SMALLER = {text: text.replace("gres/gpu=2", "gres/gpu=1").replace(":h200=2", ":h200=1") for text in ALLOCATIONS}


@dataclass
class Running:
    """An attempt that holds something."""

    job_id: int
    attempt: int
    owner: tuple[str, str, str, str, str]  # account, user, partition, wckey, QOS
    tres: str
    start_us: int
    since_us: int  # it runs, and holds this, since then; 0 = it is suspended
    suspended_us: int = 0  # since when it is suspended
    ended_us: int = 0  # it has ended in truth, and nobody was told yet


@dataclass
class World:
    """See the module text."""

    engine: Engine
    rng: random.Random
    now_us: int = START_US
    next_id: int = 1
    truth: list[tuple[tuple[str, str, str, str, str], str, int, int]] = field(default_factory=list)
    running: dict[int, Running] = field(default_factory=dict)
    waiting: dict[int, tuple[int, tuple[str, str, str, str, str], str, int]] = field(default_factory=dict)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            yield connection

    def write(self, statement: Any, *values: Any) -> None:
        with self.begin() as connection:
            connection.execute(statement, *values)

    # ---- what happens ------------------------------------------------------------------------------------------------

    def submit(self) -> None:
        rng = self.rng
        owner = (
            rng.choice(("physics", "chem", "")), rng.choice(("ann", "bob", "eve")), rng.choice(("debug", "gpu")),
            rng.choice(("", "w1")), rng.choice(("", "high")),
        )  # fmt: skip
        tres = rng.choice(ALLOCATIONS)
        job_id, self.next_id = self.next_id, self.next_id + 1
        self.waiting[job_id] = (0, owner, tres, self.now_us)
        self.write(insert(JOB), self.row(job_id, 0, owner, tres))

    def row(self, job_id: int, attempt: int, owner: tuple[str, ...], tres: str) -> dict[str, Any]:
        account, user, partition, wckey, qos = owner
        return {
            "job_id": job_id, "attempt": attempt, "array_job_id": 0, "request_id": job_id, "spec_hash": b"",
            "user_id": {"ann": 1, "bob": 2, "eve": 3}[user], "group_id": 1, "user_name": user, "group_name": "g",
            "submit_at_us": self.now_us, "name": "x", "account": account, "qos": qos, "nodes_req": 1, "cpus_req": 1,
            "tres_req": tres, "array_throttle": 0, "partition": partition, "state": int(JobState.PENDING),
            "reason": "None", "reason_detail": "", "hold": 0, "priority": 1, "dependency": "",
            "eligible_at_us": self.now_us, "start_at_us": 0, "end_at_us": 0, "time_limit_s": -1, "alloc": "[]",
            "batch_node": "", "exit_code": 0, "exit_signal": 0, "derived_code": 0, "derived_signal": 0,
            "cancelled_by_uid": -1, "failed_node": "", "admin_comment": "", "tres_alloc": "", "nodes_alloc": 0,
            "cpus_alloc": 0, "node_list": "", "wckey": wckey, "assoc_id": 0,
        }  # fmt: skip

    def change(self, job_id: int, attempt: int, **values: Any) -> None:
        self.write(update(JOB).where(JOB.c.job_id == job_id, JOB.c.attempt == attempt).values(values))

    def start(self) -> None:
        if not self.waiting:
            return
        job_id = self.rng.choice(list(self.waiting))
        attempt, owner, tres, _ = self.waiting.pop(job_id)
        self.running[job_id] = Running(job_id, attempt, owner, tres, self.now_us, self.now_us)
        self.change(job_id, attempt, state=int(JobState.RUNNING), start_at_us=self.now_us, tres_alloc=tres)

    def pick(self) -> Running | None:
        alive = [one for one in self.running.values() if not one.ended_us]
        return self.rng.choice(alive) if alive else None

    def ran_until(self, one: Running, until_us: int) -> None:
        if one.since_us and until_us > one.since_us:
            self.truth.append((one.owner, one.tres, one.since_us, until_us))
        one.since_us = 0

    def suspend(self) -> None:
        one = self.pick()
        if one is None or one.suspended_us:
            return
        self.ran_until(one, self.now_us)
        one.suspended_us = self.now_us
        self.change(one.job_id, one.attempt, state=int(JobState.SUSPENDED), suspended_at_us=self.now_us)

    def wake(self, one: Running) -> None:
        """The row of a suspension that is over."""
        if one.suspended_us and self.now_us > one.suspended_us:
            span = {"start_at_us": one.suspended_us, "end_at_us": self.now_us, "tres": ""}
            self.write(insert(JOB_SPAN), {"job_id": one.job_id, "attempt": one.attempt} | span)
        one.suspended_us = 0

    def resume(self) -> None:
        one = self.pick()
        if one is None or not one.suspended_us:
            return
        self.wake(one)
        one.since_us = self.now_us
        self.change(one.job_id, one.attempt, state=int(JobState.RUNNING), suspended_at_us=self.now_us)

    def shrink(self) -> None:
        one = self.pick()
        if one is None or SMALLER.get(one.tres, one.tres) == one.tres if one else True:
            return
        was = one.tres
        if one.since_us:
            self.ran_until(one, self.now_us)
            one.since_us = self.now_us
        one.tres = SMALLER.get(was, was)
        span = {"start_at_us": 0, "end_at_us": self.now_us, "tres": was}
        self.write(insert(JOB_SPAN), {"job_id": one.job_id, "attempt": one.attempt} | span)
        self.change(one.job_id, one.attempt, tres_alloc=one.tres)

    def end(self) -> None:
        one = self.pick()
        if one is not None:
            self.ran_until(one, self.now_us)
            one.ended_us = self.now_us
            self.tell(one)

    def end_unseen(self) -> None:
        """On a node that is out of reach: the row says that it runs."""
        one = self.pick()
        if one is not None:
            self.ran_until(one, self.now_us)
            one.ended_us = self.now_us

    def tell_one(self) -> None:
        unseen = [one for one in self.running.values() if one.ended_us]
        if unseen:
            self.tell(self.rng.choice(unseen))

    def tell(self, one: Running, requeue: bool = False) -> None:
        self.wake(one)
        del self.running[one.job_id]
        state = JobState.REQUEUED if requeue else JobState.COMPLETED
        self.change(one.job_id, one.attempt, state=int(state), end_at_us=max(one.ended_us, one.start_us))

    def requeue(self) -> None:
        """Preempted, or its node failed: this attempt ends, the next one waits."""
        one = self.pick()
        if one is None:
            return
        self.ran_until(one, self.now_us)
        one.ended_us = self.now_us
        self.tell(one, requeue=True)
        self.waiting[one.job_id] = (one.attempt + 1, one.owner, one.tres, self.now_us)
        self.write(insert(JOB), self.row(one.job_id, one.attempt + 1, one.owner, one.tres))

    def cancel_waiting(self) -> None:
        if self.waiting:
            job_id = self.rng.choice(list(self.waiting))
            attempt, *_ = self.waiting.pop(job_id)
            self.change(job_id, attempt, state=int(JobState.CANCELLED), end_at_us=self.now_us)

    ACTS = (
        (submit, 30), (start, 30), (suspend, 6), (resume, 6), (shrink, 4), (end, 16), (end_unseen, 4), (tell_one, 3),
        (requeue, 5), (cancel_waiting, 2),
    )  # fmt: skip

    def advance(self, least_us: int, most_us: int) -> None:
        """One thing happens, some time later."""
        self.now_us += self.rng.randint(least_us, most_us)
        acts, weights = zip(*self.ACTS, strict=True)
        self.rng.choices(acts, weights)[0](self)

    # ---- the truth ---------------------------------------------------------------------------------------------------

    def used_until(self, until_us: int) -> list[tuple[tuple[str, str, str, str, str], str, int, int]]:
        """All times with what was used in them; what still runs, until then."""
        going = [(o.owner, o.tres, o.since_us, until_us) for o in self.running.values() if o.since_us]
        return [
            (owner, tres, from_us, min(to_us, until_us))
            for owner, tres, from_us, to_us in (*self.truth, *going)
            if from_us < until_us and from_us < min(to_us, until_us)
        ]


def last_hour(now_us: int) -> int:
    return now_us - now_us % HOUR_US


class Stopped(Exception):
    """The power is gone."""


def roll_up(world: World, stop_after: int, page: int, calendar: Calendar) -> Roller:
    """Bring the books up to date; the power goes `stop_after` transactions from now, in its middle. -1 = it stays."""
    left = stop_after

    @contextmanager
    def begin() -> Iterator[Connection]:
        nonlocal left
        with world.engine.begin() as connection:
            yield connection
            if left == 0:
                raise Stopped
            left -= 1

    roller = Roller(begin, world.engine.connect, calendar, "root", page)
    try:
        while roller.advance(last_hour(world.now_us), world.now_us):
            pass
    except Stopped:
        pass
    return Roller(begin, world.engine.connect, calendar, "root", page)
