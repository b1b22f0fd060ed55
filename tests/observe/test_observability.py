"""What packaging/observability ships fits the metrics: each name exists, each expression parses, each alert has a page."""

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import tidytree as tree
import yaml
from livecluster import free_ports

from ctld.runtime.turns import WatchedLoop
from nodedaemon.core.gpuhealth_messages import Opinion
from nodedaemon.core.gpumessages import Device, Sample
from nodedaemon.core.steps import StepKey
from nodedaemon.observe.gpus import SampledGpu, gpu_families
from nodedaemon.observe.machine import machine_families
from nodedaemon.observe.stepusage import StepLabels, StepReading, step_families
from penstock.exporter.exposition import MetricType, pieces
from penstock.values.gpustates import GpuState
from tests.conftest import MACHINE_LACKS
from tests.observe.scraping import scrape
from tests.rpc.clusterkit import Site

FOLDER = tree.ROOT / "packaging" / "observability"
RULES = FOLDER / "rules.yml"
RUNBOOKS = tree.ROOT / "docs" / "runbooks"
PAGES = ("jobs", "nodes", "partitions", "jobs-users-accts", "scheduler", "penstock")
DEVICE = Device("GPU-1", 0, 0, "h200", 1000, "H200", "0")
KEY = StepKey(1, 0, 0)


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def queries() -> list[tuple[str, str]]:
    """Every expression with its place."""
    found = [(rule["alert"], rule["expr"]) for rule in rules()]
    for path in sorted(FOLDER.glob("dashboards/*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            found += [(f"{path.name}: {panel['title']}", target["expr"]) for target in panel["targets"]]
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                match = re.fullmatch(r"label_values\((\w+), \w+\)", variable["query"])
                assert match is not None, variable
                found.append((f"{path.name}: ${variable['name']}", match[1]))
    return found


def node_text() -> str:
    """A node's page with everything that it can have."""
    view = SampledGpu(DEVICE, Sample("GPU-1", 1), 1.0, (KEY,))
    families = [
        *machine_families("/proc", "/"),
        *step_families({KEY: StepReading(1, 1, 1, 1, 1)}, {KEY: StepLabels()}, {KEY: "behind"}),
        *gpu_families([view], [Opinion("GPU-1", GpuState.HEALTHY, xids=((13, 1, 1),))], {}, 1.0),
    ]
    return "".join(pieces(families, False))


@cache
def controller_texts() -> tuple[str, ...]:
    """The pages of a controller without jobs."""

    async def body(folder: Path) -> tuple[str, ...]:
        (port,) = free_ports(1)
        site = Site(folder, 1, f"MetricsType=metrics/openmetrics\nPenstockMetricsPort={port}\n")
        async with site.controller():
            return tuple([(await scrape(port, f"/metrics/{name}")).body for name in PAGES])

    # the controller's loop, which measures its turns
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=WatchedLoop) as runner:
        return runner.run(body(Path(folder)))


@cache
def series() -> frozenset[str]:
    """The names that a query may have."""
    text = "".join(controller_texts()) + node_text()
    names: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        names |= {f"{name}_{end}" for end in ("bucket", "sum", "count")} if kind == MetricType.HISTOGRAM else {name}
    return frozenset(names)


class Names:
    """Collects the metrics that an expression names."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def see(self, node: Any) -> None:
        """Looks at a node of the tree, and below it."""
        if isinstance(node, promql_parser.VectorSelector):
            self.found.append(node.name)
        for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
            below = getattr(node, name, None)
            if isinstance(below, promql_parser.Expr):
                self.see(below)
        for argument in getattr(node, "args", None) or ():
            self.see(argument)


def names_in(query: str) -> list[str]:
    """The metrics of an expression, whose variables have values. Raises ValueError where it does not parse."""
    text = query.replace("$__rate_interval", "5m")
    names = Names()
    names.see(promql_parser.parse(text))
    return names.found


@pytest.mark.parametrize(("place", "query"), queries(), ids=[f"{n}-{place}" for n, (place, _) in enumerate(queries())])
def test_each_query_parses_and_its_metrics_exist(place, query):
    names = names_in(query)
    assert names, place
    assert set(names) <= series(), place
    # nothing is overlooked by the walk through the tree
    assert set(re.findall(r"\b(?:penstock|slurm)_\w+", query)) == set(names)


def test_a_name_that_is_wrong_is_found():
    assert names_in("sum(rate(penstock_nothing_total[5m])) / penstock_jobs") == [
        "penstock_nothing_total",
        "penstock_jobs",
    ]
    assert "penstock_nothing_total" not in series() and "penstock_jobs" in series()
    with pytest.raises(ValueError):
        names_in("sum(penstock_jobs")


def test_each_alert_has_a_page_and_each_page_an_alert():
    pages = {rule["annotations"]["runbook"]: rule["alert"] for rule in rules()}
    assert sorted(pages) == sorted(f"docs/runbooks/{path.name}" for path in RUNBOOKS.glob("*.md"))
    for page, alert in pages.items():
        assert (tree.ROOT / page).read_text().startswith(f"# {alert}\n"), page
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_the_dashboards_are_what_their_tables_say():
    spec = importlib.util.spec_from_file_location("dashboards", tree.ROOT / "tools" / "dashboards.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = dict(module.files())
    assert {path: path.read_text() for path in FOLDER.glob("dashboards/*")} == wanted, "run python tools/dashboards.py"


def test_every_metric_is_documented():
    page = (tree.ROOT / "docs" / "metrics.md").read_text()
    ours = re.findall(r"^# TYPE (penstock_\S+) ", "".join(controller_texts()) + node_text(), re.MULTILINE)
    assert [name for name in ours if f"`{name}`" not in page] == []


def test_what_the_compose_file_mounts_is_there():
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    mounted = [volume.split(":")[0] for one in services.values() for volume in one["volumes"]]
    assert {FOLDER / path for path in mounted if path.startswith("./")} <= set(FOLDER.rglob("*"))
    (provider,) = yaml.safe_load((FOLDER / "grafana" / "dashboards" / "penstock.yml").read_text())["providers"]
    assert f"./dashboards:{provider['options']['path']}:ro" in services["grafana"]["volumes"]


def test_promtool_has_nothing_to_say():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip(f"{MACHINE_LACKS} promtool")
    subprocess.run([promtool, "check", "rules", RULES], check=True)
    subprocess.run([promtool, "check", "config", FOLDER / "prometheus.yml"], check=True)
    for text in (*controller_texts(), node_text()):
        ours = text if "penstock_" in text else ""  # Slurm's names do not follow Prometheus' advice on units
        done = subprocess.run([promtool, "check", "metrics"], input=ours or "\n", text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
