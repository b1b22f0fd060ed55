"""The parts of a node of a fault world besides its daemon: scripts with a behaviour, processes, a disk."""

import msgspec

from ctld.core.demand import specialized
from ctld.core.records.job import JobRow
from ctld.core.records.step import StepRow
from nodedaemon.core import messages as core
from nodedaemon.core.steps import StepKey

#: The program of an extern step.
EXTERN_PROGRAM = b"holder"


class ScriptBehaviour(msgspec.Struct, frozen=True):
    """The behaviour of a job's script, drawn at submission."""

    run_us: int
    exit_code: int = 0
    exit_signal: int = 0
    on_term_us: int = 0  # how long it runs after SIGTERM; -1 = it ignores the signal
    on_kill_us: int = 1_000
    cpu_share: float = 1.0
    failure: str = ""  # it can not be started
    out_of_memory: bool = False


class SimProcess:
    """The processes of one step on one node, as one. Times are true times."""

    def __init__(
        self,
        key: StepKey,
        node: str,
        job: JobRow,
        behaviour: ScriptBehaviour,
        script: bytes,
        start_us: int,
        step: StepRow | None,
    ) -> None:
        self.key = key
        self.node = node
        self.job = job
        self.behaviour = behaviour
        self.script = script
        self.location = (node, key)
        parts = step.parts or () if step is not None else ()
        self.part = next((part for part in parts if part.node == node), None)  # None = of a batch script
        self.request = step.request if step is not None else None
        own = self.part or next((part for part in job.alloc if part.node == node), None)
        #: Mask of the CPU numbers that its processes are bound to; 0 = none.
        self.cpu_ids = own.cpu_ids if own is not None and not specialized.is_on(job.request) else 0
        self.start_us = start_us
        self.end_us = 0  # 0 = it runs
        self.end_planned_us = start_us + behaviour.run_us
        self.signal_planned = 0  # the signal of that end
        self.gave_cpus_up = False  # it has received a stop signal, and no SIGCONT since
        self.is_ending = False  # it has got the order to end, and is killed KillWait later
        self.stopped_at_us = 0  # 0 = it is not stopped
        self.stopped_us = 0  # how long it was stopped, the present time apart
        self.left_us = 0  # how long it would run on, while it is stopped
        self.signal = 0  # the signal that ended it
        self.cpu_us = 0
        self.lease = (0, 0)
        self.gpus: tuple[str, ...] = ()  # UUIDs of the job's GPUs here; "" if unknown
        self.lapsed = False  # it was stopped because its lease expired
        self.is_lost = False  # its end is unknown
        self.reported: core.StepEnded | None = None

    def stop(self, now_us: int) -> None:
        """SIGSTOP: it runs no more, and uses nothing."""
        if not self.stopped_at_us:
            self.stopped_at_us = now_us
            self.left_us = max(0, self.end_planned_us - now_us)
            self.end_planned_us = 0

    def resume(self, now_us: int) -> bool:
        """SIGCONT. Returns whether it was stopped, so that its end has another time."""
        if not self.stopped_at_us:
            return False
        self.stopped_us += now_us - self.stopped_at_us
        self.stopped_at_us = 0
        self.end_planned_us = now_us + self.left_us
        return True

    def has_started_at(self, stored_us: int, clock_was_set: bool) -> bool:
        """Whether a stored start is the true one, however wrong the node's clock is. `clock_was_set`: the controller's, which
        then says another time."""
        return self.reported is not None and (clock_was_set or stored_us == self.start_us)


def is_cpu_time_of(stored_us: int, used_us: int, clock_was_set: bool) -> bool:
    """Whether a stored CPU time is the true one. `clock_was_set`: the controller's, by which it may be longer than the step."""
    return stored_us == used_us or (clock_was_set and stored_us < used_us)


class Disk:
    """The data that survive daemon and machine."""

    def __init__(self, spool_id: str) -> None:
        self.spool_id = spool_id
        self.records: list[core.AnyRecord] = []
        self.synced = 0  # that many records survive a loss of power
        self.claims: dict[StepKey, bool] = {}  # True = its stepd has started, False = it never will
        self.ends: dict[StepKey, core.StepEnded] = {}
