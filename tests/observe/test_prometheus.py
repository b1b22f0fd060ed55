"""A real Prometheus with the configuration and rules that are shipped, and a cluster that it scrapes: after some work each
panel of each dashboard has data, no alert fires, and one is pending when the controller is gone."""

import getpass
import json
import math
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from livecluster import free_ports
from patience import ANSWER_S

from tests.conftest import MACHINE_LACKS
from tests.observe.test_e2e_metrics import MeasuredCluster
from tests.observe.test_observability import FOLDER
from tools.observe import configuration

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason=f"{MACHINE_LACKS} prometheus")

#: What Grafana puts for a variable: any value; and its interval for rates.
ANY = ".+"
RATE = "30s"


class Prometheus:
    """A server on the loopback address, with the shipped files and other targets."""

    def __init__(self, folder: Path, targets: dict[str, list[str]]) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "prometheus.log"
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration(targets, "1s")))
        assert PROMETHEUS is not None
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    PROMETHEUS, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def get(self, path: str, **parameters: str) -> Any:
        """Returns the data of an answer; None while there is no server."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=ANSWER_S) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read()!r}") from None
        except OSError:
            assert self._process.poll() is None, self.log.read_text()
            return None

    def has_data(self, query: str) -> bool:
        """Whether a query has a number for an answer."""
        found = self.get("query", query=query)
        return any(not math.isnan(float(one["value"][1])) for one in found["result"])

    def alerts(self) -> dict[str, str]:
        """The alerts that are pending or fire, with their state."""
        return {one["labels"]["alertname"]: one["state"] for one in self.get("alerts")["alerts"]}

    def close(self) -> None:
        """Ends the server."""
        self._process.send_signal(signal.SIGKILL)  # its data are the test's
        self._process.wait()


class GovernedCluster(MeasuredCluster):
    """With an account that has a budget."""

    def conf_text(self, *more: str) -> str:
        return super().conf_text("AccountingStorageEnforce=associations,limits", *more)


@pytest.fixture
def cluster() -> Iterator[MeasuredCluster]:
    cluster = GovernedCluster()
    try:
        cluster.start_controller()
        cluster.start_node("n1")
        cluster.wait_nodes()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def prometheus(cluster: MeasuredCluster, tmp_path: Path) -> Iterator[Prometheus]:
    targets = {"ctl:6821": cluster.metrics, "node1:6822": cluster.node_metrics}
    server = Prometheus(tmp_path, {name: [f"127.0.0.1:{port}"] for name, port in targets.items()})
    try:
        yield server
    finally:
        server.close()


def panels() -> dict[str, str]:
    """Each panel's query as Grafana would send it, by its place."""
    found = {}
    for path in sorted(FOLDER.glob("dashboards/*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", RATE)
                for variable in ("partition", "job", "instance"):
                    query = query.replace(f'=~"${variable}"', f'=~"{ANY}"').replace(f'="${variable}"', f'=~"{ANY}"')
                assert "$" not in query, query
                found[f"{path.stem}: {panel['title']}: {target['legendFormat']}"] = query
    return found


def test_each_panel_has_data_and_no_alert_fires_until_the_controller_is_gone(
    cluster: MeasuredCluster, prometheus: Prometheus
) -> None:
    user = getpass.getuser()
    for words in (["add", "account", "lab"], ["add", "user", user, "account=lab"]):
        assert cluster.run("sacctmgr", "-i", *words).status == 0
    assert cluster.run("sacctmgr", "-i", "modify", "account", "lab", "set", "budget=1000gpu-hours/month").status == 0
    cluster.sbatch("-Alab", "--gpus=1", "-t10", "--wrap", f"exec {cluster.hold} a")
    held = cluster.held("a")
    cluster.busy(held, 90, 20, 500)
    cluster.wait(lambda: " nvmlEventSetWait" in cluster.calls.read_text(), "the node waits for XIDs")
    cluster.fake.event(held.gpu, 31)  # a program's own fault: the GPU stays in use
    cluster.sbatch("-Alab", "--gpus=2", "-t10", "--wrap", "true")  # waits
    cluster.wait(lambda: prometheus.get("targets") is not None, "Prometheus answers")
    cluster.wait(
        lambda: {one["health"] for one in prometheus.get("targets")["activeTargets"]} == {"up"},
        "all targets are scraped",
        show=lambda: prometheus.get("targets"),
    )
    missing = panels()

    def all_have_data() -> bool:
        """Asks for what had none, after a little more work."""
        cluster.sbatch("-Alab", "-t10", "--wrap", "true")
        cluster.run("sbatch", "--wrap", "true", "--nodes=1000")  # refused
        for place, query in list(missing.items()):
            if prometheus.has_data(query):
                del missing[place]
        return not missing

    cluster.wait(all_have_data, "each panel has data", show=lambda: missing)
    assert [name for name, state in prometheus.alerts().items() if state == "firing"] == []
    rules = prometheus.get("rules")["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
    assert "PenstockControllerDown" not in prometheus.alerts()
    cluster.kill("ctld")
    cluster.wait(lambda: "PenstockControllerDown" in prometheus.alerts(), "the alert is pending")
