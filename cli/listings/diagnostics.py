"""The controller's statistics as sdiag and `sacctmgr show stats` print them: a text, and the document of --json.

Main is the quick pass that runs with each batch of events; Backfilling is the pass over the whole queue, which runs in
a worker at the same time. Slurm's lines without a meaning here (DBD agent, pending RPCs) are printed with 0, since
exporters look for them. A call that corresponds to one of Slurm's messages is listed under that message's name and
number; others under their own name with the number 0.
"""

from collections.abc import Callable, Iterable

# Any: a sort key is compared only with keys of its own type
from typing import TYPE_CHECKING, Any

from cli.base.document import Json, number
from cli.base.format import seconds_us
from cli.base.listing import date_line

if TYPE_CHECKING:
    from penstock.v1.explain_pb2 import DiagnosticsReply, RpcCount

LINE = "*" * 55
#: Our calls and the corresponding messages of Slurm (names and numbers of its protocol).
MESSAGES = {
    "Ping": ("REQUEST_PING", 1008), "SubmitJob": ("REQUEST_SUBMIT_BATCH_JOB", 4003), "ListJobs": ("REQUEST_JOB_INFO", 2003),
    "ListNodes": ("REQUEST_NODE_INFO", 2007), "ListPartitions": ("REQUEST_PARTITION_INFO", 2009),
    "CancelJobs": ("REQUEST_KILL_JOBS", 5103), "UpdateJobs": ("REQUEST_UPDATE_JOB", 3001),
    "UpdateNodes": ("REQUEST_UPDATE_NODE", 3002), "UpdatePartition": ("REQUEST_UPDATE_PARTITION", 3003),
    "CreateReservation": ("REQUEST_CREATE_RESERVATION", 3006), "UpdateReservation": ("REQUEST_UPDATE_RESERVATION", 3009),
    "DeleteReservation": ("REQUEST_DELETE_RESERVATION", 3008), "ListReservations": ("REQUEST_RESERVATION_INFO", 2024),
    "ListLicenses": ("REQUEST_LICENSE_INFO", 2045), "ShowConfig": ("REQUEST_BUILD_INFO", 2001),
    "Reconfigure": ("REQUEST_RECONFIGURE", 1003), "Shutdown": ("REQUEST_SHUTDOWN", 1005),
    "Diagnostics": ("REQUEST_STATS_INFO", 2035), "ListPriorities": ("REQUEST_PRIORITY_FACTORS", 2026),
    "ListAssociations": ("REQUEST_SHARE_INFO", 2022), "ListSteps": ("REQUEST_JOB_STEP_INFO", 2005),
    "CreateStep": ("REQUEST_JOB_STEP_CREATE", 5001), "Allocate": ("REQUEST_RESOURCE_ALLOCATION", 4001),
}  # fmt: skip
#: The sort key of a call's statistics.
_Order = Callable[["RpcCount"], Any]
SORTS: dict[str, _Order] = {
    "sort_by_id": lambda one: one.name,
    "sort_by_time": lambda one: (-one.total_us, one.name),
    "sort_by_time2": lambda one: (-(one.total_us // max(1, one.count)), one.name),
}


def report(d: "DiagnosticsReply", order: _Order | None = None) -> list[str]:
    """The whole text."""
    return [
        LINE,
        f"sdiag output at {at(d.now_us)}",
        f"Data since      {at(d.since_us)}",
        LINE,
        f"Server thread count:  {d.server_threads}",
        "RPC queue enabled:    0",
        f"Agent queue size:     {d.agent_queue}",
        f"Agent count:          {d.agents}",
        f"Agent thread count:   {d.agents}",
        "DBD Agent queue size: 0",
        f"Inbox size:           {d.inbox}",
        f"Longest turn:         {d.longest_turn_us}",
        *(
            [f"Submit filter:        {d.filter_calls} calls, {d.filter_refusals} refused, {d.filter_failures} failed"]
            if d.filter_calls
            else []
        ),
        *([f"Internal errors:      {d.spared} (requests were refused; see the controller's log)"] if d.spared else []),
        "",
        f"Jobs submitted: {d.jobs_submitted}",
        f"Jobs started:   {d.jobs_started}",
        f"Jobs completed: {d.jobs_completed}",
        f"Jobs canceled:  {d.jobs_canceled}",
        f"Jobs failed:    {d.jobs_failed}",
        "",
        f"Job states ts:  {at(d.jobs_at_us)}",
        f"Jobs pending:   {d.jobs_pending}",
        f"Jobs running:   {d.jobs_running}",
        "",
        *_main(d),
        "",
        *_backfill(d),
        "",
        "Database commits:",
        f"\tTotal:       {d.commits}",
        f"\tMean:        {_mean(d.commit_us, d.commits)}",
        "",
        "Remote Procedure Call statistics by message type",
        *calls(d.by_type, order),
        "",
        "Remote Procedure Call statistics by user",
        *calls(d.by_user, order, users=True),
        "",
        "Pending RPC statistics",
        "\tNo pending RPCs",
    ]


def rollup(d: "DiagnosticsReply") -> list[str]:
    """The roll-ups of usage, as sacctmgr prints them."""
    r = d.rollup
    return [
        f"Internal DBD rollup last ran {at(d.last_rollup_at_us) if d.last_rollup_at_us else 'never (0)'}",
        f"\tLast cycle:   {r.last_us}",
        f"\tMax cycle:    {r.max_us}",
        f"\tTotal time:   {r.total_us}",
        f"\tTotal cycles: {r.cycles}",
        f"\tMean cycle:   {_mean(r.total_us, r.cycles)}",
    ]


def at(at_us: int) -> str:
    """A time as sdiag writes it: `Sat Nov 21 16:00:00 2026 (1795276800)`."""
    return f"{date_line(at_us)} ({seconds_us(at_us)})"


def _mean(total: int, count: int) -> int:
    return int(total // count) if count else 0


def _main(d: "DiagnosticsReply") -> list[str]:
    m = d.main
    minutes = max(1, (d.now_us - d.since_us) // 60_000_000)
    return [
        "Main schedule statistics (microseconds):",
        f"\tLast cycle:   {m.last_us}",
        f"\tMax cycle:    {m.max_us}",
        f"\tTotal cycles: {m.cycles}",
        f"\tMean cycle:   {_mean(m.total_us, m.cycles)}",
        f"\tMean depth cycle:  {_mean(m.depth, m.cycles)}",
        f"\tCycles per minute: {m.cycles // minutes}",
        f"\tLast queue length: {m.last_queue}",
    ]


def _backfill(d: "DiagnosticsReply") -> list[str]:
    b = d.backfill
    return [
        "Backfilling stats",
        f"\tTotal backfilled jobs (since last slurm start): {d.backfilled_boot}",
        f"\tTotal backfilled jobs (since last stats cycle start): {d.backfilled_jobs}",
        "\tTotal backfilled heterogeneous job components: 0",
        f"\tTotal cycles: {b.cycles}",
        f"\tLast cycle when: {at(d.last_backfill_at_us) if d.last_backfill_at_us else 'N/A'}",
        f"\tLast cycle: {b.last_us}",
        f"\tMax cycle:  {b.max_us}",
        f"\tMean cycle: {_mean(b.total_us, b.cycles)}",
        f"\tLast depth cycle: {b.last_depth}",
        f"\tLast depth cycle (try sched): {b.last_depth}",
        f"\tDepth Mean: {_mean(b.depth, b.cycles)}",
        f"\tDepth Mean (try depth): {_mean(b.depth, b.cycles)}",
        f"\tLast queue length: {b.last_queue}",
        f"\tQueue length mean: {_mean(b.queue, b.cycles)}",
        f"\tLast table size: {b.table_size}",
    ]


def calls(counts: "Iterable[RpcCount]", order: _Order | None, users: bool = False) -> list[str]:
    """The rows of one table of calls, in the order of the key `order`."""
    found = list(counts) if order is None else sorted(counts, key=order)
    return [
        (f"\t{one.name:<16}({one.uid:>8}) " if users else "\t{:<40}({:>5}) ".format(*message(one.name)))
        + f"count:{one.count:<6} ave_time:{_mean(one.total_us, one.count):<6} total_time:{one.total_us}"
        for one in found
    ]


def message(call: str) -> tuple[str, int]:
    """The name and number of a call's row."""
    return MESSAGES.get(call, (call, 0))


def statistics(d: "DiagnosticsReply") -> Json:
    """--json and --yaml, the names of Slurm's data_parser; fields without a meaning here are 0."""
    m, b = d.main, d.backfill
    minutes = max(1, (d.now_us - d.since_us) // 60_000_000)
    return {
        "parts_packed": 1, "req_time": _time(d.now_us), "req_time_start": _time(d.since_us),
        "server_thread_count": d.server_threads, "agent_queue_size": d.agent_queue, "agent_count": d.agents,
        "agent_thread_count": d.agents, "dbd_agent_queue_size": 0, "gettimeofday_latency": 0,
        "jobs_submitted": d.jobs_submitted, "jobs_started": d.jobs_started, "jobs_completed": d.jobs_completed,
        "jobs_canceled": d.jobs_canceled, "jobs_failed": d.jobs_failed, "jobs_pending": d.jobs_pending,
        "jobs_running": d.jobs_running, "job_states_ts": _time(d.jobs_at_us),
        "schedule_cycle_last": m.last_us, "schedule_cycle_max": m.max_us, "schedule_cycle_sum": m.total_us,
        "schedule_cycle_total": m.cycles, "schedule_cycle_mean": _mean(m.total_us, m.cycles),
        "schedule_cycle_mean_depth": _mean(m.depth, m.cycles), "schedule_cycle_depth": m.depth,
        "schedule_cycle_per_minute": m.cycles // minutes, "schedule_queue_length": m.last_queue,
        "bf_active": False, "bf_backfilled_jobs": d.backfilled_boot, "bf_last_backfilled_jobs": d.backfilled_jobs,
        "bf_backfilled_het_jobs": 0, "bf_cycle_counter": b.cycles, "bf_cycle_last": b.last_us, "bf_cycle_max": b.max_us,
        "bf_cycle_sum": b.total_us, "bf_cycle_mean": _mean(b.total_us, b.cycles), "bf_depth_sum": b.depth,
        "bf_depth_try_sum": b.depth, "bf_last_depth": b.last_depth, "bf_last_depth_try": b.last_depth,
        "bf_depth_mean": _mean(b.depth, b.cycles), "bf_depth_mean_try": _mean(b.depth, b.cycles),
        "bf_queue_len": b.last_queue, "bf_queue_len_sum": b.queue, "bf_queue_len_mean": _mean(b.queue, b.cycles),
        "bf_table_size": b.table_size, "bf_table_size_mean": b.table_size,
        "bf_when_last_cycle": _time(d.last_backfill_at_us),
        "rpcs_by_message_type": [_call_object(one) for one in d.by_type],
        "rpcs_by_user": [
            {"user": one.name, "user_id": one.uid, "count": one.count, "total_time": one.total_us,
             "average_time": number(_mean(one.total_us, one.count))}
            for one in d.by_user
        ],
        "pending_rpcs": [], "pending_rpcs_by_hostlist": [],
    }  # fmt: skip


def _time(at_us: int) -> Json:
    return number(seconds_us(at_us))


def _call_object(one: "RpcCount") -> Json:
    name, type_id = message(one.name)
    return {
        "message_type": name, "type_id": type_id, "count": one.count, "total_time": one.total_us,
        "average_time": number(_mean(one.total_us, one.count)), "queued": 0, "dropped": 0, "cycle_last": 0, "cycle_max": 0,
    }  # fmt: skip
