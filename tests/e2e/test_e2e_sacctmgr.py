"""sacctmgr as a process on a whole cluster: every list answers, a file comes back, jobs are in the way, questions at a prompt."""

import getpass
import json
from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster

CONF = ClusterConf(cpus=2, more=("PriorityType=priority/multifactor", "TrackWCKey=yes"))
LISTS = (
    "account", "assoc", "cluster", "configuration", "event", "federation", "instance", "problem", "qos", "resource", "reservation",
    "runawayjobs", "stats", "transaction", "tres", "user", "wckey",
)  # fmt: skip


def test_sacctmgr(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(1, CONF)
    me = getpass.getuser()

    def manage(*words: str, status: int = 0) -> str:
        done = cluster.run("sacctmgr", *words)
        assert done.status == status, done
        return done.out if status == 0 else done.out + done.err

    manage("-i", "add", "qos", "gold", "priority=5", "maxwall=60")
    manage("-i", "add", "account", "physics", "fairshare=3", "grptres=cpu=2", "qos=normal,gold")
    manage("-i", "add", "user", me, "account=physics", "wckeys=w1", "maxjobs=7")
    for entity in LISTS:
        manage("-i", "show", entity)
        if entity != "configuration":
            assert json.loads(manage("-i", "--json", "show", entity))["errors"] == [], entity
    assert (
        manage("-nP", "show", "assoc", f"user={me}", "account=physics", "format=account,maxjobs,qos")
        == "physics|7|gold,normal\n"
    )
    assert "Add WCKeys" in manage("-nP", "show", "transaction", "format=action")
    assert "DbdHost " in manage("show", "configuration")
    assert manage("ping").endswith(" is UP\n")

    file = cluster.work / "accounts.cfg"
    manage("dump", "e2e", f"file={file}")
    before = file.read_text()
    assert "Account - 'physics':" in before
    job = cluster.sbatch("-A", "physics", "--wrap", "exec sleep 300")
    cluster.wait_state(job, "RUNNING")
    refused = manage("-i", "delete", "account", "physics", status=1)
    assert (
        " Error with request: Job(s) active, cancel job(s) before remove\n  JobID = " in refused
        and f"JobID = {job} " in refused
    )
    assert "GrpTRES=cpu=2(" in cluster.run("scontrol", "show", "assoc_mgr", "accounts=physics", "flags=assoc").ok().out
    cluster.run("scancel", str(job)).ok()
    cluster.wait_ends(job)
    manage("-i", "delete", "account", "physics")
    assert manage("-nP", "show", "account", "physics") == ""
    told = manage("-i", "load", f"file={file}")
    assert " Adding   Account physics " in told
    manage("dump", "e2e", f"file={file}")
    assert file.read_text() == before
