"""Users and administrators of a fault world: their requests, the behaviour of their scripts, and their state. A client
sends a request and waits for an answer or a broken connection. A submission is repeated with the same key, as by
sbatch, until it is answered or its user gives up. The checkers get every answer.
"""

import dataclasses
from collections.abc import Callable
from random import Random

import msgspec

from ctld.core.records.effects import JobEnded, Refusal, Results, Submitted
from ctld.core.records.events import (
    Actor,
    AwaitJob,
    CancelJobs,
    ControlAction,
    ControlJobs,
    Event,
    JobFilter,
    JobSubmission,
    LoadConfig,
    Role,
    SubmitJob,
    UpdateJobs,
    UpdateNodes,
    UpdatePartition,
)
from ctld.core.records.job import JobRow, SpecRow
from penstock.values.config import Config
from penstock.values.fields import Fields, made_of
from penstock.values.jobkind import JobKind
from penstock.values.states import Hold, JobState, NodeFlag, Reason, Suspend
from sim.checkers import Checkers, ExpectedDemand
from sim.simctld import SimController
from sim.simstep import EXTERN_PROGRAM, ScriptBehaviour
from sim.swarm import SwarmOptions
from sim.timeline import US, Timeline

USERS = {"ann": 1001, "bob": 1002}
ROOT = Actor(0, 0, "root", "root", ("root",), Role.ADMINISTRATOR)
#: An extern step runs until it is ended.
EXTERN_RUN_US = 10**9 * US
#: The most attempts of a submission. With the pauses this is longer than the lifetime of a submit key.
TRIES_MAX = 12
DEPENDENCIES = ("afterok", "afterany", "afternotok", "after", "singleton")
HOPELESS = (
    Reason.DEPENDENCY_NEVER_SATISFIED, Reason.BAD_CONSTRAINTS, Reason.PARTITION_NODE_LIMIT, Reason.PARTITION_TIME_LIMIT,
)  # fmt: skip


