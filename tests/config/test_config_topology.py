"""topology.conf and Licenses: what is understood, and every mistake with its file and line."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import ConfigError, load
from penstock.values.errors import BadValue
from penstock.values.licenses import LICENSES_MAX, format_licenses, parse_licenses
from penstock.values.topology import Switch, Topology

Write = Callable[..., str]

TREE = "TopologyPlugin=topology/tree\n"
BLOCK = "TopologyPlugin=topology/block\n"


def test_tree(write: Write, whole: str) -> None:
    text = "# two leaves\nSwitchName=top Switches=s[1-2]\nSwitchName=s1 Nodes=n[1-2] LinkSpeed=9\nSwitchName=s2 Nodes=n3,n4\n"
    loaded = load(write(whole + TREE, topology_conf=text))
    leaves = (Switch("s1", 0, ("n1", "n2")), Switch("s2", 0, ("n3", "n4")))
    top = Switch("top", 1, ("n1", "n2", "n3", "n4"), ("s1", "s2"))
    assert loaded.config.topology == Topology("tree", (*leaves, top))
    assert loaded.files == ("slurm.conf", "topology.conf")
    text = "topology.conf:3: LinkSpeed is known to Slurm and not used by Penstock: Slurm does not use it either"
    assert loaded.warnings == (text,)


def test_a_tree_may_be_uneven_and_an_island_apart(write: Write, whole: str) -> None:
    text = (
        "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=m Switches=a\nSwitchName=t Switches=m,b\n"
        "SwitchName=island Nodes=n[3-4]\n"
    )
    topology = load(write(whole + TREE, topology_conf=text)).config.topology
    assert [(s.name, s.level) for s in topology.switches] == [("a", 0), ("b", 0), ("island", 0), ("m", 1), ("t", 2)]
    assert topology.levels() == 3
    assert topology.above() == {
        "n1": ("a", "m", "t"),
        "n2": ("b", "b", "t"),
        "n3": ("island", "island", "island"),
        "n4": ("island", "island", "island"),
    }


def test_blocks(write: Write, whole: str) -> None:
    text = "BlockName=b1 Nodes=n1\nBlockName=b2 Nodes=n2\nBlockName=b3 Nodes=n[3-4]\nBlockSizes=1,2\n"
    topology = load(write(whole + BLOCK, topology_conf=text)).config.topology
    base = (Switch("b1", 0, ("n1",)), Switch("b2", 0, ("n2",)), Switch("b3", 0, ("n3", "n4")))
    joined = (Switch("b[1-2]", 1, ("n1", "n2"), ("b1", "b2")), Switch("b3", 1, ("n3", "n4"), ("b3",)))
    assert topology == Topology("block", (*base, *joined), (1, 2))


def test_all_nodes_are_meant_by_all(write: Write, whole: str) -> None:
    topology = load(write(whole + TREE, topology_conf="SwitchName=s Nodes=ALL\n")).config.topology
    assert topology.switches == (Switch("s", 0, ("n1", "n2", "n3", "n4")),)


def test_nodes_that_the_cluster_has_not(write: Write, whole: str) -> None:
    """A file that several clusters share names more; that causes a warning only."""
    loaded = load(write(whole + TREE, topology_conf="SwitchName=s Nodes=n[1-6]\n"))
    assert loaded.config.topology.switches == (Switch("s", 0, ("n1", "n2", "n3", "n4")),)
    assert loaded.warnings == ("topology.conf:1: n5 is not a node of this cluster; 2 such are left out",)


@pytest.mark.parametrize("word", ["topology/flat", "topology/default", "topology/none"])
def test_a_flat_network_needs_no_file(write: Write, whole: str, word: str) -> None:
    loaded = load(write(whole + f"TopologyPlugin={word}\n", topology_conf="nonsense\n"))
    assert (loaded.config.topology, loaded.files) == (Topology(), ("slurm.conf",))


#: Plugin, file, and all that is said of it.
WRONG = [
    (TREE, "SwitchName=s Nodes=n[1-\n", None),
    (TREE, "SwitchName=s Nodes=n1\nSwitchName=s Nodes=n2\n", ["topology.conf:2: switch s is given twice"]),
    (TREE, "SwitchName=s Nodes=n1\nSwitchName=t Nodes=n[1-2]\n", ["topology.conf:2: node n1 is under s and t"]),
    (TREE, "SwitchName=t Switches=x,y\n", ["topology.conf:1: switch x is not described"]),
    (
        TREE,
        "SwitchName=a Nodes=n1\nSwitchName=t Switches=x,a\nSwitchName=u Switches=t\n",
        ["topology.conf:2: switch x is not described"],
    ),
    (
        TREE,
        "SwitchName=t Switches=a,u\nSwitchName=a Nodes=n1\nSwitchName=u Switches=v\nSwitchName=v Switches=u\n",
        ["topology.conf:3: switch u is above itself"],
    ),
    (TREE, "SwitchName=t Switches=t\n", ["topology.conf:1: switch t is above itself"]),
    (
        TREE,
        "SwitchName=a Nodes=n1\nSwitchName=t Switches=a Nodes=n2\n",
        ["topology.conf:2: switch t has both Nodes and Switches"],
    ),
    (
        TREE,
        "SwitchName=a Nodes=n1\nSwitchName=t Switches=a\nSwitchName=u Switches=a\n",
        ["topology.conf:3: switch a is under t and u"],
    ),
    (TREE, "SwitchName=t Switches=a[\n", None),
    (TREE, "SwitchName=s Nods=n1\n", ["topology.conf:1: unknown parameter Nods (did you mean Nodes?)"]),
    (TREE, "Switchname=s\nSwichName=t Nodes=n1\n", ["topology.conf:2: unknown parameter SwichName (did you mean SwitchName?)"]),
    (TREE, "BlockName=b Nodes=n1\n", ["topology.conf:1: TopologyPlugin=topology/tree reads switch lines; BlockName is none"]),
    (BLOCK, "SwitchName=b Nodes=n1\n", ["topology.conf:1: TopologyPlugin=topology/block reads block lines; SwitchName is none"]),
    (BLOCK, "BlockName=a Nodes=n1\nBlockName=b Nodes=n1\n", ["topology.conf:2: node n1 is in a and b"]),
    (
        BLOCK,
        "BlockName=a Nodes=n1\nBlockSizes=2\n",
        ["topology.conf:1: block a has 1 nodes, BlockSizes asks for 2"],
    ),
    *(
        (
            BLOCK,
            f"BlockName=a Nodes=n1\nBlockSizes={sizes}\n",
            [f"topology.conf:2: BlockSizes: {sizes} is no rising list of a size and powers of two of it"],
        )
        for sizes in ("1,3", "2,1", "0", "x", "1,1", "4,6")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "text", "expected"), WRONG, ids=[repr(text) for _, text, _ in WRONG])
def test_mistakes(write: Write, whole: str, plugin: str, text: str, expected: list[str] | None) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(whole + plugin, topology_conf=text))
    found = [str(problem) for problem in error.value.problems]
    if expected is None:
        assert len(found) == 1 and found[0].startswith("topology.conf:1: ")
    else:
        assert found == expected


@pytest.mark.parametrize("plugin", ["tree", "block"])
def test_the_file_is_missing(write: Write, whole: str, plugin: str) -> None:
    """As in Slurm: it goes on without a topology."""
    loaded = load(write(whole + f"TopologyPlugin=topology/{plugin}\n"))
    wanted = (
        f"topology.conf: TopologyPlugin=topology/{plugin} reads this file, and it is not there: all nodes are alike"
    )
    assert (loaded.warnings, loaded.config.topology) == ((wanted,), Topology())


YAML = """
- topology: fat
  cluster_default: false
  flat: true
