"""The controller's own core in virtual time: engine `core` of `penstock sim run`.

Every job lives its whole life: submission, start, the node's reports, end, purge; the passes are those of the daemon
(quick passes that see the whole queue, so that there is one pass for each distinct time and no waiting for a worker).
Nodes are played: a step runs for as long as the log says, or until its time limit ends it. Batches go nowhere, or into
a real store (`commit`). What is not played: the network, faults (sim/world.py has them), the user's programs.

Without a slurm.conf the machine is one node with all processors: then only numbers count, as in the published studies.
"""

import gc
import heapq
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ctld.core.controller import Core
from ctld.core.effects import Batch, LaunchStep, Refusal, Reply, StartPlan
from ctld.core.events import Actor, NodeRegistered, StepExited, StepStarted, SubmitJob, Tick, WantedJob
from ctld.core.model import SpecRow
from ctld.core.planning import run_plan
from ctld.core.recover import Loaded
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.errors import BadValue
from sim.engines import Options, Outcome
from sim.workload import Workload, user_numbers

US = 1_000_000
#: When virtual time begins: logs count from their first submission.
EPOCH_S = 1_000_000_000
SPEC = SpecRow(bytes(32), b"#!/bin/sh\n", (), ())
LINK = 1
NEVER_S = 1 << 62
#: Objects made between two collections.
GC_THRESHOLD = 200_000
SPOOL = "spool"
EMPTY = Loaded(1, 1, 1, [], [], [], [], [], [])

#: Policy -> (PenstockBackfill, PenstockBackfillOrder, PenstockBackfillPredictor).
POLICIES = {
    "fcfs": ("fifo", "priority", "none"),
    "easy": ("easy", "priority", "none"),
    "easy-sjbf": ("easy", "shortest", "none"),
    "learned": ("easy", "aged", "history"),
    "conservative": ("conservative", "priority", "none"),
    "first-fit": ("none", "priority", "none"),
}


def machine(processors: int) -> Config:
    """Identical processors: one node."""
    node = NodeConfig("machine", "machine", "127.0.0.1", processors)
    return Config(nodes=(node,), partitions=(PartitionConfig("all", ("machine",), is_default=True),))


def scheduling(config: Config, policy: str) -> Config:
    """The configuration under a policy: exact seconds, every row seen by every pass."""
    if policy not in POLICIES:
        raise BadValue(f"policy {policy!r}: engine core has {', '.join(POLICIES)}, and site (as --conf says)")
    backfill, order, predictor = POLICIES[policy]
    parameters = dict(config.scheduler_parameters) | {"default_queue_depth": "10000000", "bf_resolution": "1"}
    return replace(
        config,
        penstock_backfill=backfill,
        penstock_backfill_order=order,
        penstock_backfill_predictor=predictor,
        penstock_backfill_estimate=False,
        scheduler_parameters=tuple(parameters.items()),
        max_job_count=10_000_000,
        select_type_parameters=config.select_type_parameters if config.nodes[0].name != "machine" else ("CR_CPU",),
    )


class Cluster:
    """A core and the nodes that it believes to have."""

    def __init__(self, config: Config, commit: Callable[[Batch], None] | None = None) -> None:
        self.now_us = EPOCH_S * US
        self.core = Core(config, EMPTY, self.now_us)
        self._commit = commit
        self._sequence = 0
        self._replies = 0
        self.launched: list[LaunchStep] = []
        self.refused: dict[int, str] = {}
        for node in config.nodes:
            gres = tuple((g.name, g.type, g.count) for g in node.gres)
            self._step(
                NodeRegistered(
                    node.name, LINK, "boot", SPOOL, "sim", node.cpus, node.sockets, node.cores_per_socket,
                    node.threads_per_core, node.real_memory_mb, 0, gres, (),
                )
            )  # fmt: skip
        self.seal()

    def _step(self, event: object) -> None:
        self.core.step(self.now_us, event)

    def submit(self, number: int, actor: Actor, wanted: WantedJob) -> None:
        """sbatch of the job with that number."""
        key = f"{number:032x}"
        self._step(SubmitJob(actor, key, self.now_us, wanted, SPEC, False, number + 1))

    def started(self, launch: LaunchStep) -> None:
        """The node says that the step runs."""
        self._sequence += 1
        self._step(
            StepStarted(
                launch.node, launch.job_id, launch.attempt, launch.step_id, self.now_us, SPOOL, self._sequence, LINK
            )
        )

    def exited(self, launch: LaunchStep, start_at_us: int) -> None:
        """The node says that it has ended."""
        self._sequence += 1
        self._step(
            StepExited(
                launch.node, launch.job_id, launch.attempt, launch.step_id, SPOOL, self._sequence, LINK, start_at_us,
                self.now_us, 0, 0,
            )
        )  # fmt: skip

    def seal(self) -> None:
        """Hand out batches until nothing is left to do at this moment; passes of a worker come back at once."""
        again = True
        while again and (batch := self.core.seal()) is not None:
            again = self.core.state.quick_pass_due
            if self._commit is not None:
                self._commit(batch)
            for effect in batch.effects:
                kind = type(effect)
                if kind is LaunchStep:
                    self.launched.append(effect)  # type: ignore[arg-type]
                elif kind is Reply and type(effect.body) is Refusal:  # type: ignore[attr-defined]
                    self.refused[effect.reply_to - 1] = effect.body.text  # type: ignore[attr-defined]
                elif kind is StartPlan:
                    self._step(run_plan(effect.revision, effect.question))  # type: ignore[attr-defined]
                    again = True


