"""The policy as a text over REST on a real cluster: who may do what, what is refused, and plans that are no longer true."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from livecluster import ClusterConf
from liverest import JWT, LiveRest

from rest.limits import POLICY_BYTES_MAX, POLICY_VALUES_MAX

DB, OWN = "/slurmdb/v0.0.46", "/penstock/v1"
PATH = f"{OWN}/policy"
USER, COORDINATOR, OPERATOR = "nobody", "bin", "sys"
WANTED = """
qos:
  plong: {MaxWall: 2-00:00:00, Priority: 10}
accounts:
  plab:
    MaxJobs: 10
    Coordinators: [bin]
    users:
      bin: {}
    accounts:
      pteam: {Fairshare: 7, GrpTRES: {cpu: 8}, users: {nobody: {}}}
"""


def below(fairshare: int) -> str:
    """What a coordinator of plab may change."""
    return f"accounts:\n  pteam: {{parent: plab, Fairshare: {fairshare}, GrpTRES: {{cpu: 8}}}}\n"


@pytest.fixture
def callers(rest: LiveRest) -> Iterator[dict[str, httpx.Client]]:
    """A connection for each role, and the accounts that make them."""
    found = {name: rest.as_user(name) for name in ("", USER, COORDINATOR, OPERATOR)}
    admin = found[""]
    places = [{"account": "pother", "user": OPERATOR}, {"account": "pother", "user": ""}]
    assert admin.post(f"{DB}/associations", json={"associations": places}).status_code == 200
    levels = {"users": [{"name": OPERATOR, "administrator_level": ["Operator"]}]}
    assert admin.post(f"{DB}/users", json=levels).status_code == 200
    yield found
    for path in ("account/plab", "account/pother", "qos/plong"):
        admin.delete(f"{DB}/{path}")
    for one in found.values():
        one.close()


def planned(client: httpx.Client, policy: str, **more: Any) -> Any:
    reply = client.post(f"{PATH}/plan", json={"policy": policy, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def applied(client: httpx.Client, policy: str, plan: Any, **more: Any) -> httpx.Response:
    return client.post(f"{PATH}/apply", json={"policy": policy, "fingerprint": plan["fingerprint"], **more})


def error(reply: httpx.Response) -> str:
    assert reply.status_code in (403, 409, 422), reply.text
    return str(reply.json()["errors"][0]["error"] + ": " + reply.json()["errors"][0]["description"])


@pytest.mark.root
def test_a_plan_is_applied_and_nothing_is_left(callers: dict[str, httpx.Client]) -> None:
    admin = callers[""]
    plan = planned(admin, WANTED)
    assert plan["refusal"] == "" and [(one["sign"], one["what"]) for one in plan["steps"]] == [
        ("+", "qos plong"), ("+", "account plab"), ("+", "account pteam"), ("+", "user bin in account plab"),
        ("+", "user nobody in account pteam"),
    ]  # fmt: skip
    assert {"name": "GrpTRES", "before": "", "after": "cpu=8"} in plan["steps"][2]["changes"]
    assert "account pother" in plan["not_in_the_file"]
    assert admin.get(f"{DB}/account/plab").json()["accounts"] == []  # nothing is changed by a plan
    assert applied(admin, WANTED, plan).json()["changes"] == 5
    again = planned(admin, WANTED)
    assert again["steps"] == [] and applied(admin, WANTED, again).json()["changes"] == 0
    text = admin.get(PATH).json()["policy"]
    assert "pteam" in text and planned(admin, text)["steps"] == []
    pruned = planned(admin, text.replace("MaxJobs: '10'", "MaxJobs: '11'"), prune=True)
    assert [(one["sign"], one["what"], one["changes"]) for one in pruned["steps"]] == [
        ("~", "account plab", [{"name": "MaxJobs", "before": "10", "after": "11"}])
    ]


@pytest.mark.root
def test_a_stale_plan_is_refused_and_nothing_is_changed(callers: dict[str, httpx.Client]) -> None:
    admin = callers[""]
    assert applied(admin, WANTED, planned(admin, WANTED)).status_code == 200
    plan = planned(admin, below(20))
    meanwhile = {"associations": [{"account": "pteam", "user": "", "shares_raw": 15}]}
    assert admin.post(f"{DB}/associations", json=meanwhile).status_code == 200
    assert "no longer as it was" in error(applied(admin, below(20), plan))
    assert applied(admin, below(20), plan).status_code == 409
    shares = [one["shares_raw"] for one in admin.get(f"{DB}/associations?account=pteam").json()["associations"]]
    assert shares[0] == 15
    other = planned(admin, below(21))  # of another text
    assert applied(admin, below(22), other).status_code == 409
    assert applied(admin, below(21), other).json()["changes"] == 1


@pytest.mark.root
def test_the_controller_decides_for_each_role(callers: dict[str, httpx.Client]) -> None:
    assert applied(callers[""], WANTED, planned(callers[""], WANTED)).status_code == 200
    of_a_user = planned(callers[USER], below(8))
    assert len(of_a_user["steps"]) == 1 and "Access/permission denied" in of_a_user["refusal"]
    assert "Access/permission denied" in error(applied(callers[USER], below(8), of_a_user))
    root_too = "accounts:\n  plab: {MaxJobs: 99, Coordinators: [bin]}\n"
    above = planned(callers[COORDINATOR], root_too)
    assert "Access/permission denied" in above["refusal"]
    assert "Access/permission denied" in error(applied(callers[COORDINATOR], root_too, above))
    for name, shares in ((COORDINATOR, 30), (OPERATOR, 31), ("", 32)):
        plan = planned(callers[name], below(shares))
        assert plan["refusal"] == "" and applied(callers[name], below(shares), plan).json()["changes"] == 1, name


@pytest.mark.root
def test_what_is_no_policy_is_refused_with_its_lines(callers: dict[str, httpx.Client]) -> None:
    user = callers[USER]
    reply = user.post(f"{PATH}/plan", json={"policy": "qos:\n  a: {Nosuch: 1}\naccounts:\n  b: {MaxJobs: many}\n"})
    assert reply.status_code == 422
    lines = [one["description"] for one in reply.json()["errors"]]
    assert [one.partition(": ")[0] for one in lines] == ["policy:2", "policy:4"] and "Nosuch" in lines[0]
    users = ", ".join(f"u{number}: {{}}" for number in range(1000))
    bomb = f"accounts:\n  a0: &a {{users: {{{users}}}}}\n" + "".join(f"  a{number}: *a\n" for number in range(1, 100))
    for policy, word in (
        ("a: [", "policy is not YAML"), ("x" * (POLICY_BYTES_MAX + 1), "at most"), ("cluster: other\n", "cluster other"),
        (bomb, f"more than {POLICY_VALUES_MAX} values"), ("[" * 50_000, "policy is not YAML"),
        ("", "give the text of a policy"), (" \n", "give the text of a policy"),
    ):  # fmt: skip
        body = {"policy": policy, "fingerprint": "0", "days": 1, "prune": True}
        for verb in ("plan", "apply", "replay"):
            reply = user.post(f"{PATH}/{verb}", content=_json(body), headers={"Content-Type": "application/json"})
            assert word in error(reply), (policy[:40], verb, reply.text[:300])
    odd = planned(user, "accounts: {<img src=x onerror=alert(1)>: {MaxJobs: 1}}")  # what is no name the controller says
    assert odd["steps"][0]["what"] == "account <img src=x onerror=alert(1)>" and "denied" in odd["refusal"]
    assert "Invalid account name" in planned(callers[""], "accounts: {<b>: {MaxJobs: 1}}")["refusal"]
    assert "give the fingerprint" in error(user.post(f"{PATH}/apply", json={"policy": WANTED}))
    assert "days is" in error(user.post(f"{PATH}/replay", json={"policy": "", "days": 0}))


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.root
def test_the_effect_on_waits_is_replayed(new_rest: Callable[..., LiveRest]) -> None:
    """Of a cluster that enforces limits: its jobs would be refused under the policy."""
    rest = new_rest(ClusterConf(more=(*JWT.more, "AccountingStorageEnforce=associations,limits")))
    with rest.as_user() as admin, rest.as_user(USER) as other:
        policy = "accounts:\n  plab: {users: {root: {}}}\n"
        assert applied(admin, policy, planned(admin, policy)).json()["changes"] == 2
        for _ in range(2):
            rest.cluster.wait_ends(rest.cluster.sbatch("-A", "plab", "--wrap", "true"))
        closed = "accounts:\n  plab: {MaxSubmitJobs: 0}\n"
        begun = admin.post(f"{PATH}/replay", json={"policy": closed, "days": 1}).json()
        address = f"{OWN}/simulations/{begun['simulation_id']}"
        found = [begun]

        def has_ended() -> bool:
            found.append(admin.get(address).json())
            return found[-1]["state"] not in ("READING", "RUNNING")

        rest.cluster.wait(has_ended, "the replay ends")
        assert found[-1]["state"] == "DONE", found[-1]
        (row,) = found[-1]["waits"]
        assert (row["account"], row["jobs"], row["refused_before"], row["refused_after"]) == ("plab", 2, 0, 2), row
        assert row["mean_s_before"] is not None and row["mean_s_after"] is None
        assert other.get(address).status_code == 404  # it is the caller's alone
