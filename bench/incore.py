"""The controller's core by itself: no database, no network, no processes; fake nodes that end every step at once.

What is measured here is the Python that decides: `step` and `seal`. Times are CPU times of this process, so they hold on
a busy machine too. `python -m bench.incore array|single|gpu [--profile]` runs one of the loads; with --profile it
prints where the time goes.
"""

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ctld.core.controller import Core
from ctld.core.queue.planning import run_plan
from ctld.core.records.effects import AckReports, Batch, LaunchStep, Refusal, Reply, StartPlan, Submitted
from ctld.core.records.events import Actor, JobSubmission, NodeRegistered, StepExited, StepStarted, SubmitJob, Tick
from ctld.core.records.job import SpecRow
from ctld.core.recover import LoadedState
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres

US = 1_000_000
START_US = 1_800_000_000 * US
ANN = Actor(uid=1001, gid=1001, user_name="ann", group_name="ann")
SPEC = SpecRow(bytes(32), b"#!/bin/sh\ntrue\n", (), (b"PATH=/bin",))
#: Events that are stepped before the next seal when the nodes report: what arrives during one commit.
REPORTS_PER_SEAL = 64
LINK = 1
EMPTY = LoadedState(1, 1, 1, [], [], [], [], [], [])


def make_config(nodes: int, cpus: int, mem_mb: int = 64_000, gpus: int = 0) -> Config:
    """`nodes` equal nodes in one partition."""
    names = tuple(f"n{i}" for i in range(1, nodes + 1))
    gres = (Gres("gpu", "h100", gpus),) if gpus else ()
    entries = tuple(NodeConfig(n, n, "127.0.0.1", cpus, real_memory_mb=mem_mb, gres=gres) for n in names)
    partition = PartitionConfig("main", names, is_default=True)
    return Config(gres_types=("gpu",), nodes=entries, partitions=(partition,), def_mem_per_cpu_mb=100)


class CoreCluster:
    """A core and its fake nodes. The core's time starts at `start_us` and advances as the real one does.

    `commit` gets every batch before its effects are acted on, as a store would.
    """

    def __init__(
        self, config: Config, start_us: int = START_US, loaded: LoadedState = EMPTY,
        commit: Callable[[Batch], None] | None = None, register: bool = True,
    ) -> None:  # fmt: skip
        self._began = time.perf_counter()
        self._start_us = start_us
        self._commit = commit
        self.core = Core(config, loaded, start_us)
        self.sequence = 0
        self.replies: list[object] = []
        self.launches: list[LaunchStep] = []
        self.plan: StartPlan | None = None
        self.keys = 0
        if register:
            self.register(config)

    def register(self, config: Config) -> None:
        """The nodes open their streams."""
        for node in config.nodes:
            gres = tuple((g.name, g.type, g.count) for g in node.gres)
            self.core.step(
                self.now_us(),
                NodeRegistered(
                    node.name, LINK, "boot", "spool", "1", node.cpus, 1, node.cpus, 1, node.real_memory_mb, 0, gres, (),
                    gpus=tuple(gpu.facts for gpu in self.core.state.nodes[node.name].gpus.values()),  # as it was before
                ),
            )  # fmt: skip
        self.seal()

    def now_us(self) -> int:
        return self._start_us + int((time.perf_counter() - self._began) * US)

    def submit(self, spec: SpecRow = SPEC, **wanted: object) -> None:
        """Step one submission; its reply comes with a later `seal`."""
        self.keys += 1
        now_us = self.now_us()
        job = JobSubmission(**{"work_dir": b"/", "name": "true", **wanted})  # type: ignore[arg-type]
        self.core.step(now_us, SubmitJob(ANN, f"{now_us:016x}{self.keys:016x}", now_us, job, spec, reply_to=self.keys))

    def seal(self) -> bool:
        """Take the next batch and act on it as runtime and nodes would. False when there was none."""
        batch = self.core.seal()
        if batch is None:
            return False
        if self._commit is not None:
            self._commit(batch)
        for effect in batch.effects:
            if type(effect) is LaunchStep:
                self.launches.append(effect)
            elif type(effect) is Reply:
                self.replies.append(effect.body)
            elif type(effect) is StartPlan:
                self.plan = effect
            elif type(effect) is AckReports:
                continue
        return True

    def end_some(self, most: int) -> int:
        """The nodes start and end up to `most` of the steps they were sent."""
        now, self.launches = self.launches[:most], self.launches[most:]
        for launch in now:
            at_us = self.now_us()
            ids = (launch.node, launch.job_id, launch.attempt, launch.step_id)
            self.core.step(at_us, StepStarted(*ids, at_us, "spool", self._next(), LINK))
            self.core.step(at_us, StepExited(*ids, "spool", self._next(), LINK, at_us, at_us, 0, 0))
        return len(now)

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def run_plan(self) -> float:
        """Do the full pass that was asked for, as the worker does; its wall time in seconds, 0 if there was none."""
        if self.plan is None:
            return 0.0
        plan, self.plan = self.plan, None
        began = time.perf_counter()
        ready = run_plan(plan.revision, plan.question)
        took = time.perf_counter() - began
        self.core.step(self.now_us(), ready)
        return took

    def wait_for_full_pass(self) -> None:
        """Advances the core's clock to the next full pass that it requests."""
        self._began -= 2.0  # more than the least pause between full passes
        self.core.step(self.now_us(), Tick())
        self.core.state.changed()
        self.seal()
        if self.plan is None:
            raise AssertionError("no full pass was asked for")

    def run_until_idle(self) -> int:
        """Until nothing is left to start or to end. How many steps ended."""
        ended = 0
        while True:
            sealed = self.seal()
            self.run_plan()
            done = self.end_some(REPORTS_PER_SEAL)
            ended += done
            if not sealed and not done:
                return ended

    def accepted(self) -> int:
        """How many submissions were acknowledged; a refusal is a fault of the benchmark and ends it."""
        for reply in self.replies:
            if isinstance(reply, Refusal):
                raise AssertionError(reply.text)
        return sum(isinstance(reply, Submitted) for reply in self.replies)