- topology: racks
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "s[1-2]"}
      - {switch: s1, nodes: "n[1-2]"}
      - {switch: s2, nodes: "n[3-4]"}
"""


def test_yaml_says_the_same_as_lines(write: Write, whole: str) -> None:
    lines = "SwitchName=top Switches=s[1-2]\nSwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n"
    old = load(write(whole + TREE, topology_conf=lines)).config
    new = load(write(whole, topology_yaml=YAML, topology_conf="nonsense"))
    assert (new.config.topology, new.config.topology_plugin) == (old.topology, "topology/tree")
    assert [one.word for one in new.ignored] == ["fat"]


def test_blocks_in_yaml(write: Write, whole: str) -> None:
    text = "- {topology: b, block: {block_sizes: [2, 4], blocks: [{block: b1, nodes: 'n[1-2]'}, {block: b2, nodes: 'n[3-4]'}]}}"
    topology = load(write(whole, topology_yaml=text)).config.topology
    assert topology.block_sizes == (2, 4)
    assert [(one.name, one.level, one.nodes) for one in topology.switches] == [
        ("b1", 0, ("n1", "n2")),
        ("b2", 0, ("n3", "n4")),
        ("b[1-2]", 1, ("n1", "n2", "n3", "n4")),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tree: 1", "expected a list of topologies: - topology: NAME"),
        ("- topology: x", "topology x: expected tree, block or flat (others are not there)"),
        ("- {topology: x, tree: {switches: 5}}", "switches is no list"),
        ("- {topology: x, tree: {switches: [5]}}", "switches: each entry needs `switch: NAME`"),
        ("- {topology: x, tree: {switches: [{switch: s, children: s}]}}", "switch s is above itself"),
        ("- {topology: x, block: {block_sizes: [3, 4], blocks: []}}", None),
        ("- [", None),
        ("- topology: !!python/object:os.system x", None),
    ],
)
def test_mistakes_in_yaml(write: Write, whole: str, text: str, problem: str | None) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(whole, topology_yaml=text))
    found = [str(one) for one in error.value.problems]
    assert len(found) == 1 and found[0].startswith("topology.yaml: ")
    if problem is not None:
        assert found == [f"topology.yaml: {problem}"]


@pytest.mark.parametrize("text", ["SwitchName=s\n", "# nothing\n"])
def test_a_switch_without_nodes_is_no_mistake(write: Write, whole: str, text: str) -> None:
    topology = load(write(whole + TREE, topology_conf=text)).config.topology
    assert topology.above() == {}


# ---- licenses ----------------------------------------------------------------------------------------------------


def test_licenses(write: Write, whole: str) -> None:
    loaded = load(write(whole + "Licenses=matlab:10,ansys@srv:2,idl\n"))
    assert loaded.config.licenses == (("matlab", 10), ("ansys@srv", 2), ("idl", 1))
    assert dict(loaded.config.shown)["Licenses"] == "matlab:10,ansys@srv:2,idl:1"


@pytest.mark.parametrize("text", ["a:x", "a,a:2", ":3", "a:-1", "a|b", "a b", f"a:{LICENSES_MAX + 1}", "a,,b"])
def test_licenses_that_are_none(write: Write, whole: str, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(whole + f'Licenses="{text}"\n'))
    assert [(p.file, p.line) for p in error.value.problems] == [("slurm.conf", 6)]
    with pytest.raises(BadValue):
        parse_licenses(text)


@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9_.@+-]{0,9}", fullmatch=True), st.integers(0, LICENSES_MAX), min_size=1)
)
def test_licenses_come_back(wanted: dict[str, int]) -> None:
    licenses = tuple(wanted.items())
    assert parse_licenses(format_licenses(licenses)) == licenses
    assert parse_licenses(format_licenses(licenses).replace(":", "=")) == licenses


# ---- values/topology.py ------------------------------------------------------------------------------------------


@st.composite
def trees(draw: st.DrawFn) -> Topology:
    """A forest over n0, n1, ...: leaves first, then switches over some that have none above them yet."""
    made, node = [], 0
    for number in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 3))
        made.append(Switch(f"s{number}", 0, tuple(f"n{i}" for i in range(node, node + size))))
        node += size
    free = list(made)
    while len(free) > 1 and draw(st.booleans()):
        below = [free.pop(draw(st.integers(0, len(free) - 1))) for _ in range(draw(st.integers(1, len(free))))]
        nodes = tuple(n for switch in below for n in switch.nodes)
        level = 1 + max(switch.level for switch in below)
        free.append(Switch(f"s{len(made)}", level, nodes, tuple(s.name for s in below)))
        made.append(free[-1])
    return Topology("tree", tuple(sorted(made, key=lambda s: s.level)))


@given(trees())
def test_a_node_has_one_switch_at_each_level(topology: Topology) -> None:
    by_name = {switch.name: switch for switch in topology.switches}
    above = topology.above()
    assert sorted(above) == sorted(n for s in topology.switches if s.level == 0 for n in s.nodes)
    for node, chain in above.items():
        assert len(chain) == topology.levels()
        assert all(node in by_name[name].nodes and by_name[name].level <= i for i, name in enumerate(chain))
        levels = [by_name[name].level for name in chain]
        assert levels == sorted(levels)
        for switch in topology.switches:  # none is left out at its own level
            assert node not in switch.nodes or chain[switch.level] == switch.name
