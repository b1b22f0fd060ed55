"""The parts of a run: each measures one thing and gives figures by name, or reports why it cannot. A part that fails
leaves its figures null with the reason, and the others continue. Names end in their unit. KEYS are always in
bench/out/main.json; further figures are added to them.
"""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench import cluster, incore, listings, mpi, peers, restart, restbench, shells, slurmpeer, steps
from bench.local import BIN, private_cluster
from bench.measure import CannotMeasure

#: The same for both: one node with this many pretended CPUs. Slurm gains little from more (docs/performance.md).
CPUS = 128
#: For parts that run no jobs: nodes as in a small GPU cluster.
QUEUE_NODES = 4
QUEUE_CPUS = 64
QUEUE_GPUS = 8

KEYS = (
    "array_jobs_per_s", "slurm_array_jobs_per_s", "durable_submits_per_s", "sbatch_wall_ms", "squeue_wall_ms",
    "restart_s", "ctld_rss_mb", "steps_per_s", "slurm_steps_per_s", "first_byte_above_start_p50_ms", "wide_step_s",
    "stream_mb_per_s", "stepd_private_mb", "shell_submits_per_s", "slurm_shell_submits_per_s",
    "queued_shell_submits_per_s", "slurm_queued_shell_submits_per_s",
    "turns_penstock_per_s", "turns_slurm_per_s", "turns_hyperqueue_per_s",
)  # fmt: skip

Figures = dict[str, Any]


class Effort(NamedTuple):
    """The amount of work of a run."""

    tasks: int = 1_000
    runs: int = 3
    command_runs: int = 15
    submit_s: float = 5.0
    finished: int = restart.FINISHED
    pending: int = restart.PENDING
    gpu_jobs: int = 11_500
    gpu_nodes: int = 1_000
    core_jobs: int = 10_000
    steps: int = 100
    wide_tasks: int = 1_000
    sleepers: int = 50
    stream_mb: int = 1_000
    listed_jobs: int = listings.JOBS
    listed_tasks: int = listings.TASKS
    poll_s: float = 10.0
    shell_calls: int = 4_000
    turns: int = 5
    queued_jobs: int = 12_000
    queued_calls: int = 800
    rest_submits: int = 1_000
    rest_clients: int = 1_000
    rest_watchers: int = 500
    rest_s: float = 10.0
    web_jobs: int = 100_000
    web_nodes: int = 1_000


#: Enough to see that every part works; its figures mean little.
QUICK = Effort(
    100,
    1,
    3,
    1.0,
    2_000,
    1_000,
    500,
    50,
    500,
    5,
    40,
    5,
    100,
    200,
    1_000,
    2.0,
    80,
    1,
    200,
    80,
    50,
    50,
    20,
    2.0,
    2_000,
    20,
)


def slurm(effort: Effort) -> Figures:
    """The peer."""
    found = slurmpeer.measure(effort.tasks, effort.runs, CPUS, effort.command_runs)
    return {
        "slurm_array_jobs_per_s": found.array_jobs_per_s,
        "slurm_array_runs": found.array_runs,
        "slurm_sbatch_wall_ms": found.sbatch.wall_ms,
        "slurm_sbatch_cpu_ms": found.sbatch.cpu_ms,
        "slurm_squeue_wall_ms": found.squeue.wall_ms,
        "slurm_version": found.version,
    }


def array(effort: Effort) -> Figures:
    """An array of `true`, and one command at a time."""
    with private_cluster(1, CPUS) as local:
        found = cluster.run_arrays(local, effort.tasks, effort.runs)
        commands = cluster.time_commands(local, effort.command_runs)
    figures: Figures = {
        "array_jobs_per_s": found.jobs_per_s,
        "array_runs": found.runs,
        "array_controller_cpu_ms": found.controller_ms,
        "array_node_daemon_cpu_ms": found.nodes_ms,
        "array_steps_cpu_ms": found.steps_ms,
    }
    for name, times in commands._asdict().items():
        figures[f"{name}_wall_ms"], figures[f"{name}_cpu_ms"] = times
    return figures


