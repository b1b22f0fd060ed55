"""The output of `seff` and `penstock seff`: a job's efficiency as a text, or a document.

The figures are from the job's record: the usage of its steps, as in sacct. For running steps their nodes are queried,
as by sstat. The text begins like that of Slurm's contributed seff, line by line, since users and programs read it;
GPUs, energy and advice follow where there are any. An array, or a heterogeneous job, is shown as a whole.

efficiency.py computes the figures. Deliberately absent: colours, histograms, configurable thresholds.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cli.base.document import Json, is_wanted
from cli.base.format import DisplayClock
from cli.base.listing import emit, now_us, words
from cli.base.options import OptionValues
from cli.base.queryclient import QueryClient
from cli.base.run import CommandError, complain
from cli.listings.efficiency import Use, advice, percent, size_text, together, use_of
from cli.listings.livesteps import BOUNDS, LiveAnswer, LiveBounds, Say, live_answers
from cli.listings.sacct_fields import RecordRow, RecordView, end_us
from cli.listings.stepusage import K, merged
from penstock.client import Client
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest, StepMetric
from penstock.values.duration import format_duration
from penstock.values.errors import BadValue
from penstock.values.jobid import JobSelector, parse_selectors
from penstock.values.profilefigures import IDLE_PERMILLE, GpuIdleTime

if TYPE_CHECKING:
    from cli.listings.profiles import NodeProfile

NAME = "seff"
NOT_FOUND = 2  # status of Slurm's seff for a job that does not exist
#: The most jobs whose profiles are read.
PROFILED_MAX = 32


def report(jobs: Sequence[JobRecord], use: Use, cluster: str, gpu: GpuIdleTime | None = None) -> list[str]:
    """The report as text. `gpu`: from the profiles of its steps."""
    states = [job.state for job in jobs]
    lines = [*_head(jobs, cluster)]
    if not any(job.start_at_us for job in jobs) or set(states) == {"PENDING"}:
        return [*lines, f"Efficiency not available for jobs in the {states[0]} state."]
    lines += _usage(use)
    if gpu is not None and gpu.known_ds:
        lines.append(
            f"GPU Idle: {percent(gpu.idle_ds, gpu.known_ds):.2f}% of {format_duration(gpu.known_ds // 10)} "
            f"below {IDLE_PERMILLE // 10}% utilisation; throttled {percent(gpu.throttled_ds, gpu.known_ds):.2f}%"
        )
    sentences = advice(use, states)
    lines += ["Advice:", *(f"  {text}" for text in sentences)] if sentences else []
    if not {"RUNNING", "COMPLETING", "SUSPENDED"}.isdisjoint(states):
        lines.append("WARNING: Efficiency statistics may be misleading for RUNNING jobs.")
    return lines


def _head(jobs: Sequence[JobRecord], cluster: str) -> Iterator[str]:
    first = jobs[0]
    if len(jobs) == 1:
        yield f"Job ID: {first.job_id}"
        if first.array_job_id:
            yield f"Array Job ID: {RecordRow(first, None).id_text()}"
        if first.het_job_id:
            yield f"Het Job ID: {RecordRow(first, None).id_text()}"
    else:
        yield f"Job ID: {first.array_job_id or first.het_job_id or first.job_id}"
        yield f"Jobs: {len(jobs)}"
    yield f"Cluster: {first.cluster or cluster}"
    yield f"User/Group: {first.user_name or first.user_id}/{first.group_name or first.group_id}"
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.state] = counts.get(job.state, 0) + 1
    if len(jobs) > 1:
        yield "State: " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    elif end_us(RecordRow(first, None)):
        yield f"State: {first.state} (exit code {first.exit.code})"
    else:
        yield f"State: {first.state}"


def _usage(use: Use) -> Iterator[str]:
    if use.nodes <= 1 and use.cores <= 1:
        yield "Cores: 1"
    else:
        yield f"Nodes: {use.nodes}"
        yield f"Cores per node: {-(-use.cores // max(use.nodes, 1))}"
    yield f"CPU Utilized: {format_duration(use.cpu_us // 1_000_000)}"
    cpu = percent(use.cpu_us / 1_000_000, use.core_s)
    yield f"CPU Efficiency: {cpu:.2f}% of {format_duration(use.core_s)} core-walltime"
    yield f"Job Wall-clock time: {format_duration(use.elapsed_s)}"
    yield f"Memory Utilized: {size_text(use.memory_kb)}" + (" (estimated maximum)" if use.tasks > 1 else "")
    per_node = f"{size_text(use.memory_given_kb / max(use.nodes, 1))}/node"
    given = f"{size_text(use.memory_given_kb)} ({per_node})"
    yield f"Memory Efficiency: {percent(use.memory_kb, use.memory_given_kb):.2f}% of {given}"
    if use.limit_s > 0:
        yield f"Time Efficiency: {percent(use.longest_s, use.limit_s):.2f}% of {format_duration(use.limit_s)} time limit"
    yield from _gpu_usage(use)


def _gpu_usage(use: Use) -> Iterator[str]:
    if use.gpus:
        yield f"GPUs: {use.gpus}"
    if use.gpus and use.gpu_percent_s is not None:
        yield f"GPU Utilized: {format_duration(use.gpu_percent_s // 100)}"
        busy = percent(use.gpu_percent_s, 100 * use.gpu_s)
        yield f"GPU Efficiency: {busy:.2f}% of {format_duration(int(use.gpu_s))} GPU-walltime"
    if use.gpu_memory_kb is not None:
        yield f"GPU Memory Utilized: {size_text(use.gpu_memory_kb)}"
        held_kb = use.gpu_card_kb * max(use.gpus, 1)
        if held_kb:
            part = percent(use.gpu_memory_kb, held_kb)
            yield f"GPU Memory Efficiency: {part:.2f}% of {size_text(held_kb)} ({size_text(use.gpu_card_kb)}/GPU)"
    if use.energy_j is not None:
        estimated = ", estimated" if use.energy_is_estimate else ""
        yield f"GPU Energy: {use.energy_j} J ({use.energy_j / 3_600_000:.3f} kWh{estimated})"


def as_object(jobs: Sequence[JobRecord], use: Use, cluster: str, gpu: GpuIdleTime | None = None) -> Json:
    """The report as a document: sizes in bytes, times in seconds, null = not known."""
    first = jobs[0]

    def part(value: float | None, whole: float) -> float | None:
        return None if value is None or not whole else round(100 * value / whole, 2)

    gpu_memory = None if use.gpu_memory_kb is None else use.gpu_memory_kb * 1024
    held = use.gpu_card_kb * max(use.gpus, 1) * 1024
    busy_s = None if use.gpu_percent_s is None else use.gpu_percent_s / 100
    return {
        "job_id": first.job_id if len(jobs) == 1 else first.array_job_id or first.het_job_id or first.job_id,
        "jobs": [RecordRow(job, None).id_text() for job in jobs],
        "cluster": first.cluster or cluster,
        "user": first.user_name,
        "group": first.group_name,
        "states": sorted({job.state for job in jobs}),
        "exit_code": max(job.exit.code for job in jobs),
        "nodes": use.nodes,
        "cores": use.cores,
        "time": {
            "elapsed": use.elapsed_s,
            "longest": use.longest_s,
            "limit": use.limit_s if use.limit_s > 0 else None,
            "efficiency_percent": part(use.longest_s, max(use.limit_s, 0)),
        },
        "cpu": {
            "used": use.cpu_us / 1_000_000,
            "allocated": use.core_s,
            "efficiency_percent": part(use.cpu_us / 1_000_000, use.core_s),
        },
        "memory": {
            "used": use.memory_kb * 1024,
            "allocated": use.memory_given_kb * 1024,
            "efficiency_percent": part(use.memory_kb, use.memory_given_kb),
        },
        "gpu": {
            "count": use.gpus,
            "used": busy_s,
            "allocated": use.gpu_s,
            "efficiency_percent": part(busy_s, use.gpu_s),
            "memory_used": gpu_memory,
            "memory_allocated": held or None,
            "memory_efficiency_percent": part(gpu_memory, held),
            "energy_joules": use.energy_j,
            "profiled": None if gpu is None else gpu.known_ds / 10,
            "idle": None if gpu is None else gpu.idle_ds / 10,
            "throttled": None if gpu is None else round(gpu.throttled_ds / 10, 1),
            "energy_is_estimate": None if use.energy_j is None else use.energy_is_estimate,
        },
        "advice": advice(use, [job.state for job in jobs]),
    }


class JobEfficiency(NamedTuple):
    """The figures of a job, or of the tasks of an array as a whole."""

    jobs: Sequence[JobRecord]
    use: Use
    cluster: str
    gpu: GpuIdleTime | None  # from profiles


def measured(
    client: QueryClient, jobs: Sequence[JobRecord], clock: DisplayClock, say: Say, bounds: LiveBounds = BOUNDS
) -> JobEfficiency:
    """The figures of these jobs. Those of running steps are from their nodes; `say` takes what cannot be had."""
    cluster = client.cluster.cluster_name
    add_live(client, jobs, say, bounds)
    gpu = _gpu_time(client, jobs, bounds) if any("gres/gpu" in job.tres_alloc for job in jobs) else None
    view = RecordView(clock, cluster=cluster)
    started = [use_of(job, view) for job in jobs if job.start_at_us] or [use_of(job, view) for job in jobs]
    return JobEfficiency(jobs, together(started), cluster, gpu)


def show(text: str, options: OptionValues) -> int:
    """Prints how efficient the job was that `text` names; returns the status."""
    clock = DisplayClock.of_environment(now_us())
    with Client.open() as client:
        found = measured(client, find(client, text), clock, lambda sentence: complain(NAME, sentence))
    if is_wanted(options):
        from cli.base.document import write_document

        write_document(as_object(*found), options)
        return 0
    emit(report(*found))
    return 0


def _gpu_time(client: QueryClient, jobs: Sequence[JobRecord], bounds: LiveBounds) -> GpuIdleTime | None:
    """How long the jobs' GPUs were idle or throttled, from profiles; None for jobs without, and for many."""
    from cli.base.jobids import selector_text
    from cli.listings.profiles import ProfileDemand, gpu_time_of_job, profiles_of

    if len(jobs) > PROFILED_MAX:
        return None
    ids = [selector_text(JobSelector(job.job_id)) for job in jobs]
    by_job: dict[int, list[NodeProfile]] = {}
    # what the nodes do not answer, add_live has said
    for one in profiles_of(client, jobs, ids, lambda sentence: None, ProfileDemand(bounds=bounds)):
        by_job.setdefault(one.job.job_id, []).append(one)
    found = GpuIdleTime()
    for profiles in by_job.values():
        found = found.plus(gpu_time_of_job(profiles))
    return found if found.known_ds else None


