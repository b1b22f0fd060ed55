"""The gate (tools/testgate) on small projects: each verdict, what it prints and its exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tidytree as tree
from openway import own_temporary_folder
from patience import ANSWER_S

from tools.testgate.closing import joined, lines, save
from tools.testgate.costs import Cost, table
from tools.testgate.verdict import Failure, PytestRun, Verdict, folder, judge

#: Fails as often as told, over processes.
FAILS = """
import os
from pathlib import Path

def fails(name, times):
    note = Path(name + ".failed")
    before = len(note.read_text()) if note.exists() else 0
    note.write_text("x" * (before + 1))
    assert before >= times, f"time {before + 1} of {name}"
"""
PASSES = "def test_passes(): pass\n"
#: Each pytest of a gate's, its workers too, imports no other plug-in: these tests start some 200.
PLUGINS = ("-p", "xdist.plugin", "-p", "pytest_timeout")


def gate(
    folder: Path, files: dict[str, str], *arguments: str, settings: str = "", options: tuple[str, ...] = ()
) -> tuple[int, list[str], str]:
    """The exit status of the gate on a project of these test files, its closing lines, and all that was printed."""
    for name, text in {"fails.py": FAILS, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n" + settings)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [
        sys.executable,
        "-m",
        "tools.testgate",
        "--workers",
        "1",
        "--pause-s",
        "0",
        *options,
        "--",
        *PLUGINS,
        *arguments,
    ]
    done = subprocess.run(
        words,
        cwd=folder,
        env={
            **environment,
            **own_temporary_folder(folder),
            "PYTHONPATH": str(tree.ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=ANSWER_S,
    )
    printed = done.stdout.splitlines()
    closing = [line for line in printed[-30:] if line.startswith(("gate: ", "failed: ", "unsteady: "))]
    return done.returncode, [*closing, printed[-1]], done.stdout


def test_all_pass_and_are_counted(tmp_path: Path) -> None:
    skips = "import pytest\ndef test_skips(): pytest.skip('not here')\n"
    status, said, _ = gate(tmp_path, {"tests/e2e/test_a.py": PASSES, "tests/node/test_b.py": skips})
    assert (status, said) == (0, ["1 passed, 0 failed, 1 skipped"])
    assert not (tmp_path / "build" / "unsteady.jsonl").exists()


def test_what_each_test_costs_is_left_in_a_file(tmp_path: Path) -> None:
    gate(tmp_path, {"tests/e2e/test_a.py": PASSES, "tests/node/test_b.py": PASSES})
    said = (tmp_path / "build" / "gate" / "costs.txt").read_text().splitlines()
    assert said[0].split() == ["folder", "tests", "wall", "s", "cpu", "s"]
    assert sorted(line.split()[:2] for line in said[1:4]) == [["all", "2"], ["e2e", "1"], ["node", "1"]]
    tests = ["tests/e2e/test_a.py::test_passes", "tests/node/test_b.py::test_passes"]
    assert sorted(line.split()[-1] for line in said[6:]) == tests


def test_the_dearest_come_first() -> None:
    costs = {"tests/node/test_a.py::test_1": Cost(3.0, 1.0), "tests/node/test_a.py::test_2": Cost(1.5, 0.25)}
    costs |= {"tests/cli/test_b.py::test_3": Cost(4.0, 4.0)}
    assert [line.split() for line in table(costs)[1:4]] == [
        ["node", "2", "4.5", "1.2"],
        ["cli", "1", "4.0", "4.0"],
        ["all", "3", "8.5", "5.2"],
    ]
    assert [line.split()[-1].rpartition("_")[2] for line in table(costs)[6:]] == ["3", "1", "2"]


def test_one_that_fails_once_is_unsteady_and_named(tmp_path: Path) -> None:
    once = "from fails import fails\ndef test_once(): fails('once', 1)\n"
    status, said, printed = gate(tmp_path, {"tests/e2e/test_a.py": PASSES, "tests/e2e/test_b.py": once})
    name = "tests/e2e/test_b.py::test_once"
    assert (status, said) == (0, [f"unsteady: 1: {name}", "2 passed, 0 failed, 0 skipped"])
    assert "AssertionError: time 1 of once" in printed, "the traceback of the first failure stays"
    assert "run 2, of" in printed and "run 3, of" not in printed
    (line,) = (tmp_path / "build" / "unsteady.jsonl").read_text().splitlines()
    noted = json.loads(line)
    assert noted["name"] == name and noted["line"].startswith("AssertionError: time 1 of once")
    assert noted["load"] >= 0 and noted["commit"] == ""


def test_the_repeat_is_known_to_the_tests(tmp_path: Path) -> None:
    """They wait longer then: tests/support/patience.py."""
    asks = "import os\ndef test_asks(): assert os.environ['PENSTOCK_TEST_REPEAT'] == '1'\n"
    status, said, _ = gate(tmp_path, {"tests/e2e/test_a.py": asks})
    assert (status, said) == (0, ["unsteady: 1: tests/e2e/test_a.py::test_asks", "1 passed, 0 failed, 0 skipped"])


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ("timeout = 1", "Failed: Timeout (>1.0s) from pytest-timeout."),
        ("faulthandler_timeout = 1\nfaulthandler_exit_on_timeout = true", " in test_hangs"),
    ],
)
def test_one_that_hangs_ends_and_is_repeated(tmp_path: Path, settings: str, shown: str) -> None:
    """By pytest-timeout; and where that does not help, with its worker (pyproject.toml)."""
    hangs = "import threading\nfrom pathlib import Path\ndef test_hangs():\n    if not Path('ran').exists():\n"
    hangs += "        Path('ran').touch()\n        threading.Event().wait()\n"
    status, said, printed = gate(tmp_path, {"tests/e2e/test_a.py": hangs}, settings=settings)
    assert (status, said) == (0, ["unsteady: 1: tests/e2e/test_a.py::test_hangs", "1 passed, 0 failed, 0 skipped"])
    assert shown in printed


def test_a_time_out_while_a_failure_is_formatted_is_a_failed_test(tmp_path: Path) -> None:
    """And not an internal error, which would end the run."""
    formats_slowly = """
