"""The project's files for the tidy tests."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.sourcefacts import circles as circles

ROOT = Path(__file__).resolve().parents[2]
#: Top-level packages that are installed. Everything else (tests, tools, bench, proto) stays in the source tree.
PACKAGES = ("penstock", "ctld", "nodedaemon", "cli", "accounting", "_fastsched")
OPTIONAL_PACKAGES = ("sim", "rest", "pamd", "sdk")
GENERATED = ROOT / "penstock" / "v1"


def sources(*folders: str) -> Iterator[Path]:
    """Hand-written Python files of these top-level folders (all installed packages when none is given)."""
    for folder in folders or PACKAGES + OPTIONAL_PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if GENERATED not in path.parents:
                yield path


def parse(path: Path) -> ast.Module:
    """The parsed file. Without the garbage collector, which takes twice as long as the parser: it would walk through the
    trees that there are again and again, and a tree has no garbage."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        gc.enable()


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed file; parsed once for all tests. It stays, so the garbage collector of later tests leaves it out."""
    module = parse(path)
    gc.freeze()
    return module


@cache
def nodes_of(module: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a parsed file in the order of `ast.walk`; walked once for all tests, which takes longer than to parse."""
    return tuple(ast.walk(module))


def imported(module: ast.Module) -> list[str]:
    """Every module that a file names in an import, also inside functions. `from a import b` counts as a.b."""
    names: list[str] = []
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where things come from"
            names += [f"{node.module}.{a.name}" for a in node.names]
    return names


def name_of(path: Path) -> str:
    """The path from the project's root, as failures print it."""
    return str(path.relative_to(ROOT))
