"""Writes packaging/observability/dashboards: Grafana dashboards as JSON, from the tables below.

Run it after a change of them; a test compares, and checks that each metric of a query exists. A panel is a title, a unit
of Grafana, and queries with their legends.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "packaging" / "observability" / "dashboards"
#: Prometheus' interval for rates, as Grafana chooses it.
RATE = "$__rate_interval"


class Panel(NamedTuple):
    """One panel: its queries by their legends."""

    title: str
    unit: str
    queries: dict[str, str]
    kind: str = "timeseries"


class Dashboard(NamedTuple):
    """One dashboard. `variables`: name -> the query of its values."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: dict[str, str] | None = None


def _quantiles(metric: str, by: str = "") -> dict[str, str]:
    group = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return {
        f"{text}{legend}": f"histogram_quantile({part}, sum by ({group}) (rate({metric}_bucket[{RATE}])))"
        for text, part in (("median", "0.5"), ("99 %", "0.99"))
    }


DASHBOARDS = (
    Dashboard("penstock-cluster", "Penstock: cluster", (
        Panel("Jobs", "short", {"pending": "slurm_jobs_pending", "running": "slurm_jobs_running"}),
        Panel("Nodes", "short", {"{{state}}": "penstock_nodes"}),
        Panel("GPUs by health", "short", {"{{type}} {{health}}": "penstock_gpus"}),
        Panel("GPU time by use", "percentunit", {
            "{{state}}": f"rate(penstock_gpu_seconds_total[{RATE}]) "
            f"/ ignoring(state) group_left sum without (state) (rate(penstock_gpu_seconds_total[{RATE}]))",
        }),
        Panel("CPUs allocated", "percentunit", {
            "{{partition}}": "slurm_partition_nodes_cpus_alloc / slurm_partition_nodes_cpus_efctv",
        }),
        Panel("Memory allocated", "percentunit", {
            "{{partition}}": "slurm_partition_nodes_mem_alloc / slurm_partition_nodes_mem_avail",
        }),
    )),
    Dashboard("penstock-queue", "Penstock: queue and waits", (
        Panel("Pending jobs by reason", "short", {"{{reason}}": "penstock_jobs_pending_by_reason"}),
        Panel("Jobs by state", "short", {"{{state}}": 'sum by (state) (penstock_jobs{partition=~"$partition"})'}),
        Panel("Wait until the start", "s", _quantiles("penstock_job_wait_seconds", "partition")),
        Panel("Wait until the start by class of jobs", "s", _quantiles("penstock_job_wait_seconds", "class")),
        Panel("Starts", "cps", {
            "{{partition}} {{class}}": f'rate(penstock_job_wait_seconds_count{{partition=~"$partition"}}[{RATE}])',
        }),
        Panel("Largest pending job", "short", {
            "{{partition}}": 'slurm_partition_jobs_max_job_nodes_nohold{partition=~"$partition"}',
        }),
    ), {"partition": "label_values(slurm_partition_nodes, partition)"}),
    Dashboard("penstock-gpus", "Penstock: GPUs", (
        Panel("Allocated and used", "percent", {
            "allocated": 'sum(rate(penstock_gpu_seconds_total{state="allocated"}[5m])) '
            "/ sum(rate(penstock_gpu_seconds_total[5m])) * 100",
            "utilisation of allocated ones": 'avg(penstock_gpu_utilization_percent{job!=""})',
        }),
        Panel("Allocated and idle", "short", {"GPUs": 'count(penstock_gpu_utilization_percent{job!=""} < 5) or vector(0)'}),
        Panel("Utilisation by job", "percent", {
            "{{job}} {{user}}": 'avg by (job, user) (penstock_gpu_utilization_percent{job!=""})',
        }),
        Panel("Memory", "percentunit", {
            "{{instance}} {{index}}": "penstock_gpu_memory_used_bytes / penstock_gpu_memory_total_bytes",
        }),
        Panel("Power", "watt", {"{{instance}} {{index}}": "penstock_gpu_power_watts"}),
        Panel("Temperature", "celsius", {"{{instance}} {{index}}": "penstock_gpu_temperature_celsius"}),
        Panel("XIDs", "short", {"{{instance}} {{index}} XID {{xid}}": "penstock_gpu_xids"}),
        Panel("Age of the samples", "s", {"{{instance}}": "penstock_gpu_sample_age_seconds"}),
    )),
    Dashboard("penstock-job", "Penstock: job", (
        Panel("CPU", "short", {"{{instance}} {{step}}": f'rate(penstock_step_cpu_seconds_total{{job="$job"}}[{RATE}])'}),
        Panel("Memory", "bytes", {"{{instance}} {{step}}": 'penstock_step_memory_bytes{job="$job"}'}),
        Panel("Disk", "Bps", {
            "{{instance}} {{step}} read": f'rate(penstock_step_read_bytes_total{{job="$job"}}[{RATE}])',
            "{{instance}} {{step}} written": f'rate(penstock_step_written_bytes_total{{job="$job"}}[{RATE}])',
        }),
        Panel("GPU utilisation", "percent", {"{{instance}} {{index}}": 'penstock_gpu_utilization_percent{job="$job"}'}),
        Panel("GPU memory", "bytes", {"{{instance}} {{index}}": 'penstock_gpu_memory_used_bytes{job="$job"}'}),
        Panel("GPU power", "watt", {"{{instance}} {{index}}": 'penstock_gpu_power_watts{job="$job"}'}),
    ), {"job": "label_values(penstock_step_processes, job)"}),
    Dashboard("penstock-node", "Penstock: node", (
        Panel("CPU", "percentunit", {
            "{{mode}}": f'rate(penstock_node_cpu_seconds_total{{instance="$instance",mode!="idle"}}[{RATE}])',
        }),
        Panel("Memory", "bytes", {"{{kind}}": 'penstock_node_memory_bytes{instance="$instance"}'}),
        Panel("Network", "Bps", {
            "{{device}} received": f'rate(penstock_node_network_received_bytes_total{{instance="$instance"}}[{RATE}])',
            "{{device}} sent": f'rate(penstock_node_network_sent_bytes_total{{instance="$instance"}}[{RATE}])',
        }),
        Panel("Disks", "Bps", {
            "{{device}} read": f'rate(penstock_node_disk_read_bytes_total{{instance="$instance"}}[{RATE}])',
            "{{device}} written": f'rate(penstock_node_disk_written_bytes_total{{instance="$instance"}}[{RATE}])',
        }),
        Panel("Free in the spool", "bytes", {"free": 'penstock_node_spool_free_bytes{instance="$instance"}'}),
    ), {"instance": "label_values(penstock_node_load1, instance)"}),
    Dashboard("penstock-accounts", "Penstock: users and accounts", (
        Panel("Running jobs by account", "short", {"{{account}}": "slurm_account_jobs_running"}),
        Panel("Pending jobs by account", "short", {"{{account}}": "slurm_account_jobs_pending"}),
        Panel("GPUs by account", "short", {"{{account}}": "penstock_account_gpus_allocated"}),
        Panel("GPUs by user", "short", {"{{username}}": "slurm_user_jobs_gpus_alloc"}),
        Panel("Usage by account", "percentunit", {"{{account}}": "penstock_account_usage_ratio"}),
        Panel("Shares by account", "percentunit", {"{{account}}": "penstock_account_shares_ratio"}),
        Panel("Group limits that are nearly used up", "short", {"limits": "penstock_limits_near_full"}),
        Panel("Budgets used", "percentunit", {"{{account}} {{unit}} {{period}}": "penstock_budget_used / penstock_budget"}),
    )),
    Dashboard("penstock-controller", "Penstock: scheduler and controller", (
        Panel("Scheduling passes", "s", _quantiles("penstock_pass_seconds", "kind")),
        Panel("Commits", "s", _quantiles("penstock_commit_seconds")),
        Panel("Database behind", "s", {"oldest change": "penstock_database_behind_seconds"}),
        Panel("Turns of the loop", "s", _quantiles("penstock_loop_turn_seconds")),
        Panel("Calls", "cps", {"{{code}}": f"sum by (code) (rate(penstock_rpcs_total[{RATE}]))"}),
        Panel("Refused by method", "cps", {
            "{{method}} {{code}}": f'sum by (method, code) (rate(penstock_rpcs_total{{code!="OK"}}[{RATE}]))',
        }),
        Panel("Waiting", "short", {
            "events": "penstock_inbox_events", "messages to nodes": "penstock_node_link_queue",
            "ready jobs": "slurm_schedule_queue_len",
        }),
        Panel("Submissions", "cps", {"submissions": f"rate(penstock_submits_total[{RATE}])"}),
    )),
)  # fmt: skip


