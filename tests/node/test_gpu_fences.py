"""Devices of GPUs that are closed, and opened, for real: nodes made by mknod, whose driver is not there.

open(2) of one that is allowed fails with ENXIO, of one that is denied with EPERM. On v1 and on a private cgroup2.
"""

import os
import stat
import subprocess
import sys

import pytest
from patience import ANSWER_S

from nodedaemon.cgroups import devices
from nodedaemon.cgroups import find as cgroup_find
from tests.node.test_cgroups import in_private_v2

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

#: Prints errno's names, one a file; OPEN where it could be opened.
LOOK = """
import errno, os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR))
        print("OPEN", end=" ")
    except OSError as error:
        print(errno.errorcode[error.errno], end=" ")
"""
#: The same story on both: a job with GPU 1 of three; its second step; a job with all, which gives one back.
STORY = """
def looked(groups):
    return subprocess.run([sys.executable, "-c", LOOK, *FILES], preexec_fn=groups.join, stdout=-1, text=True).stdout.split()
def make(key, denied, job_denied=None):
    groups = cgroups.of(LaunchOrder(
        key=key, user_id=0, group_id=0, user_name="u", script=b"", work_dir=b"/", std_out=b"",
        denied_devices=denied, job_denied_devices=job_denied or denied, fence_devices=True,
    ))
    groups.create()
    return groups
outside = [sys.executable, "-c", LOOK, *FILES]
assert subprocess.run(outside, stdout=-1, text=True).stdout.split() == ["ENXIO"] * 4
first = make("7.1.-5", ["c195:200", "c195:202"])
assert looked(first) == ["EPERM", "ENXIO", "EPERM", "ENXIO"], looked(first)  # the last one is nvidiactl
second = make("7.1.0", ["c195:200", "c195:201", "c195:202"], ["c195:200", "c195:202"])
assert looked(second) == ["EPERM", "EPERM", "EPERM", "ENXIO"], looked(second)
assert looked(first) == ["EPERM", "ENXIO", "EPERM", "ENXIO"]
every = make("8.1.-5", [])
assert looked(every) == ["ENXIO"] * 4
assert devices.take_away(cgroups.trees, "8.1", ["c195:202"]) == 1
assert looked(every) == ["ENXIO", "ENXIO", "EPERM", "ENXIO"], looked(every)
later = make("8.1.0", ["c195:202"])
assert looked(later) == ["ENXIO", "ENXIO", "EPERM", "ENXIO"], looked(later)
assert devices.take_away(cgroups.trees, "8.1", ["c195:201"]) == 1
assert looked(every) == looked(later) == ["ENXIO", "EPERM", "EPERM", "ENXIO"]
assert looked(first) == ["EPERM", "ENXIO", "EPERM", "ENXIO"]
assert devices.take_away(cgroups.trees, "9.1", ["c195:201"]) == 0
for groups in (first, second, every, later):
    groups.remove()
assert cgroups.leftovers() == []
"""


@pytest.fixture
def files(tmp_path):
    """Minors that no driver here has."""
    found = []
    for minor in (200, 201, 202, 255):
        found.append(str(tmp_path / f"nvidia{minor}"))
        os.mknod(found[-1], 0o666 | stat.S_IFCHR, os.makedev(devices.NVIDIA_MAJOR, minor))
    try:
        os.close(os.open(found[0], os.O_RDWR))
    except OSError as error:
        if error.strerror == os.strerror(1):
            pytest.skip("device files cannot be opened here at all (EPERM)")
    return found


def test_gpus_are_closed_and_taken_away_on_v1(tmp_path, files):
    cgroups = cgroup_find.detect("fences", str(tmp_path))
    if cgroups.kind != "v1" or not cgroups.can("devices"):
        pytest.skip("no v1 control groups of devices")
    head = (
        "import subprocess, sys\nfrom nodedaemon.cgroups import devices\nfrom nodedaemon.cgroups import find as cgroup_find\nfrom nodedaemon.base.orders import LaunchOrder\n"
        f"LOOK, FILES = {LOOK!r}, {files!r}\ncgroups = cgroup_find.detect('fences', {str(tmp_path)!r})\n"
    )
    try:  # in a process without threads, since it forks
        subprocess.run([sys.executable, "-c", head + STORY], check=True, timeout=ANSWER_S)
    finally:
        for key in cgroups.leftovers():
            cgroups.remove(key)
        cgroup_find.remove_subtree(cgroups)


def test_gpus_are_closed_and_taken_away_on_v2(tmp_path, files):
    head = f"from nodedaemon.cgroups import devices\nLOOK, FILES = {LOOK!r}, {files!r}\n"
    in_private_v2(tmp_path, f"exec({head + STORY!r}, globals())")
    assert devices.can_deny()


@pytest.mark.parametrize(
    ("path", "entry", "numbers"),
    [
        ("/dev/nvidia7", "c195:7", (devices.CHAR, 195, 7)),
        ("/dev/nvidiactl", "/dev/nvidiactl", None),
        ("/dev/nvidia-caps/nvidia-cap66", "c238:66", (devices.CHAR, 238, 66)),
        ("/dev/null", "/dev/null", (devices.CHAR, 1, 3)),
        ("b8:0", "b8:0", (devices.BLOCK, 8, 0)),
    ],
)
def test_how_devices_are_named(path, entry, numbers, monkeypatch):
    proc = {
        "/proc/devices": "Character devices:\n  1 mem\n195 nvidia\n238 nvidia-caps\n\nBlock devices:\n  8 sd\n",
        "/proc/driver/nvidia-caps/mig-minors": "config 1\nmonitor 2\ngpu0/gi7/access 66\n",
    }
    monkeypatch.setattr(devices, "read_text", lambda path: proc.get(path, ""))
    assert devices.entry(path) == entry
    if path != "/dev/nvidiactl":
        assert devices.numbers(entry) == numbers
    assert devices.mig_controls() == ["c238:1", "c238:2"]
