"""Daemons that start on storage that takes no writes, and again when it does: a small tmpfs in a mount namespace of the
test's own, or of its module's (`StorageNamespace`)."""

import os
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from patience import ANSWER_S, START_S
from warmstart import Child, WarmStarter

_ROOT = Path(__file__).resolve().parents[2]
_NAMESPACE = "unshare", "--user", "--map-root-user", "--mount"
#: Words: folder, mount options, what happens before, what makes room; then the daemon's command line. The second start is
#: the daemon that stays.
_SCRIPT = """
mount -t tmpfs -o "mode=755,$2" tmpfs "$1" && cd "$1" || exit 99
before=$3; after=$4; shift 4
eval "$before"
"$@"; echo "status $?" >&2
eval "$after"
exec "$@"
"""
ROOM = "make room in its file system (`df` and `df -i` show what is used up); then another start will do"
READ_ONLY = "its file system is mounted read-only: see the kernel's log (`dmesg`), mount it writable; then another start will do"


def fill(free_kb: int) -> str:
    """Leaves so much."""
    return f"{{ head -c 20M /dev/zero >fill 2>/dev/null; truncate -s -{free_kb}K fill; }}"


def need_namespaces() -> None:
    """Skips a test where the machine has none."""
    words = [*_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("machine lacks mount namespaces for its users")


def _said(daemon: "subprocess.Popen[str] | Child", lines: Iterable[str], up: str) -> tuple[list[str], int]:
    """What a daemon says, and its exit status: it is ended when it says `up`, "" = never, or nothing for too long."""
    said: list[str] = []
    guard = threading.Timer(ANSWER_S, daemon.kill)
    guard.start()
    try:
        for line in lines:
            said.append(line.rstrip("\n"))
            if up and up in line:
                daemon.kill()
    finally:
        guard.cancel()
        daemon.kill()
        status = daemon.wait()
    return said, status


def two_starts(
    storage: Path, options: str, before: str, after: str, daemon: Sequence[str], up: str, **environment: str
) -> list[str]:
    """What the daemon says: at its first start, the line `status N`, then at its second, which ends when it has said `up`.
    `before`, `after`: shell commands in the storage before each start."""
    storage.mkdir()
    process = subprocess.Popen(
        [*_NAMESPACE, "sh", "-c", _SCRIPT, "sh", str(storage), options, before, after, *daemon],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT), **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said, _ = _said(process, process.stderr, up)
    assert any(up in line for line in said), said
    return said


def first_start(said: list[str]) -> list[str]:
    """The part of what was said that ends with the status of the first start."""
    return said[: 1 + next(number for number, line in enumerate(said) if line.startswith("status "))]


class StorageNamespace:
    """A mount namespace with a warm process in it (warmstart.py), for small storages and starts of one program."""

    def __init__(self, word: str) -> None:
        self._starter = WarmStarter(word, False, _NAMESPACE)
        with open(os.devnull, "r+b") as nothing:  # when it answers, it is in its namespace
            assert self._starter.start(["--version"], [nothing] * 3, _ROOT, os.environ).wait(START_S) == 0

    def mount(self, storage: Path, options: str) -> None:
        """Makes that folder a small storage."""
        storage.mkdir()
        self.run(storage.parent, f"mount -t tmpfs -o mode=755,{options} tmpfs {storage.name}")

    def run(self, storage: Path, command: str) -> None:
        """A shell command in that folder."""
        inside = "nsenter", f"--target={self._starter.pid}", "--user", "--mount"
        subprocess.run([*inside, "sh", "-c", 'cd "$1" && eval "$2"', "sh", str(storage), command], check=True)

    def start(self, storage: Path, words: Sequence[str], up: str = "") -> list[str]:
        """What `penstock WORDS` says, and the line `status N` when it ends by itself; when it says `up`, it is ended."""
        reading, writing = os.pipe()
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        with open(reading, encoding="utf-8") as lines:
            with open(writing, "wb") as output, open(os.devnull, "rb") as nothing:
                child = self._starter.start(words, (nothing, output, output), storage, environment)
            said, status = _said(child, lines, up)
        return said if status < 0 else [*said, f"status {status}"]
