"""A reservation outlives the partition from which its nodes were chosen."""

import dataclasses

import pytest

from ctld.core.records.events import CreateReservation, LoadConfig, UpdateReservation
from ctld.rpc.cluster.reservations import Names, wanted_reservation
from penstock.values.config import PartitionConfig
from tests.core.world import World, make_config

NAMES = Names({"ann": 1001}, {})
BASIC = {"starttime": "now", "duration": "100", "users": "ann", "partitionname": "debug"}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "ask",
    [
        {"nodecnt": "1"},
        {"nodecnt": "1", "flags": "REPLACE"},
        {"corecnt": "2"},
        {"tres": "gres/gpu=1"},
        {"nodecnt": "1", "features": "fast"},
        {"nodes": "ALL", "flags": "PART_NODES"},
    ],
    ids=["nodes", "replace", "cpus", "gpus", "features", "part_nodes"],
)
def test_it_keeps_its_nodes_when_one_is_down(ask: dict[str, str], restarts: bool) -> None:
    """No other node is found for it; a change that chooses nodes is refused with the partition's name."""
    world = World(make_config(nodes=2, cpus=2, gpus=1))
    root = world.actor("root")
    for name in ("n1", "n2"):
        world.register(name)
    wish = wanted_reservation(BASIC | ask, NAMES, world.now_us)
    assert world.do(CreateReservation(root, "r", wish, world.reply_to()))[-1] == "created r"
    parts = world.core.state.reservations["r"].parts
    other = (PartitionConfig("other", ("n1", "n2"), is_default=True),)
    world.config = dataclasses.replace(world.config, partitions=other)
    if restarts:
        world.restart()
        for name in ("n1", "n2"):
            world.register(name)
    else:
        assert "done" in world.do(LoadConfig(world.config, world.reply_to()))
    for name in ("n1", "n2"):
        world.notice(name, "fans", drain=True)
        world.advance(1)
    assert world.core.state.reservations["r"].parts == parts
    more = wanted_reservation({"nodecnt": "2"}, NAMES, world.now_us)
    said = world.do(UpdateReservation(root, "r", more, world.reply_to()))
    if "PART_NODES" not in ask.get("flags", ""):  # which are the partition's, not a number
        assert said[-1] == "refused: Invalid partition name specified: debug"
