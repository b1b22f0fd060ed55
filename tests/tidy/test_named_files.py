"""A docstring or comment that names a source file names one that exists: by its path, or by the end of it."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tidytree as tree

SUFFIXES = (".py", ".pyx", ".pxd")
NAMED = re.compile(r"(?<![\w./*{<-])[a-z_][\w./-]*\.(?:py|pyx|pxd)\b")
#: Files of other programs that a text is about, by the file that names them.
OTHERS = {
    ("tests/clients/cases/t_parsl.py", "interchange.py"),
    ("tests/clients/cases/t_signac_flow.py", "project.py"),
}


@cache
def sources() -> tuple[Path, ...]:
    """All source files of the project, tests and tools included."""
    folders = (*tree.PACKAGES, *tree.OPTIONAL_PACKAGES, "bench", "examples", "proto", "tests", "tools")
    found = [path for folder in folders for path in (tree.ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return (*sorted(found), tree.ROOT / "setup.py")


@cache
def ends() -> frozenset[str]:
    """All paths of source files, and what remains of them without their first folders."""
    paths = [path.relative_to(tree.ROOT).parts for path in sources()]
    return frozenset("/".join(parts[at:]) for parts in paths for at in range(len(parts)))


def texts(source: str) -> Iterator[str]:
    """The docstrings and comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node, clean=False) or ""
    if ".py" in source:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        yield from (token.string for token in tokens if token.type == tokenize.COMMENT)


def missing(source: str) -> list[str]:
    """The files that its docstrings and comments name, and that do not exist."""
    if ends().issuperset(NAMED.findall(source)):
        return []  # whatever is a comment
    return [name for text in texts(source) for name in NAMED.findall(text) if name not in ends()]


def test_files_that_are_named_exist() -> None:
    bad = []
    for path in sources():
        if path.suffix == ".py" and tree.GENERATED not in path.parents:
            whole = tree.name_of(path)
            bad += [
                f"{whole} names {name}"
                for name in missing(path.read_text(encoding="utf-8"))
                if (whole, name) not in OTHERS
            ]
    assert bad == []


def test_a_name_that_is_gone_is_seen() -> None:
    source = '"""See model.py and lifecycle/job_life.py, ctld/core/clock.py."""\nx = 1  # as in gone/away.py\n'
    assert missing(source) == ["model.py", "gone/away.py"]
