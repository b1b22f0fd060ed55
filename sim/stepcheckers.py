"""Oracles of the fault worlds for steps of srun and for extern steps. Like checkers.py, with the same names of oracles:

once            two live instances of one (job, attempt, step) on a node, or a second start of it
capacity        steps that do not share have a cpu number, a device, cpus or memory of their job twice
placement       a step runs on a node that its row does not name, or for a job that it was not asked for
ended           a step, or its part on a node, is reported ended while a process of it lives; or leaves its end again
cancelled       a step is launched after the answer to its cancel
acknowledged    a step that was answered is lost, or has two ids, or two rows
books           rows of steps do not agree with what ran
"""

from sqlalchemy import Connection, select

from ctld.core.records.effects import LaunchStep, StepCreated
from ctld.core.records.step import StepPart, StepRow
from ctld.store import rows
from ctld.store.schema import STEP
from nodedaemon.core.steps import StepKey
from penstock.values.states import END_STATES, JobState
from sim.broken import Broken
from sim.simstep import SimProcess, is_cpu_time_of

_Key = tuple[int, int, int]  # job, attempt, step


class StepCheckers:
    """The observed events of steps, and the checks on them. The three tables are shared with Checkers."""

    def __init__(self, live: dict[object, SimProcess], ghosts: dict[object, None], good_since: dict[str, int]) -> None:
        self._good_since = good_since
        self.clock_set = False  # the controller's
        self.rows: dict[_Key, StepRow] = {}  # committed
        self.requested: dict[str, tuple[int, bytes]] = {}  # step key -> (job id, its program)
        self.ids: dict[str, _Key] = {}  # step key -> the answer
        self._live = live
        self._ghosts = ghosts
        self._sent: dict[tuple[_Key, str], None] = {}
        self._stopped: dict[_Key, dict[tuple[_Key, str], None]] = {}  # cancelled -> launches sent by then

    # ---- events ------------------------------------------------------------------------------------------------

    def about_to_submit(self, step_key: str, job_id: int, script: bytes) -> None:
        """Records a request of a step that is about to be sent."""
        self.requested[step_key] = (job_id, script)

    def created(self, step_key: str, answer: StepCreated) -> None:
        """Records the step id that a client has received."""
        key = (answer.step.job_id, answer.step.attempt, answer.step.step_id)
        known = self.ids.setdefault(step_key, key)
        row = self.rows.get(key)
        if known != key and answer.step.attempt == known[1]:
            raise Broken("acknowledged", f"one request of a step is {known} and {key}", key[0])
        if row is None or row.step_key != step_key:
            raise Broken("acknowledged", f"step {key} was answered and is not committed", key[0])

    def seen_ended(self, key: _Key) -> None:
        """Checks the answer to a client that waited for a step's end."""
        row = self.rows.get(key)
        if row is None or row.state not in END_STATES:
            raise Broken("ended", f"who awaits step {key} was told that it has ended", key[0])

    def answered_cancel(self, key: _Key) -> None:
        """Records a successful cancel of a step."""
        self._stopped.setdefault(key, dict(self._sent))

    # ---- the controller ------------------------------------------------------------------------------------------

    def committed(self, rows: list[StepRow]) -> None:
        """Records rows that are now in the database."""
        for row in rows:
            key = (row.job_id, row.attempt, row.step_id)
            before = self.rows.get(key)
            self.rows[key] = row
            if before is not None and before.state in END_STATES and before.state is not row.state:
                raise Broken("ended", f"step {key} goes from {before.state.name} to {row.state.name}", key[0])
            if row.parts is None:
                if row.state in END_STATES:
                    self._check_end(key, row.node, row.state)
                continue
            for i, part in enumerate(row.parts):
                was = before.parts[i].state if before is not None and before.parts else part.state
                if was in END_STATES and was is not part.state:
                    raise Broken("ended", f"step {key} on {part.node}: {was.name} to {part.state.name}", key[0])
                if part.state in END_STATES:
                    self._check_end(key, part.node, part.state)
            if (row.state in END_STATES) != all(part.state in END_STATES for part in row.parts):
                raise Broken("books", f"step {key} is {row.state.name} with parts {row.parts}", key[0])

    def _check_end(self, key: _Key, node: str, state: JobState) -> None:
        location = (node, StepKey(*key))
        if location not in self._live or location in self._ghosts:
            return
        if state is JobState.NODE_FAIL and node not in self._good_since:
            self._ghosts[location] = None  # ended by the controller while its node does not answer
        else:
            raise Broken("ended", f"step {key} is {state.name} on {node} and lives there", key[0])

    def released(self, effect: LaunchStep) -> None:
        """Checks the launch of a step with parts that leaves the controller."""
        key = (effect.job_id, effect.attempt, effect.step_id)
        row = self.rows.get(key)
        if row is None or effect.node not in [part.node for part in row.parts or ()]:
            raise Broken("books", f"step {key} is launched on {effect.node} before that is committed", key[0])
        had_left = self._stopped.get(key)
        if had_left is not None and (key, effect.node) not in had_left:
            raise Broken("cancelled", f"step {key} is launched on {effect.node} all the same", key[0])
        self._sent[key, effect.node] = None

    # ---- processes -----------------------------------------------------------------------------------------------

    def started(self, process: SimProcess) -> None:
        """Checks a part of a step that starts."""
        key, job = _key(process), process.job
        row = self.rows.get(key)
        name = f"step {key} on {process.node}"
        if row is None or process.part is None or process.node not in [part.node for part in job.alloc]:
            raise Broken("placement", f"{name} is no part of a step, or not on a node of its job", key[0])
        if row.request is not None and self.requested.get(row.step_key) != (key[0], process.script):
            raise Broken("placement", f"{name} runs {process.script!r}, which was not requested", key[0])
        self._check_shares(process)

    def _check_shares(self, process: SimProcess) -> None:
        """Checks that the steps' exclusive resources on this node do not exceed their job's."""
        job = process.job
        mine = next(part for part in job.alloc if part.node == process.node)
        cpus = mem_mb = ids = 0
        devices: dict[tuple[str, str], int] = {}
        for location, other in self._live.items():
            request, part = other.request, other.part
            same = (other.key.job_id, other.key.attempt, other.node) == (job.job_id, job.attempt, process.node)
            if not same or request is None or request.shares_everything() or location in self._ghosts:
                continue
            assert part is not None  # steps with resources have their share of the node
            cpus += part.cpus
            mem_mb += part.mem_mb if request.asks_memory() else 0
            if ids & other.cpu_ids:
                raise Broken("capacity", f"{process.key} has cpus {other.cpu_ids:#x} that others have", job.job_id)
            if not other.gave_cpus_up:  # one that is stopped is moved before it continues
                ids |= other.cpu_ids
            for name, type_, mask in part.gres:
                if devices.get((name, type_), 0) & mask:
                    raise Broken("capacity", f"{process.key} has {name} {mask:#x} that others have", job.job_id)
                devices[name, type_] = devices.get((name, type_), 0) | mask
        of_job = {(name, type_): mask for name, type_, mask in mine.gres}
        foreign = any(mask & ~of_job.get(kind, 0) for kind, mask in devices.items())
        if cpus > mine.cpus or mem_mb > mine.mem_mb or foreign or (mine.cpu_ids and ids & ~mine.cpu_ids):
            text = f"steps of job {job.job_id} have {cpus} cpus {ids:#x}, {mem_mb} MB, {devices} of {mine}"
            raise Broken("capacity", text, job.job_id)

    # ---- the end -------------------------------------------------------------------------------------------------

    def final(self, connection: Connection, launched: dict[object, SimProcess]) -> None:
        """Checks, when everything has ended, that answers, processes and the database agree."""
        found = {}
        for values in connection.execute(select(STEP)):
            row = rows.step_from(tuple(values))
            found[row.job_id, row.attempt, row.step_id] = row
        if found != self.rows:
            odd = sorted(key for key in found.keys() | self.rows.keys() if found.get(key) != self.rows.get(key))
            raise Broken("books", f"steps are not in the database as committed: {odd}", odd[0][0])
        keys: dict[str, _Key] = {}
        for key, row in found.items():
            if row.state not in END_STATES:
                raise Broken("books", f"step {key} is left as {row.state.name}", key[0])
            other = keys.setdefault(row.step_key, key) if row.step_key else key
            if other[0] != key[0] or (other[1] == key[1] and other != key):
                raise Broken("acknowledged", f"one request is the steps {other} and {key}", key[0])
        for step_key, key in self.ids.items():
            if key not in found or found[key].step_key != step_key:
                raise Broken("acknowledged", f"step {key} was answered and has no row", key[0])
        self._check_books(found, launched)

    def _check_books(self, found: dict[_Key, StepRow], launched: dict[object, SimProcess]) -> None:
        used: dict[_Key, int] = {}
        lost: dict[_Key, None] = {}
        for process in launched.values():
            key = _key(process)
            row = found.get(key)
            part = next((p for p in (row.parts or ()) if p.node == process.node), None) if row is not None else None
            if process.part is None:
                continue
            if part is None:
                raise Broken("books", f"step {key} has run on {process.node} and has no part there", key[0])
            end = process.reported
            if part.state is JobState.NODE_FAIL or end is None:
                lost[key] = None
                continue
            used[key] = used.get(key, 0) + end.user_cpu_us
            if process.request is not None:  # an extern step's exit code is the stage that failed
                self._check_part(key, part, process)
        for key, cpu_us in used.items():
            if key not in lost and not is_cpu_time_of(found[key].user_cpu_us, cpu_us, self.clock_set):
                raise Broken(
                    "books", f"step {key} used {cpu_us} us of cpu, its row says {found[key].user_cpu_us}", key[0]
                )

    def _check_part(self, key: _Key, part: StepPart, process: SimProcess) -> None:
        end = process.reported
        assert end is not None
        same = (part.exit_code, part.exit_signal) == (end.exit_code, end.exit_signal)
        if not process.has_started_at(part.start_at_us, self.clock_set) or (not same and not part.failure):
            text = f"step {key} on {part.node} ended {end.exit_code}:{end.exit_signal} (from {end.start_at_us})"
            raise Broken("books", f"{text}, its part is {part}", key[0])


def _key(process: SimProcess) -> _Key:
    return process.key.job_id, process.key.attempt, process.key.step_id
