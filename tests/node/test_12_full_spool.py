"""A node daemon, or that of a login host, that starts on storage that takes no writes: 75 and the file's name, so that it
is started again.

The storage is a small tmpfs in a mount namespace of the test's own.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import cast

import pytest
from patience import ANSWER_S
from stalldisk import StalledDisk

from penstock.security.ca import create_ca, issue_to_folder

#: In a namespace of a plain user's own no file system can be remounted with other options.
as_root = pytest.mark.root
ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
RUN = [sys.executable, "-P", "-c", "import sys; from nodedaemon.main import main; sys.exit(main(sys.argv[1:]))"]
#: Words: folder, mount options, what happens before, what makes room; then the daemon's command line. The second start is
#: the daemon that stays.
SCRIPT = """
mount -t tmpfs -o "mode=755,$2" tmpfs "$1" && cd "$1" || exit 99
before=$3; after=$4; shift 4
eval "$before"
"$@"; echo "status $?" >&2
eval "$after"
exec "$@"
"""
ROOM = "make room in its file system (`df` and `df -i` show what is used up); then another start will do"
READ_ONLY = "its file system is mounted read-only: see the kernel's log (`dmesg`), mount it writable; then another start will do"
#: Leaves so many kilobytes.
FILL = "{{ head -c 20M /dev/zero >fill 2>/dev/null; truncate -s -{}K fill; }}"


@pytest.fixture(scope="module")
def _namespaces() -> None:
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode:
        pytest.skip("machine lacks mount namespaces for its users")


def two_starts(storage: Path, options: str, before: str, after: str) -> list[str]:
    """What the first start says, with its status; the second one runs."""
    storage.mkdir()
    daemon = [
        *RUN,
        "--node-name",
        "n1",
        "--insecure",
        "--controller",
        f"unix:{storage}/none",
        "--spool",
        f"{storage}/spool",
    ]
    words = [*NAMESPACE, "sh", "-c", SCRIPT, "sh", str(storage), options, before, after, *daemon]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    guard = threading.Timer(ANSWER_S, process.kill)
    guard.start()
    try:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.rstrip("\n"))
            if "node n1: spool" in line:
                process.terminate()
    finally:
        guard.cancel()
        process.kill()
        process.wait()
    assert any("node n1: spool" in line for line in said), said
    end = next(number for number, line in enumerate(said) if line.startswith("status "))
    return said[: end + 1]


@as_root
@pytest.mark.usefixtures("_namespaces")
@pytest.mark.parametrize(
    ("options", "before", "after", "named", "advice"),
    [
        ("size=1M", FILL.format(0), "rm fill", "spool/journal: No space left on device", ROOM),
        ("size=1M", FILL.format(8), "rm fill", "spool/stream-port: No space left on device", ROOM),
        ("size=1M,nr_inodes=3", "", "mount -o remount,nr_inodes=99 .", "spool/lock: No space left on device", ROOM),
        ("size=1M", "mkdir spool; mount -o remount,ro .", "mount -o remount,rw .", "Read-only file system", READ_ONLY),
    ],
    ids=["full", "nearly full", "no inodes", "read-only"],
)
def test_a_spool_that_takes_no_writes(tmp_path, options, before, after, named, advice):
    said = two_starts(tmp_path / "storage", options, before, after)
    assert said[-1] == "status 75" and said[-2] == f"penstock noded: error: {advice}"
    assert named in said[-3], said


def test_a_folder_of_keys_that_cannot_be_read_is_no_fault_of_storage(tmp_path):
    """What only an administrator can repair stays 78: it is not started again."""
    words = [
        "--node-name",
        "n1",
        "--controller",
        "127.0.0.1:1",
        "--spool",
        str(tmp_path / "spool"),
        "--cert-dir",
        str(tmp_path / "none"),
    ]
    done = subprocess.run([*RUN, *words], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S)
    assert done.returncode == 78 and str(tmp_path / "none") in done.stderr


#: The daemon with other limits.
WATCHED = """
import functools, sys
import nodedaemon.main
nodedaemon.main.StartWatch = functools.partial(nodedaemon.main.StartWatch, first_s=0.4, limit_s=1.2)
sys.exit(nodedaemon.main.main(sys.argv[1:]))
"""


def frozen(tmp_path: Path, *words: str) -> str:
    """What a daemon says that starts while nothing can be written; it ends with 75."""
    disk = StalledDisk(tmp_path / "gate")
    # Byte code would be written before anything watches.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **disk.env()}
    argv = [sys.executable, "-P", "-c", WATCHED, "--spool", f"{tmp_path}/spool", *words]
    with disk.still():
        done = subprocess.run(
            argv, cwd=ROOT, env=cast(dict[str, str], environment), capture_output=True, text=True, timeout=ANSWER_S
        )
    assert done.returncode == 75, done.stderr
    assert "its storage has not answered" in done.stderr
    return done.stderr


def test_a_spool_that_does_not_answer(tmp_path):
    said = frozen(tmp_path, "--node-name", "n1", "--insecure", "--controller", f"unix:{tmp_path}/none")
    assert f"error: {tmp_path}/spool: its storage" in said


def test_the_folder_of_a_login_host_that_does_not_answer(tmp_path):
    now_us = time.time_ns() // 1000
    issue_to_folder(create_ca(tmp_path / "ca", "test", now_us), tmp_path / "certs", "login", "login1", now_us)
    said = frozen(tmp_path, "--login", "--cert-dir", f"{tmp_path}/certs", "--controller", "127.0.0.1:1")
    assert f"error: {tmp_path}/spool: its storage" in said
