"""The rooms are as they are said to be: the reading order of the core is the tree and its layers, and each room says what it owns."""

import ast
import re
import tomllib

import pytest
import tidytree as tree

#: Packages that are divided into rooms.
HOUSES = ("ctld/core", "ctld/rpc", "cli", "nodedaemon", "rest")


def layers(name: str) -> list[list[str]]:
    """A contract of import-linter, lowest room first."""
    with (tree.ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (found,) = [contract["layers"] for contract in contracts if contract["name"] == name]
    return [sorted(layer.split(" | ")) for layer in reversed(found)]


def reading_order(text: str) -> list[list[str]]:
    """The rooms that a text names, a line each: four blanks, the names, and what they are behind or below."""
    lines = text.partition("Reading order\n")[2].splitlines()
    heads = [match[1] for line in lines if (match := re.fullmatch(r"    ([a-z_]+(?:, [a-z_]+)*)(?:  .+)?", line))]
    return [sorted(head.split(", ")) for head in heads]


def test_the_reading_order_of_the_core_is_its_layers_and_its_tree() -> None:
    text = ast.get_docstring(tree.tree_of(tree.ROOT / "ctld/core/__init__.py"), clean=False)
    order = reading_order(text or "")
    assert order == layers("The rooms of the core")
    there = {path.stem for path in (tree.ROOT / "ctld/core").glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in (tree.ROOT / "ctld/core").glob("*/__init__.py")}
    assert {name for names in order for name in names} == there


def test_every_room_says_what_it_owns_and_never_does() -> None:
    silent = []
    for house in HOUSES:
        for path in sorted((tree.ROOT / house).glob("*/__init__.py")):
            text = ast.get_docstring(tree.tree_of(path))
            if not text or (house != "nodedaemon" and "Never" not in text):
                silent.append(tree.name_of(path))
    assert silent == []


@pytest.mark.parametrize(
    ("house", "contract"),
    [
        ("ctld/core", "The rooms of the core"),
        ("ctld/rpc", "The rooms of the services"),
        ("cli", "The rooms of the commands: a command is on top and imports no other"),
        ("nodedaemon", "The rooms of the node daemon"),
        ("rest", "The rooms of the REST daemon"),
    ],
)
def test_the_tables_of_the_map_are_in_the_order_of_the_layers(house: str, contract: str) -> None:
    text = (tree.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition(f"| `{house}/` | |\n")[2].partition("\n\n")[0]
    level = {room: number for number, names in enumerate(layers(contract)) for room in names}
    listed = [level[room] for room in re.findall(r"^\| `(\w+)` \|", table, re.M)]
    assert listed == sorted(listed)
    assert len(listed) > 1


def test_a_room_that_is_missing_is_seen() -> None:
    text = "Reading order\n    About them in a sentence.\n\n    records         what\n    clock, invariants\n                    both\n"
    assert reading_order(text) == [["records"], ["clock", "invariants"]]


def test_the_map_has_every_room() -> None:
    text = (tree.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = []
    for folder in HOUSES:
        for path in sorted((tree.ROOT / folder).glob("*/__init__.py")):
            words = " ".join((ast.get_docstring(tree.tree_of(path)) or "").split("\n\n")[0].split())
            if not words or words not in text:
                missing.append(tree.name_of(path))
    assert missing == []
