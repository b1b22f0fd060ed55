"""Series in which each alert of packaging/observability/rules.yml fires, and those of a healthy cluster in which none does, as
`promtool test rules` plays them.

A series is written as promtool reads it: `5+0x60` is 5 at 61 moments, `0+60x30` grows by 60 from moment to moment. A moment is a
minute; the first is at time 0. `FAULTS` change some series of the healthy cluster, or leave them out.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

#: Minutes that series have: PenstockNodesDrained waits for a day, PenstockWaitsGrow compares with the day before.
MINUTES: Final = 32 * 60


def steady(value: float) -> str:
    """Returns a series that keeps its value."""
    return f"{value:g}+0x{MINUTES}"


def rising(per_minute: float) -> str:
    """Returns a counter that grows evenly."""
    return f"0+{per_minute:g}x{MINUTES}"


GPU: Final = 'penstock_gpu_utilization_percent{job="7",user="ann",account="lab",instance="n1:6822",uuid="GPU-1"}'
COMMITS: Final = "penstock_commit_seconds_bucket"
WAITS: Final = "penstock_job_wait_seconds_bucket"
YEAR_S: Final = 365 * 86400

#: A cluster of which nothing is to be said. Commits take 10 ms, jobs wait some minutes, all GPUs are allocated and busy.
HEALTHY: Final[dict[str, str]] = {
    'penstock_controller_info{version="1",instance="ctl"}': steady(1),
    GPU: steady(93),
    'penstock_gpu_seconds_total{state="allocated"}': rising(8 * 60),
    'penstock_gpu_seconds_total{state="idle"}': rising(0),
    'penstock_jobs_pending_by_reason{reason="Resources"}': steady(12),
    f'{WAITS}{{partition="main",le="600"}}': rising(2),
    f'{WAITS}{{partition="main",le="86400"}}': rising(2),
    f'{WAITS}{{partition="main",le="+Inf"}}': rising(2),
    'penstock_gpus{type="h200",health="healthy"}': steady(8),
    'penstock_gpus{type="h200",health="failed"}': steady(0),
    'penstock_nodes{state="idle"}': steady(4),
    'penstock_nodes{state="drained"}': steady(0),
    f'{COMMITS}{{le="0.01"}}': rising(60),
    f'{COMMITS}{{le="1"}}': rising(60),
    f'{COMMITS}{{le="+Inf"}}': rising(60),
    "penstock_storage_away_total": steady(0),
    "penstock_database_behind_seconds": steady(0.01),
    "penstock_storage_full_total": steady(0),
    'penstock_node_spool_free_bytes{instance="n1:6822"}': steady(90e9),
    'penstock_node_spool_size_bytes{instance="n1:6822"}': steady(100e9),
    "penstock_certificate_end_seconds": steady(YEAR_S),
    "penstock_controller_time_seconds": rising(60),  # promtool's time begins at 0
    "penstock_node_clocks_off": steady(0),
    "penstock_spared_total": steady(0),
}


class Fault(NamedTuple):
    """What differs from the healthy cluster, and the alert that it raises."""

    series: dict[str, str | None]  # None: there is no such series
    since_minute: int  # from then on it is so
    summary: str
    labels: Mapping[str, str] = MappingProxyType({})


_HOUR, _DAY = 60, 24 * 60
#: Jobs that wait for a day, of 2 a minute, until they are a tenth of those of 6 hours.
_TENTH: Final = 38

FAULTS: Final[dict[str, Fault]] = {
    "PenstockControllerDown": Fault({'penstock_controller_info{version="1",instance="ctl"}': None}, 0, "No controller answers Prometheus"),
    "PenstockGpusAllocatedIdle": Fault({GPU: steady(1)}, 0, "Job 7 of ann leaves its GPUs idle", {"job": "7", "user": "ann", "account": "lab"}),
    "PenstockGpusUnused": Fault({
        'penstock_gpu_seconds_total{state="allocated"}': rising(4 * 60),
        'penstock_gpu_seconds_total{state="idle"}': rising(4 * 60),
    }, 1, "Less than 85 % of the GPUs are allocated while jobs wait"),
    "PenstockWaitsGrow": Fault({
        f'{WAITS}{{partition="main",le="600"}}': f"0+2x{_DAY + _HOUR} {2 * (_DAY + _HOUR)}+0x{_DAY}",
    }, _DAY + _HOUR + _TENTH, "Jobs wait twice as long as yesterday in partition main", {"partition": "main"}),
    "PenstockGpuUnhealthy": Fault({
        'penstock_gpus{type="h200",health="failed"}': f"0+0x59 {steady(1)}",
    }, _HOUR, "GPUs of type h200 that are failed: 1", {"type": "h200", "health": "failed"}),
    "PenstockNodesDrained": Fault({
        'penstock_nodes{state="drained"}': f"0+0x59 {steady(2)}",
    }, _HOUR, "Nodes that have been drained for a day: 2", {"state": "drained"}),
    "PenstockJobsFailOnNodes": Fault({
        'penstock_jobs_pending_by_reason{reason="JobHoldMaxRequeue"}': f"0+0x59 {steady(2)}",
        'penstock_jobs_pending_by_reason{reason="launch failed requeued held"}': f"0+0x59 {steady(1)}",
    }, _HOUR, "Jobs that are held since nodes could not run them: 3"),
    "PenstockCommitsSlow": Fault({f'{COMMITS}{{le="0.01"}}': rising(0)}, 1, "Commits take half a second"),
    "PenstockDatabaseFails": Fault({"penstock_storage_away_total": f"0+0x59 {steady(1)}"}, _HOUR, "The controller cannot write to its database"),
    "PenstockDatabaseBehind": Fault({"penstock_database_behind_seconds": f"0+0x59 {steady(30)}"}, _HOUR, "The database does not keep up: changes wait for 30 s"),
    "PenstockSpoolNearlyFull": Fault({
        'penstock_node_spool_free_bytes{instance="n1:6822"}': f"90000000000+0x59 {steady(5e9)}",
    }, _HOUR, "The spool of n1:6822 is nearly full", {"instance": "n1:6822"}),
    "PenstockCertificateEnds": Fault({"penstock_certificate_end_seconds": steady(14 * 86400)}, 1, "The controller's certificate ends soon"),
    "PenstockClockOff": Fault({"penstock_controller_time_seconds": f"0+60x59 {60 * 60 + 6}+60x{MINUTES}"}, _HOUR, "The clocks of the controller and of Prometheus differ"),
    "PenstockNodeClocksOff": Fault({"penstock_node_clocks_off": f"0+0x59 {steady(2)}"}, _HOUR, "Nodes whose clock is more than 2 s off: 2"),
    "PenstockJobSuspected": Fault({
        'penstock_step_suspected{job="7",step="0",user="ann",account="lab",partition="main",why="idle",instance="n1:6822"}': f"_x59 {steady(1)}",
    }, _HOUR, "Step 7.0 of ann may hang: idle", {"job": "7", "step": "0", "user": "ann", "account": "lab", "why": "idle"}),
    "PenstockInternalErrors": Fault({"penstock_spared_total": f"0+0x59 {steady(1)}"}, _HOUR, "Requests were refused for an internal error"),
}  # fmt: skip


def play(series: dict[str, str], questions: list[dict[str, Any]], pace_minutes: int) -> dict[str, Any]:
    """Returns what promtool plays: the series, and at which moments which alerts fire. Rules are evaluated at that pace."""
    return {
        "evaluation_interval": f"{pace_minutes}m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": questions,
        }],
    }  # fmt: skip


def with_fault(fault: Fault) -> dict[str, str]:
    """Returns the series of a cluster that has the fault."""
    changed = {**HEALTHY, **fault.series}
    return {name: values for name, values in changed.items() if values is not None}