def find(client: Client, text: str) -> list[JobRecord]:
    """The selected records: a job, a task of an array, or all tasks of an array."""
    from cli.base.listing import list_records

    try:
        selectors = parse_selectors(",".join(words(text)))
    except BadValue as error:
        raise CommandError(f"Bad job specified: {text[:80]}: {error}") from error
    if len(selectors) != 1 or selectors[0].step_id is not None:
        raise CommandError(f"{text[:80]}: give one job id, like 12 or 12_3; steps are shown by sacct")
    from cli.base.jobids import selector_text

    request = ListRecordsRequest(ids=[selector_text(selectors[0])])
    found: list[JobRecord] = list_records(client, request)
    if not found:
        raise CommandError("Job not found.", NOT_FOUND, plain=True)
    return found


def add_live(client: QueryClient, jobs: Sequence[JobRecord], say: Say, bounds: LiveBounds) -> None:
    """Adds the nodes' current figures to the records of running steps. Without the permission only the rest is shown."""
    for one in live_answers(client, jobs, "usage", say, bounds):
        add_figures(one)


def add_figures(one: LiveAnswer) -> None:
    """Puts what the nodes of a running step have answered to `usage` into its record."""
    known = set(K.values())
    metrics = [
        StepMetric(
            kind=K.Name(kind), total=figure.total, max=figure.max, max_node=figure.max_node, max_task=figure.max_task,
            min=figure.min, min_node=figure.min_node, min_task=figure.min_task,
        )
        for kind, figure in merged(one.found).metrics.items()
        if kind in known
    ]  # fmt: skip
    del one.step.metrics[:]
    one.step.metrics.extend(metrics)
