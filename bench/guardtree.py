"""The parent's tree of `make bench-guard`: a git worktree in a temporary folder, built with an environment of its own.

Installed libraries are shared with the change's environment when both have the same requirements-dev.lock, and compiled
modules are copied when their sources are the same; otherwise `make build` makes them as always.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import CannotMeasure, run

ROOT = Path(__file__).parents[1]
BUILD_LIMIT_S = 1800
LOCK = "requirements-dev.lock"
#: What the compiled planner is made from.
COMPILED = ("_fastsched", "setup.py", "pyproject.toml", LOCK)
#: Of an outer make: an inner one must not inherit its options.
OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON")


def git(*words: str) -> str:
    """The output of a git command in this tree."""
    return run(["git", "-C", str(ROOT), *words]).strip()


def parent_of_change() -> str:
    """The default of what a change is compared with: HEAD for changes that are not committed, else HEAD's parent."""
    return "HEAD" if git("status", "--porcelain", "--untracked-files=no") else "HEAD^"


@contextmanager
def parent_tree(revision: str) -> Iterator[Path]:
    """A built tree of the revision; it is removed with the block."""
    commit = git("rev-parse", "--verify", f"{revision}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="penstock-guard-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder).resolve() / "parent"
        git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            _build(tree)
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def _build(tree: Path) -> None:
    python = os.path.realpath(sys.executable)
    if _is_same(tree, LOCK):
        _share_libraries(tree, python)
    if all(_is_same(tree, name) for name in COMPILED):
        _take_compiled(tree)
    env = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    try:
        done = subprocess.run(
            ["make", "build", f"PYTHON={python}"], cwd=tree, env=env, capture_output=True, text=True, check=False,
            timeout=BUILD_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotMeasure(f"make build of the parent: no end within {BUILD_LIMIT_S} s") from None
    if done.returncode:
        raise CannotMeasure(f"make build of the parent: exit {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")


def _is_same(tree: Path, name: str) -> bool:
    """Whether sources here and in the tree are equal."""
    here, there = ROOT / name, tree / name
    if there.is_file():
        return here.read_bytes() == there.read_bytes()
    files = [path.relative_to(there) for path in there.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pxi")]
    return all((here / path).is_file() and (here / path).read_bytes() == (there / path).read_bytes() for path in files)


def _share_libraries(tree: Path, python: str) -> None:
    """An environment that the Makefile takes for complete; a path file adds the libraries of the running one."""
    run([python, "-m", "venv", "--without-pip", str(tree / ".venv")])
    shared = [path for path in sys.path if Path(path).name == "site-packages"]
    inside = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (tree / ".venv" / inside / "shared.pth").write_text("\n".join(shared) + "\n")
    (tree / ".venv" / ".place").write_text(f"{tree}\n")
    (tree / ".venv" / ".dependencies").touch()


def _take_compiled(tree: Path) -> None:
    """Copies with new times, first the C files: each result is newer than what it is made from."""
    for suffix in ("c", "so"):
        for path in (ROOT / "_fastsched").rglob(f"*.{suffix}"):
            shutil.copyfile(path, tree / path.relative_to(ROOT))