def document(dashboard: Dashboard) -> dict[str, object]:
    """Returns the dashboard as Grafana reads it."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    chosen = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
        *(
            {
                "name": name,
                "type": "query",
                "datasource": source,
                "query": query,
                "refresh": 2,
                "includeAll": name == "partition",
            }
            for name, query in (dashboard.variables or {}).items()
        ),
    ]
    links = [
        {"title": other.title, "type": "link", "url": f"/d/{other.uid}", "keepTime": True}
        for other in DASHBOARDS
        if other is not dashboard
    ]
    return {
        "uid": dashboard.uid, "title": dashboard.title, "tags": ["penstock"], "schemaVersion": 39, "editable": True,
        "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "templating": {"list": chosen}, "links": links,
        "panels": [_panel(number, panel, source) for number, panel in enumerate(dashboard.panels)],
    }  # fmt: skip


def _panel(number: int, panel: Panel, source: dict[str, str]) -> dict[str, object]:
    return {
        "id": number + 1, "type": panel.kind, "title": panel.title, "datasource": source,
        "gridPos": {"h": 8, "w": 12, "x": number % 2 * 12, "y": number // 2 * 8},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend, "datasource": source}
            for at, (legend, query) in enumerate(panel.queries.items())
        ],
    }  # fmt: skip


def files() -> Iterator[tuple[Path, str]]:
    """Yields each file with its content."""
    for dashboard in DASHBOARDS:
        name = dashboard.uid.removeprefix("penstock-")
        yield FOLDER / f"{name}.json", json.dumps(document(dashboard), indent=1) + "\n"


def main() -> int:
    """Writes the files."""
    for path, text in files():
        path.write_text(text)
        print(f"{path} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
