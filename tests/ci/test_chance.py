"""What could make a test fail by chance, by what its worker did before: examples of hypothesis, garbage of others."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from effort import FULL
from hypothesis import given
from hypothesis import strategies as st
from patience import ANSWER_S

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests/support")!r}]
from tests.conftest import _garbage
"""
LEAVES = """
class Left:
    def __init__(self):
        self.circle = self

    def __del__(self):
        raise ValueError("of test_leaves")


def test_leaves():
    Left()
"""
COLLECTS = """
import gc


def test_collects():
    gc.collect()
"""


def drawn() -> list[tuple[str, int]]:
    """The examples of a property."""
    found = []

    @given(st.text(max_size=9), st.integers(0, 2**40))
    def collect(text: str, number: int) -> None:
        found.append((text, number))

    collect()
    return found


@pytest.mark.skipif(FULL, reason="draws other examples in each run")
def test_examples_do_not_depend_on_loaded_modules(tmp_path: Path) -> None:
    before = drawn()
    path = tmp_path / "constants_of_the_project.py"
    path.write_text("\n".join(f"C{n} = {n + 7_000_000}\nS{n} = 'word{n}'" for n in range(90)))
    spec = importlib.util.spec_from_file_location("constants_of_the_project", path)
    assert spec is not None and spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        assert drawn() == before
    finally:
        del sys.modules[spec.name]


def test_garbage_fails_the_module_that_left_it(tmp_path: Path) -> None:
    """Not the next one, in which the collector runs."""
    for name, text in {"conftest": CONFTEST, "test_1_leaves": LEAVES, "test_2_collects": COLLECTS}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error::pytest.PytestUnraisableExceptionWarning\n")
    words = ["-p", "no:cacheprovider", "-p", "no:xdist", "-rA", "-q", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, timeout=ANSWER_S
    )
    ended = [line.partition(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("ERROR ", "FAILED "))]
    assert ended == ["ERROR test_1_leaves.py::test_leaves"], done.stdout
    assert "of test_leaves" in done.stdout and "PASSED test_2_collects.py::test_collects" in done.stdout
