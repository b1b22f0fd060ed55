"""A node daemon, or that of a login host, that starts on storage that takes no writes: 75 and the file's name, so that it
is started again.

The storage is a small tmpfs in a mount namespace of the test's own.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest
import smallstorage
from patience import ANSWER_S
from smallstorage import READ_ONLY, ROOM, fill, first_start, need_namespaces
from stalldisk import StalledDisk

from penstock.security.ca import create_ca, issue_to_folder

#: In a namespace of a plain user's own no file system can be remounted with other options.
as_root = pytest.mark.root
ROOT = Path(__file__).resolve().parents[2]
RUN = [sys.executable, "-P", "-c", "import sys; from nodedaemon.main import main; sys.exit(main(sys.argv[1:]))"]


def two_starts(storage: Path, options: str, before: str, after: str) -> list[str]:
    """What the first start says, with its status."""
    need_namespaces()
    words = ["--node-name", "n1", "--insecure", "--controller", f"unix:{storage}/none", "--spool", f"{storage}/spool"]
    return first_start(smallstorage.two_starts(storage, options, before, after, [*RUN, *words], "node n1: spool"))


@as_root
@pytest.mark.parametrize(
    ("options", "before", "after", "named", "advice"),
    [
        ("size=1M", fill(0), "rm fill", "spool/journal: No space left on device", ROOM),
        ("size=1M", fill(8), "rm fill", "spool/stream-port: No space left on device", ROOM),
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
