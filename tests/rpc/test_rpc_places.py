"""Requests about machines: the address of a node, licenses, and the tasks of a job that got more nodes than it must have."""

import pytest

from ctld.agents.launch import topology_address
from ctld.rpc.cluster import clusterinfo
from ctld.rpc.jobs.jobinfo import counts, request_message
from penstock.v1 import controller_pb2 as pb
from penstock.values.licenses import parse_licenses
from tests.core.sites import make_site
from tests.core.test_scripts import Script
from tests.core.world import World


@pytest.mark.parametrize(
    ("kind", "above", "expected"),
    [
        ("flat", (), ("n1", "node")),
        ("tree", (), ("n1", "node")),
        ("tree", ("s1", "m", "top"), ("top.m.s1.n1", "switch.switch.switch.node")),
        ("tree", ("s1", "s1", "top"), ("top.s1.n1", "switch.switch.node")),
        ("block", ("b1", "b[1-2]"), ("b1.n1", "block.node")),
    ],
)
def test_address(kind: str, above: tuple[str, ...], expected: tuple[str, str]) -> None:
    assert topology_address(kind, above, "n1") == expected


def world(**keys: str) -> Script:
    script = Script()
    script.world = World(make_site([], dict(keys), str))
    for node in script.world.config.nodes:
        script.world.register(node.name)
    return script


def test_licenses_in_whose_hands() -> None:
    script = world(licenses="matlab:3,idl")
    script.submit([], {"licenses": "matlab:2"})
    words = {"starttime": "now", "duration": "10", "users": "ann", "licenses": "idl:1", "flags": "ANY_NODES"}
    assert script.reserve(["r"], words) == ["created r"]
    state = script.world.core.state
    assert clusterinfo.licenses(state, script.world.now_us) == [
        pb.LicenseInfo(name="matlab", total=3, used=2),
        pb.LicenseInfo(name="idl", total=1, reserved=1),
    ]
    assert parse_licenses("matlab:3,idl") == tuple(state.layout.license_totals.items())


def test_topology() -> None:
    state = world(nodes="5", leaves="2,2").world.core.state
    assert clusterinfo.topology(state) == pb.ShowTopologyReply(
        kind="tree",
        switches=[
            pb.SwitchInfo(name="s1", level=0, nodes="n[1-2]", node_count=2),
            pb.SwitchInfo(name="s2", level=0, nodes="n[3-4]", node_count=2),
            pb.SwitchInfo(name="top", level=1, nodes="n[1-4]", node_count=4, children="s[1-2]"),
        ],
    )
    assert state.layout.switches_above["n3"] == ("s2", "top") and "n5" not in state.layout.switches_above


def test_a_moldable_job_has_the_tasks_that_it_got() -> None:
    script = world(nodes="4")
    script.submit([], {"nodes_min": "2", "nodes_max": "4"})
    (row,) = script.world.jobs.values()
    assert counts(row) == {"cpus": 4, "nodes": 4, "tasks": 4}
    message = request_message(row.request, detail=False)
    assert (message.nodes_min, message.nodes_max) == (2, 4)
