"""How often tests reach for what is private: no more than today.

A test that reads `thing._part` breaks when the inside changes and the behaviour does not. Prefer, in this order: prove it from
outside; a method of a kit (tests/support, tests/*/..kit.py); a public attribute of the class, with a line in its docstring.
Where it stays, a comment says why, on its line or above: `# private: the fault is inside the node`.

Counted are attributes with one leading underscore of anything but `self`, `cls` and `super()`, imports of such names, and such
names given to setattr. The public methods of named tuples (`_replace`, ...), `os._exit`, and other people's programs in
tests/clients/cases are not.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tidytree as tree

#: It may shrink and never grows; who makes it shrink writes the new number here.
AT_MOST = 10
#: A reason has some words.
REASON = re.compile(r"# private: \S+ \S+")
#: Underscored, and public all the same: of named tuples, of rows of SQLAlchemy, of `os`.
PUBLIC = frozenset(("_replace", "_fields", "_field_defaults", "_asdict", "_make", "_mapping", "_exit"))
SETTERS = ("setattr", "getattr", "delattr")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def _is_own(value: ast.expr) -> bool:
    """`self`, `cls`, `super()`."""
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "super")


def uses(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each use."""
    for node in tree.nodes_of(module):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in SETTERS:
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            names = [text.rpartition(".")[2] for text in texts]
            yield from ((node.lineno, name) for name in names if _is_private(name))


def test_each_way_is_seen() -> None:
    said = "import a\nfrom a import _b\na._c\na.x.setattr(a, '_d', 1)\nsetattr('a._e', 2)\na.b._replace(c=1)\n"
    said += "class A:\n  def f(self): self._g; super()._h; self.a._i\n"
    assert sorted(uses(ast.parse(said))) == [(2, "_b"), (3, "_c"), (4, "_d"), (5, "_e"), (8, "_i")]


def _ours() -> list[Path]:
    return [path for path in tree.sources("tests") if "tests/clients/cases/" not in tree.name_of(path)]


def test_each_has_a_reason() -> None:
    bad = []
    for path in _ours():
        lines = ["", *path.read_text().split("\n")]
        for line, name in uses(tree.tree_of(path)):
            if not any(REASON.search(text) for text in lines[line - 1 : line + 1]):
                bad.append(f"{tree.name_of(path)}:{line} {name}")
    assert not bad, f"no comment `# private: why` at {', '.join(bad)}"


def test_private_names_are_read_no_more_often() -> None:
    found = Counter({tree.name_of(path): number for path in _ours() if (number := len(list(uses(tree.tree_of(path)))))})
    most = ", ".join(f"{name} {number}" for name, number in found.most_common(5))
    assert found.total() <= AT_MOST, f"tests read private names {found.total()} times, at most {AT_MOST}; most: {most}"
