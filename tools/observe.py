"""`make observe`: a cluster on this machine and a Prometheus that watches it with the files of packaging/observability, until
Ctrl-C.

The cluster is one of `penstock up`, with pretended nodes, in FOLDER/cluster; it stays there, and goes on with the next start.
Prometheus is Debian's, or any on PATH. Where Grafana's `grafana` is on PATH it is started, too, with the dashboards.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
SHIPPED: Final = ROOT / "packaging" / "observability"
BIN: Final = ROOT / ".venv" / "bin"
PROMETHEUS_PORT, GRAFANA_PORT = 9090, 3000
METRICS: Final = "MetricsType=metrics/openmetrics\n"
#: How long a node daemon may take to say where its page is.
START_S: Final = 60.0
PAUSE_S: Final = 0.2


class CannotObserve(Exception):
    """What is missing, and what to do."""


def configuration(targets: Mapping[str, list[str]], interval: str) -> dict[str, Any]:
    """Returns the shipped configuration of Prometheus with these hosts and ports for its own, and without Alertmanager."""
    config: dict[str, Any] = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(SHIPPED / "rules.yml")]
    del config["alerting"]
    for job in config["scrape_configs"]:
        (static,) = job["static_configs"]
        static["targets"] = [target for name in static["targets"] for target in targets[name]]
    return config


def start_cluster(home: Path) -> dict[str, list[str]]:
    """Starts the cluster with metrics; returns where its pages are. Raises CannotObserve, CalledProcessError."""
    conf = home / "slurm.conf"
    if not conf.exists():
        _penstock(home, "up", "--nodes", "2", "--cpus-per-node", "4", "--gpus-per-node", "2:h200")
        _penstock(home, "down")
        conf.write_text(METRICS + conf.read_text())
    for log in (home / "log").glob("*.log"):
        log.unlink()  # the ports of an earlier start
    _penstock(home, "up", "--nodes", "2")
    return {
        "ctl:6821": [_page_of(home / "log" / "ctld.log")],
        "node1:6822": [_page_of(home / "log" / f"{name}.log") for name in ("n1", "n2")],
    }


def _penstock(home: Path, *words: str) -> None:
    subprocess.run([BIN / "penstock", *words], env={**os.environ, "PENSTOCK_HOME": str(home)}, check=True)


def _page_of(log: Path) -> str:
    """Returns host and port of a daemon's metrics, which its log names. Raises CannotObserve."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        found = re.findall(r"metrics: http://(\S+)/metrics", log.read_text() if log.exists() else "")
        if found:
            return str(found[-1])
        time.sleep(PAUSE_S)
    raise CannotObserve(f"{log} names no page of metrics: see the log")


def _start_prometheus(folder: Path, targets: Mapping[str, list[str]]) -> subprocess.Popen[bytes]:
    program = shutil.which("prometheus")
    if program is None:
        raise CannotObserve("there is no prometheus on PATH: apt-get install prometheus")
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration(targets, "5s")))
    words = [
        program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{PROMETHEUS_PORT}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        return subprocess.Popen(words, stdout=log, stderr=log)


def _start_grafana(folder: Path) -> subprocess.Popen[bytes] | None:
    """Starts Grafana; None = it is not installed."""
    program = shutil.which("grafana")
    if program is None:
        return None
    provisioning = folder / "provisioning"
    shutil.copytree(SHIPPED / "grafana", provisioning, dirs_exist_ok=True)
    provider = provisioning / "dashboards" / "penstock.yml"
    provider.write_text(provider.read_text().replace("/var/lib/grafana/dashboards", str(SHIPPED / "dashboards")))
    settings = {
        "GF_SERVER_HTTP_ADDR": "127.0.0.1", "GF_SERVER_HTTP_PORT": str(GRAFANA_PORT),
        "GF_PATHS_PROVISIONING": str(provisioning), "GF_PATHS_DATA": str(folder / "grafana"),
    }  # fmt: skip
    with (folder / "grafana.log").open("wb") as log:
        return subprocess.Popen([program, "server"], env={**os.environ, **settings}, stdout=log, stderr=log)


def main() -> int:
    """Starts all, and ends it after Ctrl-C."""
    folder = Path(os.environ.get("OBSERVE") or ROOT / "build" / "observe").resolve()
    home = folder / "cluster"
    home.mkdir(parents=True, exist_ok=True)
    started: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        targets = start_cluster(home)
        started.append(_start_prometheus(folder, targets))
        print(f"Prometheus: http://127.0.0.1:{PROMETHEUS_PORT}/alerts", flush=True)
        grafana = _start_grafana(folder)
        if grafana is not None:
            started.append(grafana)
            print(f"Grafana: http://127.0.0.1:{GRAFANA_PORT}/dashboards (admin, admin)")
        print(f"give it work: export PENSTOCK_HOME={home}; sbatch --gpus=1 --wrap 'sleep 60'", flush=True)
        print("Ctrl-C ends all", flush=True)
        started[0].wait()
        raise CannotObserve(f"Prometheus has ended: see {folder / 'prometheus.log'}")
    except CannotObserve as error:
        print(f"make observe: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        for process in started:
            process.terminate()
            process.wait()
        _penstock(home, "down")


if __name__ == "__main__":
    sys.exit(main())
