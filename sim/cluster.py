"""The controller's own core in virtual time: engine `core` of `penstock sim run`.

Every job lives its whole life: submission, start, the node's reports, end, purge; the passes are those of the daemon
(quick passes that see the whole queue, so that there is one pass for each distinct time and no waiting for a worker).
Nodes are simulated: a step runs as long as in the log, or until its time limit. Batches have effects alone, or are written
to a real store (`commit`). Not simulated: the network, faults (sim/world.py has them), the user's programs.

Without a slurm.conf the machine is one node with all processors: then only numbers count, as in the published studies.
"""

import gc
import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from ctld.core.controller import Core
from ctld.core.queue.planning import run_plan
from ctld.core.records.effects import Batch, LaunchStep, Refusal, Reply, StartPlan, SuspendStep, TerminateStep
from ctld.core.records.events import (
    Actor,
    ChangeAccounts,
    ChangeQos,
    Event,
    JobSubmission,
    NodeRegistered,
    StepExited,
    StepStarted,
    SubmitJob,
    Tick,
)
from ctld.core.records.job import SpecRow
from ctld.core.recover import LoadedState
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.errors import BadValue
from penstock.values.fields import Fields, made_of
from sim import associations
from sim.outcome import Options, Outcome
from sim.workload import Workload, user_numbers

US = 1_000_000
#: The start of virtual time: logs count from their first submission.
EPOCH_S = 1_000_000_000
SPEC = SpecRow(bytes(32), b"#!/bin/sh\n", (), (), 10)
LINK = 1
NEVER_S = 1 << 62
#: Allocations between two garbage collections.
GC_THRESHOLD = 200_000
SPOOL = "spool"
#: Reply tokens of changes of accounting begin after it; those of jobs are the jobs' numbers.
CHANGE_REPLIES: Final = 1 << 40
EMPTY = LoadedState(1, 1, 1, [], [], [], [], [], [])

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
    """The configuration under a policy: exact seconds, every pass plans every row."""
    if policy == SITE:
        return replace(config, max_job_count=10_000_000)
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


#: The policy that leaves the file's priorities, preemption, backfill and intervals unchanged.
SITE = "site"


class SimCluster:
    """A core with simulated nodes."""

    def __init__(self, config: Config, commit: Callable[[Batch], None] | None = None) -> None:
        self.now_us = EPOCH_S * US
        self.core = Core(config, EMPTY, self.now_us, is_stored=commit is not None)
        self._commit = commit
        self._sequence = 0
        self._replies = 0
        self.launched: list[LaunchStep] = []
        self.stopped: list[TerminateStep | SuspendStep] = []  # commands to steps, in the order of the batches
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

    def _step(self, event: Event) -> None:
        self.core.step(self.now_us, event)

    def change(self, events: Iterable[ChangeAccounts | ChangeQos]) -> None:
        """Applies changes of accounting, before the first submission. Raises BadValue when one is refused."""
        for event in events:
            self._step(event)
        self.seal()
        for number, text in self.refused.items():
            raise BadValue(f"change {number - CHANGE_REPLIES + 1} is refused: {text}")

    def submit(self, at: int, number: int, actor: Actor, wanted: JobSubmission) -> None:
        """Submits the job with that number, the `at`th submission."""
        self._step(SubmitJob(actor, f"{at:032x}", self.now_us, wanted, SPEC, False, number + 1))

    def started(self, launch: LaunchStep) -> None:
        """The node reports that the step runs."""
        self._sequence += 1
        self._step(
            StepStarted(
                launch.node, launch.job_id, launch.attempt, launch.step_id, self.now_us, SPOOL, self._sequence, LINK
            )
        )

    def exited(self, launch: LaunchStep, start_at_us: int) -> None:
        """The node reports that the step has ended."""
        self._sequence += 1
        self._step(
            StepExited(
                launch.node, launch.job_id, launch.attempt, launch.step_id, SPOOL, self._sequence, LINK, start_at_us,
                self.now_us, 0, 0,
            )
        )  # fmt: skip

    def seal(self) -> None:
        """Processes batches until nothing is left to do at this moment; passes of a worker return at once."""
        again = True
        while again and (batch := self.core.seal()) is not None:
            again = self.core.state.scheduling.quick_pass_due
            if self._commit is not None:
                self._commit(batch)
            for effect in batch.effects:
                kind = type(effect)
                if kind is LaunchStep:
                    self.launched.append(effect)  # type: ignore[arg-type]
                elif kind is Reply and type(effect.body) is Refusal:  # type: ignore[attr-defined]
                    self.refused[effect.reply_to - 1] = effect.body.text  # type: ignore[attr-defined]
                elif kind is TerminateStep or kind is SuspendStep:
                    self.stopped.append(effect)  # type: ignore[arg-type]
                elif kind is StartPlan:
                    self._step(run_plan(effect.revision, effect.question))  # type: ignore[attr-defined]
                    again = True


