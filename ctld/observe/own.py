"""Penstock's own families, `penstock_*`: the queue, waits, GPUs, budgets and the controller itself.

Labels that users can multiply (accounts) have PenstockMetricsValuesMax values at most, the rest is `other`; all others
have known values. Times are in seconds, sizes in bytes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ctld.core.records.budget_book import ONE
from ctld.core.state.state import ClusterState
from ctld.metrics import Histogram, Metrics, TracedHistogram
from ctld.observe.gputime import GpuTime
from ctld.observe.jobstats import JobStats, JobTotals
from ctld.observe.nodes import NodeNumbers
from ctld.runtime.measures import Measures
from penstock.exporter.exposition import (
    MetricFamily,
    MetricSample,
    MetricType,
    bucket_labels,
    buckets,
    counter,
    exemplar,
    gauge,
    labels,
)  # fmt: skip
from penstock.exporter.pace import WorkPace

_US: Final = 1_000_000
#: Counters that are in every controller.
_COUNTERS: Final = {
    "batches": "Batches sealed by the core",
    "commands_sent": "Commands sent to nodes",
    "effects": "Effects released after commits",
    "events": "Events handled by the core",
    "inbox_full": "Requests refused since too many were pending",
    "links_dropped": "Streams of nodes that the controller ended",
    "links_opened": "Streams that nodes opened",
    "reports": "Reports of nodes",
    "rows": "Rows written for jobs, steps and histories",
    "spans_dropped": "Spans of traces that were dropped",
    "spans_sent": "Spans of traces that the collector has taken",
    "spared": "Requests refused for an internal error",
    "storage_away": "Attempts to write while the database did not answer",
    "storage_full": "Attempts to write without space",
    "submits": "Submissions handled",
}


def queue_families(totals: JobTotals, accounts: Mapping[str, JobStats]) -> Iterator[MetricFamily]:
    """Yields the queue by state, partition, account and reason."""
    by_state = [
        (labels({"state": state.lower(), "partition": partition}), count)
        for (state, partition), count in sorted(totals.by_state.items())
    ]
    yield MetricFamily(
        "penstock_jobs", MetricType.GAUGE, "Jobs by state; a pending one in each partition that it may run in", by_state
    )
    for name in ("pending", "running"):
        values = [(labels({"account": account}), one.counts.get(name, 0)) for account, one in accounts.items()]
        yield MetricFamily(f"penstock_account_jobs_{name}", MetricType.GAUGE, f"Jobs that are {name}", values)
    gpus = [(labels({"account": account}), one.gpus) for account, one in accounts.items()]
    yield MetricFamily("penstock_account_gpus_allocated", MetricType.GAUGE, "GPUs allocated whole to jobs", gpus)
    reasons = [(labels({"reason": reason}), count) for reason, count in sorted(totals.by_reason.items())]
    yield MetricFamily(
        "penstock_jobs_pending_by_reason", MetricType.GAUGE, "Pending jobs by the reason for which they wait", reasons
    )


def wait_family(waits: Mapping[tuple[str, str], Histogram]) -> MetricFamily:
    """Returns how long jobs waited, by partition and class."""
    samples: list[MetricSample] = []
    for (partition, name), found in sorted(waits.items()):
        samples += _in_s({"partition": partition, "class": name}, found)
    text = "Time from when a job could start to its start, by partition and class, since the controller started"
    return MetricFamily("penstock_job_wait_seconds", MetricType.HISTOGRAM, text, samples)


def node_family(facts: Iterable[NodeNumbers]) -> MetricFamily:
    """Returns the nodes by each word of their states."""
    counts: dict[str, int] = {}
    for node in facts:
        for word in node.words:
            counts[word] = counts.get(word, 0) + 1
    values = [(labels({"state": word}), count) for word, count in sorted(counts.items())]
    return MetricFamily(
        "penstock_nodes", MetricType.GAUGE, "Nodes by state; a node counts in each word of its state", values
    )


async def gpu_families(state: ClusterState, time: GpuTime, pace: WorkPace) -> list[MetricFamily]:
    """Returns GPUs by type and health, and GPU time by use."""
    counts: dict[tuple[str, str], int] = {}
    await pace.begin()
    async for node in pace.over(list(state.node_list)):
        for gpu in node.gpus.values():
            if not gpu.facts.parent:  # an instance is a part of one that counts
                key = gpu.facts.type, gpu.state().name.lower()
                counts[key] = counts.get(key, 0) + 1
    time.look()
    values = [(labels({"type": type_, "health": health}), count) for (type_, health), count in sorted(counts.items())]
    seconds = [(labels({"state": name}), total) for name, total in time.seconds().items()]
    return [
        MetricFamily("penstock_gpus", MetricType.GAUGE, "GPUs that nodes have reported, by type and health", values),
        MetricFamily(
            "penstock_gpu_seconds", MetricType.COUNTER, "GPU time by use, since the controller started", seconds
        ),
    ]


def budget_families(state: ClusterState, now_us: int) -> Iterator[MetricFamily]:
    """Yields the budgets of accounts in their units."""
    amounts: list[MetricSample] = []
    used: list[MetricSample] = []
    reserved: list[MetricSample] = []
    for assoc_id, books in sorted(state.limits.budgets.by_account.items()):
        account = state.shares.by_id[assoc_id].account
        for book in books:
            text = labels({"account": account, "unit": book.budget.unit, "period": book.budget.period})
            amounts.append((text, book.budget.hundredths / 100))
            used.append((text, book.used_at(now_us) / ONE))
            reserved.append((text, book.reserved_at(now_us) / ONE))
    yield MetricFamily("penstock_budget", MetricType.GAUGE, "Budget of an account in the period", amounts)
    yield MetricFamily("penstock_budget_used", MetricType.GAUGE, "Used of a budget in the period", used)
    yield MetricFamily("penstock_budget_reserved", MetricType.GAUGE, "Reserved of a budget for running jobs", reserved)


class ControllerFacts(NamedTuple):
    """What is not in the counters."""

    version: str
    boot_at_us: int
    now_us: int
    inbox: int  # events that wait
    longest_turn_us: int
    links: int
    link_queue: int
    clocks_off: int  # nodes whose clock is wrong (agents/nodetime.py)
    certificate_end_us: int
    durable_to_us: int  # up to then all decisions are in the database


def controller_families(measures: Measures, turns: Histogram | None, facts: ControllerFacts) -> Iterator[MetricFamily]:
    """Yields what the controller counts of itself."""
    times = measures.times
    info = (labels({"version": facts.version}), 1)
    yield MetricFamily("penstock_controller_info", MetricType.GAUGE, "Version of the controller", (info,))
    yield gauge("penstock_controller_start_time_seconds", "When the controller started", facts.boot_at_us / _US)
    yield gauge("penstock_controller_time_seconds", "The controller's clock", facts.now_us / _US)
    yield gauge("penstock_certificate_end_seconds", "When its certificate ends", facts.certificate_end_us / _US)
    yield gauge("penstock_inbox_events", "Events that wait for the core", facts.inbox)
    yield gauge("penstock_node_links", "Open streams of nodes", facts.links)
    yield gauge("penstock_node_link_queue", "Messages that wait to be sent to nodes", facts.link_queue)
    yield gauge("penstock_node_clocks_off", "Nodes whose clock is more than 2 s off", facts.clocks_off)
    behind_us = max(facts.now_us - facts.durable_to_us, 0)
    yield gauge("penstock_database_behind_seconds", "Age of the oldest change not in the database yet", behind_us / _US)
    text = "CPU time of the longest turn of the loop since the last reset of sdiag"
    yield gauge("penstock_loop_longest_turn_seconds", text, facts.longest_turn_us / _US)
    if turns is not None:
        yield _histogram("penstock_loop_turn_seconds", "CPU time of a turn of the loop", turns)
    yield submit_family(times.submissions)
    yield _histogram("penstock_commit_seconds", "Time from sealing a batch until it is in the database", times.commits)
    yield MetricFamily(
        "penstock_pass_seconds", MetricType.HISTOGRAM, "Time of scheduling passes: quick ones, and those over the whole queue",
        [*_in_s({"kind": "quick"}, times.quick_passes), *_in_s({"kind": "full"}, times.full_passes)],
    )  # fmt: skip
    yield from _counted(measures.metrics)
    calls = sorted(measures.calls.by_outcome.items())
    outcomes = [(labels({"method": method, "code": code}), count) for (method, code), count in calls]
    yield MetricFamily("penstock_rpcs", MetricType.COUNTER, "Calls by method and gRPC status", outcomes)


def submit_family(found: TracedHistogram) -> MetricFamily:
    """Returns how long submissions took, each bucket with the trace of the last traced one."""
    text = "Time from the request of a submission until it is in the database"
    exemplars = {
        bucket_labels({}, bound / _US): exemplar({"trace_id": one.trace_id}, one.value / _US, one.at_us / _US)
        for bound, one in zip((*found.bounds, float("inf")), found.exemplars, strict=True)
        if one is not None
    }
    return _histogram("penstock_submit_seconds", text, found)._replace(exemplars=exemplars)


def _counted(metrics: Metrics) -> Iterator[MetricFamily]:
    for name, text in _COUNTERS.items():
        yield counter(f"penstock_{name}", text, getattr(metrics, name))


def _histogram(name: str, text: str, found: Histogram) -> MetricFamily:
    return MetricFamily(name, MetricType.HISTOGRAM, text, list(_in_s({}, found)))


def _in_s(pairs: Mapping[str, str], found: Histogram) -> Iterator[MetricSample]:
    """Yields a histogram in microseconds as one in seconds."""
    return buckets(pairs, [bound / _US for bound in found.bounds], found.counts, found.total / _US)