def core(workload: Workload, options: Options) -> Outcome:
    """Run a workload through the real core. Raises BadValue when a job cannot run on the machine."""
    config = scheduling(options.config or machine(options.processors), options.policy)
    began = time.process_time()
    gc.collect()
    gc.freeze()  # what is there stays; a collector that looks at a growing world again and again takes a tenth of the time
    thresholds = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *thresholds[1:])
    try:
        start_s, end_s, nodes = _play(Cluster(config), workload, options)
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    cpu_s = time.process_time() - began
    return Outcome(start_s, end_s, cpu_s, "ctld.core", nodes)


def wanted_jobs(workload: Workload, options: Options) -> list[WantedJob]:
    """What each job asks for."""
    given = workload.requested_s if options.estimate == "requested" else np.maximum(workload.run_s, 1)
    known: dict[tuple[int, int], WantedJob] = {}
    found = []
    for procs, limit_s in zip(workload.procs.tolist(), given.tolist(), strict=True):
        key = (procs, limit_s)
        wanted = known.get(key)
        if wanted is None:
            wanted = known[key] = WantedJob(name="job", work_dir=b"/", ntasks=procs, time_limit_s=limit_s)
        found.append(wanted)
    return found


def _play(
    cluster: Cluster, workload: Workload, options: Options
) -> tuple[np.ndarray, np.ndarray, tuple[tuple[int, ...], ...]]:
    wanted = wanted_jobs(workload, options)
    actors: dict[int, Actor] = {}
    users = user_numbers(workload).tolist()
    run_s = workload.run_s.tolist()
    by_time = np.argsort(workload.submit_s, kind="stable")
    offset_s = EPOCH_S - (int(workload.submit_s[by_time[0]]) if len(by_time) else 0)
    due_s = [*(workload.submit_s[by_time] + offset_s).tolist(), NEVER_S]  # of the submissions, in their order
    order = by_time.tolist()
    start_s, end_s = [-1] * len(order), [-1] * len(order)  # by number; in the cluster's time
    ends: list[tuple[int, int, LaunchStep, int]] = []  # (second, number of the start, launch, number)
    number_of: dict[int, int] = {}
    at, first_id, starts = 0, cluster.core.state.next_job_id, 0
    while at < len(order) or ends:
        now_s = due_s[at]
        if ends and ends[0][0] < now_s:
            now_s = ends[0][0]
        cluster.now_us = now_s * US
        while ends and ends[0][0] == now_s:
            _, _, launch, number = heapq.heappop(ends)
            end_s[number] = now_s
            cluster.exited(launch, start_s[number] * US)
        while due_s[at] == now_s:
            number = order[at]
            uid = users[number]
            actor = actors.get(uid)
            if actor is None:
                actor = actors[uid] = Actor(10_000 + uid, 10_000 + uid, f"user{uid}", f"group{uid}")
            number_of[first_id + at] = number
            cluster.submit(number, actor, wanted[number])
            at += 1
        cluster.seal()
        if cluster.refused:
            number, text = next(iter(cluster.refused.items()))
            raise BadValue(f"job {workload.job_id[number]} of the log cannot run on this machine: {text}")
        for launch in cluster.launched:
            number = number_of.pop(launch.job_id)
            start_s[number] = now_s
            limit_s = launch.job.time_limit_s
            ran_s = run_s[number] if limit_s < 0 else min(run_s[number], limit_s)
            heapq.heappush(ends, (now_s + ran_s, starts, launch, number))
            starts += 1
            cluster.started(launch)
        cluster.launched.clear()
    cluster._step(Tick())
    return np.array(start_s, np.int64) - offset_s, np.array(end_s, np.int64) - offset_s, ()