def submits(effort: Effort) -> Figures:
    """Durable submissions, and an array of 100,000."""
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        big = cluster.big_array(local, QUEUE_NODES)  # before the load, whose jobs start when it is over
        found = cluster.submit_load(local, effort.submit_s, QUEUE_NODES)
    return {
        "durable_submits_per_s": found.per_s,
        "submit_median_ms": found.median_ms,
        "submit_p99_ms": found.p99_ms,
        "submit_clients_cpu_cores": found.client_cpu,
        "submit_controller_cpu_cores": found.controller_cpu,
        "submit_controller_cpu_ms": found.controller_ms,
        "array_100k_accept_ms": big.accept_ms,
        "array_100k_growth_mb": big.growth_mb,
    }


def core(effort: Effort) -> Figures:
    """The core alone: what its Python costs, and full passes over a long queue of GPU jobs."""
    found = incore.congested(effort.gpu_jobs, effort.gpu_nodes)
    return {
        "core_array_task_cpu_us": incore.array(effort.core_jobs),
        "core_single_job_cpu_us": incore.single(effort.core_jobs),
        "core_queued_submit_cpu_us": incore.queued(effort.core_jobs),
        "gpu_queue_jobs": found.jobs,
        "gpu_queue_running": found.running,
        "gpu_queue_first_pass_ms": found.first_pass_ms,
        "gpu_queue_full_pass_ms": found.full_pass_ms,
        "gpu_queue_full_pass_max_ms": found.full_pass_max_ms,
        "gpu_queue_submit_ms": found.submit_ms,
        "gpu_queue_submit_max_ms": found.submit_max_ms,
    }


def start_again(effort: Effort) -> Figures:
    """A start with a long history and a long queue."""
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        found = restart.measure(local, effort.finished, effort.pending)
    return {
        "restart_s": found.restart_s,
        "restart_cpu_s": found.restart_cpu_s,
        "ctld_rss_mb": found.rss_mb,
        "ctld_rss_later_mb": found.later_mb,
        "ctld_idle_rss_mb": found.idle_mb,
        "database_mb": found.database_mb,
        "fill_s": found.fill_s,
        "squeue_long_queue_wall_ms": found.squeue.wall_ms,
        "squeue_long_queue_cpu_ms": found.squeue.cpu_ms,
    }


def listing(effort: Effort) -> Figures:
    """squeue of a long queue, and a controller that is polled."""
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        found = listings.measure(local, effort.listed_jobs, effort.listed_tasks, effort.command_runs, effort.poll_s)
    return {
        "listing_jobs": effort.listed_jobs,
        "listing_squeue_wall_ms": found.squeue.wall_ms,
        "listing_squeue_cpu_ms": found.squeue.cpu_ms,
        "listing_json_wall_ms": found.json.wall_ms,
        "listing_tasks": effort.listed_tasks,
        "listing_expanded_wall_ms": found.expanded.wall_ms,
        "listing_polls_per_s": found.polls_per_s,
        "listing_poll_median_ms": found.poll_median_ms,
        "listing_polled_controller_cores": found.controller_cores,
        "listing_polled_submit_median_ms": found.submit_median_ms,
        "listing_polled_submit_p99_ms": found.submit_p99_ms,
    }


