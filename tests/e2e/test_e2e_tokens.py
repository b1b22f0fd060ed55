"""Commands away from the controller's machine: inside jobs on a node, and on a login host."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from livecluster import ClusterConf, LiveCluster
from patience import ANSWER_S

from penstock.client import Client
from penstock.clusterfile import read_cluster
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c

New = Callable[..., LiveCluster]
OWN = ClusterConf(own_tokens=True)


def refusal(cluster_file: Path) -> str:
    with Client.open(5.0, cluster=read_cluster(cluster_file)) as client, pytest.raises(PenstockError) as caught:
        client.call("GetBatchScript", c.GetBatchScriptRequest(job_id=1))
    return caught.value.text


def test_commands_in_a_job_on_a_node(new_cluster: New) -> None:
    """The node's own socket and file serve; nothing of the controller's machine is needed but its port."""
    cluster = new_cluster(1, OWN)
    gate = cluster.work / "gate"
    command = f"{sys.executable} -P -m cli."
    script = cluster.script(
        "inside.sh",
        "#!/bin/sh\n"
        f"echo file $PENSTOCK_CLUSTER\n{command}squeue -h -o '%i %T'\n{command}sbatch --parsable -o /dev/null --wrap true 2>&1\n"
        f"{command}scontrol update nodename=n1 state=resume 2>&1\n"
        f"echo done; while [ ! -e {gate} ]; do sleep 0.05; done\n",
    )
    job_id = cluster.sbatch("-o", "out", str(script))
    lines = cluster.wait_text(cluster.work / "out", "done\n").splitlines()
    path = cluster.home / "noded" / "n1" / "cluster.json"
    assert lines[0] == f"file {path}"
    assert f"{job_id} RUNNING" in lines
    # Whoever runs the tests runs the controller: from a node that account only looks. tests/security has the others.
    assert not any(line.isdigit() for line in lines)
    assert sum("Access/permission denied" in line for line in lines) == 2, lines
    assert "DRAIN" not in cluster.node("n1").flags
    told = json.loads(path.read_text())["controller"]
    assert told["socket"] == "" and told["auth_socket"] == str(path.with_name("auth.sock"))
    assert told["address"] == f"127.0.0.1:{cluster.command_port}"
    gate.touch()
    cluster.wait_ends(job_id)
    # Nobody has a job there any more, so the node speaks for nobody.
    assert "has no job on node n1" in refusal(path)


def test_a_node_speaks_for_its_own_jobs_only(new_cluster: New) -> None:
    cluster = new_cluster(2, OWN)
    job_id = cluster.sbatch("-w", "n1", "-o", "/dev/null", "--wrap", "sleep 300")
    cluster.wait_state(job_id, "RUNNING")
    files = [cluster.home / "noded" / name / "cluster.json" for name in ("n1", "n2")]
    with Client.open(5.0, cluster=read_cluster(files[0])) as client:
        assert client.call("Ping", c.PingRequest()).jobs_running == 1
    assert "no job on node n2" in refusal(files[1])
    # The restarted daemon serves again.
    cluster.kill("n1")
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    with Client.open(5.0, cluster=read_cluster(files[0])) as client:
        assert client.call("Ping", c.PingRequest()).jobs_running == 1


def test_a_login_host(new_cluster: New) -> None:
    """It joins with a token for the role login, and the kernel identifies its users."""
    cluster = new_cluster(1)
    token = cluster.run("penstock", "node", "token", "--role", "login", "front1").out.strip()
    folder, certs = cluster.home / "login", cluster.home / "certs" / "front1"
    line = [sys.executable, "-P", "-m", "cli.penstock", "noded", "--node-name", "front1", "--cert-dir", str(certs)]
    line += ["--controller", f"127.0.0.1:{cluster.command_port}", "--spool", str(folder)]
    own_conf = cluster.home / "front1.conf"
    own_conf.write_text(cluster.conf_text("CliFilterPlugins=user_defaults"))
    run: dict[str, Any] = {"env": cluster.environment(SLURM_CONF=str(own_conf)), "cwd": cluster.home}
    joined = subprocess.run(
        [*line, "--join", "-"], input=token, capture_output=True, check=True, text=True, timeout=ANSWER_S, **run
    )
    assert joined.stdout.startswith("front1 has joined") and (certs / "login.key").exists()
    daemon = subprocess.Popen([*line, "--login"], stderr=subprocess.DEVNULL, **run)
    try:
        path = folder / "cluster.json"
        cluster.wait(path.exists, "the login host serves")
        done = cluster.run("sinfo", "-h", "-o", "%n", env={"PENSTOCK_CLUSTER": str(path)}).ok()
        assert done.out == "n1\n"
        held = read_cluster(path)
        assert held.cli_filters == ("user_defaults",)
        assert held.socket == "" and held.auth_socket == str(folder / "auth.sock")
        # They speak for plain users: who administers at the controller looks from there, and changes nothing.
        words = ("scontrol", "update", "nodename=n1", "state=drain", "reason=x")
        done = cluster.run(*words, env={"PENSTOCK_CLUSTER": str(path)})
        assert done.status == 1 and "nodes and login hosts do not speak for root" in done.err
        assert "DRAIN" not in cluster.node("n1").flags
    finally:
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(ANSWER_S) == 0
    assert not (folder / "auth.sock").exists()
