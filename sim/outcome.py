"""The options and the outcome of an engine."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from penstock.values.config import Config
from sim.metrics import Array, Schedule
from sim.workload import Workload


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run."""

    processors: int
    policy: str = "easy"
    mode: str = "batch"
    estimate: str = "requested"
    seed: int = 0  # the replay is not random
    bound: int = 0  # no job waits longer than so many times its wait under EASY (sim/bounded.py); 0 = no bound
    config: Config | None = None  # of --conf: the machine of engine core
    site: Config | None = None  # the configuration of policy site; None = `config`
    capacity: dict[str, int] = field(default_factory=dict)  # TRES of the machine beside cpu, where known
    progress: Callable[[float], None] = lambda share: None  # called from time to time with the share of finished jobs


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a replay. Columns have one row a job of the workload."""

    start_s: Array
    end_s: Array
    cpu_s: float  # CPU time of the engine
    about: str  # the implementation that ran
    nodes: tuple[tuple[int, ...], ...] = ()  # node numbers of each job, where the engine has nodes
    preemptions: int = 0
    lost_area: int = 0  # processor seconds of runs that did not complete
    note: str = ""  # what a reader of the figures must know

    def schedule(self, workload: Workload, options: Options) -> Schedule:
        """The input of the metrics, with its workload."""
        tres = {"cpu": (workload.procs, options.processors)}
        for name, total in options.capacity.items():
            column, unit = _TRES[name]
            tres[name] = (np.maximum(getattr(workload, column), 0), total * unit)
        return Schedule(
            workload.submit_s,
            self.start_s,
            self.end_s,
            workload.procs,
            workload.user,
            tres,
            self.preemptions,
            self.lost_area,
        )


#: TRES -> column of a workload, units of the column in one of the TRES.
_TRES = {"gres/gpu": ("gpu_milli", 1000), "mem": ("mem_mb", 1)}
