"""What scontrol changes of partitions and nodes while the controller runs."""

from collections.abc import Callable

from penstock.config import load
from penstock.config.amend import amend
from penstock.values.amendment import PARTITION, Amendment

BASE = "ClusterName=test\nSlurmctldHost=localhost\nSlurmUser=root\n"
NODES = "NodeName=n[1-4] CPUs=8 RealMemory=16000\n"


def test_a_partition_keeps_what_its_line_said_of_preemption(write: Callable[..., str]) -> None:
    lines = BASE + "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n" + NODES
    config = load(write(lines + "PartitionName=main Nodes=ALL Default=YES PreemptMode=OFF GraceTime=60\n")).config
    changed = amend(config, Amendment(PARTITION, "main", (("LLN", "YES"),)), "")
    assert changed.partitions[0].lln and changed.partitions[0].preempt_mode == ("OFF",)
    assert changed.partitions[0].grace_time_s == 60
