"""Slurm's families about the scheduler: what sdiag prints, since its last reset. Times are in microseconds, moments in
seconds since 1970.

The main scheduler's are those of quick passes, backfill's those of full passes. Reasons to end a pass early that do not
exist here have zeros, as in sdiag.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ctld.metrics import Diagnostics, Passes
from penstock.exporter.exposition import MetricFamily, gauge

_US: Final = 1_000_000


class SchedulerMoment(NamedTuple):
    """What is not in the counters."""

    now_us: int
    jobs_pending: int
    jobs_running: int
    agents: int  # open links of nodes
    agent_queue: int  # messages that wait for them
    threads: int


def scheduler_families(counted: Diagnostics, now: SchedulerMoment) -> Iterator[MetricFamily]:
    """Yields the families of `/metrics/scheduler`."""
    values = {**_main(counted.main), **_backfill(counted), **_jobs(counted, now), **_server(counted, now)}
    for name, (value, text) in sorted(values.items()):
        yield gauge(f"slurm_{name}", text, value)


_Values = dict[str, tuple[int | float, str]]


def _main(passes: Passes) -> _Values:
    cycles = max(passes.cycles, 1)
    return {
        "schedule_cycle_cnt": (passes.cycles, "Passes of the main scheduler"),
        "schedule_cycle_depth": (passes.depth, "Jobs examined by all of them"),
        "schedule_cycle_last": (passes.last_us, "Microseconds of the last one"),
        "schedule_cycle_max": (passes.max_us, "Microseconds of the longest one"),
        "schedule_cycle_tot": (passes.total_us, "Microseconds of all of them"),
        "schedule_queue_len": (passes.last_queue, "Jobs that were ready in the last one"),
        "sched_mean_cycle": (passes.total_us // cycles, "Microseconds of a pass on average"),
        "sched_mean_depth_cycle": (passes.depth // cycles, "Jobs examined by a pass on average"),
        "sched_exit_end": (passes.cycles, "Passes that ended with the queue"),
        "sched_exit_max_depth": (0, "Passes that ended at default_queue_depth"),
        "sched_exit_max_job_start": (0, "Passes that ended at sched_max_job_start"),
        "sched_exit_lic": (0, "Passes that ended for licenses"),
        "sched_exit_rpc_cnt": (0, "Passes that ended at max_rpc_cnt"),
        "sched_exit_timeout": (0, "Passes that ended at max_sched_time"),
    }


def _backfill(counted: Diagnostics) -> _Values:
    passes = counted.backfill
    cycles = max(passes.cycles, 1)
    last_s = counted.last_backfill_at_us / _US
    return {
        "backfilled_jobs": (counted.backfilled, "Jobs started by backfill"),
        "backfilled_het_jobs": (0, "Components of heterogeneous jobs started by backfill"),
        "last_backfilled_jobs": (counted.backfilled_last, "Jobs started by the last backfill pass"),
        "bf_active": (0, "Whether backfill holds the controller now: it runs beside it"),
        "bf_cycle_cnt": (passes.cycles, "Backfill passes"),
        "bf_cycle_last": (passes.last_us, "Microseconds of the last one"),
        "bf_cycle_max": (passes.max_us, "Microseconds of the longest one"),
        "bf_cycle_tot": (passes.total_us, "Microseconds of all of them"),
        "bf_mean_cycle": (passes.total_us // cycles, "Microseconds of a pass on average"),
        "bf_depth_tot": (passes.depth, "Jobs examined by all of them"),
        "bf_depth_try_tot": (passes.depth, "Jobs tried by all of them"),
        "bf_depth_mean": (passes.depth // cycles, "Jobs examined by a pass on average"),
        "bf_try_depth_mean": (passes.depth // cycles, "Jobs tried by a pass on average"),
        "bf_last_depth": (passes.last_depth, "Jobs examined by the last one"),
        "bf_last_depth_try": (passes.last_depth, "Jobs tried by the last one"),
        "bf_queue_len": (passes.last_queue, "Jobs in the queue of the last one"),
        "bf_queue_len_tot": (passes.queue, "Jobs in the queues of all of them"),
        "bf_queue_len_mean": (passes.queue // cycles, "Jobs in a queue on average"),
        "bf_table_size": (passes.table, "Starts planned by the last one"),
        "bf_table_size_tot": (passes.table, "Starts planned by the last one: the sum is not kept"),
        "bf_mean_table_sz": (passes.table, "Starts planned by the last one: the mean is not kept"),
        "bf_when_last_cycle": (last_s, "When the last one ended"),
        "bf_exit_end": (passes.cycles, "Passes that ended with the queue"),
        "bf_exit_max_job_start": (0, "Passes that ended at bf_max_job_start"),
        "bf_exit_max_job_test": (0, "Passes that ended at bf_max_job_test"),
        "bf_exit_state_changed": (0, "Passes that ended since the cluster had changed"),
        "bf_exit_table_limit": (0, "Passes that ended at bf_node_space_size"),
        "bf_exit_timeout": (0, "Passes that ended at bf_max_time"),
    }


def _jobs(counted: Diagnostics, now: SchedulerMoment) -> _Values:
    return {
        "sdiag_jobs_submitted": (counted.jobs["submit"], "Jobs submitted"),
        "sdiag_jobs_started": (counted.jobs["start"], "Jobs started"),
        "sdiag_jobs_completed": (counted.jobs["completed"], "Jobs that ended with exit code 0"),
        "sdiag_jobs_canceled": (counted.jobs["canceled"], "Jobs cancelled"),
        "sdiag_jobs_failed": (counted.jobs["failed"], "Jobs that failed"),
        "sdiag_jobs_pending": (now.jobs_pending, "Jobs that are pending"),
        "sdiag_jobs_running": (now.jobs_running, "Jobs that hold resources"),
        "sdiag_job_states_ts": (now.now_us / _US, "When the pending and running jobs were counted"),
    }


def _server(counted: Diagnostics, now: SchedulerMoment) -> _Values:
    return {
        "agent_cnt": (now.agents, "Open streams of nodes"),
        "agent_queue_size": (now.agent_queue, "Messages that wait to be sent to nodes"),
        "agent_thread_cnt": (now.agents, "Open streams of nodes: they need no threads"),
        "server_thread_cnt": (now.threads, "Threads that work on requests"),
        "slurmdbd_queue_size": (0, "Records that wait for slurmdbd: accounting is part of the controller"),
        "last_proc_req_start": (counted.since_us / _US, "When these figures were last reset"),
        "sched_stats_timestamp": (now.now_us / _US, "When these figures were read"),
        "sdiag_latency": (0, "Microseconds of reading the clock 1,000 times: not measured"),
    }
