"""What a node says of its machine in a cloud: it is kept, and what scontrol has set stays where the node says nothing."""

from tests.core.world import World, make_config


def said(made: World) -> tuple[str, str, str]:
    node = made.core.state.nodes["n1"]
    return node.instance_id, node.instance_type, node.extra


def test_a_registration_sets_and_keeps() -> None:
    made = World(make_config(nodes=1))
    made.register("n1", instance_id="i-1", instance_type="p5", extra="rack=7")
    assert said(made) == ("i-1", "p5", "rack=7")
    made.restart()
    assert said(made) == ("i-1", "p5", "rack=7")
    made.register("n1")
    assert said(made) == ("i-1", "p5", "rack=7")
    made.register("n1", instance_id="i-2")
    assert said(made) == ("i-2", "p5", "rack=7")
