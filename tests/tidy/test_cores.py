"""What the cores may import of the project: a list of what is allowed, so that a new module is forbidden until it is listed.

The import contracts in pyproject.toml forbid clocks, chance and I/O; this is the other half.
"""

import ast

import tidytree as tree

ALLOWED = {
    "ctld/core": ("ctld.core", "penstock.values", "_fastsched"),
    "nodedaemon/core": ("nodedaemon.core", "penstock.values"),
    "_fastsched": ("_fastsched",),
    "penstock/values": ("penstock.values",),
}


def outside(folder: str, names: list[str]) -> list[str]:
    """Names of the project's modules that this folder may not import."""
    ours = tree.PACKAGES + tree.OPTIONAL_PACKAGES
    allowed = ALLOWED[folder]
    return [n for n in names if n.split(".")[0] in ours and not any(n == a or n.startswith(a + ".") for a in allowed)]


def test_cores_import_only_what_is_listed() -> None:
    found = [
        f"{tree.name_of(path)} imports {name}"
        for folder in ALLOWED
        for path in tree.sources(folder)
        for name in outside(folder, tree.imported(tree.tree_of(path)))
    ]
    assert found == []


def test_the_check_sees_what_it_should() -> None:
    source = "import ctld.rpc\nfrom penstock.v1 import node_pb2\nfrom penstock import values\ndef f():\n    from ctld import main"
    seen = outside("ctld/core", tree.imported(ast.parse(source)))
    assert sorted(seen) == ["ctld.main", "ctld.rpc", "penstock.v1.node_pb2"]
    assert outside("ctld/core", tree.imported(ast.parse("import numpy, msgspec\nfrom _fastsched import plan"))) == []
