"""sdiag: what the controller's scheduling passes and calls have cost, in Slurm's layout.

Main is the quick pass that runs with each batch of events; Backfilling is the pass over the whole queue, which runs in a
worker while everything goes on. Slurm's lines without a meaning here (DBD agent, jobs by their exit from a cycle) are left
out or 0.
"""

from typing import Any

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.format import seconds_us
from cli.listing import date_line, emit
from cli.options import Command, Option, later, parse
from cli.run import CommandError, run
from penstock.client import Client

COMMAND = Command(
    "sdiag",
    "[-aritT]",
    (
        Option("all", "a", help="all statistics (the default)"),
        Option("reset", "r", help="reset all counters to 0; operators only"),
        Option("sort-by-id", "i", help="sort the calls by their names"),
        Option("sort-by-time", "t", help="sort the calls by their total time"),
        Option("sort-by-time2", "T", help="sort the calls by their average time"),
        *DOCUMENT_OPTIONS,
        *later("cluster/M"),
    ),
)
LINE = "*" * 55
SORTS: dict[str, Any] = {
    "sort_by_id": lambda one: one.name,
    "sort_by_time": lambda one: (-one.total_us, one.name),
    "sort_by_time2": lambda one: (-(one.total_us // max(1, one.count)), one.name),
}


def main() -> None:
    """The command sdiag."""
    run("sdiag", body)


def body(argv: list[str]) -> int:
    """One run of sdiag."""
    line = parse(COMMAND, argv)
    if line.positional:
        raise CommandError(f"unexpected word {line.positional[0]!r}")
    from penstock.v1.explain_pb2 import DiagnosticsRequest, ResetDiagnosticsRequest

    with Client.open() as client:
        if line.values.get("reset"):
            client.call("ResetDiagnostics", ResetDiagnosticsRequest())
            emit(["Reset scheduling statistics"])
            return 0
        reply = client.call("Diagnostics", DiagnosticsRequest())
        if is_wanted(line.values):
            from cli.document import document, write_document

            write_document(
                {**document("statistics", [], client.cluster.cluster_name), "statistics": statistics(reply)},
                line.values,
            )
            return 0
    order = next((key for name, key in SORTS.items() if line.values.get(name)), None)
    emit(report(reply, order))
    return 0


def report(d: Any, order: Any = None) -> list[str]:
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
        f"Inbox size:           {d.inbox}",
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
        *_calls(d.by_type, order),
        "",
        "Remote Procedure Call statistics by user",
        *_calls(d.by_user, order, users=True),
    ]


def at(at_us: int) -> str:
    """A time as sdiag writes it: `Sat Nov 21 16:00:00 2026 (1795276800)`."""
    return f"{date_line(at_us)} ({seconds_us(at_us)})"


def _mean(total: int, count: int) -> int:
    return int(total // count) if count else 0


def _main(d: Any) -> list[str]:
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


def _backfill(d: Any) -> list[str]:
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


def _calls(counts: Any, order: Any, users: bool = False) -> list[str]:
    found = list(counts) if order is None else sorted(counts, key=order)
    width = 16 if users else 40
    return [
        f"\t{one.name:<{width}}"
        + (f"({one.uid:>8}) " if users else "")
        + f"count:{one.count:<6} ave_time:{_mean(one.total_us, one.count):<6} total_time:{one.total_us}"
        for one in found
    ]


def statistics(d: Any) -> dict[str, Any]:
    """--json, the names of Slurm's data_parser as far as there is a meaning."""
    m, b = d.main, d.backfill
    return {
        "req_time": seconds_us(d.now_us), "req_time_start": seconds_us(d.since_us),
        "server_thread_count": d.server_threads, "agent_queue_size": d.agent_queue, "agent_count": d.agents,
        "jobs_submitted": d.jobs_submitted, "jobs_started": d.jobs_started, "jobs_completed": d.jobs_completed,
        "jobs_canceled": d.jobs_canceled, "jobs_failed": d.jobs_failed, "jobs_pending": d.jobs_pending,
        "jobs_running": d.jobs_running, "schedule_cycle_last": m.last_us, "schedule_cycle_max": m.max_us,
        "schedule_cycle_total": m.cycles, "schedule_cycle_mean": _mean(m.total_us, m.cycles),
        "schedule_cycle_mean_depth": _mean(m.depth, m.cycles), "schedule_queue_length": m.last_queue,
        "bf_backfilled_jobs": d.backfilled_boot, "bf_last_backfilled_jobs": d.backfilled_jobs, "bf_cycle_counter": b.cycles,
        "bf_cycle_last": b.last_us, "bf_cycle_max": b.max_us, "bf_cycle_mean": _mean(b.total_us, b.cycles),
        "bf_last_depth": b.last_depth, "bf_depth_mean": _mean(b.depth, b.cycles), "bf_queue_len": b.last_queue,
        "bf_queue_len_mean": _mean(b.queue, b.cycles), "bf_table_size": b.table_size,
        "bf_when_last_cycle": seconds_us(d.last_backfill_at_us),
        "rpcs_by_message_type": [
            {"message_type": one.name, "count": one.count, "total_time": one.total_us} for one in d.by_type
        ],
        "rpcs_by_user": [
            {"user": one.name, "user_id": one.uid, "count": one.count, "total_time": one.total_us} for one in d.by_user
        ],
    }  # fmt: skip


if __name__ == "__main__":
    main()
