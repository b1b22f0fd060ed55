"""Two accounts with shares 70:30 under constant load get GPU hours in that proportion, in the simulator."""

from typing import Any

import pytest

from ctld.core.queue.associations import allocated
from penstock.values.states import ALLOCATED_STATES
from sim.policyplay import in_order, play_of

CONF = """
ClusterName=lab
SlurmctldHost=localhost
GresTypes=gpu
PriorityType=priority/multifactor
PriorityWeightFairshare=100000
PriorityDecayHalfLife={half_life}
PriorityCalcPeriod=1
PriorityFlags={flags}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n[1-2] CPUs=32 Gres=gpu:8
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=600 TRESBillingWeights="CPU=0,GRES/gpu=1"
"""
ADD = 1
ACCOUNTS = [
    *({"entity": "account", "action": ADD, "names": [name], "changes": {"fairshare": shares}}
      for name, shares in (("a", "70"), ("b", "30"))),
    *({"entity": "user", "action": ADD, "names": [user], "accounts": [account], "changes": {}}
      for user, account in (("ann", "a"), ("bob", "b"))),
]  # fmt: skip
#: The time that is looked at.
HOURS = 24


def jobs() -> list[dict[str, Any]]:
    """Each account alone would keep all GPUs busy; sizes and lengths differ between the two."""
    found = []
    for user, account, gpus, run_s in (("ann", "a", 1, 1800), ("bob", "b", 2, 2700)):
        area_s = gpus * run_s
        for number in range(HOURS * 5 // 4 * 3600 * 16 // area_s):
            found.append({
                "user": user, "account": account, "partition": "all", "qos": "normal", "run_s": run_s, "procs": gpus,
                "submit_s": number * area_s // 20, "limit_s": 3600, "nodes": 1, "gpus": gpus, "mem_mb": 0,
            })  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("half_life", "flags"), [("1-0", ""), pytest.param("0", "NO_FAIR_TREE", marks=pytest.mark.slow)]
)
def test_seventy_to_thirty(half_life: str, flags: str) -> None:
    given = in_order(jobs())
    conf = CONF.format(half_life=half_life, flags=flags or "MAX_TRES_GRES")
    play = play_of(conf, ACCOUNTS, given)
    until_s = play.offset_s + HOURS * 3600
    hours = {"a": 0.0, "b": 0.0}
    for number, job in enumerate(given):
        start_s, end_s = play.start_s[number], play.end_s[number]
        if start_s >= 0:
            hours[job["account"]] += max(0, min(end_s, until_s) - start_s) * job["gpus"] / 3600
    whole = sum(hours.values())
    assert whole > 0.97 * 16 * HOURS  # no GPU stood idle
    assert abs(hours["a"] / whole - 0.70) <= 0.02, hours
    assert not [
        job for job in play.cluster.core.state.jobs.values() if job.state in ALLOCATED_STATES and allocated(job)
    ]
