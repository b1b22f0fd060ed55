"""Oracles of the fault worlds: they inspect the world - processes, answers, the database - and never query the core.
Each is a method that the world calls when an event has really happened, and raises `Broken` with its own name:

    core, node core     an exception or a violated invariant inside one of the cores (raised by their callers)
    once                a step is launched twice, or two attempts of a job (two jobs of an array task) live at once
    capacity            processes use more cpus, memory or devices of a node than it has, or a device twice
    placement           a job runs where its request does not allow
    time limit          a process outlives limit + KillWait although the controller could reach it; or is ended early
    ended               a job is reported ended while a process of it lives; or leaves its end again
    cancelled, held     a job is launched after the answer to its cancel or hold
    dependency          a job starts before its dependencies are met
    array               more tasks at once than the limit; a task missing or doubled at the end
    acknowledged        a submit that was answered is lost, doubled, or has two ids
    books               the rows of the database do not agree with what ran
    liveness            after all faults have stopped something does not end (world.py)

Those of steps are in stepcheckers.py.

Known limits: a job that may not be requeued is ended as NODE_FAIL while its node does not answer, and may continue to
run there (docs/jobs.md); only `capacity` still counts such a job.
"""

# Any: rows of the database, which SQLAlchemy does not type
from typing import Any, NamedTuple

from sqlalchemy import Engine, select

from ctld.core.records.effects import Batch, LaunchStep, Submitted, Warn
from ctld.core.records.job import JobRow
from ctld.core.records.step import GpuShare, StepRow
from ctld.core.recover import LoadedState
from ctld.core.steps.life import NOT_LAUNCHED_SIGNAL
from ctld.store.schema import JOB, STEP
from penstock.values.config import Config
from penstock.values.jobid import BATCH_STEP
from penstock.values.states import ALLOCATED_STATES, END_STATES, JobState, Reason, Suspend
from sim.broken import Broken as Broken
from sim.simstep import SimProcess, is_cpu_time_of
from sim.stepcheckers import StepCheckers
from sim.timeline import US, Timeline

#: The longest delay of undisturbed work: slow commits, slow passes, network delays.
SLACK_US = 25 * US
UNLIMITED = -1


class ExpectedDemand(NamedTuple):
    """A submission from its user's view."""

    key: str
    user: str
    name: str
    script: bytes
    tasks: int  # 0 = no array
    throttle: int
    depends: tuple[str, int]  # (kind, job id); ("", 0) = on nothing
    nodes_excluded: tuple[str, ...]
    begin_at_us: int


