"""The logs of all daemons as JSON lines: what is in them, rotation by SIGHUP and by copytruncate, levels at run time."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import CTLD, ROOT, LiveCluster
from liverest import JWT, PREFIX, RESTD, LiveRest

from tests.conftest import MACHINE_LACKS

LOGROTATE = shutil.which("logrotate", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class LoggedCluster(LiveCluster):
    """One node; all daemons write JSON lines into files of one folder."""

    def __init__(self) -> None:
        super().__init__(1, JWT)

    @property
    def folder(self) -> Path:
        return self.home / "logged"

    def conf_text(self, *more: str) -> str:
        files = f"SlurmctldLogFile={self.folder}/ctld.log", f"SlurmdLogFile={self.folder}/%n.log"
        return super().conf_text("PenstockLogFormat=json", *files, *more)

    def path(self, name: str) -> Path:
        """The file of a daemon's log."""
        return self.folder / f"{name}.log"

    def logged(self, name: str) -> list[dict[str, object]]:
        """The lines of a log."""
        return (
            [json.loads(line) for line in self.path(name).read_text().splitlines()] if self.path(name).exists() else []
        )

    def wait_logged(self, name: str, **facts: object) -> dict[str, object]:
        """Waits until a line has these fields."""

        def found() -> dict[str, object] | None:
            return next((line for line in self.logged(name) if facts.items() <= line.items()), None)

        line = self.wait(found, f"{name} logs {facts}", show=lambda: self.logged(name)[-5:])
        assert line is not None
        return line

    def set_level(self, level: str) -> None:
        """Changes the level of the node's log, which the node logs."""
        self.run("scontrol", "setdebug", level, "nodes=n1").ok()
        self.wait_logged("n1", event="log_changed", setting=level)

    def moved(self, name: str) -> Path:
        """Moves a log away and signals its daemon."""
        away = self.folder / f"{name}.away"
        os.rename(self.path(name), away)
        self.daemons[name].process.send_signal(signal.SIGHUP)
        return away


@pytest.fixture(scope="module")
def cluster() -> Iterator[LoggedCluster]:
    with LoggedCluster() as cluster:
        yield cluster


def test_a_job_is_in_the_controllers_log(cluster: LoggedCluster) -> None:
    job = cluster.sbatch("--wrap", "true")
    cluster.wait_state(job, "COMPLETED")
    for event in ("job_submit", "job_start", "job_end"):
        cluster.wait_logged(CTLD, event=event, job=job, daemon="ctld", level="info")
    cluster.wait_logged(CTLD, event="node_registered", node="n1")
    assert cluster.wait_logged(CTLD, event="started")["cluster"] == "e2e"
    cluster.wait_logged("n1", event="log_changed", node="n1", daemon="noded", setting="info")


def test_sighup_opens_files_again(cluster: LoggedCluster) -> None:
    away = cluster.moved("n1")
    cluster.wait(cluster.path("n1").exists, "the node daemon has opened its file again")
    cluster.set_level("verbose")
    assert "verbose" not in away.read_text()
    away = cluster.moved(CTLD)
    cluster.wait_logged(CTLD, event="config_read")
    assert "config_read" not in away.read_text()
    cluster.wait_logged("n1", event="log_changed", setting="info")  # a reload ends levels that were set by hand
    assert cluster.daemons[CTLD].runs() and cluster.daemons["n1"].runs()


