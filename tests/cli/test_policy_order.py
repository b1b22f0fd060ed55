"""Policies are applied in an order in which each change can be made, whatever the names are: on a real core."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.accounts.policydiff import difference
from cli.accounts.policyfile import Policy, read_policy
from cli.accounts.policystate import cluster_policy
from penstock.client import Client
from penstock.v1.governance_pb2 import ChangeManyRequest
from tests.cli.coreworld import CoreClient

Json = dict[str, Any]


def wanted(document: Json) -> Policy:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "site.yaml"
        path.write_text(json.dumps(document))  # JSON is YAML
        return read_policy(str(path))


def make_it_so(client: CoreClient, document: Json) -> None:
    policy = wanted(document)
    changes = difference(cluster_policy(cast(Client, client)), policy, prune=True).changes()
    if changes:
        client.call("ChangeMany", ChangeManyRequest(changes=changes))
    left = difference(cluster_policy(cast(Client, client)), policy, prune=True)
    assert not left.steps, left.steps


@pytest.mark.parametrize(
    "documents",
    [
        [{"qos": {"alpha": {"Preempt": ["zeta"]}, "zeta": {}}}],
        [
            {"qos": {"alpha": {"Preempt": ["zeta"]}, "zeta": {}}},
            {"qos": {"alpha": {}, "zeta": {"Preempt": ["alpha"]}}},  # between the two changes there is a loop
        ],
        [{"qos": {"alpha": {}}}, {"qos": {"alpha": {"Preempt": ["zeta"]}, "zeta": {}}}],
        [{"qos": {"alpha": {"Preempt": ["zeta"]}, "zeta": {}}}, {"qos": {"zeta": {}}}, {"qos": {}}],
        [
            {"accounts": {"top": {"QOS": ["normal"], "DefaultQOS": "normal"}}},
            {
                "qos": {"quick": {}},
                "accounts": {"top": {"QOS": ["normal", "quick"], "accounts": {"below": {"DefaultQOS": "quick"}}}},
            },
        ],
        [
            {"accounts": {"a": {"accounts": {"b": {"users": {"ann": {}}}}}}},
            {"accounts": {"b": {"accounts": {"a": {}}, "users": {"ann": {}}}}},
        ],
        [{"accounts": {"lab": {"Coordinators": ["bob"], "users": {"bob": {}}}}}],
    ],
)
def test_27_what_needs_something_comes_after_it(documents: list[Json]) -> None:
    client = CoreClient()
    for document in documents:
        make_it_so(client, document)


NAMES = ("alpha", "mid", "zeta")


@st.composite
def policies(draw: Any) -> Json:
    qos = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    some = lambda: draw(st.lists(st.sampled_from([*qos, "normal"]), unique=True, max_size=3))  # noqa: E731
    rank = {name: place for place, name in enumerate((*draw(st.permutations(NAMES)), "normal"))}  # there are no loops
    document: Json = {
        "qos": {name: {"Preempt": [other for other in some() if rank[other] > rank[name]]} for name in qos}
    }
    order = draw(st.permutations(("x", "y", "z")))[: draw(st.integers(0, 3))]
    tree: Json = {}
    places = [tree]
    for name in order:
        inner: Json = {}
        listed = some()
        entry: Json = {"accounts": inner}
        if listed:
            entry |= {"QOS": listed, "DefaultQOS": draw(st.sampled_from(listed))}
        if draw(st.booleans()):
            entry |= {"users": {"ann": {}}, "Coordinators": ["ann"]}
        draw(st.sampled_from(places))[name] = entry
        places.append(inner)
    return document | {"accounts": tree}


@settings(max_examples=60)
@given(st.lists(policies(), min_size=1, max_size=3))
def test_27_any_policy_follows_any_other(documents: list[Json]) -> None:
    client = CoreClient()
    for document in documents:
        make_it_so(client, document)
