"""Starts steps in a fault world: srun and salloc with jobs of their own, and scripts that call srun.

A client does what the commands do: it waits for its allocation, requests a step with an idempotency key, waits for the
step's end, releases the allocation. Each wait is a call that ends after WAIT_US, when its connection breaks, or when
the client is gone; a live client repeats it. A client that dies sends nothing: only its call ends.
"""

from collections.abc import Callable
from random import Random

import msgspec

from ctld.core.records.effects import AllocationState, Results, StepCreated, StepSeen
from ctld.core.records.events import (
    Actor,
    AwaitAllocation,
    AwaitStep,
    CancelJobs,
    CreateStep,
    EndAllocation,
    Event,
    JobFilter,
)
from ctld.core.records.job import SpecRow
from ctld.core.records.step import StepRequest
from penstock.values.jobkind import JobKind
from penstock.values.states import END_STATES, JobState
from sim.checkers import Checkers
from sim.people import People
from sim.simctld import SimController
from sim.swarm import SwarmOptions
from sim.timeline import US, Timeline

WAIT_US = 30 * US
#: The pause between a failed call and the next.
PAUSES_US = (100_000, 1 * US, 20 * US, 90 * US)
STEPS_MAX = 3


class SimCall:
    """A request that may be answered late. `heard(None)`: repeat it."""

    def __init__(
        self,
        clients: "Clients",
        make: Callable[[int], Event],
        on_answer: Callable[[object], None],
        wait_us: int = WAIT_US,
    ) -> None:
        self._clients = clients
        self._make = make
        self._on_answer = on_answer
        self._wait_us = wait_us
        self._reply_to = 0
        self._run = 0
        self._is_over = False
        clients.people.open_requests += 1
        clients.timeline.after(clients.network_us(), self._arrive)

    def _arrive(self) -> None:
        clients = self._clients
        if self._is_over:
            return
        if not clients.ctld.up:
            self._finish(None)
            return
        self._run = clients.ctld.run
        clients.ctld.ask(self._made, self._answered)
        clients.timeline.after(self._wait_us, self.drop)

    def _made(self, reply_to: int) -> Event:
        self._reply_to = reply_to
        return self._make(reply_to)

    def _answered(self, body: object) -> None:
        clients = self._clients
        if clients.random.random() < clients.people.lost_replies:
            body = None
        clients.timeline.after(clients.network_us(), self._finish, body)

    def drop(self) -> None:
        """The caller stops waiting."""
        if not self._is_over:
            self._clients.ctld.stop_waiting(self._run, self._reply_to)
            self._finish(None)

    def _finish(self, body: object) -> None:
        if not self._is_over:
            self._is_over = True
            self._clients.people.open_requests -= 1
            self._on_answer(body)


class SimClient:
    """One srun or salloc. `owns`: it has created the job."""

    def __init__(self, clients: "Clients", actor: Actor, job_id: int, steps: int, owns: bool) -> None:
        self._clients = clients
        self._actor = actor
        self._job_id = job_id
        self._left = steps
        self._owns = owns
        self._call: SimCall | None = None
        self._gone = False
        self._key = ""
        random = clients.random
        if random.random() < clients.options.vanish:
            clients.timeline.after(random.randint(1, clients.options.run_max_s * US), self._vanish)
        self.resume()

    def resume(self) -> None:
        """Takes the next step of the client."""
        if self._gone:
            return
        if self._owns and not self._key:
            self._exchange(lambda reply: AwaitAllocation(self._actor, self._job_id, True, reply), self._allocated)
        elif self._left:
            self._left -= 1
            self._create(*self._clients.new_step(self._job_id))
        elif self._owns:
            code = self._clients.random.choice((0, 0, 3))
            self._exchange(
                lambda reply: EndAllocation(self._actor, self._job_id, code, 0, reply), lambda body: self._leave()
            )
        else:
            self._leave()

    def _vanish(self) -> None:
        if not self._gone:
            self._clients.timeline.say(self._job_id, f"a client of job {self._job_id} is gone")
            self._leave()
            if self._owns:
                self._clients.owned.pop(self._job_id, None)
            if self._call is not None:
                self._call.drop()

    def _leave(self) -> None:
        self._gone = True

    def _exchange(self, make: Callable[[int], Event], on_answer: Callable[[object], None]) -> None:
        def answered(body: object) -> None:
            if self._gone:
                return
            if body is not None:
                on_answer(body)
                return
            pause_us = self._clients.random.choice(PAUSES_US)
            self._clients.timeline.after(pause_us, lambda: None if self._gone else self._exchange(make, on_answer))

        self._call = SimCall(self._clients, make, answered)

    def _allocated(self, body: object) -> None:
        if (
            not isinstance(body, AllocationState)
            or body.job.state in END_STATES
            or body.job.state is JobState.COMPLETING
        ):
            self._leave()
        else:
            self._key = "allocated"
            self.resume()

    def _create(self, key: str, request: StepRequest, spec: SpecRow) -> None:
        self._key = key
        event = CreateStep(self._actor, self._job_id, key, request, spec)
        if self._clients.random.random() < self._clients.options.repeats:
            SimCall(
                self._clients, lambda reply: msgspec.structs.replace(event, reply_to=reply),
                lambda body: self._created_again(key, body), US,
            )  # fmt: skip
        self._exchange(lambda reply: msgspec.structs.replace(event, reply_to=reply), self._created)

    def _created_again(self, key: str, body: object) -> None:
        if isinstance(body, StepCreated):
            self._clients.checkers.steps.created(key, body)  # the client may be at its next step

    def _created(self, body: object) -> None:
        if not isinstance(body, StepCreated):
            self._clients.timeline.say(self._job_id, f"job {self._job_id}: no step: {getattr(body, 'text', body)}")
            self.resume()
            return
        step = body.step
        self._clients.timeline.say(self._job_id, f"told: step {step.job_id}.{step.step_id} on {step.node_list}")
        self._clients.checkers.steps.created(self._key, body)
        key = (step.job_id, step.attempt, step.step_id)
        self._clients.known_steps.append(key)
        self._exchange(lambda reply: AwaitStep(self._actor, *key, True, reply), self._seen)

    def _seen(self, body: object) -> None:
        if isinstance(body, StepSeen):
            row = body.step
            self._clients.checkers.steps.seen_ended((row.job_id, row.attempt, row.step_id))
        self.resume()


