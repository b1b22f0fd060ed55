"""What would be installed: the packages, all of them, with the files they need, and nothing else.

Asked of setuptools' own distribution object, without building: a wheel would compile the planner again.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tidytree as tree

ASK = """
import json, sys, distutils.core
sys.argv = ["setup.py", "--version"]
found = distutils.core.run_setup("setup.py", stop_after="init")
print(json.dumps({
    "packages": sorted(found.packages),
    "data": {k: list(v) for k, v in found.package_data.items()},
    "requires": found.install_requires,
    "python": str(found.python_requires),
    "entry_points": found.entry_points,
}))
"""


@pytest.fixture(scope="module")
def setup() -> dict:
    """What setup.py says to setuptools."""
    code = "import setuptools\n" + ASK
    done = subprocess.run([sys.executable, "-c", code], cwd=tree.ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_top_level_packages(setup: dict) -> None:
    there = {p for p in tree.PACKAGES + tree.OPTIONAL_PACKAGES if (tree.ROOT / p / "__init__.py").exists()}
    assert {name.split(".")[0] for name in setup["packages"]} == there | {"penstock-stubs"}
    assert there >= set(tree.PACKAGES)


def test_every_folder_with_code_is_installed(setup: dict) -> None:
    folders = {p.parent.relative_to(tree.ROOT) for p in tree.sources()} | {Path("penstock/v1")}
    covered_by_data = {Path("ctld/store/migrations"), Path("ctld/store/migrations/versions")}
    missing = {".".join(f.parts) for f in folders - covered_by_data} - set(setup["packages"])
    assert missing == set()


def test_types_travel_with_the_package(setup: dict) -> None:
    assert "py.typed" in setup["data"]["penstock"]
    assert (tree.ROOT / "penstock" / "py.typed").exists()
    assert set(setup["data"]["penstock-stubs"]) == {"py.typed", "*.pyi"}
    assert (tree.ROOT / "packaging/stubs/penstock-stubs/py.typed").read_text() == "partial\n"


def test_every_console_script_has_its_function(setup: dict) -> None:
    for line in setup["entry_points"]["console_scripts"]:
        module, _, function = line.partition("=")[2].strip().partition(":")
        path = tree.ROOT / (module.replace(".", "/") + ".py")
        assert path.exists(), f"{line}: {path.name} is missing"
        names = {node.name for node in tree.tree_of(path).body if hasattr(node, "name")}
        assert function in names, f"{line}: no such function"


def test_generated_code_runs_with_the_lower_bounds(setup: dict) -> None:
    """The bounds in setup.py are those that the generated files ask for."""
    grpc_file = (tree.GENERATED / "controller_pb2_grpc.py").read_text()
    generator = grpc_file.partition("GRPC_GENERATED_VERSION = '")[2].partition("'")[0]
    runtime = (tree.GENERATED / "common_pb2.py").read_text().partition("Protobuf Python Version: ")[2].split("\n")[0]
    assert f"grpcio>={generator}" in setup["requires"]
    assert f"protobuf>={runtime}" in setup["requires"]
    assert f"grpcio-tools=={generator}" in (tree.ROOT / "requirements-dev.lock").read_text().splitlines()


def test_one_python_version_everywhere(setup: dict) -> None:
    tools = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["tool"]
    assert setup["python"] == ">=3.11"
    assert tools["ruff"]["target-version"] == "py311"
    assert tools["mypy"]["python_version"] == "3.11"
