"""Which planner is picked, and what setup.py promises."""

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import ANSWER_S

import _fastsched
from _fastsched import reference

ROOT = Path(__file__).parents[2]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S, check=False
    )


def test_the_compiled_planner_is_picked_where_it_was_built() -> None:
    compiled = pytest.importorskip("_fastsched.plan", reason="the planner was not compiled").plan
    assert _fastsched.COMPILED
    assert _fastsched.plan is compiled


def test_the_oracle_is_picked_where_nothing_was_built() -> None:
    done = python(
        "import sys; sys.modules['_fastsched.plan'] = None\n"
        "import _fastsched; print(_fastsched.COMPILED, _fastsched.plan.__module__)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("False _fastsched.reference\n", "", 0)


def test_a_compiled_planner_that_lacks_something_is_not_passed_over() -> None:
    done = python("import sys; sys.modules['numpy'] = None\nimport _fastsched")
    assert done.returncode == 1
    assert "numpy" in done.stderr


def test_both_planners_have_the_same_arguments() -> None:
    compiled = pytest.importorskip("_fastsched.plan", reason="the planner was not compiled").plan
    names = list(inspect.signature(reference.plan).parameters)
    assert list(inspect.signature(compiled).parameters) == names == ["given"]


def test_a_planner_built_for_other_columns_says_so() -> None:
    done = python(
        "import sys; sys.modules['_fastsched.plan'] = None\n"
        "from _fastsched import contract; del contract.GROUPS['jobs']['het'], sys.modules['_fastsched.plan']\n"
        "import _fastsched.plan"
    )
    assert done.returncode == 1
    assert "ImportError: _fastsched.plan: built for other columns than contract.py has; build again" in done.stderr


def test_the_name_and_version_come_from_the_source() -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--name", "--version"], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S
    )
    version = (ROOT / "penstock" / "__init__.py").read_text().split('__version__ = "')[1].split('"')[0]
    assert done.stdout.split()[-2:] == ["penstock", version]


def test_a_build_without_a_compiler_warns_and_goes_on(tmp_path: Path) -> None:
    for name in ("setup.py", "pyproject.toml", "LICENSE", "penstock/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "_fastsched").mkdir()
    (tmp_path / "_fastsched" / "plan.pyx").write_text("answer = 42\n")  # any extension: the compiler never sees it
    (tmp_path / "_fastsched" / "search.pxd").write_text("")
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tmp_path,
        env={**os.environ, "CC": str(tmp_path / "no-such-compiler")},
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert done.returncode == 0, done.stderr
    assert 'building extension "_fastsched.plan" failed' in done.stderr + done.stdout
    assert not list(tmp_path.rglob("*.so"))