def rest(effort: Effort) -> Figures:
    """The REST daemon: lists, pollers, idle clients, submissions, watchers."""
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        streamed = restbench.stream(local, effort.pending)
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local, restbench.daemon(local) as restd:
        listed = restbench.lists(local, restd, effort.listed_jobs, effort.command_runs)
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local:
        mixed = restbench.mixed_lists(local, effort.listed_jobs, effort.command_runs)
    with private_cluster(QUEUE_NODES, QUEUE_CPUS, QUEUE_GPUS) as local, restbench.daemon(local) as restd:
        idle = restbench.idle(restd, effort.rest_clients, effort.rest_s)
        submitted = restbench.submissions(local, restd, effort.rest_submits)
        watched = restbench.watchers(local, restd, effort.rest_watchers, effort.rest_s)
    return {
        "rest_first_list_ms": listed.first_ms,
        "rest_list_ms": listed.list_ms,
        "rest_list_mb": listed.list_mb,
        "rest_short_list_ms": listed.short_ms,
        "rest_mixed_first_list_ms": mixed.first_ms,
        "rest_mixed_list_ms": mixed.list_ms,
        "rest_mixed_list_mb": mixed.mb,
        "rest_mixed_restd_cpu_ms": mixed.restd_cpu_ms,
        "rest_mixed_controller_cpu_ms": mixed.controller_cpu_ms,
        "rest_poll_ms": listed.poll_ms,
        "rest_poll_cpu_ms": listed.poll_restd_cpu_ms,
        "rest_poll_controller_cpu_ms": listed.poll_controller_cpu_ms,
        "rest_stream_s": streamed.stream_s,
        "rest_stream_mb": streamed.stream_mb,
        "rest_stream_growth_mb": streamed.growth_mb,
        "rest_idle_growth_mb": idle.growth_mb,
        "rest_idle_cores": idle.cores,
        "rest_idle_ping_ms": idle.ping_ms,
        "rest_submit_p50_ms": submitted.rest_p50,
        "rest_submit_p99_ms": submitted.rest_p99,
        "rest_grpc_submit_p50_ms": submitted.grpc_p50,
        "rest_grpc_submit_p99_ms": submitted.grpc_p99,
        "rest_submit_above_grpc_p99_ms": submitted.rest_p99 - submitted.grpc_p99,
        "rest_changes_per_s": watched.changes_per_s,
        "rest_watched_controller_percent": watched.controller_percent,
        "rest_unwatched_controller_percent": watched.controller_alone_percent,
        "rest_watched_restd_cores": watched.restd_cores,
        "rest_watched_delivered_per_s": watched.delivered_per_s,
        "rest_watched_dropped": watched.dropped,
    }


def web(effort: Effort) -> Figures:
    """The web interface in a browser at a full cluster with a long queue."""
    try:
        from bench import webtable
    except ImportError:
        raise CannotMeasure("playwright is not installed: pip install playwright") from None
    found = webtable.measured(effort.web_nodes, effort.web_jobs, effort.runs)
    figures: Figures = {"web_jobs": effort.web_jobs, "web_nodes": effort.web_nodes}
    for title, (_, then) in found.items():
        name = "_".join(re.findall(r"[a-z]+", title.lower()))
        figures |= {f"web_{name}_ms": then.wall, f"web_{name}_controller_cpu_ms": then.controller}
    return figures


