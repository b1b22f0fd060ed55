"""As root: steps become the user for good, root opens nothing of the user's, control groups hold what is theirs."""

import asyncio
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys

import pytest
from openway import open_way

from nodedaemon.base.orders import LaunchOrder, TaskOrder, encode_signals
from nodedaemon.cgroups import cgroup
from nodedaemon.cgroups import find as cgroup_find
from nodedaemon.spool.steprecord import read_record
from nodedaemon.stepd import task
from nodedaemon.stepd.context import LauncherContext
from penstock.v1 import common_pb2
from penstock.values.stepframes import FrameKind
from tests.node.fakectl import IO_KEY, cluster, eventually, lines
from tests.node.streamclient import Client

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
NOBODY = 65534


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.fixture
def open_path(tmp_path):
    """tmp_path with a folder that belongs to nobody, and a way there."""
    open_way(tmp_path)
    mine = tmp_path / "nobody"
    mine.mkdir()
    os.chown(mine, NOBODY, NOBODY)
    return mine


def as_nobody(folder, **fields):
    return {"user_id": NOBODY, "group_id": NOBODY, "user_name": "nobody", "work_dir": str(folder).encode(), **fields}


def test_a_step_runs_as_its_user_with_nothing_of_root_left(tmp_path, open_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            status = "grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapEff)' /proc/self/status"
            script = f"{status}; id -un; head -c 9 $0; echo; touch $(dirname $0)/x"
            controller.launch(1, script, **as_nobody(open_path))
            assert (await controller.exited(1)).exit.code == 1  # touch
            written = lines(open_path / "slurm-1.out")
            said = dict(line.split(":", 1) for line in written if ":" in line)
            assert said["Uid"].split() == [str(NOBODY)] * 4
            assert said["Gid"].split() == [str(NOBODY)] * 4
            assert "0" not in said["Groups"].split()
            assert (said["NoNewPrivs"].strip(), int(said["CapEff"], 16)) == ("1", 0)
            assert {pwd.getpwuid(NOBODY).pw_name, "#!/bin/sh"} <= set(written)
            assert (open_path / "slurm-1.out").stat().st_uid == NOBODY
            folder = daemon.spool / "steps" / "1.1.-5"
            assert folder.stat().st_uid == 0 and stat.S_IMODE(folder.stat().st_mode) == 0o711
            assert (folder / "slurm_script").stat().st_uid == NOBODY
            assert stat.S_IMODE((folder / "record").stat().st_mode) == 0o600

    run(scenario())


@pytest.mark.parametrize("target", ["rootfile", "link", "newfile"])
def test_output_goes_only_where_the_user_himself_may_write(tmp_path, open_path, target):
    async def scenario():
        private = tmp_path / "private"
        private.mkdir()
        (private / "rootfile").write_text("root's")
        os.chmod(private, 0o755)
        os.chmod(private / "rootfile", 0o644)
        (open_path / "link").symlink_to(private / "rootfile")
        path = open_path / "link" if target == "link" else private / target
        async with cluster(tmp_path) as (controller, _):
            controller.launch(1, "echo hacked", **as_nobody(open_path, std_out=str(path).encode()))
            end = await controller.exited(1)
            assert end.failure == f"cannot open stdout: {path}: Permission denied"
            assert end.start_at_us == 0
        assert (private / "rootfile").read_text() == "root's"
        assert sorted(os.listdir(private)) == ["rootfile"]

    run(scenario())


def test_a_user_that_the_node_does_not_know_is_not_run(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            fields = as_nobody("/", user_id=4_000_000_000, user_name="ghost")
            controller.launch(1, "true", **fields)
            assert (await controller.exited(1)).failure == "user unknown on this node: uid 4000000000 (ghost)"

    run(scenario())


#: Becomes uid 1 after the interpreter has loaded what it needs, which another user may not be able to read.
SEND_AS_ANOTHER = """
import os, socket, sys
os.setgroups([]); os.setgid(1); os.setuid(1)
control, order = map(bytes.fromhex, sys.argv[1:])
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(order, control)
"""


def test_another_users_orders_are_not_taken(tmp_path, open_path):
    """Anybody may send to the control socket's abstract name: the kernel's word on the sender decides, token or not."""

    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            controller.launch(1, "while :; do sleep 0.05; done", **as_nobody(open_path))
            start = await controller.started(1)
            steps_fd = os.open(tmp_path / "spool" / "steps", os.O_RDONLY)
            claim, _ = read_record(steps_fd, "1.1.-5/record")
            os.close(steps_fd)
            order = encode_signals("1.1.-5", (9,), 1, "")
            sent = subprocess.run(
                [sys.executable, "-c", SEND_AS_ANOTHER, claim.control[:6].hex(), (claim.control[6:] + order).hex()],
                check=False,
            )
            assert sent.returncode == 0
            assert (
                await controller.acked(controller.signal(1, signal.SIGCONT)) == ""
            )  # comes behind it in the same queue
            os.kill(start.pid, 0)
            assert controller.exits(1) == []

    run(scenario())


def test_without_root_only_the_one_user_can_be_run(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if (child := os.fork()) == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        order = LaunchOrder(
            key="1.1.-5",
            user_id=0,
            group_id=0,
            user_name="root",
            script=b"",
            argv=[],
            kind="step",
            environment={},
            work_dir=b"/",
            std_out=b"/dev/null",
        )
        context = LauncherContext(
            steps_path="/", steps_fd=-1, packets=ours, null_fd=-1, node_name="n1", cgroups=cgroup.NONE, is_root=False
        )
        task.become(order, context, task.Start(TaskOrder(0, argv=[b"/bin/true"])), theirs)
    os.waitpid(child, 0)
    assert ours.recv(1000) == b"this node daemon runs as uid 65534, not as root: it cannot run jobs of uid 0"
    ours.close()
    theirs.close()


def test_a_control_group_holds_the_step_and_is_gone_afterwards(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            groups = cgroup_find.detect("n1", str(daemon.spool))
            if groups.kind == "none":
                pytest.skip("no writable control group")
            controller.launch(1, "sleep 1000", work_dir=str(tmp_path).encode())
            start = await controller.started(1)
            assert start.pid in groups.members("1.1.-5")
            controller.terminate(1, grace_ms=0)
            await controller.exited(1)
            await eventually(lambda: groups.leftovers() == [])
            other = cgroup_find.detect("n1", str(tmp_path / "another"))
            assert other.trees[0].path != groups.trees[0].path
            cgroup_find.remove_subtree(other)
        assert not os.path.exists(groups.trees[0].path)

    run(scenario())


def test_a_memory_limit_ends_the_step_as_out_of_memory(tmp_path):
    async def scenario():
        async with cluster(tmp_path, "--constrain-memory") as (controller, daemon):
            if "ConstrainRAMSpace: no writable" in daemon.text():
                pytest.skip("no writable memory control group")
            part = common_pb2.NodeAllocation(node="n1", cpus=1, mem_mb=40, tasks=1)
            eat = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}"
            controller.launch(1, eat, allocation=part, work_dir=str(tmp_path).encode())
            end = await controller.exited(1)
            assert end.out_of_memory
            assert (end.exit.code, end.exit.signal) == (0, 125)
            controller.launch(2, "echo small", allocation=part, work_dir=str(tmp_path).encode())
            assert not (await controller.exited(2)).out_of_memory

    run(scenario())


def test_each_task_of_a_step_becomes_the_user_and_its_terminal_is_his(tmp_path, open_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            status = "grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapEff)' /proc/self/status; id -un"
            fields = as_nobody(open_path)
            controller.launch_step(1, ["sh", "-c", status], ranks=(0, 1, 2), **fields)
            client = await attached(controller, 1)
            assert set(client.exits) == {0, 1, 2}
            for rank in range(3):
                *written, name = client.output[rank, 1].decode().splitlines()
                said = dict(line.split(":", 1) for line in written)
                assert said["Uid"].split() == said["Gid"].split() == [str(NOBODY)] * 4
                assert "0" not in said["Groups"].split()
                assert (said["NoNewPrivs"].strip(), int(said["CapEff"], 16)) == ("1", 0)
                assert name == pwd.getpwuid(NOBODY).pw_name
            spec = {"std_out": b"out-%t", "std_in": b"/etc/shadow"}
            controller.launch_step(2, ["cat"], ranks=(0, 1), spec=spec, **fields)
            await attached(controller, 2)
            end = await controller.exited(2)
            assert end.failure == "cannot open stdin: /etc/shadow: Permission denied"
            script = "stat -c %U $(tty); echo through the name > $(tty)"
            controller.launch_step(3, ["sh", "-c", script], spec={"pty": True}, **fields)
            client = await attached(controller, 3)
            assert client.output[0, 1].split() == [name.encode(), b"through", b"the", b"name"]

    run(scenario())


def test_programs_around_tasks_run_as_the_user(tmp_path, open_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            program = open_path / "around"
            program.write_text(f"#!/bin/sh\necho $SLURM_SCRIPT_CONTEXT $(id -u) >> {open_path}/said\n")
            program.chmod(0o755)
            spec = {"task_prolog": os.fsencode(program), "task_epilog": os.fsencode(program)}
            controller.launch_step(1, ["true"], spec=spec, **as_nobody(open_path))
            await attached(controller, 1)
            assert lines(open_path / "said") == [f"prolog_task {NOBODY}", f"epilog_task {NOBODY}"]

    run(scenario())


async def attached(controller, job_id: int) -> Client:
    """Follow a step to its END."""

    def follow() -> Client:
        client = Client(controller.registrations[-1].stream_port, (job_id, 1, 0))
        client.hello(IO_KEY)
        client.until(FrameKind.END)
        return client

    return await asyncio.to_thread(follow)
