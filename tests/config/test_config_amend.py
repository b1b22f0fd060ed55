"""What scontrol changes of partitions and nodes while the controller runs."""

from collections.abc import Callable

import pytest

from penstock.config import load
from penstock.config.amend import amend, resolved
from penstock.values.amendment import NODE, PARTITION, Amendment
from penstock.values.errors import BadValue

BASE = "ClusterName=test\nSlurmctldHost=localhost\nSlurmUser=root\n"
NODES = "NodeName=n[1-4] CPUs=8 RealMemory=16000\n"


def test_a_partition_keeps_what_its_line_said_of_preemption(write: Callable[..., str]) -> None:
    lines = BASE + "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n" + NODES
    config = load(write(lines + "PartitionName=main Nodes=ALL Default=YES PreemptMode=OFF GraceTime=60\n")).config
    changed = amend(config, Amendment(PARTITION, "main", (("LLN", "YES"),)), "")
    assert changed.partitions[0].lln and changed.partitions[0].preempt_mode == ("OFF",)
    assert changed.partitions[0].grace_time_s == 60


@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        ("MaxTime", "max_time_s", -1), ("DefaultTime", "default_time_s", -1), ("MaxNodes", "max_nodes", -1),
        ("MaxCPUsPerNode", "max_cpus_per_node", -1), ("MaxCPUsPerSocket", "max_cpus_per_socket", -1),
        ("MaxMemPerNode", "max_mem_per_node_mb", 0), ("MaxMemPerCPU", "max_mem_per_cpu_mb", 0), ("OverTimeLimit", "over_time_limit_s", -1),
    ],
)  # fmt: skip
def test_minus_one_is_no_limit_and_no_change_of_a_list(
    write: Callable[..., str], key: str, field: str, value: int
) -> None:
    config = load(write(BASE + NODES + "PartitionName=main Nodes=ALL\n")).config
    text = resolved(config, PARTITION, "main", key, "-1")
    assert getattr(amend(config, Amendment(PARTITION, "main", ((key, text),)), "").partitions[0], field) == value
    with pytest.raises(BadValue, match=r"takes no \+="):
        resolved(config, PARTITION, "main", key, "+1")


def test_exclusive_of_a_partition(write: Callable[..., str]) -> None:
    """Exclusive= is one word (Slurm 26.05): TOPO implies whole nodes, and another word gives them up."""
    config = load(write(BASE + NODES + "PartitionName=main Nodes=ALL\n")).config
    seen = []
    for key, text in (
        ("Exclusive", "TOPO"), ("Exclusive", "USER"), ("Exclusive", "NODE"), ("Exclusive", "NO"), ("ExclusiveTopo", "YES"),
        ("ExclusiveTopo", "NO"), ("OverSubscribe", "FORCE:2"), ("Exclusive", "USER"),
    ):  # fmt: skip
        config = amend(config, Amendment(PARTITION, config.partitions[0].name, ((key, text),)), "")
        part = config.partitions[0]
        seen.append((part.exclusive_topo, part.exclusive_user, part.over_subscribe))
    assert seen == [
        (True, False, "EXCLUSIVE"), (False, True, "NO"), (False, False, "EXCLUSIVE"), (False, False, "NO"),
        (True, False, "EXCLUSIVE"), (False, False, "NO"), (False, False, "FORCE:2"), (False, True, "FORCE:2"),
    ]  # fmt: skip


def test_a_list_takes_additions_and_removals(write: Callable[..., str]) -> None:
    config = load(write(BASE + NODES + "PartitionName=main Nodes=n[1-3] AllowAccounts=a,b\n")).config
    assert resolved(config, PARTITION, "main", "Nodes", "-n2") == "n[1,3]"
    assert resolved(config, PARTITION, "main", "AllowAccounts", "+c") == "a,b,c"


def test_an_empty_list_clears_the_features_of_a_node(write: Callable[..., str]) -> None:
    lines = "NodeName=n1 CPUs=8 Feature=a,b\nPartitionName=main Nodes=ALL\n"
    config = load(write(BASE + lines)).config
    changed = amend(config, Amendment(NODE, "n1", (("Feature", resolved(config, NODE, "n1", "Feature", "")),)), "")
    assert [node.features for node in (*config.nodes, *changed.nodes)] == [("a", "b"), ()]
