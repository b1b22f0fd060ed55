"""A REST daemon whose socket's folder takes no writes, or is frozen: 75 and the file's name, so that it is started again.

The folder that takes none is a small tmpfs in a mount namespace of the test's own.
"""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import pytest
from livecluster import ROOT
from patience import ANSWER_S
from stalldisk import StalledDisk

from penstock.clusterfile import ClusterFile, write_cluster

NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
RUN = [sys.executable, "-P", "-c", "import sys; from rest.main import main; sys.exit(main(sys.argv[1:]))"]
#: Words: folder, mount options, what happens before, what makes room; then the daemon's command line.
SCRIPT = """
mount -t tmpfs -o "mode=755,$2" tmpfs "$1" && cd "$1" || exit 99
before=$3; after=$4; shift 4
eval "$before"
"$@"; echo "status $?" >&2
eval "$after"
exec "$@"
"""


#: The daemon with other limits.
WATCHED = """
import functools, sys
import rest.main
rest.main.StartWatch = functools.partial(rest.main.StartWatch, first_s=0.4, limit_s=1.2)
sys.exit(rest.main.main(sys.argv[1:]))
"""


@pytest.mark.root  # in a namespace of a plain user's own no file system can be remounted with other options
@pytest.mark.parametrize(
    ("options", "before", "after", "why", "advice"),
    [
        (
            "nr_inodes=1",
            ":",
            "mount -o remount,nr_inodes=99 .",
            "No space left on device",
            "make room in its file system (`df` and `df -i` show what is used up); then another start will do",
        ),
        (
            "size=1M",
            "mount -o remount,ro .",
            "mount -o remount,rw .",
            "Read-only file system",
            "its file system is mounted read-only: see the kernel's log (`dmesg`), mount it writable; then another start will do",
        ),
    ],
    ids=["full", "read-only"],
)
def test_a_folder_that_takes_no_writes_is_named_and_passes(
    tmp_path: Path, options: str, before: str, after: str, why: str, advice: str
) -> None:
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode:
        pytest.skip("machine lacks mount namespaces for its users")
    storage = tmp_path / "storage"
    storage.mkdir()
    write_cluster(tmp_path / "cluster.json", ClusterFile(cluster_name="t", socket=str(tmp_path / "ctld.sock")))
    where = f"unix:{storage}/restd.sock"
    words = [*NAMESPACE, "sh", "-c", SCRIPT, "sh", str(storage), options, before, after, *RUN]
    process = subprocess.Popen(
        [*words, "--allow-privileged", "--listen", where],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CLUSTER": str(tmp_path / "cluster.json")},
        stderr=subprocess.PIPE,
        text=True,
    )
    said: list[str] = []
    guard = threading.Timer(ANSWER_S, process.kill)
    guard.start()
    try:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.rstrip("\n"))
            if "listening on" in line:
                process.terminate()
    finally:
        guard.cancel()
        process.kill()
        process.wait()
    assert said == [
        f"penstock restd: error: {where}: {why}",
        f"penstock restd: error: {advice}",
        "status 75",
        f"penstock restd: listening on {where}",
    ]


@pytest.mark.parametrize("is_left_over", [False, True], ids=["a new socket", "a socket that was left"])
def test_a_folder_that_does_not_answer(tmp_path: Path, is_left_over: bool) -> None:
    """What it would do there is to remove the old socket, to bind the new one, and to let all users connect."""
    write_cluster(tmp_path / "cluster.json", ClusterFile(cluster_name="t", socket=str(tmp_path / "ctld.sock")))
    where = tmp_path / "restd.sock"
    if is_left_over:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(where))
    disk = StalledDisk(tmp_path / "gate")
    # Byte code would be written before anything watches.
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
        "PENSTOCK_CLUSTER": str(tmp_path / "cluster.json"), **disk.env(),
    }  # fmt: skip
    words = [sys.executable, "-P", "-c", WATCHED, "--allow-privileged", "--listen", f"unix:{where}"]
    with disk.still():
        done = subprocess.run(
            words, cwd=ROOT, env=cast(dict[str, str], environment), capture_output=True, text=True, timeout=ANSWER_S
        )
    assert done.returncode == 75, done.stderr
    warning, error = done.stderr.splitlines()
    assert warning.startswith(f"penstock restd: warning: the start has waited for unix:{where} for ")
    assert error.startswith(f"penstock restd: error: unix:{where}: its storage has not answered for ")
