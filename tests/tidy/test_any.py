"""How often production code says `Any`, itself or by an alias that is or holds Any: per package no more than today.

A place where the type checker knows nothing is a debt. Prefer, in this order: the type itself (a message of penstock.v1, a
record, `object` where a value is only passed on), a TypeVar or a Protocol, an alias that has its reason beside it:
`ReplyMessage` (penstock/client.py). Keyword arguments that a table collects are `Fields` (penstock/values), which become
arguments in `made_of`; values of which some are read by name are a TypedDict.

Where it stays, a comment says why: `# Any: gRPC gives the calls no types`. Above the import of `Any` it speaks for the whole
module; else it stands on the line of each use or right above it.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import tidytree as tree

from tools.sourcefacts import uses_of_any as uses

#: Package -> how often it says Any. Each may shrink and never grows; who makes it shrink writes the new number here.
AT_MOST = {
    "_fastsched": 5,
    "accounting": 6,
    "cli": 21,
    "ctld": 65,
    "nodedaemon": 20,
    "penstock": 26,
    "pamd": 0,
    "rest": 10,
    "sdk": 5,
    "sim": 15,
}


#: Package -> how often it uses an alias that is Any or holds it, as AT_MOST.
ALIASES_AT_MOST = {
    "_fastsched": 0,
    "accounting": 0,
    "cli": 4,
    "ctld": 0,
    "nodedaemon": 9,
    "penstock": 8,
    "pamd": 0,
    "rest": 0,
    "sdk": 0,
    "sim": 6,
}


def module_of(path: Path) -> str:
    return tree.name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def aliases(module: ast.Module) -> set[str]:
    """The names that a module gives to Any, or to a type that holds it."""
    found = set()
    for node in module.body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        value = node.value if isinstance(node, ast.AnnAssign | ast.Assign) else None
        if isinstance(target, ast.Name) and isinstance(value, ast.Name | ast.Subscript) and target.id[0].isupper():
            said = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
            found |= {target.id} if "Any" in said and not target.id.isupper() else set()
    return found


@cache
def all_aliases() -> dict[str, set[str]]:
    """By module: its own ones, and those that it imports, from where others may import them."""
    modules = {module_of(path): tree.tree_of(path) for path in _modules()}
    known = {name: aliases(module) for name, module in modules.items()}
    before = -1
    while before != (before := sum(map(len, known.values()))):
        for name, module in modules.items():
            known[name] |= imported(module, known)
    return known


def imported(module: ast.Module, known: dict[str, set[str]]) -> set[str]:
    froms = [node for node in tree.nodes_of(module) if isinstance(node, ast.ImportFrom)]
    return {one.name for node in froms for one in node.names if one.name in known.get(node.module or "", ())}


def alias_uses(module: ast.Module, name: str, known: dict[str, set[str]]) -> int:
    """How often a module uses such names, its own or imported ones."""
    here = known.get(name, set()) | imported(module, known)
    names = [node for node in tree.nodes_of(module) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return sum(node.id in here for node in names)


@pytest.mark.parametrize("package", AT_MOST)
def test_aliases_of_any_are_used_no_more_often(package: str) -> None:
    number = sum(alias_uses(tree.tree_of(p), module_of(p), all_aliases()) for p in tree.sources(package))
    assert number <= ALIASES_AT_MOST[package], f"{package}: {number} uses of aliases of Any"


def test_aliases_are_seen() -> None:
    known = {"a": aliases(ast.parse("Row: TypeAlias = Any\nFields = dict[str, Any]\nName = str\nCALL = Any\n"))}
    assert known == {"a": {"Row", "Fields"}}
    said = "from a import Row\nfrom b import Fields\ndef f(x: Row, y: Fields) -> list[Row]: ...\n"
    assert alias_uses(ast.parse(said), "c", known) == 2


@pytest.mark.parametrize("package", AT_MOST)
def test_any_is_said_no_more_often(package: str) -> None:
    where = {tree.name_of(path): len(uses(tree.tree_of(path))) for path in tree.sources(package)}
    number = sum(where.values())
    most = ", ".join(f"{name} {n}" for name, n in sorted(where.items(), key=lambda entry: -entry[1])[:5])
    assert number <= AT_MOST[package], f"{package} says Any {number} times, at most {AT_MOST[package]}; most: {most}"


#: A reason has some words.
REASON = re.compile(r"(#|#:) Any: \S+ \S+ \S+")


def unexplained(text: str, module: ast.Module) -> list[int]:
    """The lines whose Any has no reason. `module`: the parsed text."""
    lines = text.split("\n")
    if "Any" not in text:
        return []
    imports = [node for node in tree.nodes_of(module) if isinstance(node, ast.ImportFrom)]
    if any(_is_explained(lines, node.lineno) for node in imports if any(one.name == "Any" for one in node.names)):
        return []
    return [line for line in dict.fromkeys(uses(module)) if not _is_explained(lines, line)]


def _is_explained(lines: list[str], line: int) -> bool:
    """By the comment at the end of the line, or by those that stand above it."""
    above = line - 1
    while above and lines[above - 1].lstrip().startswith("#"):
        above -= 1
    return any(REASON.search(text) for text in lines[above:line])


def _modules() -> list[Path]:
    return [path for package in AT_MOST for path in tree.sources(package)]


def test_every_any_has_a_reason() -> None:
    bad = [
        f"{tree.name_of(path)}:{line}"
        for path in _modules()
        for line in unexplained(path.read_text(), tree.tree_of(path))
    ]
    assert not bad, f"no comment `# Any: why` at {', '.join(bad)}"


def test_reasons_are_seen() -> None:
    def reasonless(text: str) -> list[int]:
        return unexplained(text, ast.parse(text))

    assert reasonless("from typing import Any\n\nx: Any = 1\n# Any: it may be of each kind\ny: Any = 1\n") == [3]
    assert reasonless("# Any: it may be of each kind\nfrom typing import Any\n\nx: Any = 1\n") == []
    assert reasonless("from typing import Any\n\nx: Any = 1  # Any: it may be of each kind\n") == []
    assert reasonless("from typing import Any\n\nx: Any = 1  # Any: why\n") == [3]


def test_every_package_has_its_number() -> None:
    assert set(AT_MOST) == {*tree.PACKAGES, *tree.OPTIONAL_PACKAGES} & {path.name for path in tree.ROOT.iterdir()}


def test_uses_are_seen() -> None:
    said = (
        "from typing import Any\nx: Any\ndef f(a: 'list[Any]', b: int = 1) -> dict[str, Any]:\n    return {'Any': 1}\n"
    )
    assert uses(ast.parse(said)) == [2, 3, 3]
