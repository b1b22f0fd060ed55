"""resources.yaml: hierarchical resources, and every mistake with the file's name."""

from collections.abc import Callable

import pytest

from penstock.config import ConfigError, load
from penstock.values.hres import MODE_1, MODE_2, MODE_3, Granted, Hres, HresLayer, format_granted, parse_granted

Write = Callable[..., str]

WHOLE = """\
---
- resource: flat
  mode: MODE_2
  variables:
    - {name: both, value: 2}
  layers:
    - layer_name: top   # the highest level
      nodes: ["n[1-3]", n4]
      count: 24
      base:
        - name: disks
          value: 4
        - {name: fans, value: 1}
    - nodes: ["n[1-2]", "n4"]
      count: -1
- resource: natural
  mode: MODE_1
  layers: [{layer_name: none}]
"""
ALL = ("n1", "n2", "n3", "n4")


def test_resources_in_yaml_and_json(write: Write, whole: str) -> None:
    loaded = load(write(whole, resources_yaml=WHOLE))
    flat = Hres(
        "flat",
        MODE_2,
        (
            HresLayer("top", ALL, 19, 24, (("disks", 4), ("fans", 1))),
            HresLayer("n[1-2,4]", ("n1", "n2", "n4"), -1, -1),  # the first releases have no names of layers
        ),
        (("both", 2),),
    )
    assert loaded.config.hres == (flat, Hres("natural", MODE_1, (HresLayer("none", (), 0, 0),)))
    assert loaded.files == ("slurm.conf", "resources.yaml")
    text = '[{"resource": "j", "mode": "MODE_1", "layers": [{"nodes": ["n1"], "count": 3}]}]'
    found = load(write(whole, resources_yaml=text)).config.hres
    assert found == (Hres("j", MODE_1, (HresLayer("n1", ("n1",), 3, 3),)),)
    assert load(write(whole, resources_yaml="")).config.hres == ()


def test_what_a_job_holds_as_text() -> None:
    held = (Granted("flat", ("n[1-2,4]", "top"), 2), Granted("matlab@flex", (), 1), Granted("natural", ("low",), 12))
    text = "flat(n[1-2,4],top):2,matlab@flex:1,natural(low):12"
    assert format_granted(held) == text
    assert parse_granted(text) == held
    assert parse_granted("") == ()


def test_layers_of_mode_3_have_the_nodes_below_them(write: Write, whole: str) -> None:
    text = (
        TREE
        + "  - {layer_name: row, parent_name: top}\n  - {layer_name: rack, parent_name: Row, nodes: [n2], count: -1}\n"
    )
    (found,) = load(write(whole, resources_yaml=text)).config.hres
    assert found.mode == MODE_3
    assert [(layer.name, layer.nodes, layer.count) for layer in found.layers] == [
        ("top", ("n1", "n2"), 9), ("low", ("n1",), 3), ("row", ("n2",), 0), ("rack", ("n2",), -1),
    ]  # fmt: skip


LAYER = "  layers: [{layer_name: a, nodes: [n1], count: 1}]\n"
ONE = "- resource: r\n  mode: MODE_1\n"
TREE = "- resource: r\n  mode: MODE_3\n  layers:\n  - {layer_name: top, count: 9}\n  - {layer_name: low, parent_name: TOP, nodes: n1, count: 3}\n"
BAD = (
    ("x: 1", "expected a list of at most 64 resources: - resource: NAME"),
    ("- mode: MODE_1", "each entry begins with `resource: NAME`"),
    ("- resource: a b\n  mode: MODE_1\n", "resource 'a b': a name has letters, digits and _ . @ + - only"),
    ("- resource: r\n  mode: MODE_9\n" + LAYER, "resource r: mode is MODE_9, expected MODE_1, MODE_2 or MODE_3"),
    (
        TREE + "  topology: blocks\n",
        "resource r: topology is not supported; without it the layers do not depend on blocks",
    ),
    (
        TREE + "  - {layer_name: b, nodes: n2}\n",
        "resource r: one layer is the root, all others have a parent_name",
    ),
    (TREE + "  - {layer_name: b, parent_name: c}\n", "resource r, layer b: there is no layer c"),
    (TREE + "  - {layer_name: b, parent_name: b}\n", "resource r, layer b: it is below itself"),
    (
        TREE + "  - {layer_name: b, parent_name: low}\n",
        "resource r, layer low: it has the nodes of the layers below it, and lists none itself",
    ),
    (
        TREE + "  - {layer_name: b, parent_name: top, nodes: [n1, n2]}\n",
        "resource r: node n1 is in two layers, low and b",
    ),
    (ONE + LAYER + "  colour: red\n", "resource r: 'colour' is no key of resources.yaml"),
    (ONE + LAYER + "  disable_hres: true\n", "resource r: disable_hres is not supported; set the counts of its layers to 0"),
    (ONE, "resource r: layers is a list of 1 to 256 layers"),
    (ONE + "  layers: [3]\n", "resource r: each layer has nodes and a count"),
    (ONE + "  layers: [{count: 3}]\n", "resource r, layer : it has neither layer_name nor nodes"),
    (
        ONE + '  layers: [{layer_name: "a,b"}]\n',
        "resource r, layer a,b: a name has no spaces and none of , ; | : = ( ) *",
    ),
    (ONE + '  layers: [{layer_name: "a[b"}]\n', "resource r, layer a[b: a bracket of the name is not closed"),
    (ONE + "  layers: [{layer_name: a}, {layer_name: A}]\n", "resource r: layer a is given twice"),
    (ONE + "  layers: [{nodes: [n1, n7, n8]}]\n", "resource r: slurm.conf has no node n[7-8]"),
    (ONE + "  layers: [{nodes: 3}]\n", "resource r: nodes is a list of host lists"),
    (
        ONE + "  layers: [{nodes: n1, count: many}]\n",
        "resource r, layer n1: count is many, expected a number from -1 to 1000000000",
    ),
    (ONE + "  layers: [{nodes: n1, parent_name: b}]\n", "resource r: parent_name is of MODE_3"),
    (
        ONE + "  layers: [{nodes: n1, disable_layer: true}]\n",
        "resource r, layer n1: disable_layer is not supported; set its count to 0",
    ),
    (
        ONE + "  layers: [{nodes: n1, count: 2, base: [{name: x, value: 3}]}]\n",
        "resource r, layer n1: base uses 3, more than its count 2",
    ),
    (ONE + "  layers: [{nodes: n1, base: [{value: 3}]}]\n", "resource r, layer n1: base has for each entry a name of its own, and a value"),
    (ONE + LAYER + "  variables: {a: 1}\n", "resource r: variables is a list of names and values"),
    (ONE + LAYER + ONE + LAYER, "resource r is given twice"),
    ("- resource: matlab\n  mode: MODE_1\n" + LAYER, "resource matlab: Licenses of slurm.conf has that name; choose another one"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_mistakes(write: Write, whole: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(write(whole + "Licenses=matlab:2\n", resources_yaml=text))
    assert [str(one) for one in raised.value.problems] == [f"resources.yaml: {problem}"]
