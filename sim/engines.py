"""Engines: what runs a workload. Each is a function (Workload, Options) -> Outcome in one table.

A new engine is a function and a row in ENGINES: the command's choices, tables and files follow from that.

`replay` is the planner alone on identical processors (_fastsched.replay): fast, for research and published figures.
An engine raises BadValue for options that it cannot follow; it reads no files and prints nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import _fastsched
from _fastsched import BACKFILLS, MODES, ORDERS, POLICIES, PREDICTORS, ReplayPolicy
from _fastsched.replay_contract import AGED_FACTOR_MAX, AGED_S_MAX
from penstock.values.config import Config
from penstock.values.errors import BadValue
from sim.metrics import Array, Schedule
from sim.workload import Workload, user_numbers

ESTIMATES = ("requested", "clairvoyant")


@dataclass(frozen=True, slots=True)
class Options:
    """How to run."""

    processors: int
    policy: str = "easy"
    mode: str = "batch"
    estimate: str = "requested"
    seed: int = 0  # the replay has no chance in it
    config: Config | None = None  # of --conf: the machine of engine core
    capacity: dict[str, int] = field(default_factory=dict)  # TRES of the machine beside cpu, where known
    progress: Callable[[float], None] = lambda share: None  # told now and then which share of the jobs is done


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. Columns have one row a job of the workload."""

    start_s: Array
    end_s: Array
    cpu_s: float  # CPU time of the engine
    about: str  # which code ran
    nodes: tuple[tuple[int, ...], ...] = ()  # node numbers of each job, where the engine has nodes
    preemptions: int = 0
    lost_area: int = 0  # processor seconds of runs that did not complete

    def schedule(self, workload: Workload, options: Options) -> Schedule:
        """With its workload: what metrics are computed from."""
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


def policy_of(text: str) -> ReplayPolicy:
    """A policy by name, or by its choices: `order=arrival,backfill=easy,candidates=smallest-area,predictor=last-two`."""
    if (name := text.replace("++", "pp")) in POLICIES:
        return POLICIES[name]
    choices: dict[str, int] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals or name not in _CHOICES:
            raise BadValue(
                f"policy {text!r}: there are {', '.join(POLICIES)}, or choices as backfill=easy,candidates=shortest"
            )
        known = _CHOICES[name]
        if isinstance(known, range):
            if not value.isascii() or not value.isdigit() or int(value) not in known:
                raise BadValue(f"policy {text!r}: {name} is a number from 0 to {known[-1]}")
        elif value not in known:
            raise BadValue(f"policy {text!r}: {name} is one of {', '.join(known)}")
        choices[name] = int(value) if isinstance(known, range) else known[value]
    return ReplayPolicy(**choices)  # type: ignore[arg-type]


_CHOICES: dict[str, dict[str, int] | range] = {
    "order": ORDERS,
    "backfill": BACKFILLS,
    "candidates": ORDERS,
    "predictor": PREDICTORS,
    "ranker": PREDICTORS,
    "aged_factor": range(AGED_FACTOR_MAX + 1),
    "aged_max_s": range(AGED_S_MAX + 1),
}


def replay(workload: Workload, options: Options) -> Outcome:
    """The planner alone: processors are counted, and that is all."""
    policy = policy_of(options.policy)
    given = workload.requested_s if options.estimate == "requested" else np.maximum(workload.run_s, 1)
    began = time.process_time()
    try:
        start_s = _fastsched.replay(
            workload.submit_s,
            workload.run_s,
            given,
            workload.procs.astype(np.int32),
            user_numbers(workload).astype(np.int32),
            options.processors,
            policy,
            MODES[options.mode],
        )
    except ValueError as error:
        raise BadValue(f"policy {options.policy}: {error} (--filter sc15 drops or mends such jobs)") from None
    cpu_s = time.process_time() - began
    about = "compiled" if _fastsched.REPLAY_COMPILED else "plain Python"
    return Outcome(start_s, start_s + workload.run_s, cpu_s, about)


def core(workload: Workload, options: Options) -> Outcome:
    """The controller's own core, every job's whole life; imported when it is asked for."""
    from sim import cluster

    return cluster.core(workload, options)


ENGINES: dict[str, Callable[[Workload, Options], Outcome]] = {"replay": replay, "core": core}