def mpi_start(effort: Effort) -> Figures:
    """64 ranks of MPICH to the end of MPI_Init."""
    with private_cluster(mpi.NODES, mpi.RANKS // mpi.NODES) as local:
        found = mpi.measure(local, effort.runs)
    return {"mpi_init_64_ms": found.init_ms, "mpi_init_64_hydra_ms": found.hydra_ms, "step_64_tasks_ms": found.step_ms}


def step(effort: Effort) -> Figures:
    """Steps inside allocations."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name, private_cluster(QUEUE_NODES, CPUS) as local:
        folder = Path(name)
        found = {**local.env, "PATH": f"{BIN}:{local.env.get('PATH', '')}"}  # the script calls srun by its name
        rate = steps.loop_rate(local.command("sbatch", steps.LOOP_MEMORY), found, folder, effort.steps)
        first_ms, above_ms = steps.first_bytes(local, folder, effort.command_runs)
        wide_s = steps.wide_start(local, QUEUE_NODES, effort.wide_tasks)
        stream = steps.stream_rate(local, effort.stream_mb, effort.runs)
        weights = steps.weights_mb(local, effort.sleepers)
    return {
        "steps_per_s": rate,
        "first_byte_p50_ms": first_ms,
        "first_byte_above_start_p50_ms": above_ms,
        "wide_step_tasks": effort.wide_tasks,
        "wide_step_s": wide_s,
        "stream_mb_per_s": stream,
        "stepd_private_mb": sum(weights) / len(weights),
        "stepd_private_max_mb": max(weights),
    }


def slurm_step(effort: Effort) -> Figures:
    """The peer's steps."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        return {"slurm_steps_per_s": steps.slurm_loop_rate(Path(name), CPUS, effort.steps)}


def shell_loops(effort: Effort) -> Figures:
    """`sbatch` from eight shells."""
    with private_cluster(1, CPUS) as local:
        return {"shell_submits_per_s": shells.rate(local.command("sbatch")[0], local.env, effort.shell_calls)}


def slurm_shell_loops(effort: Effort) -> Figures:
    """The peer's `sbatch` from eight shells."""
    with slurmpeer.private_slurm(CPUS) as env:
        return {"slurm_shell_submits_per_s": shells.rate("sbatch", env, effort.shell_calls)}


def by_turns(effort: Effort) -> Figures:
    """The array of `true` on Penstock, Slurm and HyperQueue, in turns."""
    found = peers.measure(effort.tasks, effort.turns, CPUS)
    figures: Figures = {f"turns_{name}_per_s": rate for name, rate in found.medians.items()}
    figures |= {f"turns_{name}_runs": rates for name, rates in found.runs.items()}
    figures |= {f"turns_{name}_left_out": why for name, why in found.reasons.items()}
    ours = found.medians["penstock"]
    return figures | {
        f"turns_ratio_to_{name}": ours / rate for name, rate in found.medians.items() if name != "penstock"
    }


def shells_at_queue(effort: Effort) -> Figures:
    """`sbatch` from eight shells while a long queue is planned."""
    with private_cluster(1, CPUS) as local:
        found = shells.queued_rate(
            lambda name: local.command(name)[0], local.env, effort.queued_jobs, effort.queued_calls, "debug"
        )
    return {"queued_shell_submits_per_s": found}


def slurm_shells_at_queue(effort: Effort) -> Figures:
    """The peer's `sbatch` from eight shells while its backfill plans a long queue."""
    with slurmpeer.private_slurm(CPUS, slurmpeer.DEEP_SCHEDULER) as env:
        found = shells.queued_rate(
            lambda name: name,
            env,
            effort.queued_jobs,
            effort.queued_calls,
            "main",
            lambda: slurmpeer.await_backfill(env),
        )
    return {"slurm_queued_shell_submits_per_s": found}


PARTS: dict[str, Callable[[Effort], Figures]] = {
    "core": core,
    "slurm": slurm,
    "slurm-step": slurm_step,
    "array": array,
    "peers": by_turns,
    "step": step,
    "slurm-shells": slurm_shell_loops,
    "shells": shell_loops,
    "slurm-shells-queued": slurm_shells_at_queue,
    "shells-queued": shells_at_queue,
    "submits": submits,
    "restart": start_again,
    "listing": listing,
    "rest": rest,
    "web": web,
    "mpi": mpi_start,
}


def run_part(name: str, effort: Effort) -> tuple[Figures, str]:
    """A part's figures, or why there are none."""
    try:
        return PARTS[name](effort), ""
    except CannotMeasure as error:
        return {}, str(error)


def ratios(figures: Figures) -> Figures:
    """Our figures relative to Slurm's of the same run; null when either is missing."""
    found: Figures = {}
    for name in ("array_jobs_per_s", "sbatch_wall_ms", "squeue_wall_ms", "steps_per_s", "shell_submits_per_s",
                 "queued_shell_submits_per_s"):  # fmt: skip
        ours, theirs = figures.get(name), figures.get(f"slurm_{name}")
        found[f"{name}_ratio_to_slurm"] = ours / theirs if ours and theirs else None
    return found
