"""What a change of policy would do to waiting times, through the real core."""

import json
import subprocess
import sys
from typing import Any

import pytest

from penstock.values.errors import BadValue
from sim.policyplay import compare

CONF = """
ClusterName=lab
SlurmctldHost=localhost
PriorityType=priority/multifactor
PriorityWeightFairshare=100000
PriorityCalcPeriod=1
SchedulerType=sched/backfill
NodeName=n[1-2] CPUs=4 RealMemory=8000
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=60
"""
ADD, MODIFY = 1, 2


def account(name: str, **changes: str) -> dict[str, Any]:
    return {"entity": "account", "action": ADD, "names": [name], "changes": changes}


def user(name: str, account: str) -> dict[str, Any]:
    return {"entity": "user", "action": ADD, "names": [name], "accounts": [account], "changes": {}}


PRESENT = [account("a", fairshare="1"), account("b", fairshare="1"), user("ann", "a"), user("bob", "b")]


def load(each: int = 40) -> list[dict[str, Any]]:
    """Both want the whole machine all the time."""
    return [
        {
            "user": name, "account": account, "partition": "all", "qos": "normal", "submit_s": number * 60, "run_s": 300,
            "limit_s": 600, "procs": 4, "nodes": 1, "gpus": 0, "mem_mb": 0,
        }
        for number in range(each)
        for name, account in (("ann", "a"), ("bob", "b"))
    ]  # fmt: skip


def test_more_shares_mean_less_waiting() -> None:
    change = {"entity": "account", "action": MODIFY, "names": ["a"], "changes": {"fairshare": "9"}}
    found = compare({"conf": CONF, "jobs": load(), "present": PRESENT, "changes": [change]})
    before, after = found["before"], found["after"]
    assert before["a"]["jobs"] == after["b"]["jobs"] == 40
    assert abs(before["a"]["mean_s"] - before["b"]["mean_s"]) < 300
    assert after["a"]["mean_s"] < before["a"]["mean_s"] / 2
    assert after["b"]["mean_s"] > before["b"]["mean_s"]
    assert not before["a"]["refused"] and not before["a"]["waiting"]


def test_the_same_policy_twice_is_the_same() -> None:
    found = compare({"conf": CONF, "jobs": load(10), "present": PRESENT, "changes": []})
    assert found["before"] == found["after"]


def test_what_the_partition_does_not_take_is_counted() -> None:
    jobs = load(3)
    jobs[0] = {**jobs[0], "procs": 99}
    found = compare({"conf": CONF, "jobs": jobs, "present": PRESENT, "changes": []})
    assert found["before"]["a"] | {"refused": 1, "jobs": 3} == found["before"]["a"]
    assert found["before"]["b"]["refused"] == 0


def test_a_change_that_is_refused_is_told() -> None:
    with pytest.raises(BadValue, match=r"change 5 is refused: .*nobody"):
        compare({"conf": CONF, "jobs": [], "present": PRESENT, "changes": [account("c", parent="nobody")]})


def test_it_is_a_program_of_its_own() -> None:
    document = {"conf": CONF, "jobs": load(2), "present": PRESENT, "changes": []}
    done = subprocess.run(
        [sys.executable, "-m", "sim", "policy"], input=json.dumps(document), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["after"]["b"]["jobs"] == 2
