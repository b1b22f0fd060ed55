"""What a node of a fault world is made of beside its daemon: scripts that behave in some way, processes, a disk."""

import msgspec

from ctld.core.model import JobRow
from ctld.core.step_model import StepRow
from nodedaemon.core import messages as core
from nodedaemon.core.steps import StepKey

#: What a holder runs.
HOLDER = b"holder"


class Nature(msgspec.Struct, frozen=True):
    """How a job's script behaves, drawn by who submitted it."""

    run_us: int
    exit_code: int = 0
    exit_signal: int = 0
    on_term_us: int = 0  # how long it goes on after SIGTERM; -1 = it does not care
    on_kill_us: int = 1_000
    cpu_share: float = 1.0
    failure: str = ""  # it can not be started
    out_of_memory: bool = False


class Process:
    """The processes of one step on one node, as one. Times are true times."""

    def __init__(
        self, key: StepKey, node: str, job: JobRow, nature: Nature, script: bytes, start_us: int, step: StepRow | None
    ) -> None:
        self.key, self.node, self.job, self.nature, self.script = key, node, job, nature, script
        self.place = (node, key)
        parts = step.parts or () if step is not None else ()
        self.part = next((part for part in parts if part.node == node), None)  # None = of a batch script
        self.request = step.request if step is not None else None
        self.start_us = start_us
        self.end_us = 0  # 0 = it runs
        self.end_planned_us = start_us + nature.run_us
        self.signal = 0  # what ended it
        self.cpu_us = 0
        self.lease = (0, 0)
        self.gpus: tuple[str, ...] = ()  # who the job's GPUs here are; "" where nobody knows
        self.lapsed = False  # it has been told to stop, as nobody renewed its lease
        self.is_lost = False  # nobody can tell how it ended
        self.reported: core.StepEnded | None = None


class Disk:
    """What outlives daemon and machine."""

    def __init__(self, spool_id: str) -> None:
        self.spool_id = spool_id
        self.records: list[core.AnyRecord] = []
        self.synced = 0  # that many records survive a loss of power
        self.claims: dict[StepKey, bool] = {}  # True = its stepd has begun, False = it never will
        self.ends: dict[StepKey, core.StepEnded] = {}
