"""The project's files as the tidy tests see them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Top-level packages that are installed. Everything else (tests, tools, bench, proto) stays in the source tree.
PACKAGES = ("penstock", "ctld", "nodedaemon", "cli", "accounting", "_fastsched")
OPTIONAL_PACKAGES = ("sim", "web")
GENERATED = ROOT / "penstock" / "v1"


def sources(*folders: str) -> Iterator[Path]:
    """Hand-written Python files of these top-level folders (all installed packages when none is given)."""
    for folder in folders or PACKAGES + OPTIONAL_PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if GENERATED not in path.parents:
                yield path


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed file; parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    """The path from the project's root, as failures print it."""
    return str(path.relative_to(ROOT))
