"""Lists of thousands of nodes on a command line: a request has them in as many texts as the controller takes."""

from typing import Any

import pytest

from cli import sacctmgr, scontrol
from cli.subcommands import gpus
from ctld.rpc.gate.incoming import check_bounds
from penstock.v1 import controller_pb2 as pb
from penstock.v1 import governance_pb2 as gov
from penstock.values.hostlist import expand_all
from tests.cli.fake_controller import run_body
from tests.cli.treeworld import world

NODES = 5000
LIST = f"n[1-{NODES}]"
WRITTEN_OUT = ",".join(f"n{number}" for number in range(1, NODES + 1))


@pytest.mark.parametrize("text", [LIST, WRITTEN_OUT])
@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("scontrol", scontrol.body, ("show", "node")),
        ("scontrol", scontrol.body, ("getaddrs",)),
        ("penstock gpus", gpus.main, ("-N",)),
        ("sacctmgr", sacctmgr.body, ("show", "event", "nodes=")),
        ("sacctmgr", sacctmgr.body, ("show", "instance", "nodes=")),
    ],
)
def test_all_are_asked_for(
    name: str, body: Any, words: tuple[str, ...], text: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = pb.ListNodesReply(nodes=[pb.NodeInfo(name=f"n{number}") for number in range(1, NODES + 1)])
    readings, events = pb.ListGpuReadingsReply(), [gov.ListEventsReply()]
    client = world(monkeypatch, ListNodes=nodes, ListGpuReadings=readings, ListEvents=events)
    argv = (*words[:-1], words[-1] + text) if words[-1].endswith("=") else (*words, text)
    assert run_body(capsys, name, body, *argv)[0] == 0
    asked = [request for method, request in client.calls if method in ("ListNodes", "ListGpuReadings", "ListEvents")]
    assert asked
    for request in asked:
        check_bounds(request)
        assert len(expand_all(request.nodes if isinstance(request, gov.ListEventsRequest) else request.names)) == NODES
