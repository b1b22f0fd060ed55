"""Accounts, shares and priorities on a whole cluster: sacctmgr, sprio, sshare, across a crash of the controller."""

import getpass
from collections.abc import Callable

from livecluster import ClusterConf, LiveCluster

CONF = ClusterConf(
    cpus=4,
    more=(
        "PriorityType=priority/multifactor",
        "PriorityWeightFairshare=100000",
        "PriorityWeightJobSize=1000",
        "PriorityCalcPeriod=0:01",
        "PriorityDecayHalfLife=0",
    ),
    partitions=("PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED TRESBillingWeights=CPU=2.0",),
)


def rows(text: str) -> list[list[str]]:
    return [line.split("|") for line in text.splitlines()]


def test_shares_decide_and_survive(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(1, CONF)
    user = getpass.getuser()

    def manage(*words: str, status: int = 0) -> str:
        done = cluster.run("sacctmgr", "-i", *words)
        assert done.status == status, done
        return done.out

    assert "  A = physics    C = e2e" in manage("add", "account", "physics", "fairshare=30")
    manage("add", "account", "bio", "fairshare=10")
    assert f"  U = {user[:9]:<9} A = physics    C = e2e" in manage(
        "add", "user", user, "account=physics,bio", "defaultaccount=physics"
    )
    manage("modify", "user", user, "set", "defaultaccount=physics")  # that of root is root
    assert manage("add", "account", "bio", status=1) == " Nothing new added.\n"

    first = cluster.sbatch("-n4", "--wrap", "exec sleep 300")
    cluster.wait_state(first, "RUNNING")
    poor = cluster.sbatch("-n4", "-A", "physics", "--wrap", "true")
    rich = cluster.sbatch("-n4", "-A", "bio", "--wrap", "true")
    cluster.wait(
        lambda: int(cluster.job(rich).priority) > int(cluster.job(poor).priority), "the idle account comes first"
    )
    assert cluster.job(first).request.account == "physics"  # the default account
    assert "billing=8" in cluster.job(first).tres_alloc
    priorities = rows(cluster.run("sprio", "-h", "-o", "%i|%o|%F|%J|%Y").ok().out)
    found = {int(job): (account, int(fair), int(size), int(total)) for job, account, fair, size, total in priorities}
    assert found[poor][0] == "physics" and found[rich][:3] == ("bio", 100_000, 1000)
    assert all(fair + size == total for _, fair, size, total in found.values())
    queue = rows(cluster.run("squeue", "-h", "-t", "PD", "-o", "%i|%Q").ok().out)
    assert {int(job): int(number) for job, number in queue} == {job: found[job][3] for job in found}

    shares = cluster.run("sshare", "-anP", "-o", "Account,User,RawShares,RawUsage").ok().out
    assert [row[:3] for row in rows(shares)] == [
        ["root", "", ""], [" root", "root", "1"], [" bio", "", "10"], ["  bio", user, "1"], [" physics", "", "30"], ["  physics", user, "1"],
    ]  # fmt: skip

    assert rows(cluster.run("sacct", "-XnP", "-j", str(first), "-o", "Account,AssocID").ok().out)[0][0] == "physics"
    for words in (
        ("cluster", "AccountUtilizationByUser", "tree"), ("cluster", "Utilization"), ("user", "TopUsage"),
        ("-T", "cpu", "cluster", "UserUtilizationByWckey"),
    ):  # fmt: skip
        shown = (
            cluster.run("sreport", *words, "start=now-1hour", "end=now").ok().out
        )  # the hour is not full: heads alone
        assert shown.splitlines()[3] == "-" * 80 and "  Cluster" in shown
    assert cluster.run("sreport", "-T", "beer", "user", "top").status == 1

    def used() -> int:
        return int(cluster.run("sshare", "-nPU", "-A", "physics", "-o", "RawUsage").ok().out)

    assert cluster.run("sacctmgr", "-i", "delete", "user", user).status == 1
    cluster.wait(lambda: used() >= 24, "three seconds with a billing of 8 are charged")
    before = used()
    cluster.kill("ctld")
    cluster.forget_client()
    cluster.start_controller()
    cluster.wait_nodes()
    cluster.wait(lambda: used() >= before, "the usage is there again")
    cluster.run("scancel", str(first)).ok()
    jobs = cluster.wait_ends(poor, rich)
    assert jobs[1].start_at_us <= jobs[0].start_at_us  # bio's came later and went first
    job = cluster.job(first)
    elapsed_us = job.end_at_us - job.start_at_us
    cluster.wait(lambda: used() >= elapsed_us * 8 // 1_000_000, "all of it is charged")
    assert used() <= elapsed_us * 8 // 1_000_000 + 8 * 60
