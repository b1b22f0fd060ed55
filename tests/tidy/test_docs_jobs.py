"""docs/jobs.md: drawn from the tables that the controller obeys, and every state explained."""

import subprocess
import sys

import tidytree as tree
from patience import ANSWER_S

from penstock.values.states import COMPACT_STATE

PAGE = tree.ROOT / "docs" / "jobs.md"
TOOL = tree.ROOT / "tools" / "lifecycles.py"


def test_the_life_cycles_are_drawn_as_the_tables_are() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_check_sees_a_difference(tmp_path) -> None:
    """The drawing tool on a page that lacks an arrow, in a process of its own."""
    page = tmp_path / "jobs.md"
    text = PAGE.read_text(encoding="utf-8")
    page.write_text(text.replace("    PENDING --> CANCELLED\n", ""), encoding="utf-8")
    code = f"import pathlib, sys; sys.argv[1:] = sys.argv[2:]; sys.path.insert(0, {str(TOOL.parent)!r}); import lifecycles as l; "
    code += f"l.PAGE = pathlib.Path({str(page)!r}); sys.exit(l.main())"
    run = [sys.executable, "-c", code, "x"]
    done = subprocess.run([*run, "--check"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    assert done.returncode == 1 and "run python tools/lifecycles.py" in done.stdout
    assert "PENDING --> CANCELLED" not in page.read_text(encoding="utf-8")
    assert subprocess.run(run, timeout=ANSWER_S, check=False).returncode == 0
    assert page.read_text(encoding="utf-8") == text


def test_every_state_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [s.name for s, word in COMPACT_STATE.items() if f"| {s.name} | {word} | " not in text] == []