class People:
    """All users and administrators as one."""

    def __init__(
        self,
        options: SwarmOptions,
        timeline: Timeline,
        random: Random,
        ctld: SimController,
        checkers: Checkers,
        config: Config,
    ) -> None:
        self._options = options
        self._timeline = timeline
        self._random = random
        self._ctld = ctld
        self._checkers = checkers
        self._base = config
        self._number = 0
        self._loose: dict[int, None] = {}  # released jobs: a hold of them proves nothing
        self.open_requests = 0
        self.lost_replies = options.lost_replies

    # ---- requests ------------------------------------------------------------------------------------------------

    def ask(self, make: Callable[[int], Event], on_answer: Callable[[object], None], tries: int = 1) -> None:
        """Sends a request; repeats it when the connection breaks, up to a number of attempts."""
        self.open_requests += 1
        self._timeline.after(self._network_us(), self._arrive, make, on_answer, tries)

    def _network_us(self) -> int:
        return self._random.randint(100, self._options.delay_max_us)

    def _arrive(self, make: Callable[[int], Event], on_answer: Callable[[object], None], tries: int) -> None:
        answered = self._once(make, on_answer, tries)
        if not self._ctld.up:
            answered(None)
        else:
            self._ctld.ask(make, answered)

    def _once(
        self, make: Callable[[int], Event], on_answer: Callable[[object], None], tries: int
    ) -> Callable[[object], None]:
        def answered(body: object) -> None:
            self.open_requests -= 1
            if body is not None and self._random.random() >= self.lost_replies:
                self.open_requests += 1
                self._timeline.after(self._network_us(), deliver, body)
            elif tries > 1:
                self.open_requests += 1
                pause_us = self._random.choice((100_000, 2 * US, 30 * US, 120 * US))
                self._timeline.after(pause_us, self._arrive, make, on_answer, tries - 1)

        def deliver(body: object) -> None:
            self.open_requests -= 1
            on_answer(body)

        return answered

    # ---- submissions ---------------------------------------------------------------------------------------------

    def submit(self) -> None:
        """sbatch of one job."""
        self._submit(self._wanted())

    def submit_array(self) -> None:
        """sbatch --array."""
        random = self._random
        first, count = random.randint(0, 3), random.randint(1, 9)
        throttle = random.choice((0, 0, 1, 3))
        text = f"{first}-{first + count - 1}" + (f"%{throttle}" if throttle else "")
        self._submit(self._wanted(array=text), tasks=count, throttle=throttle)

    def submit_dependent(self) -> None:
        """sbatch --dependency."""
        kind = self._random.choice(DEPENDENCIES)
        ids = list(self._checkers.ids.values())
        if kind != "singleton" and not ids:
            return
        target = 0 if kind == "singleton" else self._random.choice(ids[-10:])
        kill = self._random.random() < 0.3
        text = kind if kind == "singleton" else f"{kind}:{target}"
        self._submit(self._wanted(dependency=text, kill_on_invalid_dep=kill), depends=(kind, target))

    def _wanted(self, **more: object) -> JobSubmission:
        random, options = self._random, self._options
        nodes = random.choice((0, 0, 0, 1, 2))
        gpus = random.randint(1, options.gpus) if options.gpus and random.random() < 0.4 else 0
        name, ntasks = f"job{random.randint(0, 3)}", random.randint(1, options.cpus)
        fields: Fields = {
            "name": name, "work_dir": b"/tmp",
            "ntasks": ntasks, "nodes_min": min(nodes, options.nodes),
            "time_limit_s": random.choice((None, 5, 60, 600)), "requeue": random.choice((None, True, False)),
            "exclusive": random.random() < 0.1, "hold": random.random() < 0.05,
            "mem_per_cpu_mb": random.choice((None, None, 300)),
            "partitions": random.choice(((), ("debug",), ("small", "debug"))),
            "begin_at_us": self._timeline.now_us + random.randint(1, 100) * US if random.random() < 0.1 else 0,
        }  # fmt: skip
        if gpus and ntasks % 2 == 0:
            fields["gres_per_node"] = (("shard", "", gpus),)
        elif gpus:
            fields["gres_per_node"] = (("gpu", random.choice(("", "", "a100")), gpus),)
            fields["gpu_mem_mb"] = 60_000 if options.gpus_named and ntasks == 1 else 0
        if random.random() < 0.1 and options.nodes > 1:
            fields["nodes_excluded"] = f"n{random.randint(1, options.nodes)}"
        if random.random() < 0.1:
            fields["signal"] = "B:USR1@5"
        return made_of(JobSubmission, fields | more)

    def _submit(
        self, wanted: JobSubmission, tasks: int = 0, throttle: int = 0, depends: tuple[str, int] = ("", 0),
        actor: Actor | None = None, then: Callable[[int], None] = lambda job_id: None,
    ) -> None:  # fmt: skip
        self._number += 1
        actor = actor or self.random_user()
        user = actor.user_name
        demand = ExpectedDemand(
            key=f"{self._number:032x}", user=user, name=wanted.name, script=b"script %d" % self._number, tasks=tasks,
            throttle=throttle, depends=depends, begin_at_us=wanted.begin_at_us,
            nodes_excluded=(wanted.nodes_excluded,) if wanted.nodes_excluded else (),
        )  # fmt: skip
        self._checkers.about_to_submit(demand)
        spec = SpecRow(demand.script.rjust(32, b"."), demand.script, (), ())
        at_us = self._timeline.now_us

        def on_answer(body: object) -> None:
            if isinstance(body, Submitted):
                self._timeline.say(
                    body.job_id, f"{user} is told: submitted {body.job_id} ({wanted.dependency or wanted.array})"
                )
                self._checkers.submitted(demand, body)
                then(body.job_id)

        event = SubmitJob(actor, demand.key, at_us, wanted, spec)
        self.ask(lambda reply_to: msgspec.structs.replace(event, reply_to=reply_to), on_answer, TRIES_MAX)
        if self._random.random() < self._options.repeats:
            self.ask(lambda reply_to: msgspec.structs.replace(event, reply_to=reply_to), on_answer, 2)

    def random_user(self) -> Actor:
        """A random user."""
        return self.actor(self._random.choice(tuple(USERS)))

    def actor(self, user: str) -> Actor:
        """A user as the controller sees them."""
        return Actor(USERS[user], USERS[user], user, user, (user,))

    def submit_allocation(self, actor: Actor, kind: JobKind, then: Callable[[int], None]) -> None:
        """salloc, or srun outside of a job."""
        wanted = msgspec.structs.replace(
            self._wanted(), kind=int(kind), hold=False, begin_at_us=0, no_kill=self._random.random() < 0.5
        )
        self._submit(wanted, actor=actor, then=then)

    def behaviour_of(self, script: bytes, job: JobRow, node: str) -> ScriptBehaviour:
        """The behaviour of this attempt's script: a function of seed, script, task and attempt."""
        task = job.array_task_id if job.array_task_id is not None else ""
        if script == EXTERN_PROGRAM:
            random = Random(f"{self._options.seed} {node} {job.job_id} {job.attempt}")  # noqa: S311 (chance for tests)
            return ScriptBehaviour(run_us=EXTERN_RUN_US, on_term_us=random.choice((500, 2 * US)), cpu_share=0.0)
        where = "" if script.startswith(b"script") else node
        random = Random(f"{self._options.seed} {script!r} {task} {job.attempt}{where}")  # noqa: S311 (chance for tests)
        outcome = random.random()
        return ScriptBehaviour(
            run_us=random.randint(1_000, self._options.run_max_s * US),
            exit_code=1 if outcome < 0.15 else 0,
            exit_signal=11 if 0.15 < outcome < 0.2 else 0,
            out_of_memory=0.2 < outcome < 0.23,
            on_term_us=random.choice((500, 500, 2 * US, -1)),
            on_kill_us=random.choice((500, 500, 500, 40 * US)),
            cpu_share=random.choice((0.1, 1.0, 2.0)),
            failure="cannot open the output file" if 0.23 < outcome < 0.26 else "",
        )

    # ---- what is done to jobs ------------------------------------------------------------------------------------

    def _some_id(self) -> int:
        """A job id that some user has received, or the id of an array's task."""
        ids = list(self._checkers.last)
        return self._random.choice(ids[-15:]) if ids else 0

    def _control(
        self, action: ControlAction, job_id: int, on_answer: Callable[[object], None] = lambda body: None
    ) -> None:
        if action in (ControlAction.REQUEUE, ControlAction.REQUEUE_HOLD):
            self._checkers.requeue_asked[job_id] = None
        self._timeline.say(job_id, f"{action.name} {job_id}")
        self.ask(lambda reply_to: ControlJobs(ROOT, (str(job_id),), action, reply_to), on_answer)

    def cancel(self) -> None:
        """scancel of a job, or of a part of an array."""
        job_id = self._some_id()
        if not job_id:
            return
        row = self._checkers.last[job_id]
        part = row.array_job_id == job_id and self._random.random() < 0.5
        text = f"{job_id}_[{self._random.randint(0, 5)}-{self._random.randint(5, 9)}]" if part else str(job_id)
        signal_no = self._random.choice((0, 0, 0, 10))
        requeues = self._checkers.again.get(job_id, 0)

        def on_answer(body: object) -> None:
            if not part and not signal_no and _was_done(body):
                self._timeline.say(job_id, f"told: {job_id} is cancelled")
                self._checkers.answered_stop(job_id, "cancelled", requeues)

        self._timeline.say(job_id, f"scancel {text} signal {signal_no}")
        self.ask(lambda reply_to: CancelJobs(ROOT, JobFilter(ids=(text,)), signal_no, reply_to=reply_to), on_answer)

    def hold(self) -> None:
        """scontrol hold."""
        self._hold(ControlAction.HOLD)

    def requeue_hold(self) -> None:
        """scontrol requeuehold."""
        self._hold(ControlAction.REQUEUE_HOLD)

    def _hold(self, action: ControlAction) -> None:
        job_id = self._some_id()
        row = self._checkers.last.get(job_id)
        if row is None:
            return
        requeues = self._checkers.again.get(job_id, 0)

        def on_answer(body: object) -> None:
            if _was_done(body) and job_id not in self._loose and not row.array_job_id:
                self._checkers.answered_stop(job_id, "held", requeues)

        self._control(action, job_id, on_answer)

    def release(self) -> None:
        """scontrol release."""
        self._release(self._some_id())

    def _release(self, job_id: int) -> None:
        if job_id:
            self._loose[job_id] = None
            self._checkers.about_to_release(job_id)
            self._control(ControlAction.RELEASE, job_id)

    def requeue(self) -> None:
        """scontrol requeue."""
        if job_id := self._some_id():
            self._control(ControlAction.REQUEUE, job_id)

    def suspend_job(self) -> None:
        """scontrol suspend of a job that runs."""
        self._control_some(ControlAction.SUSPEND, JobState.RUNNING)

    def resume_job(self) -> None:
        """scontrol resume of a job that is suspended; its CPUs may be others' by now."""
        self._control_some(ControlAction.RESUME, JobState.SUSPENDED)

    def _control_some(self, action: ControlAction, state: JobState) -> None:
        ids = [job_id for job_id, row in self._checkers.last.items() if row.state is state]
        if ids:
            self._control(action, self._random.choice(ids))

    def update(self) -> None:
        """scontrol update jobid=."""
        job_id, random = self._some_id(), self._random
        if not job_id:
            return
        changes = random.choice(
            (
                {"timelimit": str(random.choice((1, 2, 20)))}, {"nice": str(random.randint(0, 50))},
                {"numtasks": str(random.randint(1, self._options.cpus))}, {"arraytaskthrottle": str(random.randint(0, 3))},
                {"requeue": random.choice("01")}, {"priority": "1000"},
            )
        )  # fmt: skip
        row = self._checkers.last[job_id]
        self._checkers.unthrottled[row.array_job_id or job_id] = None
        self._timeline.say(job_id, f"update {job_id} {changes}")
        self.ask(lambda reply_to: UpdateJobs(ROOT, (str(job_id),), changes, {}, reply_to), lambda body: None)

    def await_job(self) -> None:
        """sbatch --wait."""
        job_id = self._random.choice(list(self._checkers.ids.values()) or [0])
        if job_id:

            def on_answer(body: object) -> None:
                if isinstance(body, JobEnded):
                    self._checkers.awaited(job_id)

            self.ask(lambda reply_to: AwaitJob(ROOT, job_id, reply_to), on_answer)

    # ---- what is done to the cluster -----------------------------------------------------------------------------

    def drain(self) -> None:
        """scontrol update nodename= state=drain."""
        self.set_node(self._random.choice(self._base.nodes).name, "drain")

    def resume(self) -> None:
        """scontrol update nodename= state=resume."""
        self.set_node(self._random.choice(self._base.nodes).name, "resume")

    def set_node(self, name: str, to: str) -> None:
        """scontrol update nodename= state=."""
        self._timeline.say(0, f"update node {name} state={to}")
        changes = {"state": to} | ({} if to == "resume" else {"reason": "a fault world"})
        self.ask(lambda reply_to: UpdateNodes(ROOT, (name,), changes, reply_to), lambda body: None)

    def partition_state(self) -> None:
        """scontrol update partitionname= state=."""
        name = self._random.choice(("debug", "small"))
        self._set_partition(name, self._random.choice(("UP", "UP", "DOWN", "DRAIN", "INACTIVE")))

    def _set_partition(self, name: str, to: str) -> None:
        self._timeline.say(0, f"update partition {name} state={to}")
        self.ask(lambda reply_to: UpdatePartition(ROOT, name, {"state": to}, reply_to), lambda body: None)

    def reconfigure(self) -> None:
        """scontrol reconfigure: nodes in another order, perhaps one fewer, other times."""
        nodes = list(self._base.nodes)
        self._random.shuffle(nodes)
        if len(nodes) > 1 and self._random.random() < 0.3:
            nodes = nodes[1:]
        names = tuple(node.name for node in nodes)
        partitions = tuple(
            dataclasses.replace(p, nodes=n)
            for p in self._base.partitions
            if (n := tuple(name for name in p.nodes if name in names) or names[:1])
        )
        self._take(
            dataclasses.replace(
                self._base, nodes=tuple(nodes), partitions=partitions, kill_wait_s=self._random.choice((5, 30))
            )
        )

    def _take(self, config: Config) -> None:
        self._checkers.configured(config)

        def on_answer(body: object) -> None:
            if body is not None and not isinstance(body, Refusal):
                self._ctld.config = config

        self._timeline.say(0, f"reconfigure: {','.join(node.name for node in config.nodes)}")
        self.ask(lambda reply_to: LoadConfig(config, reply_to), on_answer)

    # ---- when the faults have stopped ----------------------------------------------------------------------------

    def heal(self) -> None:
        """Restores the initial configuration file."""
        self.lost_replies = 0.0
        self._take(self._base)

    def tend(self) -> None:
        """Periodic administration: opens everything, releases and resumes jobs, cancels those that can never run."""
        if not self._ctld.up:
            return
        for partition in self._ctld.core.state.partition_list:
            if partition.state != "UP":
                self._set_partition(partition.name, "UP")
        if len(self._ctld.core.state.node_list) != len(self._base.nodes):
            self._take(self._base)
        for node in self._ctld.core.state.node_list:
            if node.flags & (NodeFlag.DRAIN | NodeFlag.DOWN | NodeFlag.FAIL):
                self.set_node(node.name, "resume")
        for job_id, row in self._checkers.last.items():
            if row.state is JobState.PENDING and row.hold is not Hold.NO:
                self._release(job_id)
            elif row.state is JobState.SUSPENDED and row.suspended_by is Suspend.ADMIN:
                self._control(ControlAction.RESUME, job_id)
            elif row.state is JobState.PENDING and row.reason in HOPELESS:
                self._timeline.say(job_id, f"scancel {job_id}: {row.reason.value}")
                which = JobFilter(ids=(_id_of(row),))
                self.ask(lambda reply_to, w=which: CancelJobs(ROOT, w, reply_to=reply_to), lambda body: None)  # type: ignore[misc]

    def cancel_for_good(self, job_id: int) -> None:
        """scancel of an allocation whose client has gone."""
        self._timeline.say(job_id, f"scancel {job_id}: it has no owner")
        which = JobFilter(ids=(str(job_id),))
        self.ask(lambda reply_to: CancelJobs(ROOT, which, reply_to=reply_to), lambda body: None)


def _id_of(row: JobRow) -> str:
    if row.array_job_id and row.array_tasks is not None:
        return f"{row.array_job_id}_[{row.array_tasks.format()}]"
    return f"{row.array_job_id}_{row.array_task_id}" if row.array_job_id else str(row.job_id)


def _was_done(body: object) -> bool:
    return isinstance(body, Results) and bool(body.results) and body.results[0].code == 0
