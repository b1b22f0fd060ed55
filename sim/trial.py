"""A workload through one or more policies: what the commands `run` and `order` share.

The recorded schedule comes first, if the log has it; each run carries what its engine ignored.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from penstock.values.config import Config
from penstock.values.errors import BadValue
from sim import siteconf
from sim.bounded import price
from sim.choice import SITE, choose, impossible
from sim.engines import ENGINES
from sim.metrics import TAU_S
from sim.onnodes import those_that_fit, usable_nodes
from sim.outcome import Options, Outcome
from sim.recorded import ENGINE, recorded, unrecorded
from sim.recorded import POLICY as RECORDED
from sim.results import Result, Run, run_of
from sim.workload import Workload

#: Called with a policy, the number of runs that are done, and the share of this one.
TrialProgress = Callable[[str, int, float], None]


class Trial(NamedTuple):
    """A workload's runs, by policy, and their figures."""

    workload: Workload
    runs: dict[str, tuple[Options, Outcome]]
    found: tuple[Run, ...]

    def result(self, filter_name: str, part: str, processors: int) -> Result:
        """The figures with their conditions."""
        log = self.workload
        return Result(
            log.name,
            len(log),
            log.skipped,
            filter_name,
            part,
            processors,
            TAU_S,
            self.found,
            log.doubts,
            unrecorded(log),
        )


def tried(workload: Workload, options: Options, policies: Sequence[str], engine: str, report: TrialProgress) -> Trial:
    """Runs the workload under each policy. Raises BadValue."""
    wanted = {policy: _under(policy, options) for policy in policies}
    engines = {policy: choose(engine, workload, one) for policy, one in wanted.items()}
    if options.config is not None and any(name != "replay" for name, _ in engines.values()):
        workload = those_that_fit(workload, options)
        if options.site is not None:
            workload = those_that_fit(workload, wanted.get(SITE, options))
        if not len(workload):
            raise BadValue("no job of the log fits on the machine's nodes")
    runs, found = _history(workload, options)
    for policy in policies:
        chosen = replace(wanted[policy], progress=partial(report, policy, len(runs)))
        chosen.progress(0.0)
        name, notes = engines[policy]
        runs[policy] = (chosen, ENGINES[name](workload, chosen))
        if policy == SITE and options.site is not None and options.config is not None:
            notes += siteconf.notes(options.site, len(options.config.nodes))
        notes += cost(name, workload, *runs[policy])
        notes += impossible(runs[policy][1].schedule(workload, chosen), chosen.config)
        found.append(run_of(workload, name, notes, *runs[policy]))
    return Trial(workload, runs, tuple(found))


def _under(policy: str, options: Options) -> Options:
    config = options.site if policy == SITE and options.site is not None else options.config
    return replace(options, policy=policy, config=config)


def cost(engine: str, workload: Workload, options: Options, outcome: Outcome) -> tuple[str, ...]:
    """Notes about the bound, and about the price of `learned`; the core is too slow to run EASY for it."""
    notes: tuple[str, ...] = (outcome.note,) if outcome.note else ()
    if options.policy == "learned" and engine != "core":
        easy = ENGINES[engine](workload, replace(options, policy="easy", bound=0))
        area = (workload.procs * workload.run_s).astype(np.float64)
        notes += (price(outcome.start_s - workload.submit_s, easy.start_s - workload.submit_s, area),)
    return notes


def _history(workload: Workload, options: Options) -> tuple[dict[str, tuple[Options, Outcome]], list[Run]]:
    """The run that the log recorded, if it did: the first of the runs."""
    history = recorded(workload)
    if history is None:
        return {}, []
    chosen = replace(options, policy=RECORDED, mode="-", estimate="-")
    notes = impossible(history.schedule(workload, chosen), chosen.config, "the log")
    return {RECORDED: (chosen, history)}, [run_of(workload, ENGINE, notes, chosen, history)]


def capacity_of(config: Config) -> dict[str, int]:
    """TRES of the nodes that jobs can use."""
    nodes = usable_nodes(config)
    return {
        "cpu": sum(node.cpus_for_jobs() for node in nodes),
        "mem": sum(node.memory_for_jobs_mb() for node in nodes),
        "gres/gpu": sum(node.gpu_count() for node in nodes),
    }
