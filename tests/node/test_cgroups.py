"""Control groups: layout, limits, races, kills. v1 for real (as root), v2's files in a folder of ordinary files."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from patience import ANSWER_S, END_S

from nodedaemon.base import proctree
from nodedaemon.base.kernelfiles import read_text
from nodedaemon.base.orders import LaunchOrder, TaskOrder
from nodedaemon.cgroups import cgroup
from nodedaemon.cgroups import find as cgroup_find
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.cgroups.tree import CgroupTree

KEY, JOB = "7.1.-5", "7.1"


def order(key: str = KEY, **fields) -> LaunchOrder:
    given = {"user_id": 0, "group_id": 0, "user_name": "u", "script": b"", "work_dir": b"/", "std_out": b""}
    return LaunchOrder(key=key, **given, **fields)


# -- v2, in ordinary files


@pytest.fixture
def v2(tmp_path):
    """A tree with the files that the kernel would make in every new folder."""
    tree = tmp_path / "node"
    tree.mkdir()
    (tree / "cgroup.subtree_control").write_text("")
    return Cgroups("v2", (CgroupTree(str(tree), ("cpuset", "memory", "pids"), True),)), tree


FILES = (
    "cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.swap.max", "memory.oom.group", "memory.events",
    "cpuset.cpus", "pids.max", "cpu.stat", "memory.stat",
)  # fmt: skip


@pytest.fixture
def kernel(monkeypatch):
    """mkdir as cgroup2 does it: with files in it. rmdir takes them along."""
    make, remove = os.mkdir, os.rmdir

    def mkdir(path, mode=0o777):
        make(path, mode)
        for name in FILES:
            open(f"{path}/{name}", "w").close()

    def rmdir(path):
        if not any(entry.is_dir() for entry in os.scandir(path)):
            for entry in list(os.scandir(path)):
                os.unlink(entry.path)
        remove(path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "rmdir", rmdir)


def test_what_wants_nothing_is_one_flat_folder(v2, kernel):
    cgroups, tree = v2
    groups = cgroups.of(order())
    groups.create()
    assert [p.name for p in tree.iterdir() if p.is_dir()] == [KEY]
    assert (tree / "cgroup.subtree_control").read_text() == ""
    assert cgroups.leftovers() == [KEY]
    groups.remove()
    assert cgroups.leftovers() == []


def test_limits_of_job_and_step(v2, kernel):
    cgroups, tree = v2
    fields = {
        "memory_limit_mb": 50, "job_memory_limit_mb": 200, "swap_limit_mb": 20, "pids_max": 99, "job_cpu_ids": [0, 1, 5],
        "cpu_ids": [1],
    }  # fmt: skip
    groups = cgroups.of(order("7.1.0", **fields))
    groups.create()
    job, step = tree / JOB, tree / JOB / "0"
    assert (tree / "cgroup.subtree_control").read_text() == "+cpuset +memory +pids"
    assert (job / "memory.max").read_text() == str(200 << 20)
    assert (job / "memory.swap.max").read_text() == str(20 << 20)
    assert (job / "cpuset.cpus").read_text() == "0,1,5"
    assert (job / "pids.max").read_text() == "99"
    assert (step / "memory.max").read_text() == str(50 << 20)
    assert (step / "memory.oom.group").read_text() == "1"
    assert (job / "memory.oom.group").read_text() == ""
    assert (step / "cpuset.cpus").read_text() == "1"
    assert (step / "pids.max").read_text() == ""
    (step / "memory.events").write_text("low 0\noom 1\noom_kill 0\noom_group_kill 0\n")
    assert not groups.out_of_memory()
    (step / "memory.events").write_text("low 0\noom 1\noom_kill 2\noom_group_kill 1\n")
    assert groups.out_of_memory()


def test_a_step_that_may_lose_a_process_does_not_die_as_a_whole(v2, kernel):
    cgroups, tree = v2
    cgroups.of(order("7.1.0", job_memory_limit_mb=200, oom_group=False)).create()
    assert (tree / JOB / "0" / "memory.oom.group").read_text() == ""


def test_without_a_swap_limit_swap_is_left_alone(v2, kernel):
    cgroups, tree = v2
    cgroups.of(order(memory_limit_mb=50)).create()
    assert (tree / JOB / "memory.swap.max").read_text() == ""
    assert (tree / JOB / "-5" / "memory.max").read_text() == ""  # as much as its job: once is enough


def test_tasks_are_counted_in_groups_of_their_own(v2, kernel):
    cgroups, tree = v2
    groups = cgroups.of(order("7.1.0", tasks=[TaskOrder(3), TaskOrder(4)], count_by_group=True))
    groups.create()
    for rank in (3, 4):
        groups.create_task(rank)
    groups.join(4)
    task = tree / JOB / "0" / "task_4"
    assert (task / "cgroup.procs").read_text() == "0"
    (task / "cpu.stat").write_text("usage_usec 1234567\nuser_usec 1\n")
    (task / "memory.stat").write_text("anon 4194304\nfile 99999999\n")
    assert groups.usage(4) == (1234567, 4096)
    (task / "cgroup.procs").write_text("")
    groups.remove()
    assert not (tree / JOB).exists()


def test_the_last_step_takes_the_jobs_group_along(v2, kernel):
    cgroups, tree = v2
    steps = [cgroups.of(order(f"7.1.{step}", pids_max=9)) for step in (-5, 0, 1)]
    for groups in steps:
        groups.create()
    for groups in steps[:2]:
        groups.remove()
        assert (tree / JOB).exists()
    steps[2].remove()
    assert not (tree / JOB).exists()


def test_a_job_whose_group_goes_while_a_step_comes(v2, kernel, monkeypatch):
    """Another step removes the job's folder between the two mkdirs."""
    cgroups, tree = v2
    make, left = os.mkdir, [2]

    def mkdir(path, mode=0o777):
        if str(path).endswith("/0") and left[0]:
            left[0] -= 1
            os.rmdir(tree / JOB)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    cgroups.of(order("7.1.0", pids_max=9)).create()
    assert left == [0]
    assert (tree / JOB / "pids.max").read_text() == "9"


