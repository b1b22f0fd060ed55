"""Limits and shares on a whole cluster: a GrpTRES holds while 1,000 jobs are queued, also over a crash of the controller;
two accounts with shares 70:30 get that of the GPUs."""

import getpass
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest
from livecluster import ClusterConf, LiveCluster
from patience import LONGEST_S

from penstock.v1 import accounting_pb2 as a
from penstock.values.tres import parse_tres

JOBS = 1_000
LIMIT = 6
USER = getpass.getuser()
LIMITED = ClusterConf(cpus=16, more=("AccountingStorageEnforce=limits,qos,safe", "MaxArraySize=2001"))
SHARED = ClusterConf(
    cpus=16,
    gpus=8,
    more=(
        "PriorityType=priority/multifactor",
        "PriorityWeightFairshare=100000",
        "PriorityCalcPeriod=0:01",
        "PriorityDecayHalfLife=0",
        "MaxArraySize=5001",
    ),
    partitions=('PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED TRESBillingWeights="CPU=0,GRES/gpu=1"',),
)


def held(records: Iterable[a.JobRecord], tres: str) -> Iterator[tuple[int, int]]:
    """What is held of one TRES, at each moment at which that changes: (microseconds, amount)."""
    changes: list[tuple[int, int]] = []
    for one in records:
        if one.start_at_us:
            amount = parse_tres(one.tres_alloc).get(tres, 0)
            changes += [(one.start_at_us, amount), (one.end_at_us, -amount)]
    now = 0
    for at_us, change in sorted(changes):  # an end and a start in one moment: the end first
        now += change
        yield at_us, now


def manage(cluster: LiveCluster, *words: str) -> None:
    done = cluster.run("sacctmgr", "-i", *words)
    assert done.status == 0, done


def completed(cluster: LiveCluster, *ids: int) -> int:
    return sum(one.state == "COMPLETED" for one in cluster.records(*ids))


@pytest.mark.parametrize("runs", [100, pytest.param(JOBS + 40, marks=pytest.mark.slow)])
def test_a_group_limit_holds_while_a_thousand_jobs_are_queued(
    new_cluster: Callable[..., LiveCluster], runs: int
) -> None:
    """`runs` of the jobs run after the crash, or somewhat more; the others are cancelled."""
    cluster = new_cluster(2, LIMITED)
    manage(cluster, "add", "account", "physics", f"GrpTRES=cpu={LIMIT}")
    manage(cluster, "add", "user", USER, "account=physics")
    array = cluster.sbatch("-A", "physics", "-t1", f"--array=1-{JOBS // 2}", "-o", "/dev/null", "--wrap", "true")
    singles = [cluster.sbatch("-A", "physics", "-t1", "-n2", "-o", "/dev/null", "--wrap", "true") for _ in range(40)]
    more = cluster.sbatch("-A", "physics", "-t1", f"--array=1-{JOBS // 2}", "-n3", "-o", "/dev/null", "--wrap", "true")
    cluster.wait(
        lambda: "AssocGrpCpuLimit" in cluster.run("squeue", "-h", "-o", "%r").ok().out, "jobs wait for the limit"
    )
    cluster.kill("ctld")
    cluster.forget_client()
    cluster.start_controller()
    cluster.wait_nodes()
    wanted = min(JOBS + 40, completed(cluster, array, more, *singles) + runs)
    cluster.wait(lambda: completed(cluster, array, more, *singles) >= wanted, f"{runs} jobs have run")
    if wanted < JOBS + 40:
        cluster.run("scancel", "--state=PENDING", f"--user={USER}").ok()
    cluster.wait(lambda: not cluster.run("squeue", "-h").ok().out, "all jobs are over")
    records = cluster.records(array, more, *singles)
    states = Counter(one.state for one in records)
    assert states["COMPLETED"] >= wanted
    assert set(states) == ({"COMPLETED"} if wanted == JOBS + 40 else {"COMPLETED", "CANCELLED"})
    most = max(amount for _, amount in held(records, "cpu"))
    assert most == LIMIT
    shown = cluster.run("scontrol", "-o", "show", "assoc_mgr", "accounts=physics", "flags=assoc").ok().out
    assert f"cpu={LIMIT}(0)" in shown, shown


@pytest.mark.slow
def test_two_accounts_share_seventy_to_thirty(new_cluster: Callable[..., LiveCluster]) -> None:
    """16 GPUs, jobs of about a second, for as long as both have some: every second the account that is behind comes first."""
    cluster = new_cluster(2, SHARED)
    for account, shares in (("a", 70), ("b", 30)):
        manage(cluster, "add", "account", account, f"fairshare={shares}")
    manage(cluster, "add", "user", USER, "account=a,b")
    arrays = {
        name: cluster.sbatch(
            "-A", name, "-t1", "--gres=gpu:1", "--array=1-1500", "-o", "/dev/null", "--wrap", "sleep 1"
        )
        for name in ("a", "b")
    }
    cluster.wait(
        lambda: sum(one.state == "COMPLETED" for one in cluster.records(arrays["a"], arrays["b"])) >= 1_300,
        "1,300 jobs have run", LONGEST_S,
    )  # fmt: skip
    records = {name: [r for r in cluster.records(job_id) if r.start_at_us] for name, job_id in arrays.items()}
    until_us = min(max(r.start_at_us for r in found) for found in records.values())
    used = {
        name: sum((min(r.end_at_us or until_us, until_us) - r.start_at_us) for r in found if r.start_at_us < until_us)
        for name, found in records.items()
    }
    part = used["a"] / sum(used.values())
    print(f"account a has {100 * part:.2f} % of {sum(used.values()) / 3.6e9:.2f} GPU hours")
    assert abs(part - 0.70) <= 0.02