import pytest, signal, time
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    deadline = time.monotonic() + 2
    while call.excinfo and time.monotonic() < deadline and signal.getitimer(signal.ITIMER_REAL)[0]:
        pass
    return (yield)
"""
    files = {"tests/conftest.py": formats_slowly, "tests/e2e/test_a.py": "def test_never(): assert 0\n"}
    status, said, printed = gate(tmp_path, files, settings="timeout = 1")
    assert (status, said) == (1, ["failed: 1: tests/e2e/test_a.py::test_never", "0 passed, 1 failed, 0 skipped"])
    assert "INTERNALERROR" not in printed


def test_one_that_fails_twice_passes_in_the_third_run(tmp_path: Path) -> None:
    files = {"tests/e2e/test_b.py": "from fails import fails\ndef test_twice(): fails('twice', 2)\n" + PASSES}
    status, said, printed = gate(tmp_path, files)
    assert (status, said) == (0, ["unsteady: 1: tests/e2e/test_b.py::test_twice", "2 passed, 0 failed, 0 skipped"])
    assert "run 3, of" in printed


def test_one_that_always_fails_is_red_whatever_else_recovers(tmp_path: Path) -> None:
    files = {
        "tests/e2e/test_a.py": "def test_never(): assert 0\n" + PASSES,
        "tests/e2e/test_b.py": "from fails import fails\ndef test_once(): fails('once', 1)\n",
    }
    status, said, _ = gate(tmp_path, files)
    assert status == 1
    assert said == [
        "failed: 1: tests/e2e/test_a.py::test_never",
        "unsteady: 1: tests/e2e/test_b.py::test_once",
        "2 passed, 1 failed, 0 skipped",
    ]


def test_repeats_that_last_too_long_are_red(tmp_path: Path) -> None:
    many = "import pytest\nfrom fails import fails\n@pytest.mark.parametrize('n', range(3))\ndef test_n(n): fails(f'{n}', 1)\n"
    status, said, _ = gate(tmp_path, {"tests/e2e/test_a.py": many}, options=("--repeat-limit-s", "0.001"))
    assert status == 1 and said[-1] == "1 passed, 2 failed, 0 skipped"
    assert [line.rpartition("::")[2] for line in said[:2]] == [
        f"test_n[{n}] was collected and never ran" for n in (1, 2)
    ]


def test_set_up_and_teardown_fail_a_test_too(tmp_path: Path) -> None:
    text = """