class Checkers:
    """The observed events, and the checks on them."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.rows: dict[tuple[int, int], JobRow] = {}  # committed
        self.last: dict[int, JobRow] = {}  # the last attempt of each job
        self.expected: dict[str, ExpectedDemand] = {}
        self.ids: dict[str, int] = {}  # submit key -> the job id that was answered
        self.by_script: dict[bytes, ExpectedDemand] = {}
        self.launched: dict[object, SimProcess] = {}  # every process so far, by (node, key)
        self.live: dict[object, SimProcess] = {}
        self.ghosts: dict[object, None] = {}
        self.sent: dict[tuple[int, int], None] = {}  # (job, attempt) whose launch has left the controller
        self.stopped: dict[int, tuple[str, frozenset[tuple[int, int]]]] = {}  # id -> (why, launches sent by then)
        self.began: dict[int, None] = {}  # jobs that have been started
        self.limit_max_s: dict[int, int] = {}
        self.limit_changed: dict[int, None] = {}
        self.again: dict[int, int] = {}  # how often jobs were requeued after their end, and their arrays
        self.requeue_asked: dict[int, None] = {}  # jobs of which a requeue was requested
        self.unthrottled: dict[int, None] = {}  # arrays whose limit was changed
        self.sizes: dict[str, tuple[int, int, dict[str, int]]] = {}
        self.partitions: dict[str, frozenset[str]] = {}
        self.kill_wait_s = 0
        self.clock_set = False  # the controller's
        self.clock_jumped = False  # clocks disagree: no oracle compares their times
        self._good_since: dict[str, int] = {}  # node -> since when its connection is undisturbed
        self._database_back_us = 0  # until then no commit succeeds, and no order leaves
        self._streams: dict[str, object] = {}
        self.steps = StepCheckers(self.live, self.ghosts, self._good_since)

    # ---- events ------------------------------------------------------------------------------------------------

    def configured(self, config: Config) -> None:
        """Records a configuration that may be in force from now on; machines have the sizes in the file."""
        self.kill_wait_s = max(self.kill_wait_s, config.kill_wait_s)
        for node in config.nodes:
            gres: dict[str, int] = {}
            for entry in node.gres:
                gres[entry.name] = gres.get(entry.name, 0) + entry.count
            self.sizes[node.name] = (node.cpus_for_jobs(), node.memory_for_jobs_mb(), gres)
        for partition in config.partitions:
            old = self.partitions.get(partition.name, frozenset())
            self.partitions[partition.name] = old | frozenset(partition.nodes)

    def about_to_submit(self, demand: ExpectedDemand) -> None:
        """Records a submission that is about to be sent."""
        self.expected[demand.key] = self.by_script[demand.script] = demand

    def admitted(self, node: str, stream: object) -> None:
        """Records that node and controller are connected both ways."""
        self._streams[node] = stream
        self._good_since[node] = self._timeline.now_us

    def left(self, node: str, stream: object) -> None:
        """Records that the controller has lost the node's stream."""
        if self._streams.get(node) is stream:
            self.disturbed(node)

    def disturbed(self, node: str) -> None:
        """Records a disturbance between node and controller."""
        since_us = self._good_since.pop(node, None)
        if since_us is not None:
            for process in self.live.values():
                if process.node == node:
                    self._check_overrun(process, since_us)

    def database_away(self, until_us: int) -> None:
        """Records that the database is away."""
        self._database_back_us = max(self._database_back_us, until_us)

    # ---- submits -------------------------------------------------------------------------------------------------

    def submitted(self, demand: ExpectedDemand, answer: Submitted) -> None:
        """Records that a client has received a job id."""
        known = self.ids.setdefault(demand.key, answer.job_id)
        if known != answer.job_id:
            raise Broken("acknowledged", f"one submit has the ids {known} and {answer.job_id}", known)
        row = self.last.get(answer.job_id)
        if row is None or row.submit_key not in ("", demand.key):  # a key that is too old to be repeated is dropped
            raise Broken("acknowledged", f"job {answer.job_id} was answered and is not committed", answer.job_id)

    def loaded(self, loaded: LoadedState) -> None:
        """Checks what a controller has loaded: exactly the jobs that were committed as active."""
        found = {row.job_id: (row.attempt, row.state) for row in loaded.jobs}
        for job_id, row in self.last.items():
            if row.state not in END_STATES and found.get(job_id) != (row.attempt, row.state):
                raise Broken(
                    "acknowledged", f"job {job_id} is {row.state.name} and was loaded as {found.get(job_id)}", job_id
                )

    def awaited(self, job_id: int) -> None:
        """Checks the answer to a client that waited for a job's end."""
        rows = [row for row in self.last.values() if job_id in (row.job_id, row.array_job_id)]
        if job_id not in self.again and any(row.state not in END_STATES for row in rows):
            raise Broken("ended", f"who awaits job {job_id} was told that it has ended", job_id)

    # ---- the controller ------------------------------------------------------------------------------------------

    def committed(self, batch: Batch) -> None:
        """Records rows that are now in the database."""
        ended = {(line.job_id, line.attempt): None for line in batch.history if line.event == "end"}
        for row in batch.jobs:
            before = self.rows.get((row.job_id, row.attempt))
            if row.state is JobState.REQUEUED and self._was_requeue_asked(row):
                is_ended = (row.job_id, row.attempt) in ended  # and requeued, within this commit
                was = before.state if before is not None else JobState.PENDING
                self._requeued(row, JobState.COMPLETED if is_ended else was)
            if before is not None and before.state in END_STATES and before.state is not row.state:
                if row.state is JobState.REQUEUED and self._was_requeue_asked(row):
                    self.rows[row.job_id, row.attempt] = row
                    continue
                raise Broken("ended", f"job {row.job_id} goes from {before.state.name} to {row.state.name}", row.job_id)
            if row.state is JobState.REQUEUED and not row.start_at_us:  # cancelled before its start, then requeued
                self.again[row.job_id] = self.again.get(row.job_id, 0) + 1
            self.rows[row.job_id, row.attempt] = row
            if row.attempt >= getattr(self.last.get(row.job_id), "attempt", 0):
                self.last[row.job_id] = row
            limit_s = row.time_limit_s
            most_s = self.limit_max_s.get(row.job_id, limit_s)
            if most_s != limit_s:
                self.limit_changed[row.job_id] = None
            self.limit_max_s[row.job_id] = UNLIMITED if UNLIMITED in (most_s, limit_s) else max(most_s, limit_s)
            if row.start_at_us:
                self.began[row.job_id] = None
            if before is not None and before.hold and row.hold and row.start_at_us and not before.start_at_us:
                raise Broken("held", f"job {row.job_id} starts and is held", row.job_id)
            if before is None or before.state is not row.state:
                self._timeline.say(row.job_id, f"job {row.job_id}.{row.attempt} is {row.state.name} {row.reason.value}")
            if row.suspended_by is Suspend.RESUMING and (before is None or before.suspended_by is not row.suspended_by):
                self._timeline.say(row.job_id, f"job {row.job_id}.{row.attempt} waits for its cpus")
            if row.state in END_STATES:
                self._check_end(row, batch.steps)
            elif row.request.kind and row.alloc:  # it has started, with or without a launch
                self.sent[row.job_id, row.attempt] = None
        self.steps.committed(batch.steps)

    def _was_requeue_asked(self, row: JobRow) -> bool:
        return row.job_id in self.requeue_asked or row.array_job_id in self.requeue_asked

    def _requeued(self, row: JobRow, before: JobState) -> None:
        """Records the requeue of a job that had ended, or that was cancelled and about to end: it may run."""
        ids = row.job_id, row.array_job_id
        is_cancelled = any(self.stopped.get(job_id, ("",))[0] == "cancelled" for job_id in ids)
        if before in END_STATES or (before is JobState.COMPLETING and is_cancelled):
            for job_id in ids:
                self.again[job_id] = self.again.get(job_id, 0) + 1
                self.stopped.pop(job_id, None)

    def _check_end(self, row: JobRow, steps: list[StepRow]) -> None:
        """Checks that nothing of an attempt that has ended lives, but on a node that was given up: then its steps in the same
        commit are NODE_FAIL, whatever the end of the job (an allocation was ended as its node was lost)."""
        is_lost = row.state is JobState.NODE_FAIL or (
            row.state is not JobState.REQUEUED
            and any((s.job_id, s.attempt, s.state) == (row.job_id, row.attempt, JobState.NODE_FAIL) for s in steps)
        )
        for location, process in self.live.items():
            if (process.key.job_id, process.key.attempt) != (row.job_id, row.attempt) or location in self.ghosts:
                continue
            if is_lost and process.node not in self._good_since:
                self.ghosts[location] = None
                continue
            text = f"job {row.job_id}.{row.attempt} is {row.state.name} and lives on {process.node}"
            raise Broken("ended", text, row.job_id)
        if row.state is JobState.TIMEOUT and row.reason is Reason.TIME_LIMIT and not self.clock_jumped:
            ran_us = row.end_at_us - row.start_at_us - row.suspended_us
            if ran_us < row.time_limit_s * US - SLACK_US and row.job_id not in self.limit_changed:
                raise Broken("time limit", f"job {row.job_id} was ended after {ran_us / US:.1f} s", row.job_id)

    def released(self, effect: object) -> None:
        """Checks an effect that leaves the controller."""
        if type(effect) is not LaunchStep:
            return
        key = (effect.job_id, effect.attempt)
        row = self.rows.get(key)
        if row is None or not row.start_at_us:
            raise Broken("books", f"job {effect.job_id}.{effect.attempt} is launched before that is committed", key[0])
        if key not in self.sent:
            for job_id in dict.fromkeys((effect.job_id, effect.job.array_job_id)):
                why, had_left = self.stopped.get(job_id, ("", frozenset()))
                if why and key not in had_left:
                    raise Broken(why, f"job {effect.job_id}.{effect.attempt} is launched all the same", effect.job_id)
        self.sent[key] = None
        if effect.step is not None:
            self.steps.released(effect)

    def answered_stop(self, job_id: int, why: str, requeues: int) -> None:
        """Records a successful cancel or hold of a whole job: no launch of it may leave from now on. `requeues`: how often
        it had been requeued after its end when that was asked. If it was again before the answer arrived, that is a new
        run, and the answer may be about the one before. A run that had its nodes when it was held goes on, though a
        controller that died then has to launch it.
        """
        if self.again.get(job_id, 0) != requeues:
            return
        row = self.last.get(job_id)
        is_run = why == "held" and row is not None and row.state in ALLOCATED_STATES
        running = {(job_id, row.attempt)} if row is not None and is_run else set()
        self.stopped.setdefault(job_id, (why, frozenset(self.sent) | running))

    def about_to_release(self, job_id: int) -> None:
        """Records that the job is about to be released."""
        if self.stopped.get(job_id, ("",))[0] == "held":
            del self.stopped[job_id]

    # ---- processes -----------------------------------------------------------------------------------------------

    def started(self, process: SimProcess) -> None:
        """Checks a process that starts."""
        key = process.key
        job = process.job
        location = process.location
        if location in self.launched:
            raise Broken("once", f"step {key} is started a second time on {process.node}", key.job_id)
        for other_place, other in self.live.items():
            same_task = job.array_job_id and (job.array_job_id, job.array_task_id) == (
                other.job.array_job_id, other.job.array_task_id,
            )  # fmt: skip
            own = (other.key.job_id, other.key.attempt) == (key.job_id, key.attempt) and other.key != key
            own |= other.key == key and process.part is not None
            if (other.key.job_id == key.job_id or same_task) and not own and other_place not in self.ghosts:
                raise Broken("once", f"step {key} starts on {process.node} while {other.key} lives", key.job_id)
        self.launched[location] = self.live[location] = process
        self._check_capacity(process)
        self._check_gpus(process)
        self._check_numbers(process)
        if process.part is not None:
            self.steps.started(process)
            return
        self._check_placement(process)
        self._check_dependency(process)
        if job.array_job_id and job.array_throttle and job.array_job_id not in self.unthrottled:
            alive = (p for location, p in self.live.items() if location not in self.ghosts)  # it cannot be reached
            number = len({p.key.job_id for p in alive if p.job.array_job_id == job.array_job_id})
            if number > job.array_throttle:
                raise Broken(
                    "array", f"{number} tasks of array {job.array_job_id}%{job.array_throttle} run", key.job_id
                )

    def continued(self, process: SimProcess) -> None:
        """Checks a process that was stopped and continues: no other one has its cpus."""
        self._check_capacity(process, starts=False)
        self._check_numbers(process)

    def _check_numbers(self, process: SimProcess) -> None:
        """Checks that no process of another job runs on the CPUs that the process is bound to. One that is to
        end while its job is suspended continues for up to KillWait where it was."""
        own = (process.key.job_id, process.key.attempt)
        if self.rows[own].suspended_by is not Suspend.NO:
            return  # it starts, and the order to stop is on its way
        for location, other in self.live.items():
            theirs = (other.key.job_id, other.key.attempt)
            if other.node != process.node or theirs == own or location in self.ghosts or other.gave_cpus_up:
                continue
            is_late = other.is_ending and self.rows[theirs].suspended_at_us
            if other.cpu_ids & process.cpu_ids and not is_late:
                text = (
                    f"{other.key} and {process.key} run on cpus {other.cpu_ids & process.cpu_ids:#x} of {process.node}"
                )
                raise Broken("capacity", text, process.key.job_id)

    def _gave_cpus_up(self, holder: tuple[int, int], node: str, is_signalled: bool) -> bool:
        """Whether the job has given up its cpus of that node. `is_signalled`: its processes there must have been stopped,
        unless they are being terminated, for which they continue."""
        row = self.rows[holder]
        own = [p for p in self.live.values() if p.node == node and (p.key.job_id, p.key.attempt) == holder]
        suspended = row.suspended_by is not Suspend.NO
        if own and is_signalled and row.state is not JobState.COMPLETING:
            return all(process.gave_cpus_up or (suspended and process.is_ending) for process in own)
        if not own and is_signalled and self._is_to_stop(node):
            return True  # its launch follows the signal to those whose cpus it has
        return suspended or (bool(own) and all(process.gave_cpus_up for process in own))

    def _is_to_stop(self, node: str) -> bool:
        """Whether the signal that stops a suspended job is on its way to the node."""
        there = (p for p in self.live.values() if p.node == node and not p.gave_cpus_up)
        return any(self.rows[p.key.job_id, p.key.attempt].state is JobState.SUSPENDED for p in there)

    def _check_capacity(self, process: SimProcess, starts: bool = True) -> None:
        for part in process.job.alloc:
            cpus = mem_mb = 0
            devices: dict[str, int] = {}
            pieces: dict[int, list[GpuShare]] = {}
            holders: dict[tuple[int, int], None] = {}  # a job holds its nodes once, however many steps run
            for location, other in self.live.items():
                for share in other.job.alloc:
                    if share.node != part.node or (location in self.ghosts and share.node != other.node):
                        continue
                    holder = (other.key.job_id, other.key.attempt)
                    if holder in holders:
                        continue
                    holders[holder] = None
                    gave_up = self._gave_cpus_up(holder, part.node, starts and part.node == process.node)
                    cpus += 0 if gave_up else share.cpus
                    mem_mb += share.mem_mb
                    for name, _, mask in share.gres:
                        if devices.get(name, 0) & mask:
                            text = f"{name} {mask:#x} of {part.node} is held twice by {', '.join(map(str, holders))}"
                            raise Broken("capacity", text, process.key.job_id)
                        devices[name] = devices.get(name, 0) | mask
                    for piece in share.shares:
                        pieces.setdefault(piece.gpu, []).append(piece)
                    # A suspended job gives up its CPUs, and with them what --exclusive means for CPUs: others may be
                    # there until it has all of them again. Its memory and GPUs are counted above. (A new exclusive
                    # job does not start beside it, but one that is resumed may find it suspended there, and so does a
                    # step that was being launched as its job was suspended.)
                    if (
                        holder[0] != process.key.job_id
                        and not (gave_up or process.gave_cpus_up)
                        and (other.job.request.exclusive or process.job.request.exclusive)
                    ):
                        raise Broken("capacity", f"{other.key} and {process.key} share {part.node}", process.key.job_id)
            for gpu, held in pieces.items():
                if devices.get("gpu", 0) >> gpu & 1 or gpu >= self.sizes[part.node][2].get("gpu", 0):
                    raise Broken(
                        "capacity", f"GPU {gpu} of {part.node} is shared and given whole, or absent", process.key.job_id
                    )
                if sum(piece.units for piece in held) > held[0].of or len({piece.name for piece in held}) > 1:
                    raise Broken("capacity", f"GPU {gpu} of {part.node} has {held} in use", process.key.job_id)
            size_cpus, size_mb, gres = self.sizes[part.node]
            too_high = any(mask.bit_length() > gres.get(name, 0) for name, mask in devices.items())
            if cpus > size_cpus or mem_mb > size_mb or too_high:
                text = f"{cpus} cpus, {mem_mb} MB, {devices} of {part.node} are used by {', '.join(map(str, holders))}"
                raise Broken("capacity", text, process.key.job_id)

    def _check_gpus(self, process: SimProcess) -> None:
        """Checks GPUs by name: each whole to one job, or in fractions."""
        whole = any(
            name == "gpu" for part in process.job.alloc if part.node == process.node for name, _, _ in part.gres
        )
        for location, other in self.live.items():
            if other.node != process.node or other.key.job_id == process.key.job_id or location in self.ghosts:
                continue
            both = [uuid for uuid in process.gpus if uuid and uuid in other.gpus]
            parts = any(part.shares for part in other.job.alloc if part.node == process.node)
            if both and (whole or not parts):
                raise Broken("capacity", f"{both[0]} is held by {other.key} and {process.key}", process.key.job_id)

    def _check_placement(self, process: SimProcess) -> None:
        job, demand = process.job, self.by_script.get(process.script)
        nodes = [part.node for part in job.alloc]
        if demand is None:
            raise Broken("placement", f"job {job.job_id} runs a script that was not submitted", job.job_id)
        if self.ids.get(demand.key, 0) not in (0, job.array_job_id or job.job_id):
            raise Broken("placement", f"job {job.job_id} runs the script of {demand.name}", job.job_id)
        bad = [n for n in nodes if n in demand.nodes_excluded or n not in self.partitions[job.partition]]
        if bad or len(set(nodes)) != len(nodes) or len(nodes) < job.request.nodes_min or process.node not in nodes:
            raise Broken("placement", f"job {job.job_id} runs on {nodes} in {job.partition}", job.job_id)
        if demand.begin_at_us > self._timeline.now_us + US and not self.clock_jumped:
            raise Broken("placement", f"job {job.job_id} starts before its begin time", job.job_id)

    def _check_dependency(self, process: SimProcess) -> None:
        job = process.job
        kind, target = self.by_script[process.script].depends
        if kind == "singleton":
            own = job.array_job_id or job.job_id
            for other in self.live.values():
                theirs = other.job.array_job_id or other.job.job_id
                same = (other.job.user_id, other.job.request.name) == (job.user_id, job.request.name)
                is_waited_for = other.location not in self.ghosts and theirs not in self.again
                if same and theirs < own and is_waited_for:
                    raise Broken("dependency", f"job {own} starts while job {theirs} of the same name runs", job.job_id)
        elif kind:
            rows = [row for row in self.last.values() if target in (row.job_id, row.array_job_id)]
            states = [row.state for row in rows]
            is_over = all(state in END_STATES for state in states)
            is_met = {
                "after": all(row.job_id in self.began or row.state in END_STATES for row in rows),
                "afterany": is_over,
                "afterok": is_over and all(state is JobState.COMPLETED for state in states),
                "afternotok": is_over and any(state is not JobState.COMPLETED for state in states),
            }[kind]
            # A condition that was met stays met when the job that had ended is requeued.
            if not is_met and not any(row.job_id in self.again for row in rows):
                shown = ", ".join(state.name for state in states)
                raise Broken("dependency", f"job {job.job_id} starts, {kind}:{target} is {shown}", job.job_id)

    def ended(self, process: SimProcess) -> None:
        """Records the end of a process."""
        del self.live[process.location]
        self.ghosts.pop(process.location, None)
        since_us = self._good_since.get(process.node)
        if since_us is not None:
            self._check_overrun(process, since_us)

    def _check_overrun(self, process: SimProcess, since_us: int) -> None:
        limit_s = self.limit_max_s.get(process.key.job_id, UNLIMITED)
        is_extern = process.part is not None and process.request is None  # it ends last, at any time
        if limit_s == UNLIMITED or self.clock_jumped or is_extern:
            return
        behaviour = process.behaviour
        allowed_us = self.kill_wait_s * US + max(behaviour.on_kill_us, 0) + SLACK_US
        end_us = process.end_us or self._timeline.now_us
        row = self.rows[process.key.job_id, process.key.attempt]
        suspended_us = row.suspended_us  # the limit does not count it
        if row.state is JobState.SUSPENDED:
            suspended_us += max(0, end_us - row.suspended_at_us)
        if suspended_us:  # a limit that comes due meanwhile ends the job when it is resumed
            since_us = max(since_us, row.suspended_at_us)
        due_us = max(process.start_us + limit_s * US + suspended_us, since_us, self._database_back_us)
        if end_us - due_us > allowed_us:
            late_s = (end_us - due_us) / US
            text = f"job {process.key.job_id} still ran {late_s:.0f} s after its limit of {limit_s} s"
            raise Broken("time limit", text, process.key.job_id)

    # ---- the end -------------------------------------------------------------------------------------------------

    def final(self, engine: Engine) -> None:
        """Checks, when everything has ended, that answers, processes and the database agree."""
        with engine.connect() as connection:
            columns = (JOB.c.job_id, JOB.c.attempt, JOB.c.state, JOB.c.start_at_us, JOB.c.end_at_us, JOB.c.exit_code)
            jobs = {(r.job_id, r.attempt): r for r in connection.execute(select(*columns))}
            scripts = select(STEP).where(STEP.c.step_id == BATCH_STEP)
            steps = {(r.job_id, r.attempt): r for r in connection.execute(scripts)}
            self.steps.clock_set = self.clock_set
            self.steps.final(connection, self.launched)
        self._check_rows(jobs)
        self._check_answers()
        for process in self.launched.values():
            if process.part is None:
                self._check_books(process, jobs, steps)
        ran = {(process.key.job_id, process.key.attempt) for process in self.launched.values()}
        for key, row in jobs.items():
            if row.state == JobState.COMPLETED and key not in ran and not self.rows[key].request.kind:
                raise Broken("books", f"job {key[0]}.{key[1]} is COMPLETED and has never run", key[0])

    def _check_rows(self, jobs: dict[tuple[int, int], Any]) -> None:
        if jobs.keys() != self.rows.keys():
            odd = sorted(jobs.keys() ^ self.rows.keys())
            raise Broken("books", f"in the database or among the commits, not both: {odd}", odd[0][0])
        for key, row in self.rows.items():
            found = jobs[key]
            if (found.state, found.start_at_us, found.end_at_us) != (row.state, row.start_at_us, row.end_at_us):
                raise Broken("books", f"job {key[0]}.{key[1]} is not in the database as committed", key[0])
            if row.state not in END_STATES or (row.attempt < self.last[row.job_id].attempt) != (
                row.state is JobState.REQUEUED
            ):
                raise Broken("books", f"job {key[0]}.{key[1]} is left as {row.state.name}", key[0])
            if row.start_at_us and row.end_at_us < row.start_at_us:
                raise Broken("books", f"job {key[0]}.{key[1]} ends before it starts", key[0])

    def _check_answers(self) -> None:
        keys = [row.submit_key for row in self.last.values() if row.submit_key]
        if len(keys) != len(set(keys)):
            raise Broken("acknowledged", "two jobs have one submit key")
        for key, job_id in self.ids.items():
            tasks = self.expected[key].tasks
            own = [row for row in self.last.values() if job_id in (row.job_id, row.array_job_id)]
            number = sum(len(row.array_tasks) if row.array_tasks is not None else 1 for row in own)
            if number != max(tasks, 1):
                raise Broken(
                    "array" if tasks else "acknowledged", f"job {job_id} has {number} tasks of {tasks}", job_id
                )
            single = [row.array_task_id for row in own if row.array_task_id is not None]
            if len(single) != len(set(single)):
                raise Broken("array", f"a task of array {job_id} has two jobs", job_id)

    def warned(self, effect: Warn) -> None:
        """The only warning in a world: a node, all of which are honest, has reported more CPU time than it has. It may
        seem so if the controller's clock was set while a step ran."""
        if not self.clock_set:
            raise Broken("books", effect.text, 0)

    def _check_books(
        self, process: SimProcess, jobs: dict[tuple[int, int], Any], steps: dict[tuple[int, int], Any]
    ) -> None:
        key = (process.key.job_id, process.key.attempt)
        name = f"job {key[0]}.{key[1]}"
        job = jobs.get(key)
        step = steps.get(key)
        end = process.reported
        if job is None or step is None or not job.start_at_us:
            raise Broken("books", f"{name} has run and has no row", key[0])
        if job.start_at_us > process.start_us and not self.clock_set:
            late_s = (job.start_at_us - process.start_us) / US
            raise Broken("books", f"{name} starts {late_s:.1f} s after its script by its row", key[0])
        if step.state == JobState.NODE_FAIL or end is None:
            if end is None and job.state == JobState.COMPLETED:
                raise Broken("books", f"{name} is COMPLETED, and was lost with its node", key[0])
            return
        has_used = is_cpu_time_of(step.user_cpu_us, end.user_cpu_us, self.clock_set)
        if not process.has_started_at(step.start_at_us, self.clock_set) or not has_used:
            text = f"{name} used {end.user_cpu_us} us of cpu from {end.start_at_us}, its row says {step.user_cpu_us}"
            raise Broken("books", f"{text} from {step.start_at_us}", key[0])
        code, number = end.exit_code, end.exit_signal
        if end.failure and not code and not number:  # it stopped itself without contact, and its program ended well
            number = NOT_LAUNCHED_SIGNAL
        if (step.exit_code, step.exit_signal) != (code, number):
            raise Broken("books", f"{name} ended {end.exit_code}:{end.exit_signal}, its row says otherwise", key[0])
        if (job.state == JobState.COMPLETED) and (end.exit_code or end.exit_signal):
            raise Broken("books", f"{name} is COMPLETED with exit {end.exit_code}:{end.exit_signal}", key[0])
