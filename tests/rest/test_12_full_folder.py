"""A REST daemon whose socket's folder takes no writes, or is frozen: 75 and the file's name, so that it is started again.

The folder that takes none is a small tmpfs in a mount namespace of the test's own.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from livecluster import ROOT
from patience import ANSWER_S
from smallstorage import READ_ONLY, ROOM, need_namespaces, two_starts
from stalldisk import StalledDisk

from penstock.clusterfile import ClusterFile, write_cluster

RUN = [sys.executable, "-P", "-c", "import sys; from rest.main import main; sys.exit(main(sys.argv[1:]))"]
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
            ROOM,
        ),
        (
            "size=1M",
            "mount -o remount,ro .",
            "mount -o remount,rw .",
            "Read-only file system",
            READ_ONLY,
        ),
    ],
    ids=["full", "read-only"],
)
def test_a_folder_that_takes_no_writes_is_named_and_passes(
    tmp_path: Path, options: str, before: str, after: str, why: str, advice: str
) -> None:
    need_namespaces()
    storage = tmp_path / "storage"
    cluster_file = tmp_path / "cluster.json"
    write_cluster(cluster_file, ClusterFile(cluster_name="t", socket=str(tmp_path / "ctld.sock")))
    where = f"unix:{storage}/restd.sock"
    words = [*RUN, "--allow-privileged", "--listen", where]
    said = two_starts(storage, options, before, after, words, "listening on", PENSTOCK_CLUSTER=str(cluster_file))
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
    *warnings, error = done.stderr.splitlines()
    assert warnings  # one for each few seconds
    for warning in warnings:
        assert warning.startswith(f"penstock restd: warning: the start has waited for unix:{where} for ")
    assert error.startswith(f"penstock restd: error: unix:{where}: its storage has not answered for ")