def test_disabled_groups_are_not_made(v2, kernel):
    cgroups, _ = v2
    groups = cgroups.of(order(no_groups=True, memory_limit_mb=9))
    groups.create()
    groups.join()
    assert (groups.members(), groups.signal_all(9), groups.out_of_memory()) == ([], 0, False)
    assert cgroups.leftovers() == []


def test_what_the_launcher_is_told():
    was = Cgroups("v1", (CgroupTree("/a b/c", ("freezer",), False), CgroupTree("/d", ("memory", "pids"), True)))
    now = cgroup.decode(was.encode())
    assert now.kind == "v1"
    assert [(t.path, t.controllers, t.unified) for t in now.trees] == [
        (t.path, t.controllers, t.unified) for t in was.trees
    ]


# -- finding them


def test_a_daemon_alone_in_its_group_hands_controllers_down(tmp_path, kernel):
    own = tmp_path / "system.slice" / "noded.service"
    own.parent.mkdir()
    os.mkdir(own)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.procs").write_text(f"{os.getpid()}\n")
    who = tmp_path / "own"
    who.write_text("0::/system.slice/noded.service\n")
    found = cgroup_find.detect("n1", "/spool", str(tmp_path), str(who))
    assert found.kind == "v2"
    assert found.trees[0].controllers == ("memory", "pids")
    assert os.path.dirname(found.trees[0].path) == str(own)
    assert (own / "penstock-daemon" / "cgroup.procs").read_text() == "0"
    assert cgroup_find.lacks(found, (("ConstrainCores", "cpuset"), ("ConstrainRAMSpace", "memory"))) == [
        "ConstrainCores"
    ]
    # a later daemon finds itself in the leaf, with others
    who.write_text("0::/system.slice/noded.service/penstock-daemon\n")
    again = cgroup_find.detect("n1", "/spool", str(tmp_path), str(who))
    assert again.trees[0].path == found.trees[0].path


