"""The code map in ARCHITECTURE.md: its column of imports is what the code imports, and every module is in one row."""

import re
from pathlib import Path

import tidytree as tree

ROOTS = (*tree.PACKAGES, "sim", "rest", "pamd", "sdk", "tools")
MAP = tree.ROOT / "ARCHITECTURE.md"


def rows(text: str) -> list[tuple[list[str], list[str]]]:
    """The rows of the code map: the modules of the first column by their dotted names, and the names in the last one."""
    table = text.partition("| folder | contents | imports |\n")[2].partition("\n\n")[0]
    found = []
    for line in table.splitlines()[1:]:
        head, *_, imports = (cell.strip() for cell in line.strip("|").split("|"))
        folder, names = "", list[str]()
        for path in re.findall(r"`([^`]+)`", head):
            parent, _, name = path.rstrip("/").rpartition("/")
            folder = parent or (folder if names else "")
            names.append(f"{folder}/{name}".strip("/").removesuffix(".py").removesuffix(".pyx").replace("/", "."))
        found.append((names, [] if imports in ("", "nothing") else imports.split(", ")))
    return found


def is_in(module: str, names: list[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def full_name(name: str, row: list[str]) -> str:
    """A name in the last column: of a top-level package or what is in it, or of a neighbour of the row's modules."""
    return name if name.partition(".")[0] in ROOTS else f"{row[0].partition('.')[0]}.{name}"


def module_of(path: Path) -> str:
    name = ".".join(path.relative_to(tree.ROOT).with_suffix("").parts)
    return name if name.count(".") == 1 else name.removesuffix(".__init__")


def exists(module: str) -> bool:
    """Whether the name is that of a module, and not of something in one."""
    path = tree.ROOT.joinpath(*module.split("."))
    return path.is_dir() or any(path.with_suffix(suffix).exists() for suffix in (".py", ".pyx"))


def imports(path: Path) -> set[str]:
    """The project's modules that a file imports. A top-level package itself counts as nothing: it has no code to use."""
    names = (name for name in tree.imported(tree.tree_of(path)) if name.partition(".")[0] in ROOTS)
    modules = {name if exists(name) else name.rpartition(".")[0] for name in names}
    return {module for module in modules if "." in module or module == "_fastsched"}


def differences(names: list[str], listed: list[str], used: set[str]) -> list[str]:
    """What a row's modules import and its column lacks, and the reverse."""
    allowed = [full_name(name, names) for name in listed]
    outside = sorted(module for module in used if not is_in(module, names))
    missing = [f"{names[0]}: imports {module}" for module in outside if not is_in(module, allowed)]
    return missing + [
        f"{names[0]}: does not import {name}" for name in allowed if not any(is_in(m, [name]) for m in outside)
    ]


def test_the_column_is_what_the_code_imports() -> None:
    found = []
    used = {module_of(path): imports(path) for path in tree.sources(*ROOTS)}
    for names, listed in rows(MAP.read_text(encoding="utf-8")):
        of_row = set().union(*(modules for module, modules in used.items() if is_in(module, names)))
        found += differences(names, listed, of_row)
    assert found == []


def test_every_module_is_in_one_row() -> None:
    of_map = [names for names, _ in rows(MAP.read_text(encoding="utf-8"))]
    empty = {"ctld.__init__", "nodedaemon.__init__"}  # set a variable, or are empty
    places = {module_of(path): sum(is_in(module_of(path), names) for names in of_map) for path in tree.sources(*ROOTS)}
    assert {module: count for module, count in places.items() if count != 1 and module not in empty} == {}


def test_a_wrong_column_is_seen() -> None:
    text = "| folder | contents | imports |\n|---|---|---|\n| `ctld/rpc/`, `agents.py` | text | core, penstock.values |\n\n| x |"
    assert rows(text) == [(["ctld.rpc", "ctld.agents"], ["core", "penstock.values"])]
    assert differences(*rows(text)[0], {"ctld.rpc.gate", "ctld.agents", "ctld.core.state", "accounting.schema"}) == [
        "ctld.rpc: imports accounting.schema",
        "ctld.rpc: does not import penstock.values",
    ]
