"""The compiled planner's modules: who may cimport whom, and that its page names them all.

import-linter does not read Cython, so this does.
"""

import ast
import re

import tidytree as tree

from ctld.core.queue.gpu_sharing import mix_of
from ctld.core.state.state import ClusterState

FOLDER = tree.ROOT / "_fastsched"
CIMPORT = re.compile(r"^from (_fastsched\.[\w.]+) cimport", re.M)


def cimports() -> dict[str, set[str]]:
    """Each module, declaration and body together, and those that it cimports."""
    found: dict[str, set[str]] = {}
    for path in sorted([*FOLDER.rglob("*.pxd"), *FOLDER.rglob("*.pyx")]):
        name = ".".join(path.relative_to(tree.ROOT).with_suffix("").parts)
        found.setdefault(name, set()).update(set(CIMPORT.findall(path.read_text(encoding="utf-8"))) - {name})
    return found


def test_no_module_cimports_itself_by_way_of_others() -> None:
    assert tree.circles(cimports()) == []


def test_nothing_but_parts_of_the_replay_is_included_as_text() -> None:
    """There a call through a pointer, or an inline body in a declaration, took some hundredths longer."""
    assert [tree.name_of(path) for path in FOLDER.rglob("*.pxi") if not path.name.startswith("replay_")] == []


def test_the_pages_name_their_modules() -> None:
    for package in sorted({path.parent for path in FOLDER.glob("*/*.pxd")}):
        page = (package / "__init__.py").read_text(encoding="utf-8")
        modules = {path.stem for path in package.glob("*.p[yx][xd]")}
        assert [name for name in sorted(modules) if not re.search(rf"\b{name}\b", page)] == []


def test_the_list_in_the_page_is_the_order_of_cimports() -> None:
    """A module cimports only those above it in the list (or in its own line) of planner/__init__.py."""
    page = (FOLDER / "planner" / "__init__.py").read_text(encoding="utf-8")
    listed = [re.findall(r"\w+", line.partition(":")[0].replace("only .pxd", "")) for line in page.split("\n- ")[1:]]
    place = {name: number for number, names in enumerate(listed) for name in names}
    wrong = [
        f"{module} cimports {used}"
        for module, uses in cimports().items()
        if module.startswith("_fastsched.planner.")
        for used in uses
        if place[used.rpartition(".")[2]] > place[module.rpartition(".")[2]]
    ]
    assert wrong == []


#: What only the simulator calls: it replays workloads, and orders them by published scores in double precision.
SIMULATORS = {"replay", "replay_reference", "run_on_nodes", "noderun", "noderun_reference"}


def simulators_used(text: str) -> set[str]:
    """Those of them that a module names."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("_fastsched"):
            found |= {*node.module.split("."), *(alias.name for alias in node.names)} if node.module else set()
        elif isinstance(node, ast.Import):
            found |= {
                part for alias in node.names if alias.name.startswith("_fastsched.") for part in alias.name.split(".")
            }
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_fastsched":
            found.add(node.attr)
    return found & SIMULATORS


def test_no_float_of_the_simulator_decides_in_a_controller() -> None:
    """Invariant 9 of ARCHITECTURE.md."""
    used = {tree.name_of(path): simulators_used(path.read_text(encoding="utf-8")) for path in tree.sources("ctld")}
    assert {name: found for name, found in used.items() if found} == {}


def test_a_controller_whose_policy_is_best_fit_calls_no_placement() -> None:
    state = ClusterState()
    state.gpus.share_units = {"shard": 4}
    assert mix_of(state) is None


def test_a_use_of_the_simulators_engines_is_seen() -> None:
    assert simulators_used("from _fastsched import run_on_nodes\n") == {"run_on_nodes"}
    assert simulators_used("import _fastsched\nx = _fastsched.replay(1)\n") == {"replay"}
    assert simulators_used("from _fastsched.noderun import x\n") == {"noderun"}