def array(tasks: int = 10_000) -> float:
    """Core CPU time per task of one array from submit to end, microseconds."""
    cluster = CoreCluster(make_config(4, 32))
    began = time.process_time()
    cluster.submit(array=f"1-{tasks}")
    ended = cluster.run_until_idle()
    took = time.process_time() - began
    assert ended == tasks and cluster.accepted() == 1, (ended, cluster.replies)
    return took / tasks * US


def single(jobs: int = 10_000) -> float:
    """Core CPU time per single job from submit to end, microseconds; 32 submissions arrive for each seal."""
    cluster = CoreCluster(make_config(4, 32))
    began = time.process_time()
    ended = 0
    for first in range(0, jobs, 32):
        for _ in range(first, min(first + 32, jobs)):
            cluster.submit()
        cluster.seal()
        cluster.run_plan()
        ended += cluster.end_some(32)
    ended += cluster.run_until_idle()
    took = time.process_time() - began
    assert ended == jobs and cluster.accepted() == jobs, (ended, len(cluster.replies))
    return took / jobs * US


def queued(jobs: int = 10_000) -> float:
    """Core CPU time of one submission that joins a long queue, microseconds: the cluster is full from the first."""
    cluster = CoreCluster(make_config(4, 1))
    for _ in range(4):
        cluster.submit()
    cluster.seal()
    began = time.process_time()
    for first in range(0, jobs, 32):
        for _ in range(first, min(first + 32, jobs)):
            cluster.submit()
        cluster.seal()
        cluster.plan = None
    took = time.process_time() - began
    assert cluster.accepted() == jobs + 4
    return took / jobs * US


class Congestion(NamedTuple):
    """A long queue of GPU jobs on a big cluster. Times in milliseconds, medians unless named otherwise."""

    jobs: int
    running: int
    first_pass_ms: float
    full_pass_ms: float
    full_pass_max_ms: float
    submit_ms: float
    submit_max_ms: float


def gpu_request(number: int) -> dict[str, Any]:
    """The number-th of a mix of GPU jobs: 1 to 8 GPUs a node, mostly one node, some up to 16; differing limits."""
    per_node = (1, 1, 2, 4, 8, 1, 8, 2)[number % 8]
    nodes = (1, 1, 1, 1, 2, 1, 4, 1, 1, 16)[number % 10] if per_node == 8 else 1
    return {
        "gres_per_node": (("gpu", "h100" if number % 3 else "", per_node),),
        "nodes_min": nodes, "nodes_max": nodes, "ntasks": nodes, "cpus_per_task": 4 * per_node,
        "mem_per_node_mb": 16_000 * per_node + 100 * (number % 7), "time_limit_s": 3600 * (1 + number % 48),
    }  # fmt: skip


def congested(jobs: int = 11_500, nodes: int = 1_000, rounds: int = 10) -> Congestion:
    """About `jobs` GPU jobs that wait on a full cluster: full passes, and what one submission takes between them.

    The first pass finds all nodes free and all jobs waiting, and fills the cluster. After that each round ends some
    jobs, so that the passes have something to place; a submission is timed as the controller does it, `step` and `seal`
    with its quick pass.
    """
    config = make_config(nodes, 64, 1_000_000, 8)
    cluster = CoreCluster(config, register=False)
    for number in range(jobs + jobs // 7):  # about as many will start
        cluster.submit(**gpu_request(number))
    cluster.register(config)
    cluster.seal()
    first_pass = cluster.run_plan()
    cluster.seal()
    number = jobs + jobs // 7
    passes, submits = [], []
    for _ in range(rounds):
        cluster.end_some(20)
        cluster.wait_for_full_pass()
        passes.append(cluster.run_plan())
        for _ in range(20):
            began = time.perf_counter()
            cluster.submit(**gpu_request(number))
            cluster.seal()
            submits.append(time.perf_counter() - began)
            number += 1
    running = len(cluster.launches)
    waiting = len(cluster.core.state.pending.ready)
    ms = [
        1000 * f for f in (first_pass, statistics.median(passes), max(passes), statistics.median(submits), max(submits))
    ]
    cluster.accepted()
    return Congestion(waiting, running, *ms)


LOADS = {"array": array, "single": single, "queued": queued}


def main() -> None:
    """One load from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.incore", description=__doc__)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--jobs", type=int, default=10_000)
    options = parser.parse_args()
    load = LOADS[options.load]
    if not options.profile:
        print(f"{options.load}: {load(options.jobs):.0f} us a job")
        return
    profile = cProfile.Profile(time.process_time)
    print(f"{options.load}: {profile.runcall(load, options.jobs):.0f} us a job under the profiler")
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
