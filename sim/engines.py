"""Engines run a workload. Each is a function (Workload, Options) -> Outcome in one table. A new engine is a function
and a row in ENGINES, from which the command's choices, tables and files follow.

`replay` is the planner alone on identical processors (_fastsched.replay): fast, for research and published figures.
`nodes` has nodes with CPUs, memory and GPUs (sim/onnodes.py), `core` the whole life of a job.
An engine raises BadValue for options that it cannot follow; it reads no files and prints nothing.
"""

import time
from collections.abc import Callable

import numpy as np

import _fastsched
from _fastsched import MODES
from penstock.values.errors import BadValue
from sim.onnodes import nodes
from sim.outcome import Options, Outcome
from sim.policies import policy_of
from sim.workload import Workload, user_numbers

ESTIMATES = ("requested", "clairvoyant")


def replay(workload: Workload, options: Options) -> Outcome:
    """Runs the planner alone, which only counts processors."""
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
        raise BadValue(f"policy {options.policy}: {error} (--filter sc15 drops or repairs such jobs)") from None
    cpu_s = time.process_time() - began
    about = "compiled" if _fastsched.REPLAY_COMPILED else "plain Python"
    return Outcome(start_s, start_s + workload.run_s, cpu_s, about)


def core(workload: Workload, options: Options) -> Outcome:
    """The controller's own core, with the whole life of every job; imported on demand."""
    from sim import cluster

    return cluster.core(workload, options)


ENGINES: dict[str, Callable[[Workload, Options], Outcome]] = {"replay": replay, "nodes": nodes, "core": core}