def core(workload: Workload, options: Options) -> Outcome:
    """Run a workload through the real core. Raises BadValue when a job cannot run on the machine."""
    config = scheduling(options.config or machine(options.processors), options.policy)
    began = time.process_time()
    gc.collect()
    gc.freeze()  # existing objects stay alive; repeated collections of a growing world take a tenth of the time
    thresholds = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *thresholds[1:])
    try:
        play = Play(SimCluster(config), workload, submissions_of(workload, options), options.policy == SITE)
        if "associations" in config.enforce:
            play.cluster.change(associations.of_log(workload, play.users, CHANGE_REPLIES + 1))
        play.run()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    cpu_s = time.process_time() - began
    start_s, end_s = (np.array(column, np.int64) - play.offset_s for column in (play.start_s, play.end_s))
    return Outcome(start_s, end_s, cpu_s, "ctld.core", play.nodes(), play.preemptions, play.lost_area)


def submissions_of(workload: Workload, options: Options) -> list[JobSubmission]:
    """The request of each job. With a slurm.conf also its nodes, GPUs and memory, where both log and machine have
    them."""
    given = workload.requested_s if options.estimate == "requested" else np.maximum(workload.run_s, 1)
    sizes = np.stack([workload.procs, given, workload.nodes, workload.gpu_milli, workload.mem_mb], axis=1)
    if options.config is None:
        sizes[:, 2:] = 0
    known: dict[tuple[int, ...], JobSubmission] = {}
    found, gpus_max = [], options.config.gpus_of_largest() if options.config is not None else 0
    for key in map(tuple, sizes.tolist()):
        wanted = known.get(key)
        if wanted is None:
            wanted = known[key] = _wanted(options.config, gpus_max, *key)
        found.append(wanted)
    return found


def _wanted(
    config: Config | None, gpus_max: int, procs: int, limit_s: int, nodes: int, gpu_milli: int, mem_mb: int
) -> JobSubmission:
    """Converts sizes of a whole job to a request per node."""
    fields = wanted_sizes(config, gpus_max, procs, nodes, gpu_milli, mem_mb)
    return made_of(JobSubmission, {"name": "job", "work_dir": b"/", "time_limit_s": limit_s, **fields})


