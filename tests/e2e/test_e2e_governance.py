"""AccountingStorageEnforce through the commands: Slurm's texts of refusal; a budget, and borrowing, as users see them."""

import getpass
from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster
from liverest import LiveRest

CONF = ClusterConf(
    cpus=8,
    gpus=8,
    more=("AccountingStorageEnforce=associations,limits,qos", "PenstockCurrency=EUR", "PenstockLending=all"),
    partitions=(
        "PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED PenstockPrices=gres/gpu=2.50,cpu=0.03",
        "PartitionName=side Nodes=ALL MaxTime=UNLIMITED AllowQos=high QOS=late",
    ),
)
NO_ACCOUNT = "Invalid account or account/partition combination specified"


def test_who_may_submit_what(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(1, CONF)
    user = getpass.getuser()

    def manage(*words: str) -> None:
        done = cluster.run("sacctmgr", "-i", *words)
        assert done.status == 0, done

    def refused(*words: str) -> str:
        done = cluster.run(*words)
        assert done.status == 1, done
        return done.err.splitlines()[0]

    # The partition's own QOS does not exist yet: Slurm goes on without it, and so do we, but we say so.
    missing = "PartitionName=side: there is no QOS late: its jobs have no limits of it (sacctmgr add qos late)"
    assert missing in cluster.run("scontrol", "reconfigure").err
    manage("add", "qos", "late")
    assert missing not in cluster.run("scontrol", "reconfigure").ok().err
    assert " QoS=late\n" in cluster.run("scontrol", "show", "partition", "side").ok().out
    manage("add", "account", "lab", "rich")
    if user != "root":  # who has the account root, as in Slurm
        for name, words in (("sbatch", ["--wrap", "true"]), ("srun", ["true"]), ("salloc", ["true"])):
            assert NO_ACCOUNT in refused(name, *words)
    manage("add", "user", user, "account=lab")
    manage("add", "qos", "high")
    assert (
        refused("sbatch", "-A", "rich", "--wrap", "true") == f"sbatch: error: Batch job submission failed: {NO_ACCOUNT}"
    )
    assert refused("srun", "-A", "nosuch", "true") == f"srun: error: Unable to allocate resources: {NO_ACCOUNT}"
    assert refused("salloc", "-A", "rich", "true") == f"salloc: error: Job submit/allocate failed: {NO_ACCOUNT}"
    wrong = "sbatch: error: Batch job submission failed: Invalid qos specification"
    assert refused("sbatch", "-A", "lab", "-q", "high", "--wrap", "true") == wrong
    assert refused("sbatch", "-A", "lab", "-q", "nosuch", "--wrap", "true") == wrong
    manage("modify", "account", "lab", "set", "qos+=high")
    job_id = cluster.sbatch("-A", "lab", "-q", "high", "--wrap", "true")
    cluster.wait_ends(job_id)

    manage("modify", "account", "lab", "set", "budget=10EUR/none")  # at the end of a month less is used in the month
    job_id = cluster.sbatch("-A", "lab", "-t", "180", "--gpus=1", "--wrap", "sleep 300")
    cluster.wait_state(job_id, "RUNNING")
    waits = cluster.sbatch("-A", "lab", "-t", "180", "--gpus=1", "--wrap", "true")
    cluster.wait(lambda: cluster.job(waits).reason == "AccountBudget", "it cannot be paid")
    assert "AccountBudget" in cluster.run("squeue", "-h", "-j", str(waits), "-o", "%r").ok().out
    told = cluster.run("penstock", "why", str(waits)).ok().out
    assert "the budget of account lab, 10 EUR, has 0.0" in told and "it may use 7.59" in told
    lines = cluster.run("penstock", "budget").ok().out.splitlines()
    assert lines[1].split()[:4] == ["lab", "10", "EUR", "none"] and float(lines[1].split()[5]) > 7.5
    cluster.run("scancel", str(waits), str(job_id)).ok()
    cluster.wait_ends(job_id)
    manage("modify", "account", "lab", "set", "budget=none")

    manage("add", "account", "uni")
    for name in ("one", "two"):
        manage("add", "account", name, "parent=uni", "grptres=gres/gpu=4", "borrow=gres/gpu=4")
        manage("add", "user", user, f"account={name}")
    job_id = cluster.sbatch("-A", "one", "-t", "60", "--gpus=8", "--wrap", "sleep 300")
    cluster.wait_state(job_id, "RUNNING")
    assert "Borrowed=Yes" in cluster.run("scontrol", "show", "job", str(job_id)).ok().out
    rest = LiveRest(cluster)
    rest.start()
    with rest.by_socket() as client:
        rows = {row["account"]: row for row in client.get("/penstock/v1/borrowing").json()["rows"]}
    assert (rows["one"]["borrowed"], rows["one"]["lenders"], rows["two"]["idle"]) == (4, ["two"], 4)
    lender = cluster.sbatch("-A", "two", "-t", "60", "--gpus=4", "--wrap", "sleep 300")
    cluster.wait_state(lender, "RUNNING")
    story = cluster.run("scontrol", "show", "story", str(job_id)).ok().out
    assert "borrows account one has 4 gres/gpu beyond its 4" in story and f"preempted for job {lender}" in story