def test_a_daemon_with_company_limits_nothing(tmp_path, kernel):
    os.mkdir(tmp_path / "session")
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    (tmp_path / "session" / "cgroup.controllers").write_text("memory\n")
    (tmp_path / "session" / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    who = tmp_path / "own"
    who.write_text("0::/session\n")
    found = cgroup_find.detect("n1", "/spool", str(tmp_path), str(who))
    assert (found.kind, found.trees[0].controllers) == ("v2", ())


def test_nothing_that_may_be_written_is_no_groups(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    who = tmp_path / "own"
    who.write_text("0::/not/there\n")
    os.chmod(tmp_path, 0o500)
    if os.geteuid() != 0:
        assert cgroup_find.detect("n1", "/spool", str(tmp_path), str(who)) is cgroup.NONE
    assert cgroup_find.detect("n1", "/spool", "/proc/self/nowhere") is cgroup.NONE


# -- v1 and v2, for real


@pytest.fixture
def v1(tmp_path):
    found = cgroup_find.detect("test", str(tmp_path))
    if found.kind != "v1":
        pytest.skip("not a machine with v1 control groups")
    yield found
    for key in found.leftovers():
        found.kill(key)
        found.remove(key)
    cgroup_find.remove_subtree(found)


def eventually(condition) -> None:
    """Until it is so, with a deadline."""
    end_s = time.monotonic() + END_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def spawn(groups, *words: str) -> subprocess.Popen:
    return subprocess.Popen(words, preexec_fn=groups.join, stdout=subprocess.PIPE, text=True)


#: Daemonises the way that escapes a process group and a session, and drops its environment.
ESCAPE = """
import os, sys
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
print(os.getpid(), flush=True)
os.close(1)
os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"], {})
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("fields", [{}, {"pids_max": 50}])
def test_who_escapes_from_session_and_parent_does_not_from_the_group(v1, fields):
    groups = v1.of(order(**fields))
    groups.create()
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    try:
        escaped = int(spawn(groups, sys.executable, "-c", ESCAPE).communicate()[0])
        assert groups.members() == v1.members(KEY) == v1.job_members(JOB) == [escaped]
        assert v1.kill_job(JOB)
        assert os.waitpid(escaped, 0)[1] == signal.SIGKILL
    finally:
        proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 0)
    groups.remove()
    assert v1.leftovers() == []


#: Forks for ever; each child, too.
BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_fork_bomb_is_stopped_and_killed(v1):
    if not v1.can("pids"):
        pytest.skip("no pids control group")
    groups = v1.of(order(pids_max=40))
    groups.create()
    others = set(proctree.children(os.getpid()))  # clusters of other tests, for instance
    proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 1)
    try:
        bomb = spawn(groups, sys.executable, "-c", BOMB)
        tree = next(tree.path for tree in v1.trees if "pids" in tree.controllers)
        eventually(lambda: "max 0" not in read_text(f"{tree}/{JOB}/-5/pids.events"))
        assert len(groups.members()) <= 40
        assert v1.kill(KEY)
        bomb.wait()
        for orphan in set(proctree.children(os.getpid())) - others:
            os.waitpid(orphan, 0)
    finally:
        proctree.prctl(proctree.PR_SET_CHILD_SUBREAPER, 0)
    groups.remove()
    assert v1.leftovers() == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_cores_devices_and_memory_of_v1(v1, tmp_path):
    device = tmp_path / "device"
    os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))  # /dev/null under another name
    cpu = min(os.sched_getaffinity(0))
    fields: dict[str, Any] = {
        "job_cpu_ids": [cpu],
        "cpu_ids": [cpu],
        "job_denied_devices": [str(device)],
        "job_memory_limit_mb": 40,
    }
    groups = v1.of(order(memory_limit_mb=40, **fields))
    groups.create()
    script = "grep Cpus_allowed_list /proc/self/status; cat /dev/zero | head -c 4; : <$0; echo $?"
    said = spawn(groups, "sh", "-c", script, str(device)).communicate()[0]
    assert said.split()[1] == str(cpu)
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(
            ["sh", "-c", ": <$0", str(device)], preexec_fn=groups.join, check=True, stderr=subprocess.DEVNULL
        )
    subprocess.run(["sh", "-c", ": <$0", str(device)], check=True)
    assert not groups.out_of_memory()
    eat = spawn(groups, sys.executable, "-c", "x = b'x' * (200 << 20)")
    assert eat.wait() == -signal.SIGKILL
    assert groups.out_of_memory()
    groups.remove()
    assert v1.leftovers() == []


#: Mounts cgroup2 where only this process sees it, and runs what is on stdin with GROUPS (a Cgroups) at hand.
PRIVATE_V2 = """
import ctypes, os, signal, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x00020000) == 0
assert libc.mount(b"none", b"/", None, 0x40000 | 0x4000, None) == 0
folder = sys.argv[1]
if libc.mount(b"cgroup2", folder.encode(), b"cgroup2", 0, None):
    sys.exit(77)
from nodedaemon.cgroups import cgroup
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.cgroups.tree import CgroupTree as Tree
from nodedaemon.base.orders import LaunchOrder
path = f"{folder}/penstock-test-{os.getpid()}"
os.mkdir(path)
cgroups = Cgroups("v2", (Tree(path, (), True),))
def order(**fields):
    return LaunchOrder(key="7.1.-5", user_id=0, group_id=0, user_name="u", script=b"", work_dir=b"/", std_out=b"", **fields)
try:
    exec(sys.stdin.read())
finally:
    for key in cgroups.leftovers():
        cgroups.kill(key)
        cgroups.remove(key)
    os.rmdir(path)
"""


def in_private_v2(tmp_path, text: str) -> None:
    folder = tmp_path / "cgroup2"
    folder.mkdir()
    words = [sys.executable, "-c", PRIVATE_V2, str(folder)]
    done = subprocess.run(words, input=text, text=True, check=False, timeout=ANSWER_S)
    if done.returncode == 77:
        pytest.skip("cgroup2 cannot be mounted here")
    assert done.returncode == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_v2_kills_and_freezes(tmp_path):
    in_private_v2(
        tmp_path,
        """
groups = cgroups.of(order())
groups.create()
child = subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000"], preexec_fn=groups.join)
while len(groups.members()) < 3:
    pass
groups.freeze(True)
events = f"{path}/7.1.-5/cgroup.events"
while "frozen 1" not in open(events).read():
    pass
groups.freeze(False)
assert groups.signal_all(signal.SIGKILL) == 3
assert child.wait() == -9
assert cgroups.kill("7.1.-5")
groups.remove()
assert cgroups.leftovers() == []
""",
    )


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_v2_fences_devices_off(tmp_path):
    device, other = tmp_path / "device", tmp_path / "other"
    os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))
    os.mknod(other, 0o666 | 0o020000, os.makedev(1, 5))
    in_private_v2(
        tmp_path,
        f"""
device, other = {str(device)!r}, {str(other)!r}
def opens(groups, file):
    return subprocess.run(["sh", "-c", ": <$0", file], preexec_fn=groups.join, stderr=-3).returncode == 0
groups = cgroups.of(order(job_denied_devices=[device, "/dev/not-there"], denied_devices=[device, other]))
groups.create()
again = cgroups.of(order(job_denied_devices=[device, "/dev/not-there"], denied_devices=[device, other]))
again.create()
assert not opens(groups, device) and not opens(groups, other)
assert opens(groups, "/dev/full")
groups.remove()
groups = cgroups.of(order(job_denied_devices=[device], denied_devices=[device]))
groups.create()
assert not opens(groups, device) and opens(groups, other)
groups.remove()
assert cgroups.leftovers() == []
""",
    )
