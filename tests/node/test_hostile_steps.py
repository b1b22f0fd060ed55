"""Real steps on a node in trouble and at its seams: no descriptors, what tasks inherit, what a hundred odd steps leave."""

import asyncio
import contextlib
import os
import random
import resource
import sys
from pathlib import Path
from typing import Any

from nodedaemon.base import proctree
from penstock.values.stepframes import NO_TASK, FrameKind, StreamRole
from tests.node.fakectl import IO_KEY, cluster, eventually, processes_with
from tests.node.streamclient import Client, Refused


def launcher_of(daemon) -> int:
    (found,) = [
        pid for pid in proctree.children(daemon.process.pid) if b"launcher" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return found


def test_descriptors_that_run_out_in_the_middle_of_a_start(tmp_path):
    """The step fails as a whole and says why, the node is drained, nothing is left, and the next step runs."""

    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            launcher = launcher_of(daemon)
            controller.launch_step(4, ["sleep", "1000"])  # has the only stepd
            await controller.step_started(4, 0)
            _, hard = resource.prlimit(launcher, resource.RLIMIT_NOFILE)
            resource.prlimit(launcher, resource.RLIMIT_NOFILE, (3, hard))
            controller.launch_step(1, ["true"])
            ended = await controller.step_exited(1, 0)
            assert ended.start_at_us == 0 and "is left for a supervisor" in ended.failure
            await eventually(lambda: any(notice.drain for notice in controller.notices()))
            resource.prlimit(launcher, resource.RLIMIT_NOFILE, (120, 120))
            mark = f"mark-{os.getpid()}-{random.random()}"
            controller.launch_step(2, ["sh", "-c", f"sleep 1000; : {mark}"], ranks=range(60))
            ended = await controller.step_exited(2, 0)
            assert "Too many open files" in ended.failure and ended.failure.startswith("cannot start a process")
            assert (ended.start_at_us, processes_with(mark)) == (0, [])
            controller.launch_step(3, ["true"], ranks=(0, 1))
            ended = await controller.step_exited(3, 0)
            assert (ended.exit.code, ended.failure) == (0, "")

    asyncio.run(scenario())


#: Its descriptors (without that of the listing itself), then the names in its environment.
LOOK = (
    "import os\n"
    "print(*[fd for fd in sorted(map(int, os.listdir('/proc/self/fd'))) if os.path.lexists(f'/proc/self/fd/{fd}')])\n"
    "print(*os.environ)\n"
)
OWN_NAMES = {
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TMPDIR",
    "HOSTNAME",
    "ENVIRONMENT",
    "NVIDIA_VISIBLE_DEVICES",
    "PENSTOCK_CLUSTER",
    "LC_CTYPE",
}


def test_tasks_have_their_own_descriptors_and_nobody_elses_environment(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, _):
            cases: list[tuple[dict[str, Any], int]] = [
                ({}, 3),
                ({"pty": True}, 3),
                ({"mpi": "pmi2"}, 4),
                ({"std_out": b"out-%t"}, 3),
            ]
            for job_id, (spec, number) in enumerate(cases, 1):
                controller.launch_step(
                    job_id, [sys.executable, "-c", LOOK], ranks=(0, 1, 2), spec=spec, work_dir=tmp_path, env=[b"PATH=/bin"]
                )  # fmt: skip
                client = await asyncio.to_thread(owner_of, controller, job_id)
                await asyncio.to_thread(client.until, FrameKind.END)
                outputs = [data for (_, stream), data in client.output.items() if stream == 1]
                if spec.get("std_out"):
                    outputs = [(tmp_path / f"out-{rank}").read_bytes() for rank in range(3)]
                assert len(outputs) == (1 if spec.get("pty") else 3)
                for fds, names in (data.decode().splitlines() for data in outputs):
                    assert (fds.split()[:3], len(fds.split())) == (["0", "1", "2"], number), spec
                    odd = {n for n in names.split() if not n.startswith(("SLURM", "PMI_", "CUDA", "GPU", "MASTER"))}
                    assert odd <= OWN_NAMES

    asyncio.run(scenario())


def owner_of(controller, job_id: int) -> Client:
    client = Client(controller.registrations[-1].stream_port, (job_id, 1, 0))
    client.hello(IO_KEY, StreamRole.OWNER, 0)
    return client


def test_a_hundred_odd_steps_leave_nothing_behind(tmp_path):
    """Counted before and after: processes, sockets and descriptors of the daemons, folders, groups, mounts."""

    def groups() -> list[str]:
        found = []
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/freezer"):
            for folder, _, _ in os.walk(root):
                found += [folder] if str(tmp_path.name) in folder or "/n1/" in folder else []
        return found

    odd = [
        (["true"], {}), (["/nowhere"], {}), (["sh", "-c", "kill -9 $$"], {}), (["sh", "-c", "setsid sleep 1000 & exit 3"], {}),
        (["cat"], {"std_in": b"/nowhere"}), (["sh", "-c", "exec 1>&- 2>&-; sleep 0.1"], {}), (["sh"], {"pty": True}),
        (["true"], {"mpi": "pmi2"}), (["sh", "-c", "yes | head -c 300000"], {}), (["true"], {"task_prolog": b"/nowhere"}),
    ]  # fmt: skip

    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            launcher = launcher_of(daemon)

            def count() -> list:
                noded = daemon.process.pid
                fds = [len(os.listdir(f"/proc/{pid}/fd")) for pid in (noded, *proctree.children(launcher))]
                stuck = [p for p in proctree.descendants(noded) if proctree.stat_fields(p)[0] == b"Z"]
                mounts = len(Path("/proc/self/mounts").read_text().splitlines())
                return [max(fds[1:]), fds[0] // 20, stuck, mounts, daemon.folders(), groups()]  # gRPC's own come and go

            async def one(job_id: int, argv, spec, is_cut_short: bool) -> None:
                controller.launch_step(job_id, argv, ranks=(0, 1), spec=spec)
                if is_cut_short:
                    controller.terminate(job_id, grace_ms=0, step_id=0)
                try:
                    client = await asyncio.to_thread(owner_of, controller, job_id)
                    client.send(FrameKind.STDIN, b"exit\n" if spec.get("pty") else b"", NO_TASK)
                    await asyncio.to_thread(client.until, FrameKind.END)
                    client.sock.close()
                except (EOFError, ConnectionError, Refused):  # it was ended before its owner came
                    if not is_cut_short:
                        raise
                await controller.step_exited(job_id, 0)
                await controller.acked(controller.forget(job_id, step_id=0))

            for job_id in range(1, 3):
                await one(job_id, ["true"], {}, False)
            await eventually(lambda: daemon.folders() == [])
            before = count()
            for job_id, (argv, spec) in enumerate(odd * 10, 10):
                await one(job_id, argv, spec, job_id % 7 == 0)
            with contextlib.suppress(TimeoutError):  # then the next line shows what differs
                await eventually(lambda: count() == before)
            assert count() == before

    asyncio.run(scenario())
