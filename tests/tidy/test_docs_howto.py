"""The recipes in docs/howto: each is linked from HACKING.md, and what they name exists.

Checked are every file, every function, class, table and field that stands beside its file, and the numbers of a
migration that the reader writes. The kits that write-a-scenario.md lists say what each of their methods does.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import tidytree as tree
from tidytree import PACKAGES, ROOT

PAGES = sorted((ROOT / "docs/howto").glob("*.md"))
FOLDERS = (*PACKAGES, "bench", "docs", "proto", "pamd", "rest", "sdk", "sim", "tests", "tools")
#: `ctld/core/dispatch.py`, also with `:Name` or `::test` behind it. What a reader is to write has a capital or a * in it.
NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[a-z0-9_./-]*)(?::+\w+)?`")
#: `NAME` of `file.py`, `file.py:NAME`, class `NAME` ... `file.py`: names that a page says are in a file.
PLACED = (
    re.compile(r"(?P<names>`[\w.]+`(?:(?:, | and | or )`[\w.]+`)*) (?:of|in|to|from) `(?P<file>[\w./]+\.py)`"),
    re.compile(
        r"`(?P<file>[\w./]+\.py)`(?:,)? (?:class|message|table) (?P<names>`[\w.]+`(?:(?:, | and | or )`[\w.]+`)*)"
    ),
    re.compile(r"`(?P<file>[\w./]+\.py)`, (?:a row of |in )(?P<names>`[\w.]+`(?:(?:, | and | or )`[\w.]+`)*)"),
    re.compile(r"(?:of|in) `(?P<file>[\w./]+\.py)`: (?P<names>`[\w.]+`(?:(?:, | and | or |, and )`[\w.]+`)*)"),
    re.compile(r"`(?P<file>[\w./]+\.py)` \((?P<names>`[\w.]+`)"),
    re.compile(r"`(?P<file>[\w./]+\.py):+(?P<names>\w+)`"),
)
#: Names that a recipe lets the reader write.
WRITTEN = {"ExtendJob", "ExtendJobRequest", "extend_job", "node_mem_mb", "command"}
VERSIONS = "ctld/store/migrations/versions/"


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_file_that_is_named_is_there(page: Path) -> None:
    missing = sorted(name for name in set(NAMED.findall(text_of(page))) if not (ROOT / name).exists())
    assert not missing, f"{page.name} names {missing}: renamed or moved?"


@cache
def names_of(path: Path) -> frozenset[str]:
    """All names that a module defines, at any depth: functions, classes, fields, tables, methods."""
    found = set()
    for node in ast.walk(tree.parse(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).rpartition(".")[2])
    return frozenset(found)


def files_called(name: str) -> list[Path]:
    """The files of the project that end in this path."""
    folders = [ROOT / folder for folder in FOLDERS if folder not in ("docs", "proto")]
    return [
        path
        for folder in folders
        for path in folder.rglob(name.rpartition("/")[2])
        if path.as_posix().endswith(f"/{name}")
    ]


def misplaced(text: str) -> list[str]:
    """Names that a text says are in a file, and are not."""
    bad = []
    for pattern in PLACED:
        for match in pattern.finditer(text):
            files = files_called(match["file"])
            names = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", match["names"].replace("`", " "))}
            for name in sorted(names - {"and", "or"} - WRITTEN):
                if not any(name in names_of(path) for path in files):
                    bad.append(f"{name} in {match['file']}")
    return bad


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_name_is_in_the_file_that_the_page_says(page: Path) -> None:
    assert misplaced(text_of(page)) == []


def test_a_name_in_the_wrong_file_is_seen() -> None:
    text = "rows of `AT_LEAST` in `ctld/core/demand/node_kinds.py`, `nothing` of `node_kinds.py`, `penstock/values/states.py:Reason`"
    assert misplaced(text) == ["nothing in node_kinds.py"]
    assert misplaced("`ctld/core/queue/rights.py`: `meddles`; `meddles` in `ctld/core/queue/rights.py`") == [
        "meddles in ctld/core/queue/rights.py"
    ]


def test_no_page_names_a_migration_by_a_number_that_ages() -> None:
    """A number in an example is taken one day; the page says NNNN, and how to find the next one."""
    bad = [page.name for page in PAGES if re.search(r"\b00\d\d(_\w+)?\b", text_of(page))]
    assert bad == []
    assert f"{VERSIONS}NNNN" in text_of(ROOT / "docs/howto/add-column.md")


#: The kits of write-a-scenario.md.
KITS = (
    "tests/core/test_scripts.py", "tests/core/cronscript.py", "tests/core/gpuscript.py", "tests/core/hetscript.py",
    "tests/core/limitscript.py", "tests/core/stepscript.py", "tests/core/world.py", "tests/node/fakectl.py",
    "tests/rpc/clusterkit.py", "tests/support/livecluster.py", "tests/support/netns.py", "tests/support/fakenvml.py",
)  # fmt: skip


@pytest.mark.parametrize("kit", KITS)
def test_a_kit_says_what_its_methods_do(kit: str) -> None:
    module = tree.parse(ROOT / kit)
    members = [node for node in module.body if isinstance(node, ast.ClassDef)]
    nodes = [*module.body, *(node for member in members for node in member.body)]
    silent = [
        f"{kit}:{node.lineno} {node.name}"
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and not node.name.startswith(("_", "test_"))
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_recipe_is_linked() -> None:
    text = (ROOT / "HACKING.md").read_text(encoding="utf-8")
    missing = [page.name for page in PAGES if f"docs/howto/{page.name}" not in text]
    assert not missing, f"HACKING.md, How to add: {missing}"
