"""The configuration of a running cluster: found by SLURM_CONF, compared, read again; nodes and partitions come and go."""

import json
from collections.abc import Callable
from typing import Any

from livecluster import LiveCluster

New = Callable[..., LiveCluster]


def test_commands_and_jobs_find_their_cluster_by_slurm_conf(new_cluster: New) -> None:
    cluster = new_cluster(1)
    by_conf: dict[str, Any] = {"PENSTOCK_CLUSTER": "", "PENSTOCK_HOME": "", "SLURM_CONF": str(cluster.slurm_conf)}
    assert cluster.run("sinfo", "-h", "-o", "%P", env=by_conf).ok().out.split() == ["main*"]
    job_id = cluster.sbatch("-o", "found.txt", "--wrap", 'echo "$SLURM_CONF"; cat "$SLURM_CONF"', **by_conf)
    cluster.wait_state(job_id, "COMPLETED")
    path, *lines = (cluster.work / "found.txt").read_text().splitlines()
    assert path != str(cluster.slurm_conf) and path.endswith("/slurm.conf")  # the node's, in its spool
    assert "ClusterName=e2e" in lines and not any("NodeName" in line for line in lines)
    missing = cluster.run("sinfo", env={**by_conf, "SLURM_CONF": "/nonexistent/slurm.conf"})
    assert missing.status == 1 and "SLURM_CONF: cannot read /nonexistent/slurm.conf" in missing.err


def test_a_reload_is_foreseen_and_made(new_cluster: New) -> None:
    """Nodes and partitions are added and removed without a restart; what would hurt a job is refused, all or nothing."""
    cluster = new_cluster(2, start=False)
    full = cluster.conf_text("PartitionName=extra Nodes=n2 State=UP")
    small = "\n".join(line for line in full.split("\n") if not line.startswith(("NodeName=n2", "PartitionName=extra")))
    small = small.replace("Nodes=n[1-2]", "Nodes=n1").replace("Nodes=n1,n2", "Nodes=n1")
    cluster.slurm_conf.write_text(small)
    cluster.start_controller()
    cluster.start_node("n1")
    cluster.wait_nodes("n1")
    held = cluster.sbatch("--hold", "-t", "60", "-o", "/dev/null", "--wrap", "true")

    def foreseen(text: str) -> tuple[int, dict[str, list[str]]]:
        cluster.slurm_conf.write_text(text)
        done = cluster.run("penstock", "config", "diff", "--json")
        assert "Traceback" not in done.err, str(done)
        return done.status, json.loads(done.out)

    assert foreseen(small)[0] == 0
    status, found = foreseen(full.replace("Default=YES MaxTime=UNLIMITED", "Default=YES MaxTime=5"))
    assert status == 1 and {"nodes added: n2", "partition extra added"} <= set(found["changes"])
    assert found["jobs"] == [f"job {held} would wait for PartitionTimeLimit"]
    assert cluster.run("sinfo", "-h", "-o", "%P").ok().out.split() == ["main*"]  # nothing has changed

    cluster.slurm_conf.write_text(full)
    cluster.run("scontrol", "reconfigure").ok()
    cluster.start_node("n2")
    cluster.wait_nodes("n1", "n2")
    job = cluster.sbatch("-p", "extra", "-o", "on.txt", "--wrap", "echo on; while [ ! -e gate ]; do sleep 0.05; done")
    cluster.wait_text(cluster.work / "on.txt", "on")

    status, found = foreseen(small)
    assert status == 78 and any("n2" in line and "drain" in line for line in found["problems"])
    refused = cluster.run("scontrol", "reconfigure")
    assert refused.status == 1 and "n2" in refused.err
    assert sorted(cluster.run("sinfo", "-h", "-o", "%P").ok().out.split()) == ["extra", "main*"]
    (cluster.work / "gate").touch()
    cluster.wait_state(job, "COMPLETED")
    cluster.run("scontrol", "reconfigure").ok()
    assert cluster.run("sinfo", "-h", "-o", "%P %D").ok().out.split() == ["main*", "1"]
    assert cluster.job(held).state == "PENDING"