import pytest
from fails import fails
@pytest.fixture
def before(): fails('before', 1)
@pytest.fixture
def after():
    yield
    fails('after', 9)
def test_before(before): pass
def test_after(after): pass
"""
    status, said, _ = gate(tmp_path, {"tests/e2e/test_a.py": text})
    assert status == 1
    name = "tests/e2e/test_a.py::test_"
    assert said == [f"failed: 1: {name}after", f"unsteady: 1: {name}before", "1 passed, 1 failed, 0 skipped"]


@pytest.mark.parametrize("name", ["values", "config", "core", "fastsched", "sim", "tidy"])
def test_a_deterministic_test_is_not_repeated(name: str) -> None:
    run = PytestRun(
        1, (), {f"tests/{name}/test_a.py::test_x": "failed", "tests/e2e/test_b.py::test_y": "failed"}, (), ()
    )
    assert judge([run]) == Verdict(1, run.outcomes, (), (f"tests/{name}/test_a.py::test_x is deterministic by rule",))


def test_chance_in_a_deterministic_folder_is_red(tmp_path: Path) -> None:
    once = "from fails import fails\ndef test_once(): fails('once', 1)\n"
    status, said, printed = gate(tmp_path, {"tests/core/test_a.py": once + PASSES})
    name = "tests/core/test_a.py::test_once"
    assert (status, said[0]) == (1, f"gate: {name} is deterministic by rule")
    assert said[1:] == [f"failed: 1: {name}", "1 passed, 1 failed, 0 skipped"]
    assert "run 2, of" not in printed


def test_twenty_failures_are_repeated_and_one_more_is_red(tmp_path: Path) -> None:
    many = "import pytest\nfrom fails import fails\n@pytest.mark.parametrize('n', range({0}))\ndef test_n(n): fails(f'{{n}}', 1)\n"
    status, said, _ = gate(tmp_path / "20", {"tests/e2e/test_a.py": many.format(20)})
    assert status == 0 and said[-1] == "20 passed, 0 failed, 0 skipped"
    status, said, printed = gate(tmp_path / "21", {"tests/e2e/test_a.py": many.format(21)})
    assert status == 1 and said[0] == "gate: 21 tests failed, more than 20"
    assert said[-1] == "0 passed, 21 failed, 0 skipped" and "run 2, of" not in printed


def test_one_that_kills_its_worker_is_red_and_the_others_still_run(tmp_path: Path) -> None:
    files = {
        "tests/e2e/test_a.py": "import os\ndef test_kills(): os._exit(3)\n" + PASSES,
        "tests/e2e/test_b.py": "def test_b(): pass\n",
    }
    status, said, _ = gate(tmp_path, files)
    assert status == 1
    assert said == ["failed: 1: tests/e2e/test_a.py::test_kills", "2 passed, 1 failed, 0 skipped"]


def test_one_that_killed_its_worker_once_is_unsteady(tmp_path: Path) -> None:
    text = "import os\nfrom pathlib import Path\ndef test_kills():\n    if not Path('killed').exists():\n"
    text += "        Path('killed').touch()\n        os._exit(3)\n"
    status, said, _ = gate(tmp_path, {"tests/e2e/test_a.py": text + PASSES})
    assert (status, said) == (0, ["unsteady: 1: tests/e2e/test_a.py::test_kills", "2 passed, 0 failed, 0 skipped"])


@pytest.mark.parametrize(
    ("text", "arguments", "status", "said"),
    [
        ("import nothing_of_this_name\n", (), 1, "gate: tests/e2e/test_a.py could not be collected"),
        (PASSES, ("-k", "nothing"), 5, "gate: pytest ended with status 5"),
        (PASSES, ("--no-such-option",), 4, "gate: pytest ended with status 4"),
        ("def test_x(): raise KeyboardInterrupt\n", (), 2, "gate: pytest ended with status 2"),
    ],
)
def test_errors_are_red_at_once(tmp_path: Path, text: str, arguments: tuple[str, ...], status: int, said: str) -> None:
    found, closing, printed = gate(tmp_path, {"tests/e2e/test_a.py": text}, *arguments)
    assert found == status and said in closing
    assert "run 2, of" not in printed


def test_a_pytest_that_ends_without_a_word_is_red(tmp_path: Path) -> None:
    files = {"tests/e2e/test_a.py": PASSES, "conftest.py": "import os\ndef pytest_sessionstart(): os._exit(0)\n"}
    status, said, _ = gate(tmp_path, files)
    assert (status, said) == (3, ["gate: pytest ended with status 3", "0 passed, 0 failed, 0 skipped"])


def test_what_was_collected_and_never_ran_is_red() -> None:
    run = PytestRun(0, ("tests/e2e/a.py::x", "tests/e2e/a.py::y"), {"tests/e2e/a.py::x": "passed"}, (), ())
    assert judge([run]).status == 1
    assert judge([run]).problems == ("tests/e2e/a.py::y was collected and never ran",)


def test_a_second_run_that_selects_nothing_is_red() -> None:
    name = "tests/e2e/a.py::x"
    first = PytestRun(1, (name,), {name: "failed"}, (Failure(name, "no", 1.0),), ())
    verdict = judge([first, PytestRun(5, (), {}, (), ())])
    assert verdict.status == 1 and verdict.outcomes == {name: "failed"} and verdict.unsteady == ()
    assert f"{name} failed and was not run when it was repeated" in verdict.problems


def test_a_failure_that_is_skipped_in_the_repeat_stays_red(tmp_path: Path) -> None:
    text = "import pytest\nfrom pathlib import Path\ndef test_skips():\n    if Path('ran').exists():\n"
    text += "        pytest.skip('what it needs is gone')\n    Path('ran').touch()\n    assert 0\n"
    status, said, _ = gate(tmp_path, {"tests/e2e/test_a.py": text + PASSES})
    name = "tests/e2e/test_a.py::test_skips"
    assert status == 1
    assert said[:2] == [f"gate: {name} failed and was skipped when it was repeated", f"failed: 1: {name}"]
    assert said[-1] == "1 passed, 1 failed, 0 skipped"


def test_modules_of_tests_are_compiled_before_the_workers_need_them(tmp_path: Path) -> None:
    """Even under PYTHONDONTWRITEBYTECODE; what cannot be collected is the run's to report."""
    files = {"test_a.py": PASSES, "test_b.py": "import nothing_of_this_name\n", "other/test_c.py": PASSES}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    words = [sys.executable, "-m", "tools.testgate.compiled", *PLUGINS, "test_a.py", "test_b.py"]
    environment = {**os.environ, "PYTHONPATH": str(tree.ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=ANSWER_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    compiled = sorted(path.name.partition(".")[0] for path in tmp_path.glob("**/__pycache__/*-pytest-*.pyc"))
    assert compiled == ["test_a", "test_b"]


def test_folders_are_those_of_tests() -> None:
    assert folder("tests/core/scripts/test_x.py::test_y[core]") == "core"
    assert folder("tests/test_x.py::test_y") == folder("core/test_x.py::test_y") == ""


def test_several_runs_count_a_test_once() -> None:
    """As root and as a plain user: what a plain user cannot do is skipped there, and ran as root."""
    root = Verdict(0, {"a": "passed", "b": "passed", "c": "skipped"}, (Failure("a", "", 1.0),), ())
    plain = Verdict(0, {"a": "passed", "b": "skipped", "d": "passed"}, (), ())
    assert lines(joined([root, plain])) == ["unsteady: 1: a", "3 passed, 0 failed, 1 skipped"]
    red = Verdict(1, {"a": "failed", "b": "skipped"}, (), ())
    assert joined([root, red]).status == joined([red, root]).status == 1
    assert lines(joined([root, red]))[0] == "failed: 1: a"


def test_a_run_without_a_result_is_red_in_the_closing_lines(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tools.testgate.closing", f"make test={tmp_path}"]
    done = subprocess.run(words, cwd=tree.ROOT, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == ["gate: make test: no test ran, see above", "0 passed, 0 failed, 0 skipped"]


def test_what_was_not_installed_is_named_in_the_closing_lines(tmp_path: Path) -> None:
    save(Verdict(0, {"a": "passed"}, (), ()), tmp_path)
    words = [sys.executable, "-m", "tools.testgate.closing", "--missing", "mpich (tests/mpi)", f"make test={tmp_path}"]
    done = subprocess.run(words, cwd=tree.ROOT, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == ["not installed: mpich (tests/mpi)", "1 passed, 0 failed, 0 skipped"]