@pytest.mark.skipif(LOGROTATE is None, reason=f"{MACHINE_LACKS} logrotate")
@pytest.mark.parametrize("way", ["create", "copytruncate"])
def test_logrotate_rotates_by_the_shipped_rules(cluster: LoggedCluster, tmp_path: Path, way: str) -> None:
    """`systemctl` is a script here that signals the daemon of the node."""
    assert LOGROTATE is not None
    pid = cluster.daemons["n1"].process.pid
    stand_in, rules = tmp_path / "systemctl", tmp_path / "rules"
    stand_in.write_text(f"#!/bin/sh\n[ $4 != penstock-noded.service ] || kill -HUP {pid}\n")
    stand_in.chmod(0o755)
    text = (ROOT / "packaging" / "logrotate").read_text().replace("/var/log/penstock/*", str(cluster.folder / "n1"))
    if way == "copytruncate":
        text = re.sub(r"    create\n.*endscript\n", "    copytruncate\n", text, flags=re.DOTALL)
    rules.write_text(text)
    rules.chmod(0o644)
    cluster.path("n1").chmod(0o640)
    cluster.set_level("debug2")
    words = [LOGROTATE, "--force", "--state", str(tmp_path / "state"), str(rules)]
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(words, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if way == "create":
        cluster.wait(cluster.path("n1").exists, "there is a file again")
    after = "debug3" if way == "create" else "debug4"
    cluster.set_level(after)
    rotated = Path(f"{cluster.path('n1')}.1").read_text()
    assert "debug2" in rotated and after not in rotated
    assert [line["setting"] for line in cluster.logged("n1")] == [after]
    cluster.set_level("info")


def test_levels_of_nodes_that_are_not_there_are_refused(cluster: LoggedCluster) -> None:
    done = cluster.run("scontrol", "setdebug", "debug", "nodes=n7")
    assert (done.status, done.err) == (1, "slurm_set_debug_level error: Invalid node name specified: n7\n")


def test_debug_flags_show_a_subsystem_at_run_time(cluster: LoggedCluster) -> None:
    def shown() -> str:
        lines = cluster.run("scontrol", "show", "config").ok().out.splitlines()
        return next(line for line in lines if line.startswith("DebugFlags")).partition("= ")[2]

    assert shown() == "(null)"
    done = cluster.run("scontrol", "setdebugflags", "+steps,selecttype,AuditRPCs", "gang")
    assert (done.status, done.out, done.err) == (
        0,
        "",
        "scontrol: warning: debug flag Gang has no effect in Penstock\n",
    )
    assert shown() == "Steps,SelectType,AuditRPCs,Gang"
    job = cluster.sbatch("--wrap", "true")
    cluster.wait_state(job, "COMPLETED")
    cluster.wait_logged(CTLD, event="debug_flag", flag="Steps", job=job, level="info")
    cluster.wait_logged(CTLD, event="debug_flag", flag="SelectType", job=job)
    call = f"SubmitJob of uid {os.geteuid()}: OK after "
    cluster.wait(
        lambda: any(
            str(line["what"]).startswith(call) for line in cluster.logged(CTLD) if line.get("flag") == "AuditRPCs"
        ),
        "the call is logged",
    )
    cluster.run("scontrol", "setdebugflags", "-Steps,-SelectType", "-auditrpcs", "-Gang").ok()
    job = cluster.sbatch("--wrap", "true")
    submitted = cluster.wait_logged(CTLD, event="job_submit", job=job)
    cluster.wait_logged(CTLD, event="job_end", job=job)
    lines = cluster.logged(CTLD)
    assert shown() == "(null)"
    assert all(line["event"] != "debug_flag" for line in lines[lines.index(submitted) :])
    done = cluster.run("scontrol", "setdebugflags", "+nosuch")
    assert (done.status, done.err) == (1, "invalid debug flag: +nosuch\nUsage: setdebugflags [+|-]NAME\n")


def test_debug_flags_of_a_node_until_the_configuration_is_read_again(cluster: LoggedCluster) -> None:
    done = cluster.run("scontrol", "setdebugflags", "+steps,agent", "backfill", "nodes=n1")
    said = "scontrol: warning: debug flag Backfill has no effect in Penstock at nodes\n"
    assert (done.status, done.err) == (0, said)
    cluster.wait_logged("n1", event="debug_flags_changed", flags="Agent,Steps")
    job = cluster.sbatch("--wrap", "true")
    cluster.wait_logged("n1", event="debug_flag", flag="Agent", job=job, step=f"{job}.0.-5", level="info")
    ended = "StepEnded exit_code=0 exit_signal=0"
    cluster.wait(
        lambda: any(str(one.get("what")).startswith(ended) and one["job"] == job for one in cluster.logged("n1")),
        "its end",
    )
    cluster.run("scontrol", "setdebugflags", "-agent", "nodes=n1").ok()
    cluster.wait_logged("n1", event="debug_flags_changed", flags="Steps")
    cluster.run("scontrol", "reconfigure").ok()
    cluster.wait_logged("n1", event="debug_flags_changed", flags="none")
    shown = [line for line in cluster.logged(CTLD) if line["event"] == "debug_flag"]
    assert all(line.get("job") != job for line in shown), "the controller's are its own"
    done = cluster.run("scontrol", "setdebugflags", "+steps", "nodes=n7")
    assert (done.status, done.err) == (1, "slurm_set_debug_flags error: Invalid node name specified: n7\n")


def test_the_rest_daemon_logs_json_and_opens_its_file_again(cluster: LoggedCluster) -> None:
    rest = LiveRest(cluster, "--log-format", "json", "--log-file", str(cluster.path(RESTD)))
    rest.start()
    with rest.as_user() as client:
        client.get(f"{PREFIX}/ping")
        cluster.wait_logged(RESTD, event="request_answered", path=f"{PREFIX}/ping", status=200, level="debug")
        away = cluster.moved(RESTD)
        cluster.wait(cluster.path(RESTD).exists, "the REST daemon has opened its file again")
        client.get(f"{PREFIX}/jobs")
        cluster.wait_logged(RESTD, event="request_answered", path=f"{PREFIX}/jobs")
    assert f"{PREFIX}/jobs" not in away.read_text()
    rest.daemon.process.send_signal(signal.SIGUSR2)
    cluster.kill(RESTD, number=signal.SIGTERM)
    assert rest.daemon.process.returncode == 0
