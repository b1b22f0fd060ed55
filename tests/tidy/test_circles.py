"""No module and no package imports itself by way of others. All imports count: those in functions and under TYPE_CHECKING too."""

from functools import cache

import grimp
import tidytree as tree


def test_a_circle_is_seen() -> None:
    assert tree.circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]
    assert tree.circles({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}, "e": {"a"}}) == [["b", "c", "d"]]
    assert tree.circles({"a": {"b"}, "b": {"c"}, "c": {"nothing"}}) == []


@cache
def imports() -> dict[str, set[str]]:
    """Each module of the installed packages, and those that it imports."""
    graph = grimp.build_graph(*tree.PACKAGES, "sim", "rest", "pamd", "sdk", cache_dir=None)
    return {m: graph.find_modules_directly_imported_by(m) & graph.modules for m in graph.modules}


def by_part(imports: dict[str, set[str]], package: str) -> dict[str, set[str]]:
    """The imports between the parts of a package: its modules, and its packages as wholes."""
    depth = package.count(".") + 2
    found: dict[str, set[str]] = {}
    for module, uses in imports.items():
        if module.startswith(f"{package}."):
            part = ".".join(module.split(".")[:depth])
            inside = {".".join(used.split(".")[:depth]) for used in uses if used.startswith(f"{package}.")}
            found.setdefault(part, set()).update(inside - {part})
    return found


def test_no_module_is_in_a_circle() -> None:
    assert tree.circles(imports()) == []


def test_the_parts_of_no_package_are_in_a_circle() -> None:
    packages = sorted({module.rpartition(".")[0] for module in imports()} - {""})
    assert [circle for package in packages for circle in tree.circles(by_part(imports(), package))] == []


def test_a_circle_of_packages_is_seen() -> None:
    modules = {"p.a.x": {"p.b.x"}, "p.b.y": {"p.a.z"}, "p.b.x": set(), "p.a.z": {"q.b"}}
    assert tree.circles(modules) == []
    assert by_part(modules, "p") == {"p.a": {"p.b"}, "p.b": {"p.a"}}