def wanted_sizes(config: Config | None, gpus_max: int, procs: int, nodes: int, gpu_milli: int, mem_mb: int) -> Fields:
    """The request per node of a JobSubmission, of nodes with `gpus_max` GPUs at most. Fractions of a GPU count as whole
    ones."""
    fields: dict[str, object] = {}
    gpus = -(-max(0, gpu_milli) // 1000)
    if config is not None:
        if gpus and gpus_max:
            nodes = max(nodes, -(-gpus // gpus_max), 1)
            fields["gres_per_node"] = (("gpu", "", -(-gpus // nodes)),)
        if nodes > 0:
            fields |= {"nodes_min": nodes, "nodes_max": nodes}
        if mem_mb > 0 and config.memory_is_consumable():
            fields["mem_per_node_mb" if nodes > 0 else "mem_per_cpu_mb"] = -(-mem_mb // (nodes if nodes > 0 else procs))
    return {"ntasks": max(procs, nodes), **fields}


class SimRunning:
    """A step that a node has started: the end of its run, or the remaining time while it is suspended."""

    __slots__ = ("end_s", "launch", "left_s", "number", "start_s")

    def __init__(self, launch: LaunchStep, number: int, start_s: int, end_s: int) -> None:
        self.launch = launch
        self.number = number
        self.start_s = start_s
        self.end_s = end_s
        self.left_s = 0


class Play:
    """One workload on one cluster, from its first submission to its last end. Times are the cluster's seconds."""

    def __init__(self, cluster: SimCluster, workload: Workload, wanted: list[JobSubmission], watch: bool) -> None:
        self.cluster = cluster
        self.workload = workload
        self.wanted = wanted
        self.watch = watch  # the core's own deadlines are events, too
        by_time = np.argsort(workload.submit_s, kind="stable")
        self.offset_s = EPOCH_S - (int(workload.submit_s[by_time[0]]) if len(by_time) else 0)
        self.order: list[int] = by_time.tolist()
        self.due_s = [*(workload.submit_s[by_time] + self.offset_s).tolist(), NEVER_S]  # submissions, in order
        self.run_s: list[int] = workload.run_s.tolist()
        self.users: list[int] = user_numbers(workload).tolist()
        self.start_s = [-1] * len(wanted)  # by number
        self.end_s = [-1] * len(wanted)  # likewise
        self.launches: list[LaunchStep | None] = [None] * len(wanted)  # the last of each job
        self.live: dict[tuple[int, int], SimRunning] = {}  # by job id and attempt
        self.ends: list[tuple[int, int, SimRunning]] = []  # (second, number of the entry, the step that ends)
        self.entries = 0
        self.at = 0
        self.preemptions = 0
        self.lost_area = 0
        self.actors: dict[int, Actor] = {}
        self.first_id = cluster.core.state.next_job_id

    def run(self) -> None:
        """Runs the whole workload."""
        cluster, ends = self.cluster, self.ends
        while self.at < len(self.order) or self.live:
            now_s = self.next_s()
            cluster.now_us = now_s * US
            while ends and ends[0][0] == now_s:
                running = heapq.heappop(ends)[2]
                if running.end_s == now_s:  # otherwise it was suspended or stopped meanwhile
                    self.exit(running, now_s)
            while self.due_s[self.at] == now_s:
                self.submit(self.order[self.at])
            if self.watch:
                cluster._step(Tick())
            cluster.seal()
            if cluster.refused:
                self.refused(cluster.refused)
            while cluster.launched or cluster.stopped:
                self.execute_commands(now_s)
        cluster._step(Tick())

    def refused(self, texts: dict[int, str]) -> None:
        """Handles refused jobs, by number: raises BadValue, since the log does not fit the machine."""
        number, text = next(iter(texts.items()))
        raise BadValue(f"job {self.workload.job_id[number]} of the log cannot run on this machine: {text}")

    def number_of(self, job_id: int) -> int:
        """The job of the workload: ids are given in the order of submissions."""
        return self.order[job_id - self.first_id]

    def next_s(self) -> int:
        """The time of the next event. Raises BadValue when jobs wait and there is none."""
        now_s: int = self.due_s[self.at]
        if self.ends and self.ends[0][0] < now_s:
            now_s = self.ends[0][0]
        if self.watch:
            due_us = self.cluster.core.next_deadline()
            if due_us is not None:
                now_s = min(now_s, max(-(-due_us // US), self.cluster.now_us // US))
        if now_s == NEVER_S:
            raise BadValue("suspended jobs never go on")
        return now_s

    def submit(self, number: int) -> None:
        """Submits the next job."""
        uid = self.users[number]
        actor = self.actors.get(uid)
        if actor is None:
            actor = self.actors[uid] = Actor(10_000 + uid, 10_000 + uid, f"user{uid}", f"group{uid}")
        self.cluster.submit(self.at, number, actor, self.wanted[number])
        self.at += 1

    def execute_commands(self, now_s: int) -> None:
        """Executes the commands to nodes and schedules their results."""
        cluster = self.cluster
        launched, stopped = cluster.launched, cluster.stopped
        cluster.launched = []
        cluster.stopped = []
        for launch in launched:
            number = self.number_of(launch.job_id)
            if self.launches[number] is not None:
                self.preemptions += 1
            limit_s = launch.job.time_limit_s
            ran_s = self.run_s[number] if limit_s < 0 else min(self.run_s[number], limit_s)
            running = SimRunning(launch, number, now_s, now_s + ran_s)
            self.start_s[number], self.launches[number] = now_s, launch
            self.live[launch.job_id, launch.attempt] = running
            self.push(running)
            cluster.started(launch)
        for order in stopped:
            found = self.live.get((order.job_id, order.attempt))
            if found is None:
                continue
            if type(order) is TerminateStep:
                if found.end_s > now_s:
                    self.lost_area += (now_s - found.start_s) * int(self.workload.procs[found.number])
                self.exit(found, now_s)
            elif order.suspended:  # type: ignore[union-attr]
                found.left_s, found.end_s = found.end_s - now_s, NEVER_S
            elif found.end_s == NEVER_S:
                found.end_s = now_s + found.left_s
                self.push(found)
        if stopped:
            cluster.seal()

    def push(self, running: SimRunning) -> None:
        """Adds an expected end."""
        heapq.heappush(self.ends, (running.end_s, self.entries, running))
        self.entries += 1

    def exit(self, running: SimRunning, now_s: int) -> None:
        """Handles the end of a running job."""
        launch = running.launch
        del self.live[launch.job_id, launch.attempt]
        running.end_s = -1
        self.end_s[running.number] = now_s
        self.cluster.exited(launch, running.start_s * US)

    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """The node numbers of each job's last run; empty on a machine of one node."""
        names = {name: number for number, name in enumerate(self.cluster.core.state.layout.node_names)}
        if len(names) < 2:
            return ()
        return tuple(
            () if launch is None else tuple(names[part.node] for part in launch.job.alloc) for launch in self.launches
        )
