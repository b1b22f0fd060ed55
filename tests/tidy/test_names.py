"""No public name of a type stands for two things: classes, aliases of types, and the planner's structs."""

import ast
import re
from collections.abc import Iterator

import tidytree as tree

FOLDERS = (*tree.PACKAGES, *tree.OPTIONAL_PACKAGES, "tools", "bench")
#: Names that stand for two things still; a name goes when one of the two has another.
UNPAID: set[str] = set()
#: A name of a type: `Job`, not `JOB` and not a type variable's `J`.
TYPE_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
#: A declaration in Cython. A .pyx without its .pxd declares its own; a .pxi is a part of the module that includes it.
CYTHON_TYPE = re.compile(r"^\s*(?:cdef|ctypedef) (?:packed )?(?:struct|union|enum|class) (\w+)", re.M)


def public_types(module: ast.Module) -> Iterator[str]:
    """The classes and the aliases that a module defines at its top level."""
    for node in module.body:
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name))
            ):
                if TYPE_NAME.fullmatch(name):
                    yield name
            case _ if type(node).__name__ == "TypeAlias":  # since Python 3.12
                yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def doubles(names: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that several places define; each comes with its place."""
    places: dict[str, list[str]] = {}
    for name, place in names:
        places.setdefault(name, []).append(place)
    return {name: where for name, where in places.items() if len(where) > 1}


def cython_types() -> list[tuple[str, str]]:
    """The types that the compiled modules declare. A declaration that its body repeats counts once."""
    paths = sorted(path for name in ("_fastsched", "rest") for path in (tree.ROOT / name).rglob("*.p[yx][xdi]"))
    found = {
        (name, tree.name_of(path.with_suffix("")))
        for path in paths
        for name in CYTHON_TYPE.findall(path.read_text(encoding="utf-8"))
        if not name.startswith("_")
    }
    return sorted(found)


def test_no_public_type_name_stands_for_two_things() -> None:
    names = [(name, tree.name_of(path)) for path in tree.sources(*FOLDERS) for name in public_types(tree.tree_of(path))]
    assert len(cython_types()) > 30
    found = doubles([*names, *cython_types()])
    assert {name: where for name, where in found.items() if name not in UNPAID} == {}
    assert found.keys() >= UNPAID


def test_all_kinds_of_names_are_seen() -> None:
    source = "class Job: ...\nKey = tuple[int, int]\nRow: TypeAlias = Any\nT = TypeVar('T')\nLIMIT = 1\n_Key = int\n"
    assert list(public_types(ast.parse(source))) == ["Job", "Key", "Row"]
    assert CYTHON_TYPE.findall("cdef struct Node:  # it\n    int n\ncdef class Run:\ncdef enum:\n    A = 1\n") == [
        "Node",
        "Run",
    ]
    assert doubles([("Job", "a"), ("Key", "a"), ("Job", "b")]) == {"Job": ["a", "b"]}
