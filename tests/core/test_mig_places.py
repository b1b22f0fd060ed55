"""MIG instances as typed GPUs: who gets which place, what is closed, and what a node is said to have."""

from ctld.core.gpus import inventory
from ctld.core.nodes.layout import new_node
from ctld.core.records.gpu import Gpu, GpuFacts, GpuOpinion
from ctld.core.records.mig import choices_of, counts, instances_of, layout_now, places_of, shown_gres, totals
from ctld.core.records.node import Node
from ctld.core.state.devices import layout_of
from penstock.values.config import NodeConfig
from penstock.values.gpustates import GpuState
from penstock.values.gres import Gres
from penstock.values.mig import MigChoice, parse_layouts

LAYOUTS = parse_layouts("whole|1g.18gb*7|3g.71gb,1g.18gb*2")
SEVEN = [("1g.18gb", i) for i in range(7)]


def whole(uuid: str, index: int, divided: bool = False) -> GpuFacts:
    return GpuFacts(uuid, index=index, type="h200", mig_enabled=divided)


def part(parent: str, profile: str, number: int) -> GpuFacts:
    uuid = f"MIG-{parent}-{profile}-{number}"
    return GpuFacts(uuid, index=int(parent[-1]), type=profile, parent=parent, profile=profile, slices=int(profile[0]))


def node_with(gres: tuple[Gres, ...], *found: GpuFacts, mig: tuple[MigChoice, ...] = ()) -> Node:
    node = new_node(NodeConfig("n1", "n1", "n1", 16, gres=gres, mig=mig))
    tell(node, *found)
    return node


def tell(node: Node, *found: GpuFacts) -> None:
    """The node has said what it has."""
    node.gpus = inventory.bind(node, found)
    inventory.place(node)


def test_instances_take_the_places_of_their_type_and_the_gpu_none() -> None:
    parts = [part("G0", *one) for one in SEVEN]
    node = node_with(
        (Gres("gpu", "h200_1g.18gb", 7), Gres("gpu", "h200", 1)), whole("G0", 0, True), *parts, whole("G1", 1)
    )
    assert [node.gpus[one.uuid].slot for one in parts] == list(range(7))
    assert node.gpus["G0"].slot == -1
    assert node.gpus["G1"].slot == 7
    assert node.gpu_closed == 0


def test_untyped_places_are_any_device_s() -> None:
    parts = [part("G0", "3g.71gb", i) for i in range(2)]
    node = node_with((Gres("gpu", "", 3),), whole("G0", 0, True), *parts, whole("G1", 1))
    assert [g.slot for g in node.gpus.values()] == [-1, 0, 1, 2]


def test_a_gpu_that_is_divided_under_a_node_daemon_loses_its_place_and_gets_it_back() -> None:
    node = node_with((Gres("gpu", "h200", 2),), whole("G0", 0), whole("G1", 1))
    node.gres_used["gpu", "h200"] = 0b10  # a job has G1
    tell(node, whole("G0", 0, True), part("G0", "7g.141gb", 0), whole("G1", 1))
    assert {uuid: gpu.slot for uuid, gpu in node.gpus.items()} == {"G0": -1, "MIG-G0-7g.141gb-0": -1, "G1": 1}
    assert node.gpu_closed == 0b01
    tell(node, whole("G0", 0), whole("G1", 1))
    assert {uuid: gpu.slot for uuid, gpu in node.gpus.items()} == {"G0": 0, "G1": 1}
    assert node.gpu_closed == 0


def test_places_of_all_layouts_and_what_is_there_now() -> None:
    choice = MigChoice("h200", 0, 2, LAYOUTS)
    node = node_with((Gres("gpu", "h200", 2),), whole("G0", 0), whole("G1", 1), mig=(choice,))
    kinds = node.inside.kinds
    assert {kind: mask.bit_count() for kind, mask in kinds.items()} == {
        ("gpu", ""): 18, ("gpu", "h200"): 2, ("gpu", "1g.18gb"): 14, ("gpu", "3g.71gb"): 2,
    }  # fmt: skip
    assert totals(node.config, kinds)["gpu", ""] == 14
    assert [(gpu.uuid, of) for gpu, of in choices_of(node)] == [("G0", choice), ("G1", choice)]
    assert node.gpu_closed == kinds["gpu", ""] & ~0b11
    assert shown_gres(node) == (Gres("gpu", "h200", 2),)

    tell(node, whole("G0", 0, True), *(part("G0", *one) for one in SEVEN), whole("G1", 1))
    assert layout_now(node, node.gpus["G0"]) == LAYOUTS[1]
    assert layout_now(node, node.gpus["G1"]) == ()
    assert places_of(node, node.gpus["G0"]) == sum(1 << gpu.slot for gpu in instances_of(node, "G0"))
    assert places_of(node, node.gpus["G0"]).bit_count() == 7
    assert node.gpu_closed.bit_count() == 10
    assert shown_gres(node) == (Gres("gpu", "h200", 1), Gres("gpu", "1g.18gb", 7))
    assert counts(node, LAYOUTS[2], "h200") == {("gpu", ""): 3, ("gpu", "1g.18gb"): 2, ("gpu", "3g.71gb"): 1}
    assert counts(node, (), "h200") == {("gpu", ""): 1, ("gpu", "h200"): 1}


def test_mig_mode_without_instances_gives_nothing() -> None:
    node = node_with((Gres("gpu", "h200", 1),), whole("G0", 0, True), mig=(MigChoice("h200", 0, 1, LAYOUTS),))
    assert layout_now(node, node.gpus["G0"]) is None
    assert node.gpu_closed == node.inside.kinds["gpu", ""]
    assert shown_gres(node) == ()


def test_instances_share_the_fate_of_their_gpu() -> None:
    parts = [part("G0", *one) for one in SEVEN]
    node = node_with((Gres("gpu", "1g.18gb", 7), Gres("gpu", "h200", 1)), whole("G0", 0, True), *parts, whole("G1", 1))

    def think(gpu: Gpu) -> tuple[int, int]:
        node.gpus[gpu.uuid] = gpu
        inventory.place(node)
        return node.gpu_closed, node.gpu_suspect

    gpu = node.gpus["G0"]
    assert think(gpu._replace(opinion=GpuOpinion("G0", GpuState.SUSPECT, "hot"))) == (0, 0b1111111)
    assert think(gpu._replace(opinion=GpuOpinion("G0", GpuState.FAILED, "XID 79"))) == (0b1111111, 0)
    assert think(gpu._replace(drained=True)) == (0b1111111, 0)
    assert think(gpu._replace(work_id="w1")) == (0b1111111, 0)
    assert think(gpu) == (0, 0)


def test_the_layout_of_a_node_without_mig_is_as_before() -> None:
    config = NodeConfig("n1", "n1", "n1", 16, gres=(Gres("gpu", "h200", 2), Gres("nic", "", 1)))
    assert layout_of(config).kinds == {("gpu", ""): 3, ("gpu", "h200"): 3, ("nic", ""): 1}
    assert totals(config, layout_of(config).kinds) == {("gpu", ""): 2, ("gpu", "h200"): 2, ("nic", ""): 1}
