"""`make steady` (tools/testgate/steady.py) on small projects: what it says and its exit status."""

import os
import subprocess
import sys
from pathlib import Path

import tidytree as tree
from openway import own_temporary_folder
from patience import ANSWER_S

#: Each pytest imports no other plug-in.
PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin -p pytest_timeout"}
TESTS = """
from pathlib import Path

def test_passes(): pass

def test_every_third(request):
    note = Path("runs")
    with note.open("a") as file: file.write("x")
    assert note.stat().st_size % 3, "the third"
"""


def steady(folder: Path, *words: str) -> tuple[int, list[str], str]:
    """The exit status, the lines printed, and what was said as an error."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "tools.testgate.steady", "--times", "3", "--at-once", "1", "--busy", "1", *words],
        cwd=folder, env={**environment, **own_temporary_folder(folder), **PLUGINS, "PYTHONPATH": str(tree.ROOT)},
        capture_output=True, text=True, check=False, timeout=ANSWER_S,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_failures_are_counted_and_their_output_is_kept(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    status, said, _ = steady(tmp_path, "test_a.py")
    assert status == 1
    assert said[0].startswith("test_a.py::test_every_third: failed 1 of 3 (33 %): AssertionError: the third")
    assert said[1:] == ["2 tests, 3 runs, 1 of the tests failed at least once"]
    kept = sorted(path.name for path in (tmp_path / "build" / "steady").glob("*.log"))
    assert kept == ["3.log"]


def test_all_that_pass_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    status, said, _ = steady(tmp_path, "test_a.py::test_passes")
    assert (status, said) == (0, ["1 tests, 3 runs, 0 of the tests failed at least once"])
    assert not list((tmp_path / "build" / "steady").glob("*.log"))


def test_a_name_that_selects_nothing_is_an_error(tmp_path: Path) -> None:
    status, said, _ = steady(tmp_path, "test_b.py")
    assert status == 1 and "run 1: pytest ended with status 4" in said


def test_without_a_name_and_a_repository_it_says_so(tmp_path: Path) -> None:
    status, said, errors = steady(tmp_path)
    assert (status, said) == (2, [])
    assert errors.startswith("steady: what differs from origin/main is not known (") and errors.endswith(
        "; name tests\n"
    )


def test_without_a_name_what_differs_is_run(tmp_path: Path) -> None:
    """From origin/main: here it is the commit itself, so that only what git does not know is left."""
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_known.py").write_text(TESTS)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "first"],
        ["update-ref", "refs/remotes/origin/main", "HEAD"],
    ):
        subprocess.run([*git, *words], cwd=tmp_path, check=True, timeout=ANSWER_S)
    status, said, errors = steady(tmp_path)
    assert (status, said) == (2, []) and "no test differs from origin/main" in errors
    (tmp_path / "tests" / "test_new.py").write_text("def test_new(): pass\n")
    assert steady(tmp_path)[:2] == (0, ["1 tests, 3 runs, 0 of the tests failed at least once"])
