"""CoreCnt of a reservation on nodes whose cores have different numbers of threads."""

from dataclasses import replace
from typing import Any

from ctld.core.records.events import CreateReservation, ReservationSettings
from ctld.rpc.cluster.reservations import reservation_info
from tests.core.world import START_US, World, make_config


def test_cores_are_counted_by_each_nodes_own_threads() -> None:
    config = make_config(nodes=2, cpus=8)
    shapes: list[dict[str, Any]] = [
        {"sockets": 2, "cores_per_socket": 8 // 2 // threads, "threads_per_core": threads} for threads in (1, 2)
    ]
    nodes = tuple(replace(node, **shape) for node, shape in zip(config.nodes, shapes, strict=True))
    world = World(replace(config, nodes=nodes))
    for node, shape in zip(nodes, shapes, strict=True):
        world.register(node.name, **shape)
    for name, cores in (("r", (3,)), ("s", None)):
        wanted = ReservationSettings(
            start_at_us=START_US + (1 if name == "r" else 1000) * 1_000_000, duration_s=600, cores=cores,
            nodes=(("", "n1"), ("", "n2")), users=(("", "ann", 1001),),
        )  # fmt: skip
        world.do(CreateReservation(world.actor("root"), name, wanted, world.reply_to()))
    state = world.core.state
    assert [part.cpus for part in state.reservations["r"].parts] == [3, 6]
    shown = [reservation_info(state, state.reservations[name], world.now_us).core_count for name in ("r", "s")]
    assert shown == [6, 12]