class Clients:
    """All of them."""

    def __init__(
        self, options: SwarmOptions, timeline: Timeline, random: Random, ctld: SimController, checkers: Checkers, people: People
    ) -> None:  # fmt: skip
        self.options = options
        self.timeline = timeline
        self.random = random
        self.ctld = ctld
        self.checkers = checkers
        self.people = people
        self.known_steps: list[tuple[int, int, int]] = []  # steps that some client knows
        self.owned: dict[int, None] = {}  # jobs whose client knows them and is alive
        self._number = 0

    def network_us(self) -> int:
        """The delay of a message."""
        return self.random.randint(100, self.options.delay_max_us)

    def new_step(self, job_id: int) -> tuple[str, StepRequest, SpecRow]:
        """The request of a step of that job."""
        self._number += 1
        key, script = f"{self._number:032x}", b"step %d" % self._number
        self.checkers.steps.about_to_submit(key, job_id, script)
        return key, self._request(), SpecRow(script.rjust(32, b"."), b"", (script,), ())

    def _request(self) -> StepRequest:
        random, options = self.random, self.options
        gpus = random.randint(1, options.gpus) if options.gpus and random.random() < 0.3 else 0
        return StepRequest(
            name="step", ntasks=random.choice((0, 0, 1, 2, 3)), nodes_min=random.choice((0, 0, 0, 1, 2)),
            exact=random.random() < 0.6, overlap=random.random() < 0.2, no_gres=not gpus and random.random() < 0.5,
            gres_per_node=(("gpu", "", gpus),) if gpus else (),
            mem_per_node_mb=random.choice((None, None, 50, 150)),
            time_limit_s=random.choice((None, None, 5, 60)), signal=random.choice(("", "USR1@3")),
            kill_on_bad_exit=random.random() < 0.3, resv_ports=random.choice((0, 0, 0, 1, 5)),
            immediate_s=random.choice((None, None, None, 0)), no_kill=random.random() < 0.5,
        )  # fmt: skip

    # ---- what people do ------------------------------------------------------------------------------------------

    def submit_srun(self) -> None:
        """srun outside of a job."""
        self._submit(JobKind.SRUN)

    def submit_salloc(self) -> None:
        """salloc, with some steps."""
        self._submit(JobKind.SALLOC)

    def _submit(self, kind: JobKind) -> None:
        actor = self.people.random_user()
        steps = 1 if kind is JobKind.SRUN else self.random.randint(0, STEPS_MAX)
        known: dict[int, None] = {}

        def submitted(job_id: int) -> None:
            if job_id not in known:
                known[job_id] = self.owned[job_id] = None
                SimClient(self, actor, job_id, steps, owns=True)

        self.people.submit_allocation(actor, kind, submitted)

    def make_steps(self) -> None:
        """srun within some job that runs."""
        running = [row for row in self.checkers.last.values() if row.alloc and row.state not in END_STATES]
        if running:
            row = self.random.choice(running)
            actor = self.people.actor(row.user_name)
            SimClient(self, actor, row.job_id, self.random.randint(1, STEPS_MAX), owns=False)

    def cancel_step(self) -> None:
        """scancel of a step."""
        if not self.known_steps:
            return
        key = self.random.choice(self.known_steps[-8:])
        row = self.checkers.steps.rows[key]
        text = f"{key[0]}.{key[2]}"
        signal_no = self.random.choice((0, 0, 10))

        def on_answer(body: object) -> None:
            done = isinstance(body, Results) and bool(body.results) and body.results[0].code == 0
            attempt_ends = self.checkers.last[key[0]].attempt
            if done and not signal_no and attempt_ends == key[1]:
                self.checkers.steps.answered_cancel(key)

        self.timeline.say(key[0], f"scancel {text} signal {signal_no}")
        actor = self.people.actor(self.checkers.last[row.job_id].user_name)
        self.people.ask(lambda reply: CancelJobs(actor, JobFilter(ids=(text,)), signal_no, reply_to=reply), on_answer)

    def tend(self) -> None:
        """Cancels the salloc jobs without an owner, which would run for ever."""
        if not self.ctld.up:
            return
        for job_id, row in self.checkers.last.items():
            if row.state not in END_STATES and row.request.kind is JobKind.SALLOC and job_id not in self.owned:
                self.people.cancel_for_good(job_id)
